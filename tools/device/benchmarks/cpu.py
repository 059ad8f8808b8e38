"""Measure the ceilings of this machine's processors: memory bandwidth as counted by STREAM, and matrix products."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from ....analysis.base.text import count_text
from ..machine.sysfs import listing, memory_bytes, read, whole_number
from .outcomes import CeilingOutcome, CeilingProgress, Mode, sampled
from .specs import choose_names

CEILINGS = ("host.fma.f32", "host.fma.f64", "host.dram.read", "host.dram.copy", "host.dram.triad")
_ARRAYS = {"read": 1, "copy": 2, "triad": 3}
"""Number of arrays that each kernel traverses once. The bytes are those that the program reads and writes, excluding
lines that a cache fetches before they are overwritten."""
_S = 0.5
_PIECE = 1 << 15
"""Elements that NumPy processes at once: the intermediate result stays in a cache, and locks are taken rarely."""
_SIDES = {"functional": 64, "quick": 768, "full": 768}
"""Rows and columns of the matrices that are multiplied."""
_OVERWRITTEN = -1.0
_CPUS, _CGROUP = Path("/sys/devices/system/cpu"), Path("/sys/fs/cgroup")
_LEAST = 64 << 20
_BESIDE, _OUTSIDE = 8, 2
"""Total size of the arrays in multiples of the last-level cache: desired if there is enough memory, and minimum; below
the minimum, the cache may serve part of the accesses."""
_DOUBTFUL = 0.25
"""Spread (p95 - p05) / median above which something else probably ran on the machine."""


@dataclass(frozen=True)
class CpuEffort:
    """Budget of a mode: seconds and minimum samples per ceiling, seconds per sample, bytes of all arrays."""

    ceiling_s: float
    fewest: int
    sample_s: float
    most_bytes: int


_EFFORTS = {"quick": CpuEffort(0.2, 3, 0.02, 1 << 30), "full": CpuEffort(1.5, 7, 0.05, 16 << 30)}


@dataclass(frozen=True)
class CpuThreadWork:
    """One thread's part: ``run`` processes ``work`` bytes or operations, ``wrong`` checks the results."""

    run: Callable[[], object]
    wrong: Callable[[], str]
    work: float


def choose_ceilings(wanted: Iterable[str] | None) -> tuple[str, ...]:
    """Return the ceilings with these names or prefixes before a dot (host, host.dram), or all for None.

    Raises NotFound for a word that matches none.
    """
    names = choose_names(wanted, CEILINGS, "the processors")
    return tuple(name for name in CEILINGS if name in names)


def measure_ceilings(
    wanted: Iterable[str] | None, mode: Mode, *, progress: CeilingProgress, cancelled: Callable[[], bool]
) -> list[CeilingOutcome]:
    """Measure the ceilings that ``wanted`` selects; in mode functional, only check every kernel.

    Rates are GB/s of the bytes that the program reads and writes, or GFLOP/s with a multiply-add counted as two.
    """
    names, outcomes = choose_ceilings(wanted), list[CeilingOutcome]()
    bench = CpuBench(mode)
    for number, name in enumerate(names):
        if cancelled():
            break
        progress(name, number, len(names), None)
        outcomes.append(bench.outcome(name))
        progress(name, number + 1, len(names), outcomes[-1])
    return outcomes


class CpuBench:
    """Measures ceilings in one mode; the arrays are reused between ceilings."""

    def __init__(self, mode: Mode) -> None:
        self._effort, self._side, self._cpus = _EFFORTS.get(mode), _SIDES[mode], cpus()
        self._blocks: list[Any] = []

    def outcome(self, name: str) -> CeilingOutcome:
        """Measure one ceiling: median, p05 and p95 of the rate, or the error in its kernel's results."""
        _, group, kind = name.split(".")
        made_by = compiler() if kind == "triad" else f"NumPy {np.__version__}"
        method = f"{made_by}, {count_text(len(self._cpus), 'thread')}"
        if group == "fma":
            title = f"matrix product of {self._side} x {self._side} (BLAS)"
            parts = [_product(kind, self._side, rank) for rank in range(len(self._cpus))]
            return self._measure(CeilingOutcome(name, "GFLOP/s", "ok", kernel=title, method=method), parts)
        cache = last_level_bytes(self._cpus)
        if not self._blocks:
            # Allocated by the threads themselves, so that each uses its nearest memory.
            length = self._bytes(cache) // len(self._cpus) // 48 * 6
            self._blocks = _on_all(self._cpus, lambda rank: _random_block(length, rank))
        size = sum(block.nbytes for block in self._blocks)
        blank = CeilingOutcome(name, "GB/s", "ok", kernel=kind, method=f"{method}, {size >> 20} MiB in total")
        outcome = self._measure(blank, [_stream(kind, block) for block in self._blocks])
        if self._effort and outcome.status == "ok" and size < _OUTSIDE * cache:
            why = (
                f"the arrays, {size >> 20} MiB, are less than {_OUTSIDE} times the last-level cache of "
                f"{cache >> 20} MiB, which may have served part of the accesses"
            )
            return replace(outcome, status="suspect", reason=why)
        return outcome

    def _bytes(self, cache: int) -> int:
        if self._effort is None:
            return len(self._cpus) << 18
        return max(min(_BESIDE * (cache or _LEAST), free_bytes() // 2, self._effort.most_bytes), _LEAST)

    def _measure(self, blank: CeilingOutcome, parts: list[CpuThreadWork]) -> CeilingOutcome:
        """Run every part once to check it, then sample the rate of all together until the budget is used up."""
        _on_all(self._cpus, lambda rank: parts[rank].run())
        effort, samples, wrong = self._effort, list[float](), _first_wrong(parts)
        if effort and not wrong:
            end = time.monotonic() + effort.ceiling_s
            while len(samples) < effort.fewest or time.monotonic() < end:
                samples.append(sum(_on_all(self._cpus, lambda rank: _rate(parts[rank], effort.sample_s))) / 1e9)
            wrong = _first_wrong(parts)
        if wrong:
            return replace(blank, status="failed", reason=wrong, check=wrong)
        if not samples:
            return replace(blank, check="ok")
        outcome = replace(sampled(blank, samples), check="ok", work_per_launch=sum(part.work for part in parts))
        if np.ptp(np.percentile(samples, (5, 95))) > _DOUBTFUL * np.median(samples):
            return replace(outcome, status="suspect", reason="samples differ widely: something else ran on the machine")
        return outcome


def _triad(to: Any, a: Any, b: Any) -> None:
    """Store a + _S * b, in pieces."""
    product = np.empty(min(_PIECE, to.size))
    for at in range(0, to.size, _PIECE):
        piece = slice(at, at + _PIECE)
        part = product[: to[piece].size]
        np.multiply(b[piece], _S, out=part)
        np.add(a[piece], part, out=to[piece])


@cache
def _compiled_triad() -> Callable[..., Any]:
    """Return a loop that needs no intermediate result, compiled by numba, or ``_triad`` without numba."""
    try:
        import numba
    except ImportError:
        return _triad

    def triad(to: Any, a: Any, b: Any) -> None:
        for i in range(to.size):
            to[i] = a[i] + _S * b[i]

    return numba.njit(nogil=True, fastmath={"contract"})(triad)  # type: ignore[no-any-return]


_KERNELS: dict[str, Callable[..., Any]] = {
    "read": np.bitwise_xor.reduce,
    "copy": np.copyto,
    "triad": lambda to, a, b: _compiled_triad()(to, a, b),
}
"""The timed kernels: read(words), which returns their exclusive or, copy(to, of) and triad(to, a, b). They release
Python's global interpreter lock."""


def compiler() -> str:
    """Return what compiles the kernels, or provides them ready-made."""
    with suppress(PackageNotFoundError):
        return f"numba {installed('numba')}"
    return f"NumPy {np.__version__}"


def _stream(kind: str, block: Any) -> CpuThreadWork:
    """Return a kernel over a thread's whole block, divided into the arrays that the kernel uses. Part of the
    destination is overwritten first, so that stale values cannot pass for results."""
    kernel = _KERNELS[kind]
    if kind == "read":
        words, sums = block.view(np.uint64), set[int]()
        right = {int(np.bitwise_xor.reduce(words))}
        return CpuThreadWork(
            lambda: sums.add(int(kernel(words))), lambda: "" if sums == right else "a wrong sum", block.nbytes
        )
    to, *of = np.split(block, _ARRAYS[kind])
    some = np.append(np.arange(0, to.size, 1009), to.size - 1)
    to[some] = _OVERWRITTEN

    def wrong() -> str:
        right = of[0][some] if kind == "copy" else of[0][some] + _S * of[1][some]
        return "" if np.allclose(to[some], right, rtol=1e-14, atol=0) else f"{kind} wrote wrong values"

    return CpuThreadWork(lambda: kernel(to, *of), wrong, block.nbytes)


def _product(kind: str, side: int, rank: int) -> CpuThreadWork:
    """Return a matrix product; BLAS uses one thread, because the process that measures says so."""
    real = np.dtype(f"float{kind[1:]}").type
    a, b = (_random_block(side * side, seed).astype(real).reshape(side, side) for seed in (rank, ~rank & 0xFFFF))
    c = np.zeros((side, side), real)

    def wrong() -> str:
        right = a.astype("f8") @ b.sum(axis=1, dtype="f8")
        return "" if np.allclose(c.sum(axis=1, dtype="f8"), right, rtol=1e-4) else "a wrong product"

    return CpuThreadWork(lambda: np.matmul(a, b, out=c), wrong, 2.0 * side**3)


def _random_block(length: int, seed: int) -> Any:
    """Return random values, none of which is zero."""
    block = np.empty(length)
    np.random.default_rng(seed).random(out=block)
    block += 0.5
    return block


def _first_wrong(parts: Iterable[CpuThreadWork]) -> str:
    return next((wrong for part in parts if (wrong := part.wrong())), "")


def _on_all(team: Sequence[int], work: Callable[[int], Any]) -> list[Any]:
    """Run ``work(rank)`` on one thread per processor, pinned if permitted, all started together."""
    start = threading.Barrier(len(team))

    def one(rank: int) -> Any:
        with suppress(OSError):
            os.sched_setaffinity(0, {team[rank]})
        start.wait()
        return work(rank)

    with ThreadPoolExecutor(len(team)) as pool:
        return list(pool.map(one, range(len(team))))


def _rate(part: CpuThreadWork, window_s: float) -> float:
    """Work per second of one thread by its own clock, so that a shared processor slows down only its own part."""
    start, count = time.perf_counter_ns(), 0
    while True:
        part.run()
        count += 1
        took = time.perf_counter_ns() - start
        if took >= window_s * 1e9:
            return count * part.work / took * 1e9


def cpus() -> list[int]:
    """Return the processors that this process may use: its affinity, limited by its cgroup's quota."""
    allowed = sorted(os.sched_getaffinity(0))
    quota, _, period = (read(_CGROUP / "cpu.max") or "").partition(" ")
    if quota.isdecimal() and period.strip().isdecimal():
        allowed = allowed[: max(1, math.ceil(int(quota) / int(period)))]
    return allowed


def last_level_bytes(used: list[int], root: Path = _CPUS) -> int:
    """Return the bytes of the last-level caches of the processors in ``used``, each once; 0 if not known."""
    sizes: dict[tuple[int, str], int] = {}
    for cpu in used:
        for index in listing(root / f"cpu{cpu}" / "cache"):
            level = whole_number(read(index / "level"))
            kib = whole_number((read(index / "size") or "").removesuffix("K"))
            if level and kib and read(index / "type") != "Instruction":
                sizes[level, read(index / "shared_cpu_list") or str(cpu)] = kib << 10
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last)


def free_bytes() -> int:
    """Return the memory available without swapping, within the cgroup's limit."""
    stated = memory_bytes(Path("/proc/meminfo"), "MemAvailable")
    available = 1 << 30 if stated is None else stated
    most, used = (whole_number(read(_CGROUP / name)) for name in ("memory.max", "memory.current"))
    return max(available if most is None or used is None else min(available, most - used), 0)


def identity() -> str:
    """Return a stable, anonymous name of this machine: a digest of its machine-id, else of its host name."""
    machine_id = read(Path("/etc/machine-id")) or read(Path("/var/lib/dbus/machine-id")) or socket.gethostname()
    return f"host-{hashlib.sha256(f'rooflens {machine_id}'.encode()).hexdigest()[:16]}"


def partition() -> str:
    """State how many of the machine's processors this process may use."""
    return f"{len(cpus())} of {os.cpu_count()} processors"


def version() -> str:
    """Return a short hash of this module, because a measurement depends on its kernels and on how they are timed."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
