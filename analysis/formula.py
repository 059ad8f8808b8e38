"""What a formula refers to, found by DuckDB's own parser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from .database import connect
from .problems import BadInput
from .store import sql_literal

_known: dict[str, frozenset[str]] = {}


def references(formulas: Iterable[str]) -> dict[str, frozenset[str]]:
    """The column names that each SQL expression reads; all are parsed in one call and remembered.

    Raises BadInput with DuckDB's message for an expression that does not parse.
    """
    wanted = dict.fromkeys(formulas)
    if new := [f for f in wanted if f not in _known]:
        con = connect()
        text = con.execute(
            f"SELECT json_serialize_sql({sql_literal('SELECT ' + ', '.join(f'({f})' for f in new))})"
        ).fetchone()  # fmt: skip
        con.close()
        tree: dict[str, Any] = json.loads(text[0]) if text else {"error": True}
        if tree["error"]:
            if len(new) > 1:
                for formula in new:
                    references([formula])
            raise BadInput(f"The formula {new[0]!r} does not parse", tree.get("error_message", ""))
        for formula, node in zip(new, tree["statements"][0]["node"]["select_list"], strict=True):
            _known[formula] = frozenset(_columns(node))
    return {f: _known[f] for f in wanted}


def _columns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            yield node["column_names"][-1]
            return
        for value in node.values():
            yield from _columns(value)
    elif isinstance(node, list):
        for value in node:
            yield from _columns(value)
