"""Evaluates the expressions of rules over the figures of kernels, in one query: true, false or unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .. import rules
from ..formula import paths
from ..store import sql_name
from .inputs import Subject

if TYPE_CHECKING:
    import duckdb

_AT_ONCE = 400
"""Kernels in one query: more would make its text too long to parse quickly."""


def evaluate(
    con: duckdb.DuckDBPyConnection, target: str, subjects: Sequence[Subject], expressions: Iterable[str]
) -> list[dict[str, float | None]]:
    """For each kernel every expression's value: 1 and 0 for true and false, None where an input is missing.

    Metrics appear to the expressions as fields of structures (hbm.bw_gbs), signals likewise on top of them.
    """
    wanted = list(dict.fromkeys(expressions))
    found: list[dict[str, float | None]] = []
    for start in range(0, len(subjects), _AT_ONCE):
        part = subjects[start : start + _AT_ONCE]
        items = ", ".join(f"({e})::DOUBLE" for e in wanted)
        rows = con.execute(f"SELECT {items} FROM ({_signals(target, part)}) ORDER BY place").fetchall()
        found += [
            {e: v if v is not None and math.isfinite(v) else None for e, v in zip(wanted, row, strict=True)}
            for row in rows
        ]
    return found


def structures(columns: dict[str, str]) -> str:
    """Select items that show ``columns`` (dotted name -> SQL) as structures: hbm.bw_gbs is field bw_gbs of hbm."""
    heads: dict[str, dict[str, str]] = {}
    for name, sql in columns.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, {})[rest] = sql
    items = []
    for head, fields in heads.items():
        flat = {rest: sql for rest, sql in fields.items() if "." not in rest}
        deep = {rest: sql for rest, sql in fields.items() if "." in rest}
        packed = [f"{sql_name(field)} := {sql}" for field, sql in flat.items()]
        packed += _nested(deep)
        items.append(f"struct_pack({', '.join(packed)}) AS {sql_name(head)}")
    return ", ".join(items)


def _nested(fields: dict[str, str]) -> list[str]:
    heads: dict[str, list[str]] = {}
    for name, sql in fields.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, []).append(f"{sql_name(rest)} := {sql}")
    return [f"{sql_name(head)} := struct_pack({', '.join(packed)})" for head, packed in heads.items()]


def _signals(target: str, subjects: Sequence[Subject]) -> str:
    """The relation with a row per kernel: its place, the metrics and the signals."""
    known = rules.signals(target)
    names = sorted({n for s in subjects for n in s.values} | _named(target))
    rows = ", ".join(
        f"({place}, {', '.join(_number(s.values.get(n)) for n in names)})" for place, s in enumerate(subjects)
    )
    columns = ", ".join(["place", *(f"c{i}" for i in range(len(names)))])
    base = structures({name: f"c{i}::DOUBLE" for i, name in enumerate(names)})
    signals = structures({name: f"coalesce({', '.join(f'({e})' for e in found)})" for name, found in known.items()})
    return f"SELECT *, {signals} FROM (SELECT place, {base} FROM (VALUES {rows}) v({columns}))"


def _named(target: str) -> set[str]:
    """Every plain name that expressions of a target read, so that each exists even where nothing gives it a value."""
    found = {n for expressions in rules.signals(target).values() for e in expressions for n in paths(e)}
    for rule in rules.rules(target):
        for expression in (rule.when, rule.severity, *rule.supports, *rule.against, rule.bound or "0"):
            found |= set(paths(expression))
    return found - rules.signals(target).keys()


def _number(value: float | None) -> str:
    return "NULL" if value is None or not math.isfinite(value) else repr(float(value))
