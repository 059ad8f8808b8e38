"""The table host_lines: the lines of the host's code, their time, and the time for which devices wait for them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..store.manifest import Manifest
from ..timeline.busy import Within
from ..timeline.host_code import Frame, HostCode, host_code, recorded_stacks
from ..timeline.host_idle import CODE_CAUSES, CodeIdle, code_idle
from ..timeline.steps import steps
from ..timeline.trace import Trace
from ..timeline.trace_loading import device_trace
from ..workload import Workload
from .declaration import Column, DerivedTable, Row

_CAUSES = ("host", "launch", "synchronisation", "allocation", "copies")
_EDGES = ("start_up", "shut_down")


@dataclass
class _Line:
    """The figures of one line in ns."""

    own_samples: int = 0
    samples: int = 0
    own_ns: float = 0.0
    total_ns: float = 0.0
    idle_own_ns: float = 0.0
    idle: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: int = 0
    wait_ns: float = 0.0
    steady_ns: float = 0.0


def rows(workload: Workload) -> list[Row]:
    """Return a row for each line of the host's code that was recorded, most idle time first.

    The figures are sums over all devices and threads; those of idle time are None if the recording has no device work
    on the same clock. Empty if no code of the host was recorded.
    """
    trace = device_trace(workload)
    code = host_code(trace) if trace else None
    lines: dict[Frame, _Line] = defaultdict(_Line)
    count = 0
    if trace and code and code.threads:
        _add_code(lines, code, code_idle(trace, code, Within([trace.whole])))
        count = _add_steady(trace, code, lines)
    else:
        code = None
    timed = _add_samples(workload, lines, untimed_only=code is not None)
    made = [
        _row(frame, line, count if code else None, timed=timed or code is not None) for frame, line in lines.items()
    ]
    order = ("idle_total_ns", "total_ns", "total_samples")
    return sorted(made, key=lambda row: (*(-(row.get(c) or 0) for c in order), row["file"] or "", row["line"] or 0))


def _add_samples(workload: Workload, lines: dict[Frame, _Line], *, untimed_only: bool) -> bool:
    """Add the numbers of samples, and the time of those that no span of code has; return whether any time is known."""
    if not workload.has("host_samples"):
        return False
    stacks = recorded_stacks(workload)
    time = "sum(time_ns) FILTER (start_ns IS NULL)" if untimed_only else "sum(time_ns)"
    rows = workload.rows(f"SELECT stack, sum(samples), {time} FROM {workload.relation('host_samples')} GROUP BY stack")
    for number, samples, ns in rows:
        for frame in set(stacks[number]):
            lines[frame].samples += samples or 0
            lines[frame].total_ns += ns or 0
        if stacks[number]:
            lines[stacks[number][-1]].own_samples += samples or 0
            lines[stacks[number][-1]].own_ns += ns or 0
    return any(ns is not None for _, _, ns in rows)


def _add_code(lines: dict[Frame, _Line], code: HostCode, idle: CodeIdle) -> None:
    for number in idle.by_stack.keys() | idle.busy.keys() | idle.waits.keys():
        stack = code.stacks[number]
        if not stack:
            continue
        charged = dict(zip(CODE_CAUSES, idle.by_stack.get(number, [0.0] * len(CODE_CAUSES)), strict=True))
        inner = sum(ns for cause, ns in charged.items() if cause not in _EDGES)
        lines[stack[-1]].own_ns += idle.busy.get(number, 0.0)
        lines[stack[-1]].idle_own_ns += inner
        calls, waited = idle.waits.get(number, (0, 0.0))
        for frame in set(stack):
            line = lines[frame]
            line.total_ns += idle.busy.get(number, 0.0)
            line.waits += calls
            line.wait_ns += waited
            for cause, ns in charged.items():
                line.idle[cause] += ns


def _add_steady(trace: Trace, code: HostCode, lines: dict[Frame, _Line]) -> int:
    """Add the idle time in steady steps to the lines; return the number of these steps, 0 unless steps are certain."""
    division = steps(trace)
    if division is None or not division.certain or division.steady is None:
        return 0
    idle = code_idle(trace, code, Within([division.steady]))
    for number, ns in idle.by_stack.items():
        for frame in set(code.stacks[number]):
            lines[frame].steady_ns += float(ns.sum())
    return division.count


def _row(frame: Frame, line: _Line, steps: int | None, *, timed: bool) -> Row:
    """Return the row of a line; ``steps`` is the number of steady ones, None if no idle time is known."""
    sums: Row = {
        **frame._asdict(),
        "self_samples": line.own_samples or None,
        "total_samples": line.samples or None,
        "self_ns": round(line.own_ns) if timed else None,
        "total_ns": round(line.total_ns) if timed else None,
    }
    return sums if steps is None else sums | _idle_figures(line, steps)


def _idle_figures(line: _Line, steps: int) -> Row:
    causes = {f"{cause}_ns": round(line.idle[cause]) for cause in _CAUSES}
    edges = sum(line.idle[cause] for cause in _EDGES)
    total = sum(line.idle.values()) - edges
    return {
        "idle_ns": round(line.idle_own_ns),
        "idle_total_ns": round(total),
        **causes,
        "other_ns": round(total - sum(line.idle[cause] for cause in _CAUSES)),
        "edge_ns": round(edges),
        "idle_step_ns": round(line.steady_ns / steps) if steps else None,
        "waits": line.waits,
        "wait_ns": round(line.wait_ns),
    }


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
