"""The building blocks of every tool result: columnar tables, notes and suggested next calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pydantic

from ...analysis.base.digits import STORED


class Table(pydantic.BaseModel):
    """A columnar table: names and units of the columns, the rows as lists, and whether rows were omitted."""

    columns: list[str]
    units: list[str | None]
    rows: list[list[Any]]
    total_rows: int | None
    """Number of rows before the limit; None if they could not be counted."""
    truncated: bool = False
    minor: list[str] = []
    """The columns that are left out first where a table does not fit. Clients do not see it."""

    @pydantic.model_serializer(mode="wrap")
    def _serialise(self, handler: pydantic.SerializerFunctionWrapHandler, info: pydantic.SerializationInfo) -> Any:
        written = handler(self)
        if info.context != STORED:
            written.pop("minor", None)
        return written

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as mappings from the names of the columns to the values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class NextCall(pydantic.BaseModel):
    """A suggested next call that can be made as it is, built from ids and closed sets only."""

    tool: str
    arguments: dict[str, Any]
    why: str


@dataclass(frozen=True)
class TextBlock:
    """A part of an answer's text: a table or lines, below a title."""

    title: str
    content: Table | Sequence[str]
    exact: bool = False
    """Whether the reader must use the content verbatim, such as a command; nothing in it is then reworded."""


class Result(pydantic.BaseModel):
    """Fields that every tool result has in addition to its own."""

    EXACT: ClassVar[frozenset[str]] = frozenset()
    """Fields that the caller must use verbatim and that consist of the caller's own text, so they are not escaped."""
    NAMES_AS_STORED: ClassVar[bool] = False
    """Whether the text rendering also shows full kernel names, because the caller may use them in another tool."""
    answer: str | None = None
    """The sentence that answers the question, with figures, units, confidence and scope; it comes first in the text."""
    notes: list[str] = []
    next: list[NextCall] = []
    tables: dict[str, Table] = {}
    """Further tables, which are declared to be shown in answers of the tool."""

    def blocks(self) -> list[TextBlock] | None:
        """Return what the text contains between the answer and the notes; None if that follows from the fields."""
        return None

    def brief(self, arguments: Mapping[str, Any]) -> Self:
        """Return the short form of the result for these arguments; scripts that lift the size cap get all of it."""
        return self


_EXACT = 1e15
"""Whole numbers below this keep all of their digits."""


def round_number(value: float | None, digits: int = 6) -> float | int | None:
    """Round a number to ``digits`` significant digits; whole numbers become ``int`` and keep all of their digits."""
    if value is None:
        return None
    if float(value).is_integer() and abs(value) < _EXACT:
        return int(value)
    return float(f"{value:.{digits}g}")


def table(
    columns: Mapping[str, str | None], rows: list[list[Any]], *, limit: int | None = None, offset: int = 0
) -> Table:
    """Return a Table of ``rows[offset:offset + limit]``; ``columns`` maps each column's name to its unit."""
    end = len(rows) if limit is None else offset + limit
    return Table(
        columns=list(columns),
        units=list(columns.values()),
        rows=rows[offset:end],
        total_rows=len(rows),
        truncated=end < len(rows),
    )
