"""compute_timeline: where the wall time of a program goes, why the GPU is idle, and what to do about it."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from ..analysis.base.notes import Note
from ..analysis.base.text import count_text, figure, short_time
from ..analysis.catalogue.thresholds import threshold
from ..analysis.store.store import Store
from ..analysis.timeline.activity_tables import TimelineFigure
from ..analysis.timeline.busy import Busy
from ..analysis.timeline.host_clocks import clocks
from ..analysis.timeline.host_findings import HostFindings, callers, place
from ..analysis.timeline.host_limits import host_limits
from ..analysis.timeline.rules import rules
from ..analysis.timeline.slow_rank import Balance
from ..analysis.timeline.steps import named_range
from ..analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from ..analysis.timeline.trace import has_timeline, lane_name
from ..analysis.timeline.verdict import ApplicationFinding, ApplicationVerdict
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.roofline_summary import collective_table, four_digits, in_ms, operator_table, phase_table
from .answers.verdict_text import finding_blocks, timeline_answer
from .base.parameters import Reference, WorkloadName
from .base.results import NextCall, Result, Table, TextBlock, table_of

_SplitRow = namedtuple("_SplitRow", "part ms pct whole_ms whole_pct")
_IdleRow = namedtuple("_IdleRow", "cause ms pct gaps longest_ms range operations description")
_GapRow = namedtuple("_GapRow", "at_ms ms device cause range operations")
_EdgeRow = namedtuple("_EdgeRow", "part ms range operations")
_CopyRow = namedtuple("_CopyRow", "direction host_memory copies ms pct mb gbs")
_KernelRow = namedtuple("_KernelRow", "kernel calls ms pct_of_kernels mean_us communication")
_RangeRow = namedtuple("_RangeRow", "range source count host_ms gpu_ms")
_RankRow = namedtuple(
    "_RankRow", "rank host devices computing_ms of_mean_pct communication_ms of_kernels_pct waited_ms copies_ms idle_ms"
)
_DeviceRow = namedtuple(
    "_DeviceRow",
    "device streams operations computing_pct communication_pct exposed_communication_pct copies_pct idle_pct",
)
_CodeRow = namedtuple(
    "_CodeRow", "function place called_by idle_ms pct cause kind host_ms waits wait_ms expected at_most source"
)
_FigureRow = namedtuple("_FigureRow", "figure value unit status reason")
"""The rows of the tables, with one field per column."""
_PARTS = {
    "gpu_busy": "any",
    "kernels": "kernels",
    "computing": "computing",
    "communication": "communication",
    "exposed_communication": "exposed_communication",
    "copies": "copies",
    "fills": "fills",
    "copies_beside_kernels": "overlapped_copies",
    "exposed_copies": "exposed_copies",
    "idle": "idle",
}
"""The parts of the split -> the attribute of Busy with their time."""
_TABLES = (
    "split", "edges", "code", "idle", "phases", "copies", "figures", "devices", "ranks", "kernels", "operators",
    "collectives", "ranges", "gaps",
)  # fmt: skip
"""The tables of the answer, in order."""
_MOST_DEVICES = 16
"""Up to this number, all devices are listed; of more, only some."""
_STRETCHED_US = threshold("timeline.stretched_kernel_us")


class TimelineResult(Result):
    """The wall time, divided without counting anything twice; shares refer to the time of all devices together."""

    workload: str
    name: str
    window: str
    wall_ms: float | None
    steps: str
    step_ms: float | None
    verdict: ApplicationVerdict
    findings: list[ApplicationFinding]
    split: Table
    edges: Table
    """The time before the first (``start_up``) and after the last device work (``shut_down``), which are no part of the
    window, with what the host does meanwhile."""
    idle: Table
    code: Table
    """The code of the host that the devices wait for: the innermost function that explains its part of the idle time,
    with what the program gains without it; ``host_ms`` is the time that threads spend in it."""
    phases: Table
    """What ranges state, such as prefill, as medians; ``interval_ms`` of decode is the time between tokens."""
    copies: Table
    figures: Table
    devices: Table
    ranks: Table
    """The rank with the longest computing time first; empty unless there are several ranks. ``of_kernels_pct`` is the
    share of communication in kernel time."""
    kernels: Table
    operators: Table
    """Operators of PyTorch by shapes and types; ``roofline_pct`` is the least time on this device in % of the time."""
    collectives: Table
    """Collectives by kind and size; ``transfer_ms`` is the time of the rank that arrived last."""
    ranges: Table
    gaps: Table

    def blocks(self) -> list[TextBlock]:
        """Return the window, the findings, then the tables that have rows."""
        step = "" if self.step_ms is None else f"; a step takes {figure(self.step_ms)} ms"
        about = [
            f"workload: {self.workload} ({self.name})",
            f"window: {self.window}, {'unknown' if self.wall_ms is None else figure(self.wall_ms)} ms{step}",
            f"steps: {self.steps}",
        ]
        shown = [TextBlock(name, table) for name in _TABLES if (table := getattr(self, name)).rows]
        return [TextBlock("", about), *finding_blocks(self.findings), *shown]


def compute_timeline(
    store: Store,
    workload: WorkloadName = "latest",
    top_n: Annotated[int, Field(ge=1, le=100, description="rows of each table")] = 5,
    range: Annotated[Reference | None, Field(description="only what these ranges launched: name or pattern")] = None,
    steady: Annotated[bool, Field(description="skip start-up and warm-up")] = True,
) -> TimelineResult:
    """Where the wall time goes: GPU busy, copies, overlap, idle by cause (launch, host, ...) and host code, verdict on
    the application. Call it before examining kernels."""
    with Workload.open(store, workload) as opened:
        analysed = timeline(opened, TimelineRequest(top_n, range, steady))
        manifest, total = analysed.trace.workload.manifest, analysed.total
        steps = analysed.steps
        durations = steps.steady_durations if steps and steps.usable else []
        return TimelineResult(
            answer=timeline_answer(analysed.verdict, analysed.findings),
            workload=manifest.id,
            name=manifest.name,
            window=_window(analysed),
            wall_ms=in_ms(analysed.wall_ns),
            steps=_steps(analysed),
            step_ms=in_ms(sorted(durations)[len(durations) // 2]) if durations else None,
            verdict=_round_verdict(analysed.verdict),
            findings=[_round_finding(f, first=f is analysed.findings[0]) for f in analysed.findings],
            split=_split(analysed.whole, total),
            edges=_edges(analysed),
            idle=_idle(analysed),
            code=_code(analysed.host, top_n),
            phases=phase_table(analysed.phases, top_n),
            copies=_copies(analysed),
            figures=table_of(
                _FigureRow,
                [
                    _FigureRow(f.name, four_digits(f.value), f.unit, f.status, f.reason)
                    for f in (*analysed.figures, *_efficiencies(analysed.balance))
                ],
            ),
            devices=_devices(analysed, top_n),
            ranks=_ranks(analysed.balance, top_n),
            kernels=_kernels(analysed),
            operators=operator_table(analysed.operators, top_n),
            collectives=collective_table(analysed.collectives, top_n),
            ranges=table_of(
                _RangeRow,
                [_RangeRow(r.name, r.source, r.count, in_ms(r.host_ns), in_ms(r.device_ns)) for r in analysed.ranges],
                {"host_ms": "ms", "gpu_ms": "ms"},
            ),
            gaps=_gaps(analysed),
            notes=[note.text for note in notes(analysed)],
            next=_next(analysed),
        )


def _round_verdict(verdict: ApplicationVerdict) -> ApplicationVerdict:
    share = None if verdict.share_pct is None else round(verdict.share_pct, 2)
    return replace(verdict, share_pct=share, speedup_bound=four_digits(verdict.speedup_bound))


def _round_finding(finding: ApplicationFinding, first: bool) -> ApplicationFinding:
    """Round a finding for the answer; all but the first are shortened to their main evidence and advice."""
    gains = [
        replace(gain, upper=four_digits(gain.upper), expected=four_digits(gain.expected)) for gain in finding.gains
    ]
    told = replace(
        finding,
        share_pct=round(finding.share_pct, 2),
        speedup_bound=four_digits(finding.speedup_bound),
        gains=gains if any(gain.upper is not None for gain in gains) else [],
    )
    if first:
        return told
    return replace(told, evidence=told.evidence[:2], advice=told.advice[:1], gains=told.gains[:1], falsify=None)


def _split(whole: Busy, within: Busy) -> Table:
    """Each part within the window and over the whole trace; parts overlap only where their names say so."""
    rows = [
        _SplitRow(
            part,
            in_ms(getattr(within, name)),
            _pct(getattr(within, name), within.wall),
            in_ms(getattr(whole, name)),
            _pct(getattr(whole, name), whole.wall),
        )
        for part, name in _PARTS.items()
        if ("communication" not in name or whole.communication) and (name != "fills" or whole.fills)
    ]
    return table_of(_SplitRow, rows, {"ms": "ms", "pct": "%", "whole_ms": "ms", "whole_pct": "%"})


def _edges(analysed: Timeline) -> Table:
    rows = [
        _EdgeRow(gap.cause, in_ms(gap.ns), doing.range, _operations(doing.operations)) for gap, doing in analysed.edges
    ]
    return table_of(_EdgeRow, rows, {"ms": "ms"})


def _idle(analysed: Timeline) -> Table:
    rows = [
        _IdleRow(
            row.idle.cause,
            in_ms(row.idle.ns),
            _pct(row.idle.ns, analysed.total.wall),
            row.idle.gaps,
            in_ms(row.idle.longest_ns) if row.idle.gaps else None,
            row.doing.range,
            _operations(row.doing.operations),
            rules().causes[row.idle.cause].title,
        )
        for row in analysed.causes
    ]
    return table_of(_IdleRow, rows, {"ms": "ms", "pct": "%", "longest_ms": "ms"})


def _code(host: HostFindings | None, top_n: int) -> Table:
    units = {"idle_ms": "ms", "pct": "%", "host_ms": "ms", "wait_ms": "ms", "expected": "times", "at_most": "times"}
    rows = []
    if host is None:
        return table_of(_CodeRow, [], units)
    for row in host.codes.rows[:top_n]:
        gain = host.gain(row)
        rows.append(
            _CodeRow(
                row.frame.function,
                place(row.frame),
                callers(row).removeprefix(", called by ") or None,
                in_ms(row.idle_ns),
                _pct(row.idle_ns, host.wall_ns),
                row.main_cause,
                row.kind.name,
                in_ms(row.busy_ns),
                row.waits,
                in_ms(row.waited_ns),
                four_digits(gain.expected),
                four_digits(gain.upper),
                row.frame.text,
            )
        )
    return table_of(_CodeRow, rows, units)


def _gaps(analysed: Timeline) -> Table:
    devices = {lane.number: lane_name(lane.rank, lane.device) for lane in analysed.trace.lanes}
    rows = [
        _GapRow(
            in_ms(gap.start - analysed.trace.whole.start),
            in_ms(gap.ns),
            devices[gap.lane],
            gap.cause,
            doing.range,
            _operations(doing.operations),
        )
        for gap, doing in analysed.gaps
    ]
    total = sum(row.idle.gaps for row in analysed.causes)
    return table_of(_GapRow, rows, {"at_ms": "ms", "ms": "ms"}, total)


def _operations(operations: Any) -> str | None:
    return ", ".join(f"{name} {ns / 1e6:.3g} ms" for name, ns in operations) or None


def _copies(analysed: Timeline) -> Table:
    kinds = {True: "pinned", False: "pageable", None: None}
    rows = [
        _CopyRow(
            row.direction,
            kinds[row.pinned],
            row.copies,
            in_ms(row.ns),
            _pct(row.ns, analysed.total.wall),
            None if row.bytes is None else row.bytes / 1e6,
            four_digits(row.gbs),
        )
        for row in analysed.copies
    ]
    return table_of(_CopyRow, rows, {"ms": "ms", "pct": "%", "mb": "MB", "gbs": "GB/s"})


def _efficiencies(ranks: Balance | None) -> list[TimelineFigure]:
    """The efficiencies of the ranks, over the whole trace unless a range was requested."""
    if ranks is None:
        return []
    none = "nothing computes"
    made = [
        ("load_balance_pct", ranks.load_balance_pct, none),
        ("communication_efficiency_pct", ranks.communication_efficiency_pct, none),
        ("parallel_efficiency_pct", ranks.parallel_efficiency_pct, none),
        ("slowest_rank_over_mean_pct", ranks.excess_pct, none),
        ("collective_wait_pct", ranks.waited_pct, "no collective was found on all ranks"),
    ]
    return [
        TimelineFigure(name, value, "%")
        if value is not None
        else TimelineFigure(name, None, "%", "undefined" if why == none else "not_collected", why)
        for name, value, why in made
    ]


def _ranks(ranks: Balance | None, top_n: int) -> Table:
    """The ranks with the longest computing times, then the one with the shortest."""
    if ranks is None:
        return table_of(_RankRow, [])
    ordered = sorted(ranks.rows, key=lambda r: -r.computing / r.devices)
    shown = ordered if len(ordered) <= top_n + 1 else [*ordered[:top_n], ordered[-1]]
    rows = [
        _RankRow(
            r.rank,
            r.host,
            r.devices,
            in_ms(r.computing),
            round(100 * r.computing / r.devices / ranks.mean, 2) if ranks.mean else None,
            in_ms(r.communication),
            _pct(r.communication, r.computing + r.communication),
            in_ms(r.waited),
            in_ms(r.copies),
            in_ms(r.idle),
        )
        for r in shown
    ]
    units = {name: "ms" for name in _RankRow._fields if name.endswith("_ms")} | {
        "of_mean_pct": "%",
        "of_kernels_pct": "%",
    }
    return table_of(_RankRow, rows, units, len(ordered))


def _devices(analysed: Timeline, top_n: int) -> Table:
    """All devices if there are few; otherwise those with the longest computing times and the one with the shortest."""
    lanes = list(analysed.trace.lanes)
    if len(lanes) > _MOST_DEVICES:
        lanes.sort(key=lambda lane: -analysed.lanes[lane.number].computing)
        lanes = [*lanes[:top_n], lanes[-1]]
    rows = []
    for lane in lanes:
        of = analysed.lanes[lane.number]
        shares = (of.computing, of.communication, of.exposed_communication, of.copies, of.idle)
        rows.append(
            _DeviceRow(
                lane_name(lane.rank, lane.device), lane.streams, lane.work, *(_pct(ns, of.wall) for ns in shares)
            )
        )
    units = {name: "%" for name in _DeviceRow._fields if name.endswith("_pct")}
    return table_of(_DeviceRow, rows, units, len(analysed.trace.lanes))


def _kernels(analysed: Timeline) -> Table:
    rows = [
        _KernelRow(k.name, k.calls, in_ms(k.ns), round(k.share_pct, 2), four_digits(k.mean_ns / 1e3), k.communication)
        for k in analysed.kernels
    ]
    units = {"ms": "ms", "pct_of_kernels": "%", "mean_us": "us"}
    return table_of(_KernelRow, rows, units, analysed.total_kernels)


def _window(analysed: Timeline) -> str:
    if analysed.selected == "range":
        return f"{count_text(len(analysed.windows), 'range')}"
    if analysed.selected == "steady" and analysed.steps:
        return f"{count_text(analysed.steps.count, analysed.steps.noun)} in the steady state"
    if analysed.selected == "work":
        return "from the first to the last work of the devices"
    return "from the first event to the last"


def _steps(analysed: Timeline) -> str:
    division = analysed.steps
    if division is None:
        if named := named_range(analysed.trace):
            return f"none found: a single range is called a step ({named.name!r}, {short_time(named.ns)} on the host)"
        return "none found: nothing repeats that is not a part of a step"
    by = f"the repeating {'range' if division.by == 'range' else 'kernel'} {division.name!r}"
    steady = division.steady_durations
    if not division.usable:
        return (
            f"none found: {by} occurs {count_text(len(division.starts), 'time')}, but covers only "
            f"{100 * division.covered:.3g} % of the time between the first and the last work, or leaves out most of "
            "its idle time"
        )
    text = (
        f"{count_text(len(division.durations), f'whole {division.noun}')}, {division.warm_up} of them warm-up, found "
        f"by {by}, each from its first work on the device to that of the next; the incomplete {division.noun} at the "
        "end is ignored"
    )
    text += f". step_ms is their median; they take {min(steady) / 1e6:.4g} to {max(steady) / 1e6:.4g} ms"
    if not division.certain:
        text += "; they may be a part of a step, or different work"
    drift = division.drift_pct
    return text if drift is None else f"{text} and become {'longer' if drift > 0 else 'shorter'} by {abs(drift):.2g} %"


def notes(analysed: Timeline) -> list[Note]:
    """Return the notes on the figures."""
    mean = next((f.value for f in analysed.figures if f.name == "mean_kernel_us"), None)
    told = []
    if analysed.verdict.height not in ("gpu", "unknown") and analysed.idle_pct >= rules().limits.idle_first_pct:
        text = f"The GPU is idle {analysed.idle_pct:.0f} % of the time: its kernels are secondary."
        told.append(Note("idle_first", text))
    if mean is not None and mean < _STRETCHED_US and analysed.trace.calls:
        text = (
            "Recording slows down programs that launch many short kernels, by 8 to 60 % in measurements: time a step "
            "without a profiler before and after a change, and compare shares rather than ms."
        )
        told.append(Note("stretched", text))
    told += _unknown(analysed)
    told += [Note(doubt.code, doubt.text) for doubt in analysed.doubts]
    told += _one_gap(analysed)
    told += analysed.operators.notes
    told += [Note("host_limits", text) for text in host_limits(analysed.trace.workload)] if analysed.host else []
    if analysed.selected in ("work", "whole") and not analysed.steps:
        told.append(Note("no_steps", "No steps were found: the figures include the warm-up."))
    whole = analysed.trace.whole.end - analysed.trace.whole.start
    ends = sum(gap.ns for gap, _ in analysed.edges)
    if whole and 100 * ends / whole >= rules().limits.start_up_pct:
        text = f"{100 * ends / whole:.0f} % of the trace is start and end: trace a longer run."
        told.append(Note("mostly_start", text))
    if analysed.selected == "range":
        text = (
            "The window is the time in which the device does what the ranges launched, from the first to the last of "
            "it; kernels has only that work."
            if analysed.by_launch
            else "The ranges launched nothing: the window is their time on the host, in which the device may work on."
        )
        told.append(Note("range_time", text))
    if analysed.balance and analysed.selected == "steady":
        text = "ranks and the efficiencies of ranks refer to the whole trace, all other figures to the steady steps."
        told.append(Note("ranks_of_whole", text))
    if len(analysed.trace.lanes) > 1:
        text = f"Shares refer to the time of {count_text(len(analysed.trace.lanes), 'device')} together."
        told.append(Note("several_devices", text))
    if set_by := clocks(analysed.trace.workload).note:
        told.append(Note("clocks", set_by))
    if analysed.trace.unusable:
        text = f"Skipped {count_text(analysed.trace.unusable, 'event')} without usable times."
        told.append(Note("unusable_events", text))
    return told


def _one_gap(analysed: Timeline) -> list[Note]:
    """A note if a single gap takes most of the window."""
    gap = max((gap for gap, _ in analysed.gaps), key=lambda gap: gap.inside, default=None)
    share = 100 * gap.inside / max(analysed.wall_ns, 1) if gap else 0.0
    if gap is None or share < rules().limits.one_gap_pct or gap.cause in ("start_up", "shut_down"):
        return []
    at = (gap.start - analysed.trace.whole.start) / 1e6
    text = (
        f"A single gap of {gap.ns / 1e6:.4g} ms, {at:.4g} ms from the start, is {share:.0f} % of the window: a pause "
        "or a clock that jumped. Request a range without it."
    )
    return [Note("one_gap", text)]


def _unknown(analysed: Timeline) -> list[Note]:
    """A note if the profile has no host calls, which limits what is known."""
    if analysed.trace.calls:
        return []
    own = analysed.trace.workload
    text = "The profile contains no host calls, so the causes of idle time are unknown."
    if not has_timeline(own):
        text += (
            " It contains launches only: idle time may include copies and fills. Record them with "
            "profile_command(metrics=['timeline']) or rocprofv3 --sys-trace."
        )
        if own.manifest.counters:
            text += (
                " Counters were collected: profilers then run kernels one by one and add overhead between them, so "
                "the busy share is a lower bound."
            )
    return [Note("no_host_calls", text)]


def _next(analysed: Timeline) -> list[NextCall]:
    """Suggest the next calls, built from ids and closed sets only."""
    own = analysed.trace.workload
    picture = next_call("plot", "devices and gaps by cause", kind="timeline", workload=own.id)
    if analysed.verdict.height != "gpu":
        return [picture]
    if own.manifest.dispatches:
        why = "the GPU is the limit: shows what limits its kernels"
        return [next_call("diagnose_bottleneck", why, workload=own.id), picture]
    return [picture]


def _pct(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 2) if whole else None
