"""compute_timeline: where the wall time of a program goes, why the GPU is idle, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..analysis.base.notes import Note
from ..analysis.base.text import count_text, figure
from ..analysis.catalogue.thresholds import threshold
from ..analysis.store.store import Store
from ..analysis.tables.gaps import describe_gaps
from ..analysis.timeline.activity_tables import measured
from ..analysis.timeline.busy import Busy
from ..analysis.timeline.host_clocks import clocks
from ..analysis.timeline.host_findings import HostFindings, callers, place
from ..analysis.timeline.host_limits import host_limits
from ..analysis.timeline.idle import Idle
from ..analysis.timeline.rules import rules
from ..analysis.timeline.slow_rank import Balance
from ..analysis.timeline.steps import named_range
from ..analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from ..analysis.timeline.trace import has_timeline, lane_name
from ..analysis.timeline.verdict import ApplicationFinding, ApplicationVerdict
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.roofline_summary import in_ms, operator_table, phase_table
from .answers.sentences import note, sentence
from .answers.stored_answers import stored_answer
from .answers.tables import Row, declared_tables, table_from
from .answers.verdict_text import finding_blocks, timeline_answer
from .base.parameters import Reference
from .base.results import NextCall, Result, Table, TextBlock

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
_DEVICE_PARTS = ("computing", "communication", "exposed_communication", "copies", "idle")
"""The parts whose shares are shown for each device, by the attribute of Busy."""
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
        tables = {name: getattr(self, name) for name in _TABLES} | self.tables
        shown = [TextBlock(name, table) for name, table in tables.items() if table.rows]
        return [TextBlock("", about), *finding_blocks(self.findings), *shown]


def compute_timeline(
    store: Store,
    workload: Reference = "latest",
    top_n: int = 5,
    range: Reference | None = None,
    steady: bool = True,
) -> TimelineResult:
    """Where the wall time goes: GPU busy, copies, overlap, idle by cause (launch, host, ...) and host code, verdict on
    the application. Call it before examining kernels."""
    request = TimelineRequest(top_n, range, steady)
    with Workload.open(store, workload) as opened:
        if range is not None:  # of which there are too many to store them all
            return _answer(opened, request)
        arguments = {"top_n": top_n, "steady": steady}
        return stored_answer(opened, TimelineResult, arguments, lambda: _answer(opened, request))


def _answer(opened: Workload, request: TimelineRequest) -> TimelineResult:
    analysed, top_n = timeline(opened, request), request.top_n
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
        verdict=analysed.verdict,
        findings=[_shorten_finding(f, first=f is analysed.findings[0]) for f in analysed.findings],
        split=_split(analysed.whole, total),
        edges=table_from("edges", [{"gap": gap, "doing": doing} for gap, doing in analysed.edges]),
        idle=table_from("idle", [_idle(cause, total.wall) | {"doing": doing} for cause, doing in analysed.causes]),
        code=_code(analysed.host, top_n),
        phases=phase_table(analysed.phases, top_n),
        copies=table_from("copies", analysed.copies),
        figures=table_from("timeline_figures", [*analysed.figures, *_efficiencies(analysed.balance)]),
        devices=_devices(analysed, top_n),
        ranks=_ranks(analysed.balance, top_n),
        kernels=table_from("timeline_kernels", analysed.kernels, analysed.total_kernels),
        operators=operator_table(analysed.operators, top_n),
        collectives=table_from("collectives", analysed.collectives[:top_n], len(analysed.collectives)),
        ranges=table_from("range_sums", analysed.ranges),
        gaps=_gaps(analysed),
        tables=declared_tables("compute_timeline", opened, top_n),
        notes=[each.text for each in _notes(analysed)],
        next=[*_next(analysed)],
    )


def _shorten_finding(finding: ApplicationFinding, first: bool) -> ApplicationFinding:
    """All findings but the first are shortened to their main evidence and advice."""
    if not any(gain.upper is not None for gain in finding.gains):
        finding = replace(finding, gains=[])
    if first:
        return finding
    return replace(
        finding, evidence=finding.evidence[:2], advice=finding.advice[:1], gains=finding.gains[:1], falsify=None
    )


def _split(whole: Busy, within: Busy) -> Table:
    """Each part within the window and over the whole trace; parts overlap only where their names say so."""
    rows = []
    for part, name in _PARTS.items():
        ns, whole_ns = getattr(within, name), getattr(whole, name)
        if ("communication" not in name or whole.communication) and (name != "fills" or whole.fills):
            shares = {"share": _pct(ns, within.wall), "whole_share": _pct(whole_ns, whole.wall)}
            rows.append({"part": part, "ns": ns, "whole_ns": whole_ns} | shares)
    return table_from("split", rows)


def _idle(idle: Idle, wall: int) -> Row:
    """Return the row of a cause of idle time; without gaps there is no longest one."""
    return {"idle": idle, "longest": idle if idle.gaps else None, "share": _pct(idle.ns, wall)}


def _code(host: HostFindings | None, top_n: int) -> Table:
    rows = []
    for row in host.codes.rows[:top_n] if host else []:
        assert host is not None
        caller = callers(row).removeprefix(", called by ") or None
        share = _pct(row.idle_ns, host.wall_ns)
        rows.append({"row": row, "place": place(row.frame), "caller": caller, "share": share, "gain": host.gain(row)})
    return table_from("code", rows)


def _gaps(analysed: Timeline) -> Table:
    row = describe_gaps(analysed.trace)
    rows = [{**row(gap), "doing": doing} for gap, doing in analysed.gaps]
    return table_from("gaps", rows, sum(cause.gaps for cause, _ in analysed.causes))


def _efficiencies(ranks: Balance | None) -> list[Row]:
    """The efficiencies of the ranks, over the whole trace unless a range was requested."""
    if ranks is None:
        return []
    none = "nothing computes"
    apart = "no collective was found on all ranks"
    return [
        measured("load_balance_pct", ranks.load_balance_pct, "%", none),
        measured("communication_efficiency_pct", ranks.communication_efficiency_pct, "%", none),
        measured("parallel_efficiency_pct", ranks.parallel_efficiency_pct, "%", none),
        measured("slowest_rank_over_mean_pct", ranks.excess_pct, "%", none),
        measured("collective_wait_pct", ranks.waited_pct, "%", apart, "not_collected"),
    ]


def _ranks(ranks: Balance | None, top_n: int) -> Table:
    """The ranks with the longest computing times, then the one with the shortest."""
    ordered = sorted(ranks.rows, key=lambda r: -r.each_computes) if ranks else []
    shown = ordered if len(ordered) <= top_n + 1 else [*ordered[:top_n], ordered[-1]]
    rows = [
        {
            "row": r,
            "of_mean": _pct(r.each_computes, ranks.mean if ranks else 0.0),
            "of_kernels": _pct(r.communication, r.computing + r.communication),
        }
        for r in shown
    ]
    return table_from("rank_balance", rows, len(ordered))


def _devices(analysed: Timeline, top_n: int) -> Table:
    """All devices if there are few; otherwise those with the longest computing times and the one with the shortest."""
    lanes = list(analysed.trace.lanes)
    if len(lanes) > _MOST_DEVICES:
        lanes.sort(key=lambda lane: -analysed.lanes[lane.number].computing)
        lanes = [*lanes[:top_n], lanes[-1]]
    rows = []
    for lane in lanes:
        of = analysed.lanes[lane.number]
        shares = {part: _pct(getattr(of, part), of.wall) for part in _DEVICE_PARTS}
        rows.append({"lane": lane, "device": lane_name(lane.rank, lane.device)} | shares)
    return table_from("devices", rows, len(analysed.trace.lanes))


def _window(analysed: Timeline) -> str:
    if analysed.selected == "steady" and analysed.steps:
        return sentence("trace.steady", steps=count_text(analysed.steps.count, analysed.steps.noun))
    return sentence(f"trace.{analysed.selected}", count=len(analysed.windows))


def _steps(analysed: Timeline) -> str:
    division = analysed.steps
    if division is None:
        named = named_range(analysed.trace)
        return sentence("trace.one_step" if named else "trace.no_repetition", named=named)
    by = f"the repeating {division.by.removesuffix('s')} {division.name!r}"
    if not division.usable:
        return sentence("trace.uncovered", by=by, times=len(division.starts), covered=division.covered)
    steady, drift = division.steady_durations, division.drift_pct
    change = None if drift is None else "longer" if drift > 0 else "shorter"
    return sentence(
        "trace.steps",
        whole=count_text(len(division.durations), f"whole {division.noun}"),
        division=division,
        by=by,
        least=min(steady),
        most=max(steady),
        certain="" if division.certain else sentence("trace.uncertain"),
        drift="" if drift is None else sentence("trace.drift", change=change, pct=abs(drift)),
    )


def _notes(analysed: Timeline) -> Iterator[Note]:
    """Yield the notes on the figures."""
    trace, limits = analysed.trace, rules().limits
    mean = next((f["value"] for f in analysed.figures if f["figure"] == "mean_kernel_us"), None)
    if analysed.verdict.height not in ("gpu", "unknown") and analysed.idle_pct >= limits.idle_first_pct:
        yield note("trace.idle_first", pct=analysed.idle_pct)
    if mean is not None and mean < _STRETCHED_US and trace.calls:
        yield note("trace.stretched")
    if not trace.calls:
        lacking = [] if has_timeline(trace.workload) else [sentence("trace.launches_only")]
        lacking += [sentence("trace.serialised")] if lacking and trace.workload.manifest.counters else []
        yield note("trace.no_host_calls", more="".join(lacking))
    yield from [Note(doubt.code, doubt.text) for doubt in analysed.doubts]
    gap = max((gap for gap, _ in analysed.gaps), key=lambda gap: gap.inside, default=None)
    share = gap.inside / max(analysed.wall_ns, 1) if gap else 0.0
    if gap and 100 * share >= limits.one_gap_pct and gap.cause not in ("start_up", "shut_down"):
        yield note("trace.one_gap", gap=gap, at=gap.start - trace.whole.start, share=share)
    yield from analysed.operators.notes
    yield from [Note("host_limits", text) for text in host_limits(trace.workload)] if analysed.host else []
    if analysed.selected in ("work", "whole") and not analysed.steps:
        yield note("trace.no_steps")
    ends = sum(gap.ns for gap, _ in analysed.edges) / max(trace.whole.end - trace.whole.start, 1)
    if 100 * ends >= limits.start_up_pct:
        yield note("trace.mostly_start", share=ends)
    if analysed.selected == "range":
        text = sentence("trace.launched_by_range" if analysed.by_launch else "trace.range_on_host")
        yield Note("range_time", text)
    if analysed.balance and analysed.selected == "steady":
        yield note("trace.ranks_of_whole")
    if len(trace.lanes) > 1:
        yield note("trace.several_devices", devices=len(trace.lanes))
    if set_by := clocks(trace.workload).note:
        yield Note("clocks", set_by)
    if trace.unusable:
        yield note("trace.unusable_events", count=trace.unusable)


def _next(analysed: Timeline) -> Iterator[NextCall]:
    """Suggest the next calls, built from ids and closed sets only."""
    own = analysed.trace.workload
    if analysed.verdict.height == "gpu" and own.manifest.dispatches:
        why = "the GPU is the limit: shows what limits its kernels"
        yield next_call("diagnose_bottleneck", why, workload=own.id)
    yield next_call("plot", "devices and gaps by cause", kind="timeline", workload=own.id)


def _pct(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None
