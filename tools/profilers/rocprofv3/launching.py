"""What is known of how each launch came about: its rank, and its number for filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_literal, sql_path
from ....analysis.store import write_table
from ..tables.files import WORK
from .recording import Recording

if TYPE_CHECKING:
    import duckdb


def write_launching(con: duckdb.DuckDBPyConnection, out: Path, main: Sequence[Recording]) -> None:
    """Write into dispatches what is known of each launch of the main pass: ``rank``, and ``iteration``, by which
    rocprofv3 counts the launches of a kernel; columns that nothing is known for are left out."""
    picks = []
    if any(r.rank is not None for r in main):
        picks.append("rank")
    if not any(r.counters for r in main) and all(_numbers_symbols(con, r) for r in main):
        # Launches are in the order of their ids.
        picks.append(
            "CAST(row_number() OVER (PARTITION BY process, device, kernel, symbol ORDER BY row) AS INT) AS iteration"
        )
    if picks:
        _add(con, out, f"SELECT row, {', '.join(picks)} FROM ({launches(main)})")


def launches(main: Sequence[Recording]) -> str:
    """SQL for every launch of the main pass: row, process, rank, and what its recording states."""
    places, rows = [], 0
    for process, recording in enumerate(main):
        low, high = recording.keys
        rank = "NULL::INT" if recording.rank is None else recording.rank
        places.append(f"({sql_literal(recording.launches.name)}, {low}, {high}, {low - rows}, {process}, {rank})")
        rows += recording.rows
    files = ", ".join(sql_path(f) for f in dict.fromkeys(r.launches for r in main))
    return (
        "SELECT key - shift AS row, p.process, p.rank, l.* EXCLUDE (key, filename) "
        f"FROM read_parquet([{files}], hive_partitioning = false, filename = true) l "
        f"JOIN (VALUES {', '.join(places)}) p(file, low, high, shift, process, rank) "
        "ON parse_filename(filename) = file AND key BETWEEN low AND high"
    )


def _numbers_symbols(con: duckdb.DuckDBPyConnection, recording: Recording) -> bool:
    """Whether every launch names its kernel as one device has it: rocprofv3 counts by that, not by name."""
    found = con.execute(f"SELECT count(*), count(symbol) FROM ({recording.select()})").fetchone() or (0, 0)
    return bool(found[0] == found[1])


def _add(con: duckdb.DuckDBPyConnection, out: Path, select: str) -> None:
    """Add the columns of ``select`` to dispatches, by the row of the main pass."""
    dispatches, joined = out / "dispatches.parquet", out / WORK / "launching.parquet"
    numbered = f"SELECT *, file_row_number AS row FROM read_parquet({sql_path(dispatches)}, file_row_number = true)"
    write_table(
        con,
        f"SELECT d.* EXCLUDE (row, file_row_number), k.* EXCLUDE (row) FROM ({numbered}) d "
        f"LEFT JOIN ({select}) k USING (row) ORDER BY d.row",
        joined,
    )
    joined.replace(dispatches)
