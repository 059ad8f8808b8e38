"""The complete analysis of one timeline, which answers where the wall time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ..base.digits import digits
from ..base.problems import BadInput
from ..base.text import count_text, short_time
from ..catalogue.thresholds import threshold
from ..store.manifest import PcieLink
from ..workload import Workload
from . import activity_tables, host_activity, idle, verdict
from .activity_tables import Row
from .busy import Busy, ProgramCeiling, Within, busy, program_ceiling
from .collectives import collectives
from .doubts import TraceDoubt, doubts
from .heights import Heights
from .host_findings import HostFindings, host_findings
from .idle import Gap, Idle
from .operators import Operators, operators
from .phases import phases
from .rules import HeightName, rules
from .slow_rank import Balance, LateRank, add_rank_advice, balance, device_evidence, late_rank, rank_evidence
from .steps import STEPS_COVER, Steps, repetitions
from .trace import BLOCKING, NONE, Trace, Window, has_timeline
from .trace_loading import prepare
from .verdict import (
    AdviceGain,
    ApplicationFinding,
    ApplicationVerdict,
    JudgedWindow,
    expected_from_graphs,
    expected_from_pinning,
)
from .windows import Selected, select_windows
from .wording import sentence

_GAPS, _FEW_GAPS = 30, 3
"""The number of longest gaps per cause for which host activity is looked up; fewer if there are many host calls."""
_MANY = 1_000_000
_NAMED = 3
_TRIED = 3
_LONG_NAME = 80
_SMALL_PART = threshold("timeline.small_part_of_trace")


@dataclass(frozen=True)
class TimelineRequest:
    """A request: the number of rows per table, ranges by name, and whether to skip the warm-up."""

    top_n: int = 5
    range: str | None = None
    steady: bool = True


@dataclass
class Timeline:
    """The analysis of one timeline; times in ns. The figures refer to ``windows``, only ``whole`` to the full trace."""

    trace: Trace
    windows: Sequence[Window]
    whole: Busy
    """The sum over all lanes, from the first event to the last."""
    lanes: Mapping[int, Busy]
    """The times within the windows, by the number of the lane."""
    steps: Steps | None
    """What repeats in the program, also if it does not stand for it."""
    phases: Sequence[dict[str, Any]]
    """What the program's ranges state of its phases, such as prefill and decode, within the windows."""
    selected: Selected
    """How the windows were chosen."""
    causes: list[tuple[Idle, host_activity.Doing]]
    """The causes of idle time with the host activity during their longest gaps."""
    gaps: list[tuple[Gap, host_activity.Doing]]
    edges: list[tuple[Gap, host_activity.Doing]]
    """The time before the first and after the last device work, with what the host does then."""
    all_gaps: idle.Gaps
    by_launch: bool
    """Whether the windows are the times in which devices do what requested ranges launched."""
    kernels: list[Row]
    total_kernels: int
    copies: list[Row]
    figures: list[Row]
    ranges: list[Row]
    operators: Operators
    """The operators of PyTorch whose work begins in the windows; empty if the trace has no shapes."""
    collectives: Sequence[dict[str, Any]]
    """The collectives that begin in the windows, where PyTorch stated them."""
    balance: Balance | None
    """The balance of the ranks; None unless there are several."""
    late: LateRank | None
    """Why the others wait for the late rank, if one stands out."""
    host: HostFindings | None
    """The code of the host that the devices wait for within the windows, if any was recorded."""
    doubts: Sequence[TraceDoubt]
    verdict: ApplicationVerdict = field(init=False)
    findings: list[ApplicationFinding] = field(init=False)

    @property
    def total(self) -> Busy:
        """The sum over all lanes within the windows."""
        return sum(self.lanes.values(), Busy(0))

    @property
    def wall_ns(self) -> int:
        """The total length of the windows in ns."""
        return sum(w.ns for w in self.windows)

    @property
    def edges_ns(self) -> tuple[int, int]:
        """The time of the trace before the first device work, or before the steps that are the window, and after the
        last device work, in ns."""
        work, whole = self.trace.work_span, self.trace.whole
        start = work.start
        if self.selected == "steady" and self.steps:
            start = self.steps.starts[0 if self.steps.certain else self.steps.warm_up]
        return start - whole.start, whole.end - work.end

    @property
    def own_claim(self) -> str:
        """The claim of the verdict, without the code that it names."""
        first = self.findings[0]
        code = self.host.claim(first.height) if self.host else ""
        return first.claim.removesuffix(code).rstrip()

    @property
    def idle_pct(self) -> float:
        """The share of the devices' time in which nothing runs, in %."""
        return 100 * self.total.idle / max(self.total.wall, 1)


def timeline(workload: Workload, asked: TimelineRequest = TimelineRequest()) -> Timeline:
    """Analyse the timeline of a workload.

    Raises BadInput if the workload has no timeline, and NotFound if the requested range does not exist.
    """
    trace = prepare(workload)
    division = repetitions(trace)
    selection = select_windows(trace, division, asked.range, steady=asked.steady)
    windows = selection.windows
    within = Within(windows)
    over_all = busy(trace, Within([trace.whole]))
    whole = sum(over_all.values(), Busy(0))
    lanes = busy(trace, within)
    all_gaps = idle.find(trace, within)
    by_cause, longest = all_gaps.causes, all_gaps.longest(asked.top_n)
    per_cause = _GAPS if trace.calls <= _MANY else _FEW_GAPS
    groups = [[gap] for gap in longest]
    groups += [all_gaps.longest(per_cause, each.cause) if each.gaps else [] for each in by_cause]
    edges = _edges(trace)
    *done, start, end = host_activity.doing(trace, [*groups, *([edge] for edge in edges)])
    gaps = list(zip(longest, done, strict=False))
    causes = list(zip(by_cause, done[len(longest) :], strict=True))
    kernels, total_kernels = activity_tables.kernels(trace, within, asked.top_n, selection.requested)
    ranks = balance(trace, lanes, windows) if asked.range else balance(trace, over_all, [trace.whole])
    doubted = doubts(trace)
    made = Timeline(
        trace,
        windows,
        whole,
        lanes,
        division,
        _phases_within(trace, windows),
        selection.selected,
        causes,
        gaps,
        [(edge, did) for edge, did in zip(edges, (start, end), strict=True) if edge.ns > 0],
        all_gaps,
        selection.requested is not None,
        kernels,
        total_kernels,
        activity_tables.copies(trace, within),
        _doubted_figures(activity_tables.figures(trace, within, lanes), doubted),
        activity_tables.ranges(trace, windows, asked.top_n),
        operators(trace, windows),
        collectives(trace, windows),
        ranks,
        late_rank(workload, ranks),
        host_findings(trace, windows),
        doubted,
    )
    made.verdict, made.findings = _judge(made, selection.apart)
    return made


def _judge(made: Timeline, apart: Window | None) -> tuple[ApplicationVerdict, list[ApplicationFinding]]:
    """Return the verdict and the findings on the windows; ``apart`` is another window that tells another story."""
    about = JudgedWindow(
        _window_text(made),
        _evidence(made),
        _expected_savings(made),
        Heights(made.trace, made.windows, made.host).saved_pct,
        _inner_waits(made),
        made.balance.uneven_pct if made.balance and made.late else 0.0,
    )
    judged, findings = verdict.judge(made.trace, made.lanes, [cause for cause, _ in made.causes], about)
    judged = verdict.cap_confidence(judged, {doubt.of for doubt in made.doubts})
    if apart or _is_small_part(made):
        judged = replace(judged, confidence=min(judged.confidence, rules().limits.doubted))
    if apart:
        findings = _with_other_story(made, findings, apart)
    return judged, _with_code(add_rank_advice(findings, made.balance, made.late), made.host)


def _with_code(findings: list[ApplicationFinding], host: HostFindings | None) -> list[ApplicationFinding]:
    """Return the findings with the code that causes the idle time of each, before the other evidence and advice."""
    return [_name_code(finding, host) if host and host.rows(finding.height) else finding for finding in findings]


def _name_code(finding: ApplicationFinding, host: HostFindings) -> ApplicationFinding:
    # What is usual for the host says less than what fits the code that is named.
    unknown = [AdviceGain()] * len(finding.advice)
    usual = [] if finding.height == "host" else list(zip(finding.advice, finding.gains or unknown, strict=True))
    texts, gains = zip(*host.advice(finding.height), *usual, strict=True)
    claim = f"{finding.claim} {host.claim(finding.height)}"
    evidence = [*host.evidence(finding.height), *finding.evidence]
    return replace(finding, claim=claim, evidence=evidence, advice=texts, gains=gains)


def _phases_within(trace: Trace, windows: Sequence[Window]) -> list[dict[str, Any]]:
    """Return the phases whose work begins in the windows; without known work, those that begin there on the host."""
    begun = [
        (each, each["start_ns"] if each["device_start_ns"] is None else each["device_start_ns"])
        for each in phases(trace)
    ]
    return [each for each, start in begun if any(w.start <= start < w.end for w in windows)]


def _doubted_figures(figures: list[Row], doubted: Sequence[TraceDoubt]) -> list[Row]:
    """Return the figures, which are suspect if events are missing."""
    lost = ", ".join(doubt.code for doubt in doubted if doubt.of == "events")
    reason = f"the trace is incomplete ({lost})"
    return [f | {"status": "suspect", "reason": reason} if lost and f["status"] == "ok" else f for f in figures]


def _expected_savings(made: Timeline) -> dict[str, float]:
    """Return what changes of one kind are expected to save, in % of the wall time."""
    wall, causes = made.total.wall, [cause for cause, _ in made.causes]
    link = made.trace.workload.manifest.link
    return expected_from_pinning(made.copies, link, wall) | expected_from_graphs(causes, wall)


def _inner_waits(made: Timeline) -> int:
    """Return how often calls that return within the windows wait for work of the devices, beyond once for each step."""
    within, code, ends, waits = Within(made.windows), BLOCKING.index("synchronisation"), np.sort(made.trace.work.e), 0
    for blocks in made.trace.blocks.values():
        mine = (blocks.cls == code) & (within.ns(blocks.e - 1, blocks.e) > 0)
        begun, ended = (np.searchsorted(ends, at[mine]) for at in (blocks.s, blocks.e))
        waits += int((ended > begun).sum())
    return max(0, waits - (made.steps.count if made.selected == "steady" and made.steps else 1))


def _window_text(made: Timeline) -> str:
    """Return the window as it appears in claims, with the time before and after it that is not part of it."""
    whole, counts = made.trace.whole, made.selected in ("steady", "work")
    least = rules().limits.start_up_pct / 100 * whole.ns
    edges = zip(("before that", "after it"), made.edges_ns, strict=True)
    ends = [f"{short_time(ns)} {at}" for at, ns in edges if counts and ns > least]
    needs = f"; the program needs {' and '.join(ends)}" if ends else ""
    return f"{_window_name(made)} ({short_time(made.wall_ns, 4)}{needs})"


def _window_name(made: Timeline) -> str:
    names = {
        "range": count_text(len(made.windows), "range"),
        "work": "the time between its first and last work",
        "whole": "the whole trace",
    }
    if made.selected == "steady" and made.steps:
        return count_text(made.steps.count, "steady step" if made.steps.certain else "repetition")
    return names[made.selected]


def _edges(trace: Trace) -> list[Gap]:
    """Return the time before the first and after the last device work."""
    work, span, whole = trace.work, trace.work_span, trace.whole
    ends = (
        ("start_up", work.s.argmin(), Window(whole.start, span.start)),
        ("shut_down", work.e.argmax(), Window(span.end, whole.end)),
    )
    return [
        Gap(trace.lanes[0].number, *window, cause, None if (pid := work.pid[at]) == NONE else int(pid), window.ns)
        for cause, at, window in ends
    ]


def _is_small_part(made: Timeline) -> bool:
    """Whether the windows are so small a part of the trace, or repetitions of the time of work, that a verdict on them
    may not be one on the program."""
    span, whole = made.trace.work_span, made.trace.whole
    if made.selected == "steady" and made.steps and not made.steps.named:
        return made.wall_ns < STEPS_COVER * span.ns
    return made.selected == "work" and made.wall_ns < _SMALL_PART * whole.ns


def _with_other_story(made: Timeline, findings: list[ApplicationFinding], apart: Window) -> list[ApplicationFinding]:
    """Return the findings with the claim for the window ``apart`` after the first claim."""
    division, (first, *others) = made.steps, findings
    assert division is not None
    within = Within([apart])
    if made.selected == "steady":
        name = "the time between its first and last work"
        part = f"The steps take {100 * made.wall_ns / max(within.wall, 1):.3g} % of that time."
    else:
        name = f"{count_text(division.count, division.noun)} of {_cut_name(division.name)!r}"
        part = f"They take {100 * within.wall / max(made.wall_ns, 1):.3g} % of that time."
    about = JudgedWindow(f"{name} ({short_time(within.wall, 4)})", {}, {})
    _, other = verdict.judge(made.trace, busy(made.trace, within), idle.find(made.trace, within).causes, about)
    return [replace(first, claim=f"{first.claim} {other[0].claim} {part}"), *others]


@dataclass(frozen=True)
class Application:
    """A summary of the verdict on the whole application, to be read before examining kernels."""

    height: HeightName
    confidence: float
    share_pct: Annotated[float, digits(".1f")]
    gpu_idle_pct: Annotated[float, digits(".1f")]
    claim: str
    speedup_bound: Annotated[float | None, digits(".3g")]
    advice: Sequence[str] = ()
    """What to try first, with the gain of the program."""
    edges: str | None = None
    """A sentence on start-up, imports and the end, if the code of the host was recorded."""
    late_rank: int | None = None
    """The rank that the others wait for; None if waits do not show one."""
    ceiling: ProgramCeiling | None = None
    """How close the program is to what its kernels could reach; None if no roofs were given."""

    @property
    def kernels_come_second(self) -> bool:
        """Whether the device is idle for so long that reducing idle time matters more than tuning kernels."""
        return self.height != "gpu" and self.gpu_idle_pct >= rules().limits.idle_first_pct


def application(workload: Workload, roofs: Mapping[str, float] | None = None) -> Application | None:
    """Return what takes the wall time; None if the workload has no timeline or the timeline does not show it.

    ``roofs`` are the least times of kernels as shares of their run time (``rooflines.limits.roof_shares``).
    """
    analysed = device_timeline(workload)
    return None if analysed is None else summary(analysed, roofs)


def device_timeline(workload: Workload) -> Timeline | None:
    """Return the analysis of the timeline; None if the workload has none with work of a device."""
    if not has_timeline(workload):
        return None
    try:
        return timeline(workload, TimelineRequest(top_n=1))
    except BadInput:  # the timeline contains host events only
        return None


def summary(analysed: Timeline, roofs: Mapping[str, float] | None = None) -> Application | None:
    """Return what takes the wall time of a timeline, as ``application`` does."""
    judged = analysed.verdict
    if judged.height == "unknown" or judged.share_pct is None:
        return None
    advice = list(analysed.findings[0].advice)
    if analysed.host and judged.height != "gpu":  # the code that costs most, whatever it makes the devices wait for
        advice = [text for text, _ in analysed.host.advice(None)] or advice
    doubted = any(doubt.of in ("busy", "events") for doubt in analysed.doubts)
    return Application(
        judged.height,
        judged.confidence,
        judged.share_pct,
        analysed.idle_pct,
        analysed.findings[0].claim,
        judged.speedup_bound,
        advice[:_TRIED],
        analysed.host.edges_text() if analysed.host else None,
        analysed.balance.last.rank if analysed.balance and analysed.balance.last else None,
        None if roofs is None else program_ceiling(analysed.trace, analysed.windows[0], roofs, doubted=doubted),
    )


def _evidence(made: Timeline) -> dict[HeightName, list[str]]:
    """Return the sentences of evidence for each height."""
    evidence: dict[HeightName, list[str]] = defaultdict(list)
    total, wall = made.total, max(made.total.wall, 1)
    figure = {f["figure"]: f["value"] for f in made.figures if f["status"] == "ok"}
    for cause, doing in made.causes:
        height = rules().causes[cause.cause].height
        if height and 100 * cause.ns / wall >= 1:
            evidence[height].append(_idle_cause_text(cause, doing, wall))
    brief, launching = figure.get("kernels_below_10us_pct"), []
    if figure.get("launch_bound_index") is not None:
        launching.append(sentence("launch_bound", figure=figure))
    if brief is not None and brief >= 50:
        launching.append(sentence("brief_kernels", share=brief))
    evidence["launch"] += launching
    evidence["gpu"] += launching
    link = made.trace.workload.manifest.link
    large = [row for row in made.copies[:_NAMED] if 100 * row["ns"] / wall >= 1]
    # The time that copies of one direction cost is known only if no copy overlaps a kernel.
    apart = len(large) > 1 and not total.overlapped_copies
    for copied in large:
        known = apart and copied["ns"] < wall
        without = sentence("without_copies", factor=wall / (wall - copied["ns"])) if known else ""
        evidence["copies"].append(_copy_text(copied, wall, link) + without)
    computing = [k for k in made.kernels if not k["communication"]][:2]
    evidence["gpu"] += [sentence("kernel_share", kernel=k, name=_cut_name(k["kernel"])) for k in computing]
    communication = evidence["communication"]
    communication += rank_evidence(made.balance, made.late) if made.balance else []
    if total.communication:
        alone = total.exposed_communication / wall
        communication.append(sentence("communication", share=total.communication / wall, alone=alone))
    if not made.balance:
        communication += device_evidence(made.trace, made.lanes)
    return evidence


def _idle_cause_text(idle: Idle, doing: host_activity.Doing, wall: int) -> str:
    """A sentence on one cause of idle time."""
    text = sentence("idle_cause", idle=idle, share=idle.ns / wall)
    if idle.gaps:
        text += sentence("idle_gaps", idle=idle)
    if doing.range:
        text += f", in {_cut_name(doing.range)}"
    if doing.operations:
        operations = [sentence("operation", name=_cut_name(name), ns=ns) for name, ns in doing.operations]
        text += sentence("main_operations", operations=operations)
    return text


def _copy_text(row: Row, wall: int, link: PcieLink | None) -> str:
    memory, moved, gbs, limits = row["host_memory"], row["bytes"], row["gbs"], rules().limits
    side = f", {memory or 'unknown type of host memory'}" if row["direction"] in ("h2d", "d2h") else ""
    several = row["copies"] > 1
    rate = sentence("copy_rate" if several else "copy_rate_once", row=row) if gbs else ""
    size = "" if moved is None else sentence("copy_sizes" if several else "copy_size", mb=moved / 1e6)
    large = moved is not None and moved >= limits.large_copy_bytes * row["copies"]
    slow = ""
    if link and gbs and side and large and gbs < limits.slow_link * link.gbs:
        pinned = "" if memory == "pinned" else sentence("copy_pinned", gbs=limits.pinned * link.gbs)
        slow = sentence("copy_slow", link=link, pinned=pinned)
    return sentence("copies", row=row, share=row["ns"] / wall, side=side, size=size, rate=rate, slow=slow)


def _cut_name(name: str) -> str:
    return name if len(name) <= _LONG_NAME else f"{name[: _LONG_NAME - 3]}..."
