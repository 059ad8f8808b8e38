"""What one thread of the host's micro-benchmarks calls: a kernel on its own buffers, with a check of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .host_kernels import BLOCK, CHAIN, Kernels, folded

ARRAYS = {"read": 1, "copy": 2, "triad": 3}
"""Arrays that a kernel goes over, each once."""
FMA_BYTES = {"f32": 4, "f64": 8}
_X, _Y = 0.999, 0.0005
_LIMIT = _Y / (1 - _X)
"""Where v -> v * X + Y goes: chains of any length stay finite and never reach zero."""
_SPOILT = -1.0


@dataclass(frozen=True)
class Call:
    """One thread's part: ``go(n)`` does it n times, ``wrong(n)`` says what is wrong with the result of that."""

    go: Callable[[int], object]
    wrong: Callable[[int], str]
    work: int
    """Bytes or operations of one time."""
    title: str
    compiled: bool = True


def memory(kernels: Kernels, kind: str, block: Any) -> Call:
    """A kernel over a thread's whole block, cut into as many arrays as it has."""
    length = block.size // ARRAYS[kind] // 8 * 8
    parts = [block[i * length : (i + 1) * length] for i in range(ARRAYS[kind])]
    if kind == "read":
        words, told = parts[0].view(np.uint64), dict[str, int]()

        def read(n: int) -> None:
            told["sum"] = int(kernels.read(words, n))

        return Call(read, lambda n: "" if told["sum"] == folded(words, n) else "a wrong sum", 8 * length, kind)
    to, of = parts[0], parts[1:]
    if kind == "copy":
        return _written(lambda n: kernels.copy(to, of[0], n), to, lambda some: of[0][some], 16 * length, kind)
    return _written(
        lambda n: kernels.triad(to, *of, 0.5, n), to, lambda some: of[0][some] + 0.5 * of[1][some], 24 * length, kind
    )


def _written(
    go: Callable[[int], object], to: Any, expected: Callable[[Any], Any], work: int, title: str, rtol: float = 1e-14
) -> Call:
    """A call that writes ``to``; some of it is spoilt beforehand, so that old values are never taken for new ones."""
    some = np.unique(np.concatenate((np.arange(0, to.size, 1009), [to.size - 1])))
    to[some] = _SPOILT

    def wrong(_: int) -> str:
        right = np.allclose(to[some], expected(some), rtol=rtol, atol=0)
        to[some] = _SPOILT
        return "" if right else f"{title} wrote wrong values"

    return Call(go, wrong, work, title)


def fma(kernels: Kernels, kind: str, rank: int) -> Call:
    """Chains of multiply-adds on values that stay in the L1 cache."""
    real = np.dtype(f"f{FMA_BYTES[kind]}").type
    values, x, y = _filled(2048 // FMA_BYTES[kind], rank).astype(real), real(_X), real(_Y)
    values, done = _aligned(values), {"times": 0}
    first = values.astype(np.float64)

    def go(n: int) -> None:
        if kernels.fma:
            kernels.fma(values, x, y, n)
        done["times"] += n

    def wrong(_: int) -> str:
        steps = CHAIN * done["times"]
        limit = float(y) / (1 - float(x))
        expected = limit + (first - limit) * float(x) ** steps
        return "" if np.allclose(values, expected, rtol=1e-4) else "wrong values"

    return Call(go, wrong, 2 * CHAIN * values.size, f"{CHAIN} multiply-adds")


def gemm(kind: str, rank: int, side: int) -> Call:
    """A matrix product of the BLAS library that NumPy uses."""
    real = np.dtype(f"f{FMA_BYTES[kind]}").type
    a, b = (_filled(side * side, rank + 7 * i).astype(real).reshape(side, side) for i in range(2))
    c = np.empty((side, side), real)

    def go(n: int) -> None:
        for _ in range(n):
            np.matmul(a, b, out=c)

    def wrong(_: int) -> str:
        expected = a.astype(np.float64) @ b.sum(axis=1, dtype=np.float64)
        return "" if np.allclose(c.sum(axis=1, dtype=np.float64), expected, rtol=1e-4) else "a wrong product"

    return Call(go, wrong, 2 * side**3, f"matrix product of {side} x {side} (BLAS)", compiled=False)


def sweep(kernels: Kernels, chain: int, passes: int, block: Any) -> Call:
    """Read, do ``chain * passes`` multiply-adds, write: over two halves of a thread's block."""
    length = block.size // 2 // BLOCK * BLOCK
    to, of = block[:length], block[length : 2 * length]

    def go(n: int) -> None:
        for _ in range(n):
            kernels.sweep[chain](to, of, _X, _Y, passes)

    steps = chain * passes
    return _written(
        go,
        to,
        lambda some: _LIMIT + (of[some] - _LIMIT) * _X**steps,
        2 * steps * length,
        f"{steps} multiply-adds",
        1e-9,
    )


def fill(blocks: list[Any], length: int, rank: int) -> None:
    """Put an aligned array of random values, none of them zero, in its place."""
    pattern = _filled(1 << 15, rank)
    block = _aligned(length)
    for at in range(0, length, pattern.size):
        piece = block[at : at + pattern.size]
        np.copyto(piece, pattern[: piece.size])
    blocks[rank] = block


def _filled(length: int, seed: int) -> Any:
    return np.random.default_rng(seed).random(length) + 0.5


def _aligned(wanted: Any) -> Any:
    """An array on a cache line's edge: a length of float64, or a copy of an array."""
    kind, length = (np.dtype("f8"), wanted) if isinstance(wanted, int) else (wanted.dtype, wanted.size)
    room = np.empty(length + 64 // kind.itemsize, kind)
    at = -room.ctypes.data % 64 // kind.itemsize
    if not isinstance(wanted, int):
        room[at : at + length] = wanted
    return room[at : at + length]
