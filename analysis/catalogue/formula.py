"""The names and thresholds in SQL formulas, found with DuckDB's own parser."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..base.database import connect, sql_literal
from ..base.problems import BadInput

if TYPE_CHECKING:
    import duckdb

_references: dict[str, frozenset[str]] = {}
_trees: dict[str, Any] = {}


def references(formulas: Iterable[str]) -> dict[str, frozenset[str]]:
    """The column names that each SQL expression reads; all are parsed in one call and cached.

    Raises BadInput with DuckDB's message for an expression that does not parse.
    """
    wanted = list(dict.fromkeys(formulas))
    new = [f for f in wanted if f not in _references]
    for formula, node in trees(new).items():
        _references[formula] = frozenset(path[-1] for path in _columns(node))
    return {f: _references[f] for f in wanted}


def values_over_facts(
    con: duckdb.DuckDBPyConnection, formulas: Iterable[str], facts: Mapping[str, float]
) -> dict[str, float]:
    """The value of each formula over ``facts``, which contain every name that it reads; those without a finite value
    are omitted."""
    needs = references(formulas)
    if not needs:
        return {}
    used = sorted(frozenset[str]().union(*needs.values()))
    constants = ", ".join(f"{facts[name]!r}::DOUBLE AS {name}" for name in used) or "1 AS nothing"
    items = ", ".join(f"({formula})::DOUBLE" for formula in needs)
    values = con.execute(f"SELECT {items} FROM (SELECT {constants})").fetchone() or ()
    return {f: v for f, v in zip(needs, values, strict=True) if v is not None and math.isfinite(v)}


def paths(formula: str) -> list[str]:
    """The full names that an expression reads (``hbm.bw_gbs``), in order of occurrence."""
    return list(_paths(formula))


@cache
def _paths(formula: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(".".join(path) for path in _columns(trees([formula])[formula])))


def first_usable(expressions: Iterable[str], usable: Callable[[str], bool]) -> str | None:
    """The first of several expressions of which every name is usable, or None."""
    return next((e for e in expressions if all(map(usable, _paths(e)))), None)


def thresholds(formula: str) -> dict[str, str]:
    """Names that an expression compares with a number -> the comparison, such as ``>= 60``."""
    limits: dict[str, str] = {}
    for node in _nodes(trees([formula])[formula]):
        if node.get("class") == "COMPARISON" and node["left"].get("class") == "COLUMN_REF":
            number = _number(node["right"])
            if number is not None and node["type"] in _SIGNS:
                limits[".".join(node["left"]["column_names"])] = f"{_SIGNS[node['type']]} {number}"
    return limits


def compares_quantities(formula: str) -> bool:
    """Whether it compares two quantities in a way that holds if both are 0, such as ``a >= b``."""
    return any(
        node["type"] in ("COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHANOREQUALTO")
        and all(any(True for _ in _columns(node[side])) for side in ("left", "right"))
        for node in _nodes(trees([formula])[formula])
        if node.get("class") == "COMPARISON"
    )


def trees(formulas: Iterable[str]) -> dict[str, Any]:
    """DuckDB's syntax tree of each expression. Raises BadInput if one does not parse."""
    wanted = list(dict.fromkeys(formulas))
    if new := [f for f in wanted if f not in _trees]:
        with connect() as con:
            text = con.execute(
                f"SELECT json_serialize_sql({sql_literal('SELECT ' + ', '.join(f'({f})' for f in new))})"
            ).fetchone()
        tree: dict[str, Any] = json.loads(text[0]) if text else {"error": True}
        if tree["error"]:
            if len(new) > 1:
                for formula in new:
                    trees([formula])
            raise BadInput(f"The formula {new[0]!r} does not parse", tree.get("error_message", ""))
        for formula, node in zip(new, tree["statements"][0]["node"]["select_list"], strict=True):
            _trees[formula] = node
    return {f: _trees[f] for f in wanted}


_SIGNS = {
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_LESSTHAN": "<",
}


def _columns(tree: Any) -> Iterator[list[str]]:
    return (node["column_names"] for node in _nodes(tree) if node.get("class") == "COLUMN_REF")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every node of a syntax tree."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(part)


def _number(node: Any) -> str | None:
    """A whole number as releases of DuckDB write it: as text, or as a value."""
    if node.get("class") != "CONSTANT":
        return None
    number = node.get("literal", {}).get("text") or node.get("value", {}).get("value")
    return str(number) if number is not None else None
