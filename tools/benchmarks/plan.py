"""One micro-benchmark made ready on one device: its kernel loaded, its buffers filled, its launches sized."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from . import data as chains
from . import data as matrices
from .runtime import Runtime, settle
from .table import Spec

SEEDS = (1, 0x51ED2701)
"""Of the buffers a and b."""
_SMALL_BYTES = 1 << 17
SLOTS = 4
"""Launches whose clocks are kept apart."""
_LEAST_NS = 50_000
"""The timer of the device ticks every microsecond or so: shorter groups say too little."""


@dataclass
class Memory:
    """Buffers of one device: two of random words, one for results, and two small ones for operands."""

    size: int
    a: int
    b: int
    out: int
    operands: tuple[int, int]
    ticks: int
    """Where the last SLOTS timed launches leave clocks and nanoseconds of their first group; 0 where none can."""


@dataclass
class Ready:
    """A loaded kernel with its arguments; ``launch`` puts one launch of it into the queue."""

    runtime: Runtime
    spec: Spec
    kernel: Any
    memory: Memory
    point: int = 1
    arguments: tuple[int, int] = field(init=False)
    launched: int = 0

    def __post_init__(self) -> None:
        memory, spec = self.memory, self.spec
        small = memory.operands
        self.arguments = small if spec.data else (memory.a, small[1] if spec.kind == "sweep" else memory.b)

    @property
    def tiles(self) -> int:
        """Tiles of one buffer, for streams and sweeps."""
        return self.memory.size // self.spec.tile_bytes

    def grid(self, per_unit: int) -> int:
        """Groups for so many per compute unit; 0 for one per tile."""
        units = self.runtime.device.compute_units
        return min(self.tiles, per_unit * units) if per_unit and self.streams else per_unit * units or self.tiles

    @property
    def streams(self) -> bool:
        """Whether a launch walks through the buffers once, however many groups there are."""
        return self.spec.kind in ("stream", "sweep")

    def region(self, groups: int) -> int:
        """Tiles of the region that each group of an L2 kernel reads: those of all groups of a unit share region_kib."""
        per_unit = max(1, groups // self.runtime.device.compute_units)
        return max(1, self.spec.region_kib * 1024 // per_unit // self.spec.tile_bytes)

    def load_operands(self, *, exact: bool) -> matrices.Operands | None:
        """Put random operands where the kernel looks for them; those of a matrix kernel are returned."""
        spec, given = self.spec, None
        if spec.shape:
            given = matrices.of(spec, SEEDS[0], exact=exact)
            a, b = given.a, given.b
        elif spec.data or spec.kind == "sweep":
            a, b = chains.data(spec.data or "f32", 16 * spec.threads, SEEDS[0])
        else:
            return None
        for address, content in zip(self.memory.operands, (a, b), strict=True):
            self.runtime.upload(address, content)
        return given

    def launch(self, rounds: int, groups: int, *, keep: bool = False) -> None:
        """``rounds`` as in Spec.work_of; ``keep`` stores the results in ``out``."""
        step = groups if self.streams else self.region(groups) if self.spec.kind == "tiles" else 0
        ticks = self.memory.ticks and self.memory.ticks + self.launched % SLOTS * 16
        self.launched += 1
        given = (*self.arguments, self.memory.out, rounds, step, 1 if keep else ticks)
        self.runtime.launch(self.kernel, groups, self.spec.threads, self.spec.shared_bytes, given)


def clocks_mhz(ready: Ready) -> list[float]:
    """The clocks at which the first groups of the last SLOTS timed launches ran, by their own count; none where they
    have none."""
    if not ready.memory.ticks or ready.spec.kind in ("stream", "launch"):
        return []
    pairs = struct.iter_unpack("QQ", ready.runtime.download(ready.memory.ticks, 16 * SLOTS))
    return [1000.0 * clocks / nanoseconds for clocks, nanoseconds in pairs if nanoseconds >= _LEAST_NS]


def allocate(runtime: Runtime, size: int) -> Memory:
    """Buffers of ``size`` bytes each; only the small ones are filled yet."""
    a, b, out = (runtime.allocate(size) for _ in range(3))
    ticks = runtime.allocate(16 * SLOTS) if runtime.device.vendor == "nvidia" else 0
    return Memory(size, a, b, out, (runtime.allocate(_SMALL_BYTES), runtime.allocate(_SMALL_BYTES)), ticks)


def fill(runtime: Runtime, kernel: Any, memory: Memory, unroll: int) -> None:
    """Fill both large buffers with random words on the device (kernels/hbm.cu, hbm_fill)."""
    tiles = memory.size // (256 * 16 * unroll)
    groups = min(tiles, 64 * runtime.device.compute_units)
    for address, seed in zip((memory.a, memory.b), SEEDS, strict=True):
        runtime.launch(kernel, groups, 256, 0, (memory.a, memory.b, address, tiles, groups, seed))
    settle(runtime)


def kernel_name(spec: Spec, point: int) -> str:
    """The kernel of a micro-benchmark; a sweep has one per number of multiply-adds."""
    return f"{spec.kernel}{point}" if spec.kind == "sweep" else spec.kernel
