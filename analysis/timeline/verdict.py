"""The verdict on the whole application: without which part of the system (``height``) it would gain most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from ..catalogue.thresholds import threshold
from .busy import Busy
from .gains import AdviceGain, Savings
from .idle import Idle
from .rules import rules
from .trace import Trace, has_timeline

HeightName = Literal[
    "gpu", "launch", "host", "copies", "synchronisation", "allocation", "communication", "latency", "waiting", "unknown"
]  # fmt: skip
HEIGHTS: tuple[HeightName, ...] = (
    "gpu", "launch", "host", "copies", "synchronisation", "allocation", "communication", "latency", "waiting"
)  # fmt: skip
_OF_THE_HOST: tuple[HeightName, ...] = ("launch", "host", "synchronisation", "allocation")
_CLEAR = threshold("timeline.clear_ratio")
_MOST = threshold("timeline.most_confident")


@dataclass(frozen=True)
class ApplicationFinding:
    """A finding on one height: its share of the wall time in %, claim, evidence, advice and what would refute it.

    ``speedup_bound`` is the wall time divided by what remains of it if this share is removed and nothing else changes.
    """

    height: HeightName
    share_pct: float
    claim: str
    speedup_bound: float | None
    evidence: list[str] = field(default_factory=list)
    advice: Sequence[str] = ()
    falsify: str | None = None
    gains: Sequence[AdviceGain] = ()
    """The gain of each piece of advice, in the same order; empty if none is known."""


@dataclass(frozen=True)
class ApplicationVerdict:
    """The height whose removal can save most of the wall time.

    ``confidence`` is lower if another height is close, if host calls are missing, if start and end, which do not
    represent a longer run, have a large share, if times are in doubt, or if the trace does not show what queued work
    waited for.
    """

    height: HeightName
    confidence: float
    share_pct: float | None
    speedup_bound: float | None


def shares(busy: Mapping[int, Busy], idle: Sequence[Idle]) -> dict[HeightName, float]:
    """Return the share of the wall time in % of each height, over the time of all lanes, without double counting.

    For communication the lane with the largest share counts, because a device that waits for others does not delay
    them.
    """
    total = sum(busy.values(), Busy(0))
    wall = max(total.wall, 1)
    shares_by_height: dict[HeightName, float] = dict.fromkeys(HEIGHTS, 0.0)
    shares_by_height["gpu"] += 100 * total.computing / wall
    shares_by_height["copies"] += 100 * total.exposed_copies / wall
    shares_by_height["communication"] += max(
        (100 * b.exposed_communication / max(b.wall, 1) for b in busy.values()), default=0.0
    )
    for each in idle:
        height = rules().causes[each.cause].height
        for name in HEIGHTS:
            if name == height:
                shares_by_height[name] += 100 * each.ns / wall
    return shares_by_height


@dataclass(frozen=True)
class JudgedWindow:
    """What a verdict refers to, and what is known about it besides busy and idle times."""

    text: str
    """The window as it appears in claims, such as ``the whole trace (474 ms)``."""
    evidence: Mapping[HeightName, list[str]]
    expected: Mapping[str, float]
    """What a change of one kind is expected to save, in % of the wall time (see ``gains``)."""
    uneven_pct: float = 0.0
    """The share of the wall time that even ranks would save, if the slow rank is known."""


def judge(
    trace: Trace, busy: Mapping[int, Busy], idle: Sequence[Idle], window: JudgedWindow
) -> tuple[ApplicationVerdict, list[ApplicationFinding]]:
    """Return the verdict and the findings, the largest possible gain first.

    What even ranks would save is added to the weight of communication, because the other ranks wait there.
    """
    limits, share = rules().limits, shares(busy, idle)
    wall = max(sum(b.wall for b in busy.values()), 1)
    noise, unknown, ends = (
        sum(100 * i.ns / wall for i in idle if i.cause in causes)
        for causes in (("queued", "profiler"), ("unknown",), ("start_up", "shut_down"))
    )
    # If no device had to wait for another, all would end together, after the mean of their other work.
    most = max((100 * b.exposed_communication / max(b.wall, 1) for b in busy.values()), default=0.0)
    mean = 100 * sum(b.exposed_communication for b in busy.values()) / wall
    gone = share | {"communication": share["communication"] - most + mean}
    weight = {name: gone[name] + _recorded_launches(name, share) for name in HEIGHTS}
    weight["gpu"] *= limits.kernels_weigh
    weight["communication"] = share["communication"] + (window.uneven_pct if share["communication"] else 0.0)
    first, second, *_ = sorted(HEIGHTS, key=lambda name: -weight[name])
    findings = []
    for name in sorted(HEIGHTS, key=lambda name: (name != first, -weight[name])):
        if share[name] < limits.told_pct and name != first:
            continue
        saved = Savings(share[name], gone[name] + _spare(name, share, noise), window.expected)
        findings.append(_finding(trace, name, saved, window))
    if unknown > weight[first] or not weight[first]:
        return ApplicationVerdict("unknown", 0.0, None, None), findings
    gap = weight[first] / weight[second] if weight[second] else _CLEAR
    confidence = min(_MOST, 0.5 + 0.5 * (gap - 1) / (_CLEAR - 1)) * (1 - unknown / 100) * (1 - ends / 100)
    if not has_timeline(trace.workload):
        confidence = min(confidence, limits.launches_alone)
    if first == "waiting":
        confidence = min(confidence, limits.doubted)
    return ApplicationVerdict(first, round(confidence, 2), share[first], findings[0].speedup_bound), findings


def cap_confidence(judged: ApplicationVerdict, of: Set[str]) -> ApplicationVerdict:
    """Return the verdict with its confidence limited because of doubts about times.

    Doubts about busy times and missing events affect every verdict, those about causes of idle time only verdicts that
    rest on causes.
    """
    counts = bool(of & {"busy", "events"}) or ("causes" in of and judged.height not in ("gpu", "copies"))
    return replace(judged, confidence=min(judged.confidence, rules().limits.doubted)) if counts else judged


def _recorded_launches(name: HeightName, share: Mapping[HeightName, float]) -> float:
    """Return the part of the launches in % of the wall time that vanishes with waits and allocations.

    Launches take longer when the device has just run empty and when they are recorded; that part is small enough to
    vanish behind a device that is kept busy.
    """
    limits = rules().limits
    if name not in ("synchronisation", "allocation") or share["launch"] < limits.told_pct:
        return 0.0
    return limits.recorded_launch * share["launch"]


def _spare(name: HeightName, share: Mapping[HeightName, float], noise: float) -> float:
    """Return the additional share of the wall time in % that could be saved together with a height of the host.

    If the host runs ahead of the device, gaps between queued operations and the small other heights of the host vanish
    too. Launches and the host's own work can vanish together, for example with a graph. For other heights, the part of
    the launches that recording may have caused is added.
    """
    if name not in _OF_THE_HOST:
        return 0.0
    told_pct = rules().limits.told_pct
    lesser = sum(share[other] for other in _OF_THE_HOST if other != name and share[other] < told_pct)
    if name not in ("launch", "host"):
        return noise + lesser + _recorded_launches(name, share)
    with_it: HeightName = "host" if name == "launch" else "launch"
    return noise + lesser + (share[with_it] if share[with_it] >= told_pct else 0.0)


def _finding(trace: Trace, name: HeightName, savings: Savings, window: JudgedWindow) -> ApplicationFinding:
    """Return the finding on a height."""
    said = rules().heights[name]
    advice = said.advice_lines(trace.workload.manifest.vendor, trace.of_torch)
    return ApplicationFinding(
        name,
        savings.share,
        said.claim.format(share=savings.share, window=window.text),
        # A timeline does not show how much faster kernels could become.
        None if name == "gpu" else savings.bound,
        window.evidence.get(name, []),
        [text + savings.gain_text(kind) for text, kind in advice],
        said.falsify,
        [savings.gain(kind) for _, kind in advice],
    )
