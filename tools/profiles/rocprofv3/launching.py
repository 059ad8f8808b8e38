"""What is known of how each launch came about: its number for filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal, sql_path
from ....analysis.store.store import write_table
from ...base.profile_files import WORK
from .recording import ProcessRecording

if TYPE_CHECKING:
    import duckdb


def write_launching(con: duckdb.DuckDBPyConnection, out: Path, main: Sequence[ProcessRecording]) -> None:
    """Write into dispatches the ``iteration`` of each launch of the main pass, by which rocprofv3 counts the launches
    of a kernel, where the profile tells."""
    if not any(r.counters for r in main) and all(_numbers_symbols(con, r) for r in main):
        # Launches are in the order of their ids.
        count = "CAST(row_number() OVER (PARTITION BY process, device, kernel, symbol ORDER BY row) AS INT)"
        _add_columns(con, out, f"SELECT row, {count} AS iteration FROM ({launches(main)})")


def launches(main: Sequence[ProcessRecording]) -> str:
    """SQL for every launch of the main pass: row, process, rank, host, and what its recording states."""
    places, rows = [], 0
    for process, recording in enumerate(main):
        low, high = recording.keys
        rank = "NULL::INT" if recording.rank is None else recording.rank
        host = "NULL::VARCHAR" if recording.host is None else sql_literal(recording.host)
        place = f"{low}, {high}, {low - rows}, {process}, {rank}, {host}"
        places.append(f"({sql_literal(recording.launches.name)}, {place})")
        rows += recording.rows
    files = ", ".join(sql_path(f) for f in dict.fromkeys(r.launches for r in main))
    return (
        "SELECT key - shift AS row, p.process, p.rank, p.host, l.* EXCLUDE (key, filename) "
        f"FROM read_parquet([{files}], hive_partitioning = false, filename = true) l "
        f"JOIN (VALUES {', '.join(places)}) p(file, low, high, shift, process, rank, host) "
        "ON parse_filename(filename) = file AND key BETWEEN low AND high"
    )


def _numbers_symbols(con: duckdb.DuckDBPyConnection, recording: ProcessRecording) -> bool:
    """Whether every launch names its kernel as one device has it: rocprofv3 counts by that, not by name."""
    counts = con.execute(f"SELECT count(*), count(symbol) FROM ({recording.select()})").fetchone() or (0, 0)
    return bool(counts[0] == counts[1])


def _add_columns(con: duckdb.DuckDBPyConnection, out: Path, select: str) -> None:
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
