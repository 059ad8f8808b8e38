"""Timing of launches: sized to a length, repeated until the median stands still, the best grid of several."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

from ...analysis.problems import LimitExceeded
from .clocks import Clocks, Read
from .plan import SLOTS, Ready, clocks_mhz
from .runtime import DeviceFailure, Runtime, settle, wait

_BURST_MS, _REST_S = 2.0, 0.03
"""Launches of matrix products are short, with pauses between batches: without them a GPU reaches its power limit and
lowers the clock, and short kernels of real programs would then run above the ceiling."""
_STEADY = 0.002
"""The median counts as steady when those of both halves of the samples differ by less than this share."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: milliseconds of one launch, least and most samples, seconds per ceiling."""

    launch_ms: float
    least: int
    most: int
    limit_s: float


FULL = Effort(10.0, 15, 120, 1.2)
QUICK = Effort(2.0, 7, 30, 0.15)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of every launch, and what the device's sensors said meanwhile."""

    samples: tuple[float, ...]
    groups: int
    rounds: int
    work: float
    clock_mhz: float | None
    celsius: float | None
    steady: bool

    def rate(self, share: float) -> float:
        """Work per nanosecond (GB/s, GFLOP/s, ...) that a share of the launches stayed below: 0.5 for the median."""
        return self.work / quantile(self.samples, 1 - share) / 1e6


def quantile(values: tuple[float, ...], share: float) -> float:
    """The value below which a share of the values lies, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def timed(ready: Ready, rounds: int, groups: int, count: int, expected_ms: float = 0.0) -> list[float]:
    """Milliseconds of ``count`` launches, queued together so that the device does not wait for the host.

    Raises DeviceFailure where the clock of the events stands still.
    """
    runtime = ready.runtime
    pairs = [(runtime.event(), runtime.event()) for _ in range(count)]
    for first, last in pairs:
        runtime.record(first)
        ready.launch(rounds, groups)
        runtime.record(last)
    wait(runtime, pairs[-1][1], count * expected_ms / 1000)
    spans = [runtime.elapsed_ms(first, last) for first, last in pairs]
    if not all(math.isfinite(span) and span > 0 for span in spans):
        raise DeviceFailure("The device's events tell no time", f"a launch took {min(spans)!r} ms by them")
    return spans


def best(variants: list[Ready], effort: Effort, read: Read | None) -> tuple[Ready, Timing]:
    """Try every variant with every number of groups and measure the one with the highest rate to the end."""
    trials = []
    for number, ready in enumerate(variants):
        ready.load_operands(exact=False)
        for per_unit in ready.spec.groups:
            groups = ready.grid(per_unit)
            rounds, span = _sized(ready, groups, _BURST_MS if ready.spec.shape else effort.launch_ms)
            span = min(timed(ready, rounds, groups, 3, span))
            trials.append((_work(ready, rounds, groups) / span, number, groups, rounds, span))
    _, number, groups, rounds, span = max(trials)
    return variants[number], measured(variants[number], rounds, groups, span, effort, read)


def measured(ready: Ready, rounds: int, groups: int, span: float, effort: Effort, read: Read | None) -> Timing:
    """Repeat a launch until the median is steady, or the effort's limit is reached."""
    samples: list[float] = []
    ran_at: list[float] = []
    steady, end = False, time.monotonic() + effort.limit_s
    with Clocks(read) as clocks:
        while len(samples) < effort.most and not (len(samples) >= effort.least and (steady or time.monotonic() > end)):
            samples += timed(ready, rounds, groups, SLOTS, span)
            ran_at += clocks_mhz(ready)
            if ready.spec.shape:
                time.sleep(_REST_S)
            half = len(samples) // 2
            first, last = statistics.median(samples[:half]), statistics.median(samples[half:])
            steady = abs(first - last) < _STEADY * last
    work = _work(ready, rounds, groups)
    clock = statistics.median(ran_at) if ran_at else clocks.mhz
    return Timing(tuple(samples), groups, rounds, work, clock, clocks.celsius, steady)


def launch_times(runtime: Runtime, ready: Ready, count: int) -> dict[str, tuple[float, ...]]:
    """Microseconds of launches of an empty kernel, by the name of what is timed."""
    first, last = runtime.event(), runtime.event()
    settle(runtime)
    latency, empty, interval = [], [], []
    for _ in range(count):
        start = time.perf_counter_ns()
        ready.launch(0, 1)
        runtime.record(last)
        wait(runtime, last, eagerly=True)
        latency.append((time.perf_counter_ns() - start) / 1000)
    for _ in range(count):
        runtime.record(first)
        ready.launch(0, 1)
        runtime.record(last)
        wait(runtime, last, eagerly=True)
        empty.append(runtime.elapsed_ms(first, last) * 1000)
    row = 200
    for _ in range(max(5, count // 20)):
        runtime.record(first)
        for _ in range(row):
            ready.launch(0, 1)
        runtime.record(last)
        wait(runtime, last, eagerly=True)
        interval.append(runtime.elapsed_ms(first, last) * 1000 / row)
    return {
        "launch.latency": tuple(latency),
        "launch.empty_kernel": tuple(empty),
        "launch.interval": tuple(interval),
    }


def _sized(ready: Ready, groups: int, target_ms: float) -> tuple[int, float]:
    """Rounds for launches of about ``target_ms``, and how long one takes, after a warm-up that touches all memory."""
    if ready.streams:
        return ready.tiles, timed(ready, ready.tiles, groups, 2)[1]
    unit = ready.region(groups) if ready.spec.kind == "tiles" else 8
    rounds = 4 * unit
    timed(ready, rounds, groups, 1)
    for _ in range(8):
        span = timed(ready, rounds, groups, 1)[0]
        if span > target_ms / 3:
            break
        rounds = int(rounds * min(target_ms / span, 50) / unit + 1) * unit
    else:
        raise LimitExceeded("Launches do not get longer with more rounds", "the device's events cannot be trusted")
    rounds = max(unit, int(rounds * target_ms / span) // unit * unit)
    return rounds, target_ms


def _work(ready: Ready, rounds: int, groups: int) -> float:
    return ready.spec.work_of(rounds, groups, point=ready.point)
