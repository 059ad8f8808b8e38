"""Run one micro-benchmark on one device: prepare kernel and buffers, size the launches, repeat and time them."""

from __future__ import annotations

import math
import statistics
import struct
import time
from dataclasses import dataclass
from typing import Any

from ....analysis.base.problems import LimitExceeded
from ....analysis.launches.device_clocks import ClockState, summary
from ..machine.sensors import Sensor, SensorSampler
from . import data
from .runtime import DeviceFailure, Runtime, settle, wait
from .specs import BenchmarkSpec

SEEDS = (1, 0x51ED2701)
"""Seeds of the buffers a and b."""
_SMALL_BYTES = 1 << 17
SLOTS = 4
"""Number of launches whose clocks are stored separately."""
_LEAST_NS = 50_000
"""The device's timer ticks about every microsecond, so shorter groups are not accurate enough."""
_READ_EVERY_S = 0.02
_BURST_MS, _REST_S = 2.0, 0.03
"""Batches of matrix-product launches are short and separated by pauses: otherwise a GPU reaches its power limit and
lowers the clock, and short kernels of real programs would then exceed the ceiling."""
_STEADY = 0.002
"""The median is steady if the medians of both halves of the samples differ by less than this share."""


@dataclass
class Memory:
    """Buffers of one device: two with random words, one for results, and two small ones for operands."""

    size: int
    a: int
    b: int
    out: int
    operands: tuple[int, int]
    ticks: int
    """Where the last SLOTS timed launches store clocks and nanoseconds of their first group; 0 if not supported."""


@dataclass
class ReadyKernel:
    """A loaded kernel with its arguments; ``launch`` enqueues one launch of it."""

    runtime: Runtime
    spec: BenchmarkSpec
    kernel: Any
    memory: Memory
    point: int = 1
    launched: int = 0

    @property
    def arguments(self) -> tuple[int, int]:
        """Return the addresses of the buffers that the kernel reads."""
        memory, spec = self.memory, self.spec
        small = memory.operands
        return small if spec.data else (memory.a, small[1] if spec.kind == "sweep" else memory.b)

    @property
    def tiles(self) -> int:
        """Return the number of tiles of one buffer, for streams and sweeps."""
        return self.memory.size // self.spec.tile_bytes

    def grid(self, per_unit: int) -> int:
        """Return the number of groups for ``per_unit`` groups per compute unit; 0 means one per tile."""
        units = self.runtime.device.compute_units
        return min(self.tiles, per_unit * units) if per_unit and self.streams else per_unit * units or self.tiles

    @property
    def streams(self) -> bool:
        """Whether a launch traverses the buffers once, whatever the number of groups."""
        return self.spec.kind in ("stream", "sweep")

    def region(self, groups: int) -> int:
        """Return the tiles that each group of an L2 kernel reads: all groups of a compute unit share region_kib."""
        per_unit = max(1, groups // self.runtime.device.compute_units)
        return max(1, self.spec.region_kib * 1024 // per_unit // self.spec.tile_bytes)

    def load_operands(self, *, exact: bool) -> data.Operands | None:
        """Write random operands to where the kernel reads them; return those of a matrix kernel."""
        spec, operands = self.spec, None
        if spec.shape:
            operands = data.operands(spec, SEEDS[0], exact=exact)
            a, b = operands.a, operands.b
        elif spec.data or spec.kind == "sweep":
            a, b = data.chains(spec.data or "f32", 16 * spec.threads, SEEDS[0])
        else:
            return None
        for address, content in zip(self.memory.operands, (a, b), strict=True):
            self.runtime.upload(address, content)
        return operands

    def launch(self, rounds: int, groups: int, *, keep: bool = False) -> None:
        """``rounds`` is defined as in BenchmarkSpec.work_of; ``keep`` stores the results in ``out``."""
        step = groups if self.streams else self.region(groups) if self.spec.kind == "tiles" else 0
        ticks = self.memory.ticks and self.memory.ticks + self.launched % SLOTS * 16
        self.launched += 1
        given = (*self.arguments, self.memory.out, rounds, step, 1 if keep else ticks)
        self.runtime.launch(self.kernel, groups, self.spec.threads, self.spec.shared_bytes, given)


def clocks_mhz(ready: ReadyKernel) -> list[float]:
    """Return the clocks that the first groups of the last SLOTS timed launches measured themselves; empty if they have
    none."""
    if not ready.memory.ticks or ready.spec.kind in ("stream", "launch"):
        return []
    pairs = struct.iter_unpack("QQ", ready.runtime.download(ready.memory.ticks, 16 * SLOTS))
    return [1000.0 * clocks / nanoseconds for clocks, nanoseconds in pairs if nanoseconds >= _LEAST_NS]


def allocate(runtime: Runtime, size: int) -> Memory:
    """Allocate buffers of ``size`` bytes each; only the small ones are already filled."""
    a, b, out = (runtime.allocate(size) for _ in range(3))
    ticks = runtime.allocate(16 * SLOTS) if runtime.device.vendor == "nvidia" else 0
    return Memory(size, a, b, out, (runtime.allocate(_SMALL_BYTES), runtime.allocate(_SMALL_BYTES)), ticks)


FILL_UNROLL = 4


def fill(runtime: Runtime, kernel: Any, memory: Memory) -> None:
    """Fill both large buffers with random words on the device (kernels/hbm.cu, hbm_fill, built with FILL_UNROLL)."""
    tiles = memory.size // (256 * 16 * FILL_UNROLL)
    groups = min(tiles, 64 * runtime.device.compute_units)
    for address, seed in zip((memory.a, memory.b), SEEDS, strict=True):
        runtime.launch(kernel, groups, 256, 0, (memory.a, memory.b, address, tiles, groups, seed))
    settle(runtime)


def kernel_name(spec: BenchmarkSpec, point: int) -> str:
    """Return the kernel of a micro-benchmark; a sweep has one per number of multiply-adds."""
    return f"{spec.kernel}{point}" if spec.kind == "sweep" else spec.kernel


@dataclass(frozen=True)
class LaunchEffort:
    """How long to measure: milliseconds per launch, minimum and maximum samples, seconds per ceiling."""

    launch_ms: float
    least: int
    most: int
    limit_s: float


FULL = LaunchEffort(10.0, 15, 120, 1.2)
QUICK = LaunchEffort(2.0, 7, 30, 0.15)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of every launch, and the sensor readings taken at the same time."""

    samples: tuple[float, ...]
    groups: int
    rounds: int
    work: float
    clock_mhz: float | None
    state: ClockState | None
    """Sensor readings."""
    steady: bool

    @property
    def rates(self) -> list[float]:
        """The work per nanosecond (GB/s, GFLOP/s, ...) of every launch."""
        return [self.work / sample / 1e6 for sample in self.samples]


def time_launches(ready: ReadyKernel, rounds: int, groups: int, count: int, expected_ms: float = 0.0) -> list[float]:
    """Return the milliseconds of ``count`` launches, enqueued together so that the device never waits for the host.

    Raises DeviceFailure if the events' clock does not advance.
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
        raise DeviceFailure("The device's events measure no time", f"a launch took {min(spans)!r} ms according to them")
    return spans


def best(variants: list[ReadyKernel], effort: LaunchEffort) -> tuple[ReadyKernel, Timing]:
    """Try every variant with every number of groups, then measure the fastest one in full."""
    trials = []
    for number, ready in enumerate(variants):
        ready.load_operands(exact=False)
        for per_unit in ready.spec.groups:
            groups = ready.grid(per_unit)
            rounds, span = _size_launches(ready, groups, _BURST_MS if ready.spec.shape else effort.launch_ms)
            span = min(time_launches(ready, rounds, groups, 3, span))
            work = ready.spec.work_of(rounds, groups, point=ready.point)
            trials.append((work / span, number, groups, rounds, span))
    _, number, groups, rounds, span = max(trials)
    return variants[number], measure_until_steady(variants[number], rounds, groups, span, effort)


def measure_until_steady(ready: ReadyKernel, rounds: int, groups: int, span: float, effort: LaunchEffort) -> Timing:
    """Repeat a launch until the median is steady, or the effort's limit is reached."""
    samples: list[float] = []
    ran_at: list[float] = []
    steady, end = False, time.monotonic() + effort.limit_s
    device = ready.runtime.device
    with SensorSampler([Sensor(device.vendor, device.pci)], "", _READ_EVERY_S) as clocks:
        while len(samples) < effort.most and not (len(samples) >= effort.least and (steady or time.monotonic() > end)):
            samples += time_launches(ready, rounds, groups, SLOTS, span)
            ran_at += clocks_mhz(ready)
            if ready.spec.shape:
                time.sleep(_REST_S)
            half = len(samples) // 2
            first, last = statistics.median(samples[:half]), statistics.median(samples[half:])
            steady = abs(first - last) < _STEADY * last
    work = ready.spec.work_of(rounds, groups, point=ready.point)
    # A benchmark never idles, even if a slow sensor shows it.
    state = summary([{**row, "busy_pct": None} for row in clocks.rows])
    clock = statistics.median(ran_at) if ran_at else state.mhz if state else None
    return Timing(tuple(samples), groups, rounds, work, clock, state, steady)


def launch_times(ready: ReadyKernel, count: int) -> dict[str, tuple[float, ...]]:
    """Return the microseconds of launches of an empty kernel, by the name of what is timed."""
    runtime = ready.runtime
    first, last = runtime.event(), runtime.event()
    settle(runtime)
    latency = []
    for _ in range(count):
        start = time.perf_counter_ns()
        ready.launch(0, 1)
        runtime.record(last)
        wait(runtime, last, eagerly=True)
        latency.append((time.perf_counter_ns() - start) / 1000)

    def time_row(launches: int) -> float:
        runtime.record(first)
        for _ in range(launches):
            ready.launch(0, 1)
        runtime.record(last)
        wait(runtime, last, eagerly=True)
        return runtime.elapsed_ms(first, last) * 1000 / launches

    return {
        "launch.latency": tuple(latency),
        "launch.empty_kernel": tuple(time_row(1) for _ in range(count)),
        "launch.interval": tuple(time_row(200) for _ in range(max(5, count // 20))),
    }


def _size_launches(ready: ReadyKernel, groups: int, target_ms: float) -> tuple[int, float]:
    """Return the rounds for launches of about ``target_ms`` and the time of one, after a warm-up of all memory."""
    if ready.streams:
        return ready.tiles, time_launches(ready, ready.tiles, groups, 2)[1]
    unit = ready.region(groups) if ready.spec.kind == "tiles" else 8
    rounds = 4 * unit
    time_launches(ready, rounds, groups, 1)
    for _ in range(8):
        span = time_launches(ready, rounds, groups, 1)[0]
        if span > target_ms / 3:
            break
        rounds = int(rounds * min(target_ms / span, 50) / unit + 1) * unit
    else:
        raise LimitExceeded("Launches do not get longer with more rounds", "the device's events are not reliable")
    rounds = max(unit, int(rounds * target_ms / span) // unit * unit)
    return rounds, target_ms
