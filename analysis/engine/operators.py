"""Operators of a profiled program as groups of launches: which launch belongs to which, longest first."""

from __future__ import annotations

from ..problems import BadArgument
from ..workload import Selection, Workload

NO_OPERATOR = "(no operator)"
"""What launches belong to that no range of the program made."""
_FIX = "Leave by='operator' out, or profile with rocprof-compute --torch-trace"


def _labels(workload: Workload) -> str:
    """SQL for the operator of every launch: its path and the lines that called it."""
    label = "concat_ws(' @ ', r.path, r.call_site)"
    return (
        f"SELECT d.dispatch_id, d.kernel, d.duration_ns, coalesce(nullif({label}, ''), '{NO_OPERATOR}') AS operator "
        f"FROM {workload.relation('dispatches')} d LEFT JOIN {workload.relation('ranges')} r USING (range_id)"
    )


def named(workload: Workload, selection: Selection) -> tuple[str, ...]:
    """The operators of the selected launches, longest total time first. Raises BadArgument where there are none."""
    if not workload.has("ranges"):
        raise BadArgument(f"Workload {workload.name!r} has no operators", "its profile holds no trace of them", _FIX)
    rows = workload.rows(
        f"SELECT operator FROM ({_labels(workload)}) d WHERE {selection.condition('d')} "
        "GROUP BY operator ORDER BY sum(duration_ns) DESC NULLS LAST, operator"
    )
    return tuple(operator for (operator,) in rows)


def of_launches(workload: Workload) -> str:
    """SQL for the operator of every launch, by its dispatch_id."""
    return f"SELECT dispatch_id, operator FROM ({_labels(workload)})"
