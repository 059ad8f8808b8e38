"""A rocpd database whose tables are copied into Parquet as they are needed, whatever SQLite holds in their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.database import sql_literal
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ..merging.contract import parquet
from ..parsing.spool import Spool
from ..parsing.sqlite_database import Database

if TYPE_CHECKING:
    import duckdb

DISPATCHES, VIEW = "rocpd_kernel_dispatch", "kernels"
"""The table of launches, and AMD's view of it."""
SMALL = 1000
"""Rows that are read of what has few."""


def cut_text(column: str) -> str:
    """SQL of a text, cut where a view could make it endless."""
    return f"substr(CAST({column} AS TEXT), 1, {size_limits.TEXT})"


_CASTS = {  # SQL type -> SQL of a column for it; NULL stays NULL, text among whole numbers becomes 0
    "VARCHAR": cut_text("{0}"),
    "BIGINT": "CAST({0} AS INTEGER)",
    # A value of another type than the profiler writes is told as infinite (9e999 in SQLite), not read as 0.
    "DOUBLE": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) WHEN {0} IS NOT NULL THEN 9e999 END",
}
_TYPES = {"kernel": "VARCHAR", "counter": "VARCHAR", "value": "DOUBLE", "message": "VARCHAR", "text": "VARCHAR",
         "kind": "VARCHAR", "unit": "VARCHAR", "instruction": "VARCHAR", "comment": "VARCHAR", "uri": "VARCHAR",
         "linked": "VARCHAR", "reason_text": "VARCHAR", "mask_text": "VARCHAR"}  # fmt: skip
"""SQL types by column; all others are whole numbers."""


@dataclass(frozen=True)
class Staging:
    """An open database, and where copies of its tables go: files named after ``work``."""

    con: duckdb.DuckDBPyConnection
    db: Database
    work: Path
    _numbers: Iterator[int] = field(default_factory=count)

    def rows(self, table: str, picks: dict[str, str]) -> str:
        """A FROM item: the rows of a table; ``picks`` is SQL of SQLite by column.

        The session, which every row repeats, is numbered instead of named.
        """
        columns = [(column, _TYPES.get(column, "BIGINT")) for column in picks]
        numbered = "".join(f" WHEN {sql_literal(guid)} THEN {i}" for i, guid in enumerate(self.sessions))
        sqlite_columns = dict(picks)
        if numbered and "session" in sqlite_columns:
            sqlite_columns["session"] = f"CASE guid{numbered} ELSE -1 END"
        spool, row_count = Spool(self.con, self.file(str(next(self._numbers))), columns), 0
        for batch in self.db.read(table, [_CASTS[kind].format(sqlite_columns[column]) for column, kind in columns]):
            spool.add(batch)
            row_count += len(batch)
            progress.report(f"read {count_text(row_count, 'row')} of {table} of {self.db.path.name}")
        return parquet(spool.close())

    def rows_by_id(self, table: str, key: str, picks: dict[str, str]) -> str:
        """A FROM item: the rows of a table by their id, which becomes the column ``key``."""
        rows = self.rows(table, {"session": "guid", key: "id", **picks})
        return f"(SELECT DISTINCT ON (session, {key}) * FROM {rows})"

    def few_rows(self, table: str, picks: Sequence[str], where: str = "") -> list[tuple[Any, ...]]:
        """The first rows of a table that has few; none where it is missing."""
        rows = (row for batch in self.db.read(table, picks, where) for row in batch)
        return list(islice(rows, SMALL)) if self.db.parts(table) else []

    def has_rows(self, table: str) -> bool:
        """Whether a table is there and not empty."""
        return bool(self.db.parts(table)) and any(batch for batch in self.db.read(table, ["1"], "LIMIT 1"))

    def file(self, name: str) -> Path:
        """Where something may be written."""
        return self.work.with_name(f"{self.work.name}_{name}")

    @cached_property
    def sessions(self) -> list[str]:
        """The identities of the runs in the database: one, unless databases were merged."""
        tables = (DISPATCHES, "rocpd_region", "rocpd_memory_copy") if self.db.parts(DISPATCHES) else (VIEW,)
        guids: set[str] = set()
        for table in tables:
            if not guids and self.db.parts(table):
                batches = self.db.read(table, ["DISTINCT substr(guid, 1, 200)"])
                guids = {str(guid) for batch in batches for (guid,) in batch}
        if len(guids) > size_limits.MOST_PROCESSES:
            why = f"{size_limits.MOST_PROCESSES} are read at most"
            raise BadInput(
                f"{self.db.path.name} holds {count_text(len(guids), 'run')}", why, "Import the single databases"
            )
        return sorted(guids)
