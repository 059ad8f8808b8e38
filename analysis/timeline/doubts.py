"""Doubts about a trace: clocks that differ, and records that are missing.

A profiler that runs out of buffers, records a sample or does not know a queue drops events without saying so. What is
missing shows in what is left: launches without work on the device, replays of a graph with fewer nodes than others,
devices that fall silent, and correlation ids that are far apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..base.text import first_few
from ..catalogue.thresholds import threshold
from .rules import rules
from .trace import COMMUNICATION, COMPUTE, EVICTED, NONE, PAGE_FAULTS, Trace, is_same, lane_name
from .wording import sentence

_LOST_PCT = threshold("timeline.lost_pct")
_SILENT = threshold("timeline.silent_device")
_SAMPLED_IDS = threshold("timeline.sampled_ids")
_HELD_PCT = threshold("timeline.held_kernels_pct")
_SILENT_STREAM, _FEWEST = threshold("timeline.silent_stream_pct"), threshold("timeline.silent_launches")
_NAMED = 4
_FAMILIES = 32
"""The number of different replays of graphs that are compared."""


Affected = Literal["causes", "busy", "events"]


@dataclass(frozen=True)
class TraceDoubt:
    """A doubt about a trace; ``of`` is what it affects: causes of idle time, busy time of devices, or what it contains.

    Events that are missing affect busy times too, so every figure of an incomplete trace is suspect.
    """

    code: str
    of: Affected
    text: str


def doubts(trace: Trace) -> list[TraceDoubt]:
    """Return all doubts about a trace."""
    checks = (
        _about_times,
        _held_kernels,
        _lost_launches,
        _silent_streams,
        _lost_nodes,
        _silent_devices,
        _sampling_doubts,
    )
    return [doubt for check in checks for doubt in check(trace)]


def _about_times(trace: Trace) -> Iterator[TraceDoubt]:
    work, limits = trace.work, rules().limits
    asked = work.a0 != NONE
    share = 100 * float(asked.mean())
    early = asked & (work.s < work.a0)
    if share and (part := 100 * int(early.sum()) / int(asked.sum())) >= limits.early_pct:
        yield _doubt("clocks_differ", "causes", part=part, ahead_us=float(np.median((work.a0 - work.s)[early])) / 1e3)
    if trace.calls and 100 - share >= limits.unasked_pct:
        yield _doubt("not_asked_for", "causes", share=100 - share)
    kernels = work.of((COMPUTE, COMMUNICATION))
    if kernels.any() and (none := 100 * float((work.e == work.s)[kernels].mean())) >= limits.instant_pct:
        yield _doubt("no_length", "busy", share=none)


def _doubt(code: str, of: Affected, **values: Any) -> TraceDoubt:
    return TraceDoubt(code, of, sentence(code, **values))


def _held_kernels(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt the times of kernels that ran while the kernel driver handled page faults or had evicted the queues."""
    held = running = 0
    for lane, own in trace.per_lane():
        kernels = trace.work.of((COMPUTE, COMMUNICATION), own)
        s, e = trace.work.s[own][kernels], trace.work.e[own][kernels]
        running += int((e - s).sum())
        for cause in (PAGE_FAULTS, EVICTED):
            if hold := trace.holds.get((lane.number, cause)):
                held += int(hold.within_gaps(lambda at: at, s, e).sum())
    if running and 100 * held / running >= _HELD_PCT:
        yield _doubt("page_faults", "busy", share=held / running, held=held)


def _lost_launches(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt a trace in which launches have no work on the device, with the time in which they were made."""
    launches = trace.launches
    lost = launches.lost
    if lost is None or not len(lost) or 100 * len(lost) / launches.calls < _LOST_PCT:
        return
    when = "lost_first" if lost[-1] < launches.first else "lost_last" if lost[0] > launches.last else "lost_between"
    start, last, first = trace.whole.start, int(lost[-1]), int(lost[0])
    yield _doubt(
        "lost_launches",
        "events",
        lost=len(lost),
        calls=launches.calls,
        share=len(lost) / launches.calls,
        replays=sentence("lost_replays", count=launches.lost_replays) if launches.lost_replays else "",
        when=sentence(when, first=first - start, last=last - start, others=launches.first - start),
        threads=sentence("lost_threads", count=launches.lost_threads) if launches.lost_threads > 1 else "",
    )


def _silent_streams(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt a trace in which a stream has no work for its last launches."""
    silent = [s for s in trace.launches.silent if s.lost >= _FEWEST and 100 * s.lost / s.launches >= _SILENT_STREAM]
    if not silent:
        return
    silent.sort(key=lambda s: (-s.lost, s.stream))
    start = trace.whole.start
    words = [sentence("silent_stream", stream=one, since=one.since - start) for one in silent]
    what = "it" if len(silent) == 1 else "them"
    yield _doubt("silent_streams", "events", count=len(silent), to=what, streams=first_few(words, _NAMED))


def _lost_nodes(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt a trace in which replays of a graph have fewer nodes than most replays of the same graph."""
    families = _replays(trace)
    lost = short = 0
    where: list[int] = []
    for size, times, first, kernels in families:
        # Most replays of a graph are complete, and an incomplete one is a part of them.
        complete = max(
            (other for other, often, _, more in families if often > times and other > size and not kernels - more),
            default=size,
        )
        if complete > size:
            lost, short = lost + (complete - size) * times, short + times
            where.append(int(trace.work.s[first]))
    expected = lost + sum(size * times for size, times, *_ in families)
    if not lost or 100 * lost / expected < _LOST_PCT:
        return
    replays, first_at = sum(times for _, times, *_ in families), min(where) - trace.whole.start
    share = lost / expected
    yield _doubt(
        "lost_nodes", "events", lost=lost, expected=expected, share=share, short=short, replays=replays, at=first_at
    )


def _replays(trace: Trace) -> list[tuple[int, int, int, Counter[int]]]:
    """Return the different replays of graphs: nodes, how often it occurs, the first place of one, and its kernels.

    Empty if all have the same number of nodes.
    """
    replay, kernel = trace.launches.replay, trace.work.kernel
    if replay is None:
        return []
    sizes = np.bincount(replay + 1)[1:]
    known = np.flatnonzero(sizes)
    if not len(known) or is_same(sizes[known]):
        return []
    # Replays with the same sum of random numbers, one for each kernel, consist of the same nodes.
    marks = np.random.default_rng(0).integers(2**32, size=int(kernel.max(initial=0)) + 2).astype(np.float64)
    sums = np.bincount(replay + 1, weights=marks[kernel])[1:]
    _, one, times = np.unique(sums[known], return_index=True, return_counts=True)
    families = []
    for n in np.argsort(-times, kind="stable")[:_FAMILIES]:
        nodes = np.flatnonzero(replay == known[one[n]])
        families.append((len(nodes), int(times[n]), int(nodes[0]), Counter(kernel[nodes].tolist())))
    return families


def _silent_devices(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt a trace in which some devices stop working long before most others, or start long after them."""
    if len(trace.lanes) < 2:
        return
    work = trace.work
    spans = [(int(work.s[lane.first]), int(work.e[lane.first : lane.last].max())) for lane in trace.lanes]
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    shares = sorted((e - s) / max(end - start, 1) for s, e in spans)
    silent = [(lane, s, e) for lane, (s, e) in zip(trace.lanes, spans, strict=True) if e - s < _SILENT * (end - start)]
    if not silent or shares[len(shares) // 2] < 1 - _SILENT / 2:
        return
    lane, s, e = silent[0]
    name, begin = lane_name(lane.rank, lane.device), trace.whole.start
    yield _doubt(
        "silent_devices", "events", count=len(silent), every=len(spans), lane=name, start=s - begin, end=e - begin
    )


def _sampling_doubts(trace: Trace) -> Iterator[TraceDoubt]:
    """Doubt a trace whose calls are far apart by their ids, although a profiler numbers all calls."""
    spacing = trace.launches.spacing
    if spacing is not None and spacing >= _SAMPLED_IDS:
        yield _doubt("sampled", "events", spacing=spacing)
