"""Profiles whose launches collected groups of counters in turn: how to detect them, and how complete they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_path
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ...base.untrusted_text import plain_text

if TYPE_CHECKING:
    import duckdb

_LISTED = 5


def is_multiplexed(con: duckdb.DuckDBPyConnection, folder: Path) -> bool:
    """Return whether launches of one kernel have different counters and none of them has all counters."""
    counters = _counters(con, folder)
    if len(counters) < 2:
        return False
    marks = " || ".join(f"CASE WHEN {name} IS NULL THEN '0' ELSE '1' END" for name in counters)
    counted = f"FROM (SELECT kernel, {marks} AS marks FROM {_table(folder)}) WHERE contains(marks, '1')"
    most = con.execute(
        f"SELECT coalesce(max(n), 0) FROM (SELECT count(DISTINCT marks) AS n {counted} "
        "GROUP BY kernel HAVING bool_and(contains(marks, '0')))"
    ).fetchone()
    return bool(most and most[0] > 1)


def fill_rate_notes(con: duckdb.DuckDBPyConnection, folder: Path) -> list[Note]:
    """Return a note with the share of the cells (launch, counter) that were collected."""
    counters = _counters(con, folder)
    if not counters:
        return []
    cells = " + ".join(f"count({name})" for name in counters)
    filled, launches = con.execute(f"SELECT {cells}, count(*) FROM {_table(folder)}").fetchone() or (0, 0)
    share = 100 * filled / max(1, launches * len(counters))
    text = (
        f"Counters took turns: each launch collected some of the {count_text(len(counters), 'counter')} in turn, "
        f"{share:.0f} % of "
        "all. NULL is not collected; figures assume that launches of one kernel and configuration do the same."
    )
    return [Note("multiplexed", text)]


def incomplete_kernel_notes(con: duckdb.DuckDBPyConnection, folder: Path) -> list[Note]:
    """Return a note on kernels that had too few launches for every group of counters to be collected."""
    counters = _counters(con, folder)
    if not counters:
        return []
    lacking = " + ".join(f"CAST(count({name}) = 0 AS INT)" for name in counters)
    rows = con.execute(
        f"SELECT kernel, count(*) AS n, {lacking} AS lacks FROM {_table(folder)} GROUP BY kernel HAVING lacks > 0 "
        "ORDER BY n DESC, kernel"
    ).fetchall()
    if not rows:
        return []
    kernels = "; ".join(
        f"{plain_text(kernel, 60)} ({count_text(n, 'launch')}, {lacks} of {count_text(len(counters), 'counter')} never)"
        for kernel, n, lacks in rows[:_LISTED]
    )
    more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    text = (
        f"{count_text(len(rows), 'kernel has', 'kernels have')} too few launches for all groups of counters and "
        f"stay incomplete: {kernels}{more}."
    )
    return [Note("incomplete", text)]


def _table(folder: Path) -> str:
    return f"read_parquet({sql_path(folder / 'counters.parquet')})"


def _counters(con: duckdb.DuckDBPyConnection, folder: Path) -> list[str]:
    """Return the counter columns, quoted."""
    columns = con.execute(f"DESCRIBE SELECT * EXCLUDE (dispatch_id, kernel) FROM {_table(folder)}").fetchall()
    quoted = [name.replace('"', '""') for name, *_ in columns if not name.startswith("duration_ns")]
    return [f'"{name}"' for name in quoted]
