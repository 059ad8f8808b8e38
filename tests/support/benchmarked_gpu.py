"""A GPU that exists only in memory: it runs the kernels of device memory and of FP32 chains, in time that tests set."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rooflens.analysis.base.problems import MissingTool
from rooflens.tools.device.benchmarks.data import Array, noise
from rooflens.tools.device.benchmarks.runtime import DeviceFailure, OpenGpu

DEVICE = OpenGpu(
    vendor="amd",
    index=0,
    name="AMD Instinct MI250X",
    arch="gfx90a",
    uuid="amd-0000:01:00.0",
    compute_units=110,
    wave_size=64,
    memory_bytes=1 << 30,
    free_bytes=24 << 20,
    l2_bytes=1 << 16,
    clock_max_mhz=1700.0,
)


@dataclass
class StandIn:
    """Rates by kernel in bytes or operations per nanosecond; what is not set takes a millisecond a launch."""

    device: OpenGpu = DEVICE
    gbs: Mapping[str, float] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    """Kernels that leave their last vector out."""
    hangs_at: str = ""
    refuses: str = ""
    """A source that its compiler refuses."""
    memory: bytearray = field(default_factory=lambda: bytearray(32 << 20))
    top: int = 4096
    now_ms: float = 0.0
    stuck: bool = False
    wait_hook: Callable[[], None] = lambda: None

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        if self.refuses and self.refuses in source:
            raise MissingTool("Kernels cannot be compiled", "the stand-in refuses")
        return json.dumps(dict(defines)).encode()

    def load(self, code: bytes) -> Any:
        return json.loads(code)

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        return name, module

    def allocate(self, size: int) -> int:
        self.top += size
        if self.top > len(self.memory):
            raise DeviceFailure("The GPU runtime failed: hipMalloc says hipErrorOutOfMemory (2)")
        return self.top - size

    def clear(self, address: int, size: int) -> None:
        self.memory[address : address + size] = bytes(size)

    def upload(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = data

    def download(self, address: int, size: int) -> bytes:
        return bytes(self.memory[address : address + size])

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        (name, macros), (a, b, out, rounds, _, keep) = kernel, arguments
        if name == self.hangs_at:
            self.stuck = True
        tile = threads * 4 * int(macros.get("UNROLL", "4"))
        moved = rounds * tile * 4 * {"hbm_copy": 2, "hbm_triad": 3}.get(name, 1)
        if name == "fma_f32":
            moved = rounds * groups * threads * 128 * 2
        self.now_ms += moved / self.gbs[name] / 1e6 if name in self.gbs else 1.0
        run = getattr(self, f"_{name}", None)
        if run and (keep or name != "fma_f32"):
            run(a, b, out, rounds * tile, groups, threads, rounds, keep)
        if name in self.broken:
            self.clear(out + rounds * tile * 4 - 16, 16)

    def event(self) -> Any:
        return [0.0]

    def record(self, event: Any) -> None:
        event[0] = self.now_ms

    def is_done(self, event: Any) -> bool:
        self.wait_hook()
        return not self.stuck

    def elapsed_ms(self, first: Any, last: Any) -> float:
        return float(last[0] - first[0])

    def _words(self, address: int, count: int) -> Array:
        return np.frombuffer(self.memory, np.uint32, count, address)

    def _hbm_fill(self, a: int, b: int, out: int, words: int, *more: int) -> None:
        self._words(out, words)[:] = noise(0, words, more[-1])

    def _hbm_copy(self, a: int, b: int, out: int, words: int, *more: int) -> None:
        self._words(out, words)[:] = self._words(a, words)

    def _hbm_triad(self, a: int, b: int, out: int, words: int, *more: int) -> None:
        self._words(out, words)[:] = self._words(a, words) + 2 * self._words(b, words)

    def _hbm_write(self, a: int, b: int, out: int, words: int, groups: int, threads: int, *more: int) -> None:
        self._words(out, words).reshape(-1, threads * 4)[:] = self._words(a, threads * 4)

    def _hbm_read(
        self, a: int, b: int, out: int, words: int, groups: int, threads: int, rounds: int, keep: int
    ) -> None:
        if keep:
            tiles = self._words(a, words).reshape(rounds, -1, threads * 4).sum(axis=1, dtype=np.uint32)
            for group in range(groups):
                total = tiles[group::groups].sum(axis=0, dtype=np.uint32)
                self._words(out + group * threads * 16, threads * 4)[:] = total

    def _fma_f32(self, a: int, b: int, out: int, words: int, groups: int, threads: int, rounds: int, keep: int) -> None:
        x = np.frombuffer(self.memory, np.float32, 16 * threads, a).reshape(16, threads).copy()
        factors = np.frombuffer(self.memory, np.float32, 128, b)
        lanes = np.arange(threads) % 64
        for _ in range(rounds * 8):
            x = (x.astype(np.float64) * factors[lanes] + factors[64 + lanes].astype(np.float64)).astype(np.float32)
        for group in range(groups):
            self.upload(out + group * x.nbytes, x.tobytes())
