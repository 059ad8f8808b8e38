"""Write rows from Python to Parquet files with bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.store.store import write_table
from ..merging.contract import parquet, row_of

if TYPE_CHECKING:
    import duckdb

_SPOOLED = 2_000_000
"""Numbers that are kept in memory, 8 bytes each and twice that while they are written."""
_TEXT_PER_CELL = 8
_BATCH = 5_000
"""Single rows that wait until they are converted together."""
_TEXTS_KNOWN, _TEXTS_WEIGHT, _TEXTS_HELD, _TEXT = 100_000, 32 << 20, 1000, 8000
"""Cached texts, and their total characters; texts that wait to be written; maximum characters stored of a text."""


class Spool:
    """Writes rows to numbered Parquet files, with a bounded number of them in memory."""

    def __init__(self, con: duckdb.DuckDBPyConnection, stem: Path, columns: Mapping[str, str]) -> None:
        """``columns`` are SQL types by column."""
        self.con, self.stem, self.columns = con, stem, columns
        self.files: list[Path] = []
        self.rows = 0
        """Number of rows so far, with those that wait."""
        self._waiting: list[tuple[Any, ...]] = []
        self._held: list[list[Any]] = []
        self._cells = 0

    def append(self, row: tuple[Any, ...]) -> None:
        """Add one row."""
        self.rows += 1
        self._waiting.append(row)
        if len(self._waiting) >= _BATCH:
            self._hold(self._waiting)

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add a batch of rows with one value per column; None is NULL."""
        self.rows += len(rows)
        self._hold([*self._waiting, *rows] if self._waiting else rows)

    def _hold(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._waiting = []
        if not rows:
            return
        columns = zip(*rows, strict=True)
        self._held.append([_array(kind, part) for kind, part in zip(self.columns.values(), columns, strict=True)])
        texts = (p for kind, p in zip(self.columns.values(), self._held[-1], strict=True) if kind == "VARCHAR")
        characters = sum(len(text) for part in texts for text in part if text)
        self._cells += len(rows) * len(self.columns) + characters // _TEXT_PER_CELL
        if self._cells >= _SPOOLED:
            self._flush()

    def close(self) -> list[Path]:
        """Return the files written; there is at least one, possibly without rows."""
        self._hold(self._waiting)
        if self._held or not self.files:
            self._flush()
        return self.files

    def _flush(self) -> None:
        """Write the buffered rows; passing whole columns to the database is far faster than single rows."""
        held = self._held or [[_array(kind, ()) for kind in self.columns.values()]]
        arrays = dict(zip(self.columns, map(_concatenate, zip(*held, strict=True)), strict=True))
        file = self.stem.with_name(f"{self.stem.name}_{len(self.files)}.parquet")
        picks = row_of(self.columns, {name: f'"{name}"' for name in self.columns})
        with self.con.cursor() as con:  # separate, since a result of the other may still be open
            con.register("spooled", arrays)
            write_table(con, f"SELECT {picks} FROM spooled", file)
        self.files.append(file)
        self._held, self._cells = [], 0


def write_rows(
    con: duckdb.DuckDBPyConnection, stem: Path, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]
) -> str:
    """Write rows with the given columns, each with its SQL type, to Parquet files; return a FROM item with them."""
    spool = Spool(con, stem, columns)
    spool.add(rows)
    return parquet(spool.close())


def _concatenate(parts: Sequence[Any]) -> Any:
    import numpy

    masked: Any = numpy.ma
    return masked.concatenate(parts) if any(masked.is_masked(p) for p in parts) else numpy.concatenate(parts)


def _array(kind: str, column: Sequence[Any]) -> Any:
    """Convert a column to the fastest numpy type; only columns with None are checked value by value."""
    import numpy

    if kind == "VARCHAR":
        return numpy.array(column, dtype=object)
    number = numpy.float64 if kind == "DOUBLE" else numpy.int64
    try:
        return numpy.array(column, dtype=number)
    except TypeError:
        empty = [v is None for v in column]
        return numpy.ma.masked_array(numpy.array([v or 0 for v in column], dtype=number), mask=empty)


class NumberedTexts:
    """Numbers for texts, in a spool. A text may get several numbers, as a hostile file has a new one in every row."""

    def __init__(self, con: duckdb.DuckDBPyConnection, stem: Path) -> None:
        self.spool = Spool(con, stem, {"number": "BIGINT", "text": "VARCHAR"})
        self._known: dict[Any, int] = {}
        self._new: list[tuple[int, str]] = []
        self._count = self._weight = 0

    def number(self, value: Any) -> int:
        """Return the number of a text; other values get the number of the empty text."""
        if type(value) is not str:
            value = ""
        if (known := self._known.get(value)) is not None:
            return known
        if len(self._known) >= _TEXTS_KNOWN or self._weight >= _TEXTS_WEIGHT:
            self._known.clear()
            self._weight = 0
        self._count += 1
        self._weight += min(len(value), _TEXT)
        self._known[value[:_TEXT]] = self._count
        self._new.append((self._count, value[:_TEXT].encode("utf-8", "replace").decode()))
        if len(self._new) >= _TEXTS_HELD:
            self._flush()
        return self._count

    def close(self) -> list[Path]:
        """Return the files written, with columns number and text."""
        self._flush()
        return self.spool.close()

    def _flush(self) -> None:
        self.spool.add(self._new)
        self._new.clear()
