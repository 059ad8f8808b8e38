"""What is known of how each launch came about: the range (ROCTX) around it, its rank, and its number for filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....analysis.database import sql_literal, sql_path
from ....analysis.notes import Note
from ....analysis.store import write_table
from ... import progress
from ..tables.contract import parquet
from ..tables.files import WORK
from ..tables.names import KERNEL_LIMIT, bounded_name, visible_name
from .recording import Recording, Spool

if TYPE_CHECKING:
    import duckdb

_RANGE = [
    ("range_id", "BIGINT"), ("process", "BIGINT"), ("pid", "BIGINT"), ("correlation", "BIGINT"), ("name", "VARCHAR"),
    ("path", "VARCHAR"), ("thread", "BIGINT"), ("start_ns", "BIGINT"), ("end_ns", "BIGINT"), ("depth", "BIGINT"),
]  # fmt: skip
_CALL = [("process", "BIGINT"), ("correlation", "BIGINT"), ("range_id", "BIGINT")]
_BATCH = 20_000
_SOURCE = "roctx"
_ADVICE = "Where ROCm is older than 7.0, or calls are traced too, --hip-runtime-trace tells which range launched what."


def write_launching(con: duckdb.DuckDBPyConnection, out: Path, main: Sequence[Recording]) -> list[Note]:
    """Write the table of ranges, and into dispatches what is known of each launch of the main pass: ``range_id``,
    ``rank``, and ``iteration``, by which rocprofv3 counts the launches of a kernel; columns that nothing is known for
    are left out."""
    ranges, calls = _nested(con, out / WORK, main) if any(r.ranges for r in main) else ("", "")
    picks, joins = [], ""
    if ranges:
        picks.append("coalesce(r.range_id, c.range_id) AS range_id")
        once = "LEFT JOIN (SELECT process, correlation, min(range_id) AS range_id FROM {} GROUP BY ALL)"
        of = "USING (process, correlation)"
        joins = f" {once.format(ranges)} r {of} {once.format(calls)} c {of}"
    if any(r.rank is not None for r in main):
        picks.append("rank")
    if not any(r.counters for r in main) and all(_numbers_symbols(con, r) for r in main):
        # Launches are in the order of their ids.
        picks.append(
            "CAST(row_number() OVER (PARTITION BY process, device, kernel, symbol ORDER BY row) AS INT) AS iteration"
        )
    if not picks:
        return []
    _add(con, out, f"SELECT row, {', '.join(picks)} FROM ({_launches(main)}) l{joins}")
    if not ranges:
        return []
    columns = "range_id, name, path, NULL::VARCHAR AS call_site, thread, start_ns, end_ns, CAST(depth AS INT) AS depth"
    select = f"SELECT {columns}, {sql_literal(_SOURCE)} AS source, pid FROM {ranges} ORDER BY range_id"
    count = write_table(con, select, out / "ranges.parquet")
    found, total = con.execute(
        f"SELECT count(range_id), count(*) FROM read_parquet({sql_path(out / 'dispatches.parquet')})"
    ).fetchone() or (0, 0)
    text = f"{count} ranges (ROCTX) are in the table ranges; {found} of {total} launches belong to one (range_id)."
    return [Note("ranges", f"{text} {_ADVICE}" if not found else text)]


def _launches(main: Sequence[Recording]) -> str:
    """SQL: row, process, rank, device, kernel, symbol and correlation of every launch of the main pass."""
    places, rows = [], 0
    for process, recording in enumerate(main):
        low, high = recording.keys
        rank = "NULL::INT" if recording.rank is None else recording.rank
        places.append(f"({sql_literal(recording.launches.name)}, {low}, {high}, {low - rows}, {process}, {rank})")
        rows += recording.rows
    files = ", ".join(sql_path(f) for f in dict.fromkeys(r.launches for r in main))
    return (
        "SELECT key - shift AS row, p.process, p.rank, device, kernel, symbol, correlation "
        f"FROM read_parquet([{files}], hive_partitioning = false, filename = true) "
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


class _Open(NamedTuple):
    """A range that has begun."""

    number: int
    path: str
    end: int
    depth: int


def _nested(con: duckdb.DuckDBPyConnection, work: Path, main: Sequence[Recording]) -> tuple[str, str]:
    """FROM items: the ranges of all processes under numbers, each with its path; and the calls with their range.

    A range lies within another where it does so in time on its thread. Ranges that overlap otherwise, as those of
    roctxRangeStart may, lie beside each other.
    """
    text = bounded_name(visible_name("name"))
    columns = "thread, start_ns, end_ns, pid, correlation"
    spans = " UNION ALL ".join(
        f"SELECT {process} AS process, {call} AS call, {columns}, {text if not call else 'NULL'} AS name FROM ({sql})"
        for process, r in enumerate(main)
        for call, sql in ((0, r.ranges), (1, r.calls))
        if sql
    )
    ranges, calls = Spool(con, work / "ranges", _RANGE), Spool(con, work / "calls", _CALL)
    with con.cursor() as reader:
        found = reader.execute(
            f"SELECT process, call, {columns}, name FROM ({spans}) WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL "
            "ORDER BY process, thread, start_ns, call, end_ns DESC"
        )
        number, place = 0, (-1, -1)
        stack: list[_Open] = []
        while batch := found.fetchmany(_BATCH):
            made: list[tuple[object, ...]] = []
            launched: list[tuple[object, ...]] = []
            for process, call, thread, start, end, pid, correlation, name in batch:
                if place != (process, thread):
                    place, stack = (process, thread), []
                while stack and stack[-1].end <= start:
                    stack.pop()
                last = start + 1 if call else end
                around = next((one for one in reversed(stack) if one.end >= last), None)
                if call:
                    if around:
                        launched.append((process, correlation, around.number))
                    continue
                number += 1
                path, depth = (f"{around.path}/{name}"[:KERNEL_LIMIT], around.depth + 1) if around else (name, 0)
                made.append((number, process, pid, correlation, name, path, thread, start, end, depth))
                stack.append(_Open(number, path, end, depth))
            ranges.add(made)
            calls.add(launched)
            progress.report(f"nested {number:,} ranges")
    return parquet(ranges.close()), parquet(calls.close())
