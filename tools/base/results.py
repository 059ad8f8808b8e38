"""The shapes that every tool result is made of: columnar tables, notes and suggested next calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import pydantic


class Table(pydantic.BaseModel):
    """A columnar table: one unit a column, rows as lists, and what was left out."""

    columns: list[str]
    units: list[str | None]
    rows: list[list[Any]]
    total_rows: int | None
    """Rows before the limit; None where counting them was not possible."""
    truncated: bool = False


class NextCall(pydantic.BaseModel):
    """A literal call that is worth making next, built from ids and closed sets only."""

    tool: str
    arguments: dict[str, Any]
    why: str


class Result(pydantic.BaseModel):
    """What every tool answers besides its own fields."""

    EXACT: ClassVar[frozenset[str]] = frozenset()
    """Fields that the caller is to use letter for letter, made of the caller's own words: they are not escaped."""
    NAMES_AS_STORED: ClassVar[bool] = False
    """Whether the text too has kernels' full names, because the caller may go on with them elsewhere."""
    notes: list[str] = []
    next: list[NextCall] = []

    def brief(self, arguments: Mapping[str, Any]) -> Self:
        """What a model gets to a call with these arguments; scripts that lift the cap get the whole."""
        return self


_EXACT = 1e15
"""Whole numbers below it have all of their digits."""


def round_number(value: float | None, digits: int = 6) -> float | int | None:
    """A number with the digits of a short answer, a whole one without a point."""
    if value is None:
        return None
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return float(f"{value:.{digits}g}")


def table(
    columns: Mapping[str, str | None], rows: list[list[Any]], *, limit: int | None = None, offset: int = 0
) -> Table:
    """A Table of ``rows[offset:offset + limit]``; ``columns`` maps each column's name to its unit."""
    end = len(rows) if limit is None else offset + limit
    return Table(
        columns=list(columns),
        units=list(columns.values()),
        rows=rows[offset:end],
        total_rows=len(rows),
        truncated=end < len(rows),
    )


def table_of(row: type[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]], units: Mapping[str, str] = {}) -> Table:
    """A Table with a column for each field of a named tuple; ``units`` of those that have one."""
    names: tuple[str, ...] = getattr(row, "_fields")  # noqa: B009 - every named tuple has it, no type says so
    return table({name: units.get(name) for name in names}, [list(r) for r in rows])
