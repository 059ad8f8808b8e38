"""The verdict on the whole application: without which part of the system (``height``) it would gain most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated

from ..base.digits import digits
from ..base.text import MOST_OF_TIME, gain_text
from ..catalogue.thresholds import threshold
from ..store.manifest import PcieLink
from .activity_tables import Row
from .busy import Busy
from .idle import Idle
from .rules import GainKind, rules
from .rules import HeightName as HeightName
from .trace import Trace, has_timeline
from .wording import sentence

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
    share_pct: Annotated[float, digits(".2f")]
    claim: str
    speedup_bound: Annotated[float | None, digits(".4g")]
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
    share_pct: Annotated[float | None, digits(".2f")]
    speedup_bound: Annotated[float | None, digits(".4g")]


def shares(busy: Mapping[int, Busy], idle: Sequence[Idle]) -> dict[HeightName, float]:
    """Return the share of the wall time in % of each height, over the time of all lanes, without double counting.

    For communication the lane with the largest share counts, because a device that waits for others does not delay
    them.
    """
    total = sum(busy.values(), Busy(0))
    wall = max(total.wall, 1)
    shares_by_height: dict[HeightName, float] = dict.fromkeys(HEIGHTS, 0.0) | {
        "gpu": 100 * total.computing / wall,
        "copies": 100 * total.exposed_copies / wall,
        "communication": _most_communication(busy),
    }
    for each in idle:
        if height := rules().causes[each.cause].height:
            shares_by_height[height] += 100 * each.ns / wall
    return shares_by_height


def _most_communication(busy: Mapping[int, Busy]) -> float:
    """Return the largest share of exposed communication in the time of a lane, in %."""
    return max((100 * b.exposed_communication / max(b.wall, 1) for b in busy.values()), default=0.0)


@dataclass(frozen=True)
class JudgedWindow:
    """What a verdict refers to, and what is known about it besides busy and idle times."""

    text: str
    """The window as it appears in claims, such as ``the whole trace (474 ms)``."""
    evidence: Mapping[HeightName, list[str]]
    expected: Mapping[str, float]
    """What a change of one kind is expected to save, in % of the wall time (see ``gains``)."""
    saved: Callable[[HeightName], float | None] = lambda _: None
    """The share of the wall time in % that a replay without a height saves; None if none shows it."""
    waits: int = 0
    """How often the host waits for the device within steps, beyond once in each."""
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
    noise, unknown, ends, unexplained = (
        sum(100 * i.ns / wall for i in idle if i.cause in causes)
        for causes in (("queued", "profiler"), ("unknown",), ("start_up", "shut_down"), ("waiting",))
    )
    # If no device had to wait for another, all would end together, after the mean of their other work.
    most = _most_communication(busy)
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
        replayed = window.saved(name)
        # What is charged to a height vanishes with it, also where the replay does not show that.
        charged = gone[name] + _recorded_launches(name, share)
        most = gone[name] + _spare(name, share, noise) if replayed is None else max(charged, replayed)
        findings.append(_finding(trace, name, Savings(share[name], most, window.expected), window))
    if unknown > weight[first] or not weight[first]:
        without_cause = _finding(trace, "unknown", Savings(unknown, 0.0, {}), window)
        return ApplicationVerdict("unknown", 0.0, None, None), [*([without_cause] if unknown else []), *findings]
    gap = weight[first] / weight[second] if weight[second] else _CLEAR
    confidence = min(_MOST, 0.5 + 0.5 * (gap - 1) / (_CLEAR - 1)) * (1 - unknown / 100) * (1 - ends / 100)
    if not has_timeline(trace.workload):
        confidence = min(confidence, limits.launches_alone)
    # What saves more may still be the smaller part of the time; a trace may not show what work waited for.
    if share["gpu"] > share[first] or (first == "waiting" and 2 * unexplained > share[first]):
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
    texts = rules().heights[name]
    advice = []
    for line in texts.advice_lines(trace.workload.manifest.vendor, trace.of_torch):
        if line.after and window.waits:
            # First what enables it, because the host waits within a step.
            first = rules().heights[line.after].advice_lines(trace.workload.manifest.vendor, trace.of_torch)[0]
            advice.append(replace(first, gain=None))
            line = replace(line, text=sentence("not_before", text=line.text, waits=window.waits))
        advice.append(line)
    return ApplicationFinding(
        name,
        savings.share,
        texts.claim.format(share=savings.share, window=window.text),
        # A timeline does not show how much faster kernels could become.
        None if name in ("gpu", "unknown") else savings.bound,
        window.evidence.get(name, []),
        [line.text + savings.gain(line.gain).text for line in advice],
        texts.falsify,
        [savings.gain(line.gain) for line in advice],
    )


_MOST_WORKERS = 64
"""More workers than a host usually has cores for are not mentioned."""
_FEW_GAPS = 10
"""With fewer gaps than this, their mean length is not reliable."""


@dataclass(frozen=True)
class AdviceGain:
    """How many times as fast the program can become: at most, and as expected from what was measured; None: unknown."""

    upper: Annotated[float | None, digits(".4g")] = None
    expected: Annotated[float | None, digits(".4g")] = None

    @property
    def text(self) -> str:
        """The gain as a clause in parentheses with a leading space; empty if nothing is known."""
        text = gain_text(self.expected, self.upper)
        return f" ({text})" if text else ""


@dataclass(frozen=True)
class _WorkersGain(AdviceGain):
    """The gain of advice that several workers follow; its bound is that of one."""

    several: str = ""
    """What several of them reach, as text."""

    @property
    def text(self) -> str:
        """The gain with one worker and with several."""
        text = super().text
        return f"{text[:-1]} with one worker{self.several})" if text else ""


@dataclass(frozen=True)
class Savings:
    """What advice for one height can save, in % of the wall time.

    ``share`` is the time of the height, ``saved`` what vanishes at most without it, and ``expected`` what remains of
    that after a change of one kind, as far as the trace and the machine tell.
    """

    share: float
    saved: float
    expected: Mapping[str, float]

    @property
    def bound(self) -> float | None:
        """The speed-up if everything that may vanish does; None if nothing would remain."""
        return speedup(self.saved)

    def gain(self, kind: GainKind | None) -> AdviceGain:
        """Return the gain of advice of one kind."""
        if kind is None:
            return AdviceGain()
        upper = self.bound
        if kind in ("overlap", "workers"):
            hidden = speedup(min(self.share, 100 - self.share))
            upper = hidden if upper is None or hidden is None else min(upper, hidden)
        expected = speedup(self.expected[kind]) if kind in self.expected else None
        if kind != "workers":
            return AdviceGain(upper, expected)
        workers = ceil(self.share / max(100 - self.share, 1e-9))
        if not 1 < workers <= _MOST_WORKERS:
            return _WorkersGain(upper, expected)
        hidden = 100 / (100 - self.share)
        reached = f"x {hidden:.3g}" if hidden <= MOST_OF_TIME else "most of its time"
        return _WorkersGain(upper, expected, f", {reached} with {workers}")


def speedup(saved_pct: float) -> float | None:
    """Return the speed-up if this share of the wall time is saved; None if nothing would remain."""
    return None if saved_pct >= 100 else 100 / (100 - saved_pct)


def expected_from_pinning(copies: Sequence[Row], link: PcieLink | None, wall: int) -> dict[str, float]:
    """Return, under ``pin``, what copies from pinned instead of pageable memory would save in % of the wall time.

    It is known if the link is, and if the copies are large enough to use it.
    """
    limits = rules().limits
    slow = [
        row
        for row in copies
        if row["host_memory"] == "pageable" and row["gbs"] and row["bytes"] >= limits.large_copy_bytes * row["copies"]
    ]
    if link is None or not slow:
        return {}
    saved = sum(row["ns"] * max(0.0, 1 - row["gbs"] / (limits.pinned * link.gbs)) for row in slow)
    return {"pin": 100 * saved / max(wall, 1)}


def expected_from_graphs(idle: Sequence[Idle], wall: int) -> dict[str, float]:
    """Return, under ``graph``, what launching everything as a graph would save in % of the wall time.

    The gaps at launches would become as long as those between queued operations of this trace, if it has any.
    """
    by_cause = {each.cause: each for each in idle}
    queued = next((by_cause[c] for c in ("graph_nodes", "queued") if c in by_cause), None)
    if queued is None or queued.gaps < _FEW_GAPS or "launch" not in by_cause:
        return {}
    launch = by_cause["launch"]
    return {"graph": 100 * max(0.0, launch.ns - launch.gaps * queued.ns / queued.gaps) / max(wall, 1)}
