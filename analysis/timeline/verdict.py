"""The verdict on the whole application: which part of the system (``height``) takes most of the wall time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from ..catalogue.thresholds import threshold
from .busy import Busy
from .idle import Idle
from .rules import rules
from .trace import Trace, has_timeline

HeightName = Literal["gpu", "launch", "host", "copies", "synchronisation", "allocation", "communication", "unknown"]
HEIGHTS: tuple[HeightName, ...] = (
    "gpu", "launch", "host", "copies", "synchronisation", "allocation", "communication"
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


@dataclass(frozen=True)
class ApplicationVerdict:
    """The height that takes most of the wall time.

    ``confidence`` is lower if another height is close, if host calls are missing, if start and end, which do not
    represent a longer run, have a large share, or if times are in doubt.
    """

    height: HeightName
    confidence: float
    share_pct: float | None
    speedup_bound: float | None


def shares(busy: Mapping[int, Busy], idle: Sequence[Idle], communicates: bool) -> dict[HeightName, float]:
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
        if height == "waiting":
            height = "communication" if communicates else "synchronisation"
        for name in HEIGHTS:
            if name == height:
                shares_by_height[name] += 100 * each.ns / wall
    return shares_by_height


def judge(
    trace: Trace,
    busy: Mapping[int, Busy],
    idle: Sequence[Idle],
    evidence: Mapping[HeightName, list[str]],
    uneven_pct: float = 0.0,
) -> tuple[ApplicationVerdict, list[ApplicationFinding]]:
    """Return the verdict and the findings, the largest first.

    ``uneven_pct`` is the share of the wall time that even ranks would save, if the slow rank is known. It is added to
    the weight of communication, because the other ranks wait for the slow one there.
    """
    limits, share = rules().limits, shares(busy, idle, trace.communicates)
    weight = {name: share[name] * (limits.kernels_weigh if name == "gpu" else 1.0) for name in HEIGHTS}
    weight["communication"] += uneven_pct if share["communication"] else 0.0
    first, second, *_ = sorted(HEIGHTS, key=lambda name: -weight[name])
    wall = max(sum(b.wall for b in busy.values()), 1)
    noise = sum(100 * i.ns / wall for i in idle if i.cause in ("queued", "profiler"))
    unknown = sum(100 * i.ns / wall for i in idle if i.cause == "unknown")
    ends = sum(100 * i.ns / wall for i in idle if i.cause in ("start_up", "shut_down"))
    # If no device had to wait for another, all would end together, after the mean of their other work.
    most = max((100 * b.exposed_communication / max(b.wall, 1) for b in busy.values()), default=0.0)
    mean = 100 * sum(b.exposed_communication for b in busy.values()) / wall
    gone = share | {"communication": share["communication"] - most + mean}
    findings = []
    for name in sorted(HEIGHTS, key=lambda name: (name != first, -weight[name])):
        if share[name] < limits.told_pct and name != first:
            continue
        saved = gone[name] + _spare(name, share, noise)
        advice = rules().heights[name].advice_lines(trace.workload.manifest.vendor, trace.of_torch)
        findings.append(_finding(name, share[name], saved, evidence.get(name, []), advice))
    if unknown > weight[first] or not weight[first]:
        return ApplicationVerdict("unknown", 0.0, None, None), findings
    gap = weight[first] / weight[second] if weight[second] else _CLEAR
    confidence = min(_MOST, 0.5 + 0.5 * (gap - 1) / (_CLEAR - 1)) * (1 - unknown / 100) * (1 - ends / 100)
    if not has_timeline(trace.workload):
        confidence = min(confidence, limits.launches_alone)
    return ApplicationVerdict(first, round(confidence, 2), share[first], findings[0].speedup_bound), findings


def cap_confidence(judged: ApplicationVerdict, of: Set[str]) -> ApplicationVerdict:
    """Return the verdict with its confidence limited because of doubts about times.

    Doubts about busy times affect every verdict, those about causes of idle time only verdicts that rest on causes.
    """
    counts = "busy" in of or ("causes" in of and judged.height not in ("gpu", "copies"))
    return replace(judged, confidence=min(judged.confidence, rules().limits.doubted)) if counts else judged


def _spare(name: HeightName, share: Mapping[HeightName, float], noise: float) -> float:
    """Return the additional share of the wall time in % that could be saved together with a height of the host.

    If the host runs ahead of the device, gaps between queued operations and the small other heights of the host vanish
    too. Launches and the host's own work can vanish together, for example with a graph. For other heights, the part of
    the launches that recording may have caused is added.
    """
    if name not in _OF_THE_HOST:
        return 0.0
    limits = rules().limits
    lesser = sum(share[other] for other in _OF_THE_HOST if other != name and share[other] < limits.told_pct)
    with_it: HeightName = "host" if name == "launch" else "launch"
    part = 1.0 if name in ("launch", "host") else limits.recorded_launch
    return noise + lesser + (part * share[with_it] if share[with_it] >= limits.told_pct else 0.0)


def _finding(name: HeightName, share: float, gone: float, evidence: list[str], advice: list[str]) -> ApplicationFinding:
    """Return the finding on a height; ``gone`` is the share of the wall time in % that could be saved at most."""
    said = rules().heights[name]
    # A timeline does not show how much faster kernels could become.
    bound = None if name == "gpu" or gone >= 100 else 100 / (100 - gone)
    return ApplicationFinding(name, share, said.claim.format(share=share), bound, evidence, advice, said.falsify)
