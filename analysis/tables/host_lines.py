"""The table host_lines: the lines of the host's code, their time, and the time for which devices wait for them."""

from __future__ import annotations

from collections import defaultdict

from ..store.manifest import Manifest
from ..timeline.busy import Within
from ..timeline.host_code import Frame, HostCode, Stack, host_code, recorded_stacks
from ..timeline.host_idle import CODE_CAUSES, CodeIdle, code_idle
from ..timeline.steps import steps
from ..timeline.trace import Trace
from ..timeline.trace_loading import device_trace
from ..workload import Workload
from .declaration import Column, DerivedTable, Row

_CAUSES = ("host", "launch", "synchronisation", "allocation", "copies")
_EDGES = ("start_up", "shut_down")


_Line = dict[str, float]
"""The sums of one line by column, those of idle time by cause, in ns."""


def rows(workload: Workload) -> list[Row]:
    """Return a row for each line of the host's code that was recorded, most idle time first.

    The figures are sums over all devices and threads; those of idle time are None if the recording has no device work
    on the same clock. Empty if no code of the host was recorded.
    """
    trace = device_trace(workload)
    code = host_code(trace) if trace else None
    lines: dict[Frame, _Line] = defaultdict(lambda: defaultdict(float))
    count = None
    if trace and code and code.threads:
        _add_code(lines, code, code_idle(trace, code, Within([trace.whole])))
        count = _add_steady(trace, code, lines)
    timed = _add_samples(workload, lines, untimed_only=count is not None)
    made = [_row(frame, line, count, timed=timed or count is not None) for frame, line in lines.items()]
    order = ("idle_total_ns", "total_ns", "total_samples")
    return sorted(made, key=lambda row: (*(-(row.get(c) or 0) for c in order), row["file"] or "", row["line"] or 0))


def _add(lines: dict[Frame, _Line], stack: Stack, own: _Line, every: _Line) -> None:
    """Add figures to the innermost line of a stack, and others to each line of it."""
    for frame, figures in [*((frame, own) for frame in stack[-1:]), *((frame, every) for frame in set(stack))]:
        for column, value in figures.items():
            lines[frame][column] += value


def _add_samples(workload: Workload, lines: dict[Frame, _Line], *, untimed_only: bool) -> bool:
    """Add the numbers of samples, and the time of those that no span of code has; return whether any time is known."""
    if not workload.has("host_samples"):
        return False
    stacks = recorded_stacks(workload)
    time = "sum(time_ns) FILTER (start_ns IS NULL)" if untimed_only else "sum(time_ns)"
    rows = workload.rows(f"SELECT stack, sum(samples), {time} FROM {workload.relation('host_samples')} GROUP BY stack")
    for number, samples, ns in rows:
        own, every = ({f"{of}_samples": samples or 0, f"{of}_ns": ns or 0} for of in ("self", "total"))
        _add(lines, stacks[number], own, every)
    return any(ns is not None for _, _, ns in rows)


def _add_code(lines: dict[Frame, _Line], code: HostCode, idle: CodeIdle) -> None:
    for number in idle.stacks:
        charged = dict(zip(CODE_CAUSES, idle.ns[:, number].tolist(), strict=True))
        inner = sum(ns for cause, ns in charged.items() if cause not in _EDGES)
        busy = float(idle.busy[number])
        every = {"total_ns": busy, "waits": int(idle.waits[number]), "wait_ns": float(idle.waited[number])} | charged
        _add(lines, code.stacks[number], {"self_ns": busy, "idle_ns": inner}, every)


def _add_steady(trace: Trace, code: HostCode, lines: dict[Frame, _Line]) -> int:
    """Add the idle time in steady steps to the lines; return the number of these steps, 0 unless steps are certain."""
    division = steps(trace)
    if division is None or not division.certain or division.steady is None:
        return 0
    idle = code_idle(trace, code, Within([division.steady]))
    for number in idle.stacks:
        _add(lines, code.stacks[number], {}, {"steady": float(idle.ns[:, number].sum())})
    return division.count


def _row(frame: Frame, line: _Line, steps: int | None, *, timed: bool) -> Row:
    """Return the row of a line; ``steps`` is the number of steady ones, None if no idle time is known."""
    counts = {name: round(line[name]) or None for name in ("self_samples", "total_samples")}
    known = ("self_ns", "total_ns") if steps is None else ("self_ns", "total_ns", "idle_ns", "waits", "wait_ns")
    row: Row = {**frame._asdict(), **counts} | {name: round(line[name]) for name in known if timed}
    if steps is None:
        return row
    edges = sum(line[cause] for cause in _EDGES)
    total = sum(line[cause] for cause in CODE_CAUSES) - edges
    causes = {f"{cause}_ns": round(line[cause]) for cause in _CAUSES}
    return (
        row
        | causes
        | {
            "idle_total_ns": round(total),
            "other_ns": round(total - sum(line[cause] for cause in _CAUSES)),
            "edge_ns": round(edges),
            "idle_step_ns": round(line["steady"] / steps) if steps else None,
        }
    )


def _has_code(manifest: Manifest) -> bool:
    code = {"host_stacks.parquet", "ranges.parquet"} if manifest.events else {"host_samples.parquet"}
    return not code.isdisjoint(manifest.files)


TABLE = DerivedTable(
    "host_lines",
    "Lines of host code: "
    "SELECT function, file, line, idle_total_ns FROM host_lines WHERE own ORDER BY idle_total_ns DESC LIMIT 10.",
    {
        "function": Column("VARCHAR", "Function that the line is in"),
        "file": Column("VARCHAR", "Source file"),
        "line": Column("INTEGER", "From 1; torch.profiler states the first one of the function"),
        "module": Column("VARCHAR", "Library; NULL for the program's own code"),
        "own": Column("BOOLEAN", "Whether it is the program's own"),
        "self_samples": Column("BIGINT", "Samples of threads at it"),
        "total_samples": Column("BIGINT", "Likewise, with what it calls"),
        "self_ns": Column("BIGINT", "Time of threads at it, without waits for devices", "ns", 4),
        "total_ns": Column("BIGINT", "Likewise, with what it calls", "ns", 4),
        "idle_ns": Column("BIGINT", "Idle time of devices charged to it", "ns", 4),
        "idle_total_ns": Column("BIGINT", "Likewise, with what it calls; its parts follow", "ns", 4),
        "host_ns": Column("BIGINT", "Outside any call of the GPU's runtime", "ns", 4),
        "launch_ns": Column("BIGINT", "Preparing or making a launch", "ns", 4),
        "synchronisation_ns": Column("BIGINT", "After a wait for the device", "ns", 4),
        "allocation_ns": Column("BIGINT", "Allocating or freeing memory", "ns", 4),
        "copies_ns": Column("BIGINT", "In calls of blocking copies", "ns", 4),
        "other_ns": Column("BIGINT", "Loading code, graphs, messages", "ns", 4),
        "edge_ns": Column("BIGINT", "Before and after all device work", "ns", 4),
        "idle_step_ns": Column("BIGINT", "Mean of idle_total_ns per step", "ns", 4),
        "waits": Column("BIGINT", "Calls in it that wait for a device"),
        "wait_ns": Column("BIGINT", "Their time", "ns", 4),
        "text": Column("VARCHAR", "The line, if known: data, not advice"),
    },
    rows=rows,
    exists=_has_code,
)
