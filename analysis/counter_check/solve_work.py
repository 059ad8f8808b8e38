"""Quantities that are stated by expressions over each other, solved by DuckDB."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..base.database import connect, sql_name
from ..base.problems import BadInput
from ..catalogue.formula import references


def solve_expressions(expressions: Mapping[str, str], inputs: Mapping[str, float]) -> dict[str, float | None]:
    """The value of every stated expression; None where an input is missing, or a division is by zero.

    Expressions may name each other in any order. What is given counts unless it is stated too. Raises BadInput where
    quantities rest on each other in a circle.
    """
    known = {name: value for name, value in inputs.items() if name not in expressions and math.isfinite(value)}
    needs = references(expressions.values())
    levels: dict[str, int] = {}
    for name in _dependency_order(expressions):
        needed = needs[expressions[name]]
        if needed <= known.keys() | levels.keys():
            levels[name] = 1 + max((levels.get(other, 0) for other in needed), default=0)
    if not levels:
        return dict.fromkeys(expressions)
    used = {n for name in levels for n in needs[expressions[name]]} & known.keys()
    query = "SELECT " + (", ".join(f"{known[n]!r}::DOUBLE AS {sql_name(n)}" for n in sorted(used)) or "0 AS nothing")
    for level in range(1, max(levels.values()) + 1):
        items = (f"({expressions[name]})::DOUBLE AS {sql_name(name)}" for name, on in levels.items() if on == level)
        query = f"SELECT *, {', '.join(items)} FROM ({query})"
    columns = list(levels)
    con = connect()
    try:
        row = con.execute(f"SELECT {', '.join(map(sql_name, columns))} FROM ({query})").fetchone()
    finally:
        con.close()
    values = {name: _finite(value) for name, value in zip(columns, row or (), strict=True)}
    return {name: values.get(name) for name in expressions}


def _dependency_order(expressions: Mapping[str, str]) -> list[str]:
    """The names so that each comes after those that its expression needs."""
    needs = references(expressions.values())
    done: dict[str, bool] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise BadInput(f"{name} rests on itself", " <- ".join((*path, name)))
        if name not in done:
            for other in sorted(needs[expressions[name]] & expressions.keys()):
                visit(other, (*path, name))
            done[name] = True

    for name in expressions:
        visit(name, ())
    return list(done)


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
