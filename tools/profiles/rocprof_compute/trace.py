"""The ML API trace of rocprof-compute: ranges of operators with their call sites, and the launches in each range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....analysis.base.database import sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base.profile_files import is_inside
from ...base.untrusted_text import bounded_name, visible_name
from ..merging.contract import PassTable, parquet
from ..parsing.csv_file import stage_columns
from ..reader import ProfileFiles
from .passes import session

_FILES = "ml_api_trace_*_marker_api_trace.csv"
_NEEDED = ("Function", "Correlation_Id", "GUID", "Start_Timestamp", "End_Timestamp", "Thread_Id", "Backend")
_LAUNCHES = ("Dispatch_ID", "Correlation_Id", "GUID")
# Names of ranges have the form PATH:CONTEXT: the operators from the outermost one, and for each its count and place,
# as in aten::linear/aten::addmm:#1@net.py:35/#1@aten.nested:0. Places with line 0 are not lines of source code.
_CONTEXT = r":#\d+@"
_BACKEND = re.compile(r"[a-z0-9_.-]{1,40}")


@dataclass(frozen=True)
class OperatorRanges:
    """The ranges of operators, or only a note why they cannot be read; all are empty if the folder has no trace."""

    table: str = ""
    """SELECT with the columns of the table ranges."""
    of_launches: str = ""
    """SELECT with row and range_id of the launches of the main pass."""
    notes: Sequence[Note] = ()


def operator_ranges(files: ProfileFiles, folder: Path, main: PassTable) -> OperatorRanges:
    """Return the ranges in the folder's trace of operators, and the range of every launch.

    If there are several passes, the trace of the main pass counts, because its launches are those of the workload. An
    unreadable trace is skipped with a note.
    """
    traces = sorted(f for f in folder.glob(_FILES) if is_inside(f, folder))
    if not traces:
        return OperatorRanges()
    run = session(main.source)
    file = next((f for f in traces if run and session(f) == run), traces[0])
    trace, launches, table = (files.work / f"operators_{what}.parquet" for what in ("trace", "launches", "ranges"))
    try:
        stage_columns(files.con, file, _NEEDED, trace)
        stage_columns(files.con, main.source, _LAUNCHES, launches)
    except BadInput as problem:
        return OperatorRanges(notes=[Note("left_out", f"{problem.text} The trace of operators was skipped.")])
    count = write_table(files.con, _ranges(trace), table)
    # Both ids count within a process, so launches of several processes get no range.
    own = (
        "SELECT TRY_CAST(Dispatch_ID AS BIGINT) AS dispatch_id, min(TRY_CAST(Correlation_Id AS BIGINT)) AS range_id "
        f"FROM {parquet([launches])} WHERE (SELECT count(DISTINCT GUID) FROM {parquet([launches])}) = 1 GROUP BY 1"
    )
    known = f"SELECT DISTINCT range_id FROM {parquet([table])}"
    of_launches = (
        f"SELECT l.row, k.range_id FROM {main.launches} l LEFT JOIN ({own}) o ON o.dispatch_id = "
        f"TRY_CAST(l.dispatch_id AS BIGINT) LEFT JOIN ({known}) k ON k.range_id = o.range_id"
    )
    (inside,) = files.con.execute(f"SELECT count(range_id) FROM ({of_launches})").fetchone() or (0,)
    text = (
        f"The table ranges contains {count_text(count, 'range')} of operators; {inside} of "
        f"{count_text(main.rows, 'launch belongs', 'launches belong')} to one (range_id)."
    )
    return OperatorRanges(f"FROM {parquet([table])}", of_launches, [Note("ranges", text)])


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
