"""The ML API trace of rocprof-compute: ranges of operators with their call sites, and the launches in each range."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base.profile_files import is_inside
from ...base.untrusted_text import bounded_name, visible_name
from ..merging.merge import MergedPass
from ..parsing.csv_file import stage_columns
from .passes import session

if TYPE_CHECKING:
    import duckdb

_FILES = "ml_api_trace_*_marker_api_trace.csv"
_NEEDED = ("Function", "Correlation_Id", "GUID", "Start_Timestamp", "End_Timestamp", "Thread_Id", "Backend")
_LAUNCHES = ("Dispatch_ID", "Correlation_Id", "GUID")
# Names of ranges have the form PATH:CONTEXT: the operators from the outermost one, and for each its count and place,
# as in aten::linear/aten::addmm:#1@net.py:35/#1@aten.nested:0. Places with line 0 are not lines of source code.
_CONTEXT = r":#\d+@"
_BACKEND = re.compile(r"[a-z0-9_.-]{1,40}")


def write_ranges(con: duckdb.DuckDBPyConnection, folder: Path, main: MergedPass, out: Path) -> list[Note]:
    """Write the table ranges if the folder has such a trace, and add the range of every launch to dispatches.

    If there are several passes, the trace of the main pass counts, because its launches are those of the workload. An
    unreadable trace is skipped with a note.
    """
    files = sorted(f for f in folder.glob(_FILES) if is_inside(f, folder))
    if not files:
        return []
    run = session(main.table.source)
    file = next((f for f in files if run and session(f) == run), files[0])
    try:
        trace, launches = out / "work" / "trace.parquet", out / "work" / "trace_launches.parquet"
        stage_columns(con, file, _NEEDED, trace)
        stage_columns(con, main.table.source, _LAUNCHES, launches)
    except BadInput as problem:
        return [Note("left_out", f"{problem.text} The trace of operators was skipped.")]
    count = write_table(con, _ranges(trace), out / "ranges.parquet")
    with_range = _assign_ranges(con, out, launches)
    total = main.table.rows
    text = (
        f"The table ranges contains {count_text(count, 'range')} of operators; {with_range} of "
        f"{count_text(total, 'launch belongs', 'launches belong')} to one (range_id)."
    )
    return [Note("ranges", text)]


def _ranges(trace: Path) -> str:
    """Return SQL for the table ranges; names are text of the profiled program and are made safe to show."""
    text = bounded_name(visible_name("Function"))
    known = f"SELECT *, {text} AS whole FROM read_parquet({sql_path(trace)})"
    parts = (
        f"SELECT *, regexp_extract(whole, '{_CONTEXT}.*', 0) AS context, "
        f"regexp_replace(whole, '{_CONTEXT}.*', '') AS path FROM ({known})"
    )
    sites = (
        "list_filter(list_transform(string_split(substr(context, 2), '/#'), "
        "lambda s: regexp_replace(s, '^#?\\d+@', '')), lambda s: NOT s.ends_with(':0') AND s != '')"
    )
    return (
        "SELECT TRY_CAST(Correlation_Id AS BIGINT) AS range_id, "
        "regexp_extract(path, '[^/]*$', 0) AS name, path, "
        f"nullif(array_to_string({sites}, ' > '), '') AS call_site, TRY_CAST(Thread_Id AS BIGINT) AS thread, "
        "TRY_CAST(Start_Timestamp AS BIGINT) AS start_ns, TRY_CAST(End_Timestamp AS BIGINT) AS end_ns, "
        "CAST(len(regexp_extract_all(context, '#\\d+@')) - 1 AS INT) AS depth, "
        f"CASE WHEN regexp_full_match(lower(Backend), '{_BACKEND.pattern}') THEN lower(Backend) END AS source "
        f"FROM ({parts}) WHERE start_ns IS NOT NULL AND end_ns >= start_ns ORDER BY start_ns, depth"
    )


def _assign_ranges(con: duckdb.DuckDBPyConnection, out: Path, launches: Path) -> int:
    """Assign every launch the range that its correlation id refers to; return how many have one.

    Both ids count within a process, so launches of several processes get no range.
    """
    dispatches = out / "dispatches.parquet"
    own = (
        "SELECT TRY_CAST(Dispatch_ID AS BIGINT) AS dispatch_id, min(TRY_CAST(Correlation_Id AS BIGINT)) AS range_id "
        f"FROM read_parquet({sql_path(launches)}) "
        f"WHERE (SELECT count(DISTINCT GUID) FROM read_parquet({sql_path(launches)})) = 1 GROUP BY 1"
    )
    known = f"SELECT DISTINCT range_id FROM read_parquet({sql_path(out / 'ranges.parquet')})"
    joined = out / "work" / "dispatches.parquet"
    write_table(
        con,
        f"SELECT d.*, k.range_id FROM read_parquet({sql_path(dispatches)}, file_row_number = true) d "
        f"LEFT JOIN ({own}) o USING (dispatch_id) LEFT JOIN ({known}) k ON k.range_id = o.range_id "
        "ORDER BY d.file_row_number",
        joined,
    )
    picks = f"SELECT * EXCLUDE (file_row_number) FROM read_parquet({sql_path(joined)})"
    write_table(con, picks, dispatches)
    (with_range,) = con.execute(f"SELECT count(range_id) FROM read_parquet({sql_path(dispatches)})").fetchone() or (0,)
    return int(with_range)
