"""Group launches by parts of the profiled program (operators and named ranges) that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base.database import sql_literal
from ..base.problems import BadArgument
from ..workload import Selection, Workload

ProgramPart = Literal["operator", "range", "range_name"]
"""The operator that launched, with the lines that called it, or every range around a launch, by path or name."""
NO_PART = {part: f"(no {part.partition('_')[0]})" for part in ("operator", "range", "range_name")}
"""The group of launches outside of all ranges of the program."""
MOST_RANGES = 100
"""The number of ranges for which figures are computed: those with the most time."""
_DEEPEST = 64
"""The maximum depth of nested ranges around a launch, from the outside."""
_WHERE = {
    "operator": "profile with rocprof-compute --torch-trace",
    "range": "mark the program (torch.cuda.nvtx.range_push, roctxRangePush) and profile it with profile_command",
}


def parts_by_time(workload: Workload, selection: Selection, part: ProgramPart) -> tuple[str, ...]:
    """The parts that the selected launches belong to, longest total time first; at most MOST_RANGES ranges.

    Raises BadArgument if the workload has none.
    """
    _need_ranges(workload, part)
    most = "" if part == "operator" else f" LIMIT {MOST_RANGES}"
    rows = workload.rows(
        f"SELECT part FROM ({_with_times(workload, part)}) d WHERE {selection.condition('d')} "
        f"GROUP BY part ORDER BY sum(duration_ns) DESC NULLS LAST, part{most}"
    )
    return tuple(part for (part,) in rows)


def left_out(workload: Workload, selection: Selection, part: ProgramPart) -> int:
    """How many ranges ``parts_by_time`` omits."""
    if part == "operator":
        return 0
    ((count,),) = workload.rows(
        f"SELECT count(DISTINCT part) FROM ({_with_times(workload, part)}) d WHERE {selection.condition('d')}"
    )
    return max(0, int(count) - MOST_RANGES)


def range_times(workload: Workload) -> list[list[Any]]:
    """Rows by path, longest time first: path, entries, launches, their time in ns, its share of the total in %, the
    time per entry in ns, and the host time in ns. Raises BadArgument if the workload has no ranges."""
    _need_ranges(workload, "range")
    dispatches, ranges = workload.relation("dispatches"), workload.relation("ranges")
    rows = workload.rows(
        f"WITH spent AS (SELECT part, count(*) AS launches, sum(duration_ns) AS total "
        f"FROM ({_with_times(workload, 'range')}) GROUP BY part), "
        f"entered AS (SELECT path, count(*) AS entered, sum(end_ns - start_ns)::BIGINT AS host "
        f"FROM {ranges} GROUP BY path) "
        "SELECT coalesce(part, path) AS part, entered, coalesce(launches, 0), total, "
        f"100 * total / (SELECT sum(duration_ns) FROM {dispatches}), total / entered, host "
        "FROM spent FULL JOIN entered ON path = part ORDER BY total DESC NULLS LAST, host DESC NULLS LAST, 1"
    )
    return [list(row) for row in rows]


def parts_of_launches_sql(workload: Workload, part: ProgramPart, wanted: Sequence[str]) -> str:
    """SQL for the ``wanted`` parts of every launch: one row of dispatch_id and part for each."""
    listed = ", ".join(map(sql_literal, wanted)) or "NULL"
    return f"SELECT dispatch_id, part FROM ({_parts(workload, part)}) WHERE part IN ({listed})"


def _need_ranges(workload: Workload, part: ProgramPart) -> None:
    if not workload.has("ranges"):
        what = part.partition("_")[0]
        raise BadArgument(
            f"Workload {workload.name!r} has no {what}s",
            "its profile does not contain a trace of them",
            f"Omit by={part!r}, or {_WHERE[what]}",
        )


def _with_times(workload: Workload, part: ProgramPart) -> str:
    return f"SELECT * FROM ({_parts(workload, part)}) JOIN {workload.relation('dispatches')} USING (dispatch_id)"


def _parts(workload: Workload, part: ProgramPart) -> str:
    """SQL for dispatch_id and part of every launch; a launch within several ranges has one row for each of them."""
    dispatches, ranges = workload.relation("dispatches"), workload.relation("ranges")
    if part == "operator":
        label = "nullif(concat_ws(' @ ', r.path, r.call_site), '')"
        return (
            f"SELECT d.dispatch_id, coalesce({label}, '{NO_PART[part]}') AS part "
            f"FROM {dispatches} d LEFT JOIN {ranges} r USING (range_id)"
        )
    # Ranges do not store their parent; the parent is the range whose path is the beginning of theirs.
    words = f"SELECT DISTINCT path, string_split(path, '/') AS words FROM {ranges} WHERE path IS NOT NULL"
    outer = f"SELECT path, array_to_string(words[1:n], '/') AS outer_path FROM ({words}), "
    outer += f"range(1, least(len(words), {_DEEPEST}) + 1) t(n)"
    beginnings = f"{outer} UNION SELECT DISTINCT path, path FROM {ranges}"
    label = "path" if part == "range" else "name"
    around = (
        f"SELECT DISTINCT b.path, o.{label} AS part FROM ({beginnings}) b "
        f"JOIN (SELECT DISTINCT path, name FROM {ranges}) o ON o.path = b.outer_path"
    )
    return (
        f"SELECT d.dispatch_id, coalesce(nullif(a.part, ''), '{NO_PART[part]}') AS part FROM {dispatches} d "
        f"LEFT JOIN {ranges} r USING (range_id) LEFT JOIN ({around}) a ON a.path = r.path"
    )
