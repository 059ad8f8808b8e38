"""The host's kernels: compiled by numba where that is installed, else what NumPy and its BLAS have ready.

Every kernel releases Python's lock. Bytes are counted as STREAM does: what the program reads and writes, without the
lines that a cache fetches before they are overwritten.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CHAIN = 16
"""Multiply-adds on an element between its load and its store in the peak kernel: enough that neither limits."""
BLOCK = 256
"""Elements that the sweep works on at a time; they stay in the L1 cache."""
_PIECE = 8192
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Kernels:
    """All kernels. Arrays are contiguous; ``n`` repeats the whole.

    copy(to, of, n) and triad(to, a, b, s, n) work on float64, read(words, n) on an even number of uint64
    and returns ``folded``; fma(values, x, y, n) does CHAIN multiply-adds a value, and
    sweep[k](to, of, x, y, n) does n * k.
    """

    name: str
    copy: Callable[..., Any]
    triad: Callable[..., Any]
    read: Callable[..., Any]
    fma: Callable[..., Any] | None = None
    sweep: Mapping[int, Callable[..., Any]] = field(default_factory=dict)


def load() -> Kernels:
    """The best kernels that this installation has. Call it before NumPy is imported: its BLAS then keeps to one thread
    for each of ours."""
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")
    return _compiled() if importlib.util.find_spec("numba") else _plain()


def folded(words: Any, n: int) -> int:
    """What read returns, computed by NumPy."""
    import numpy as np

    inner, total = int(np.bitwise_xor.reduce(words)), 0
    for _ in range(n):
        total = (total * 3 + inner) % (1 << 64)
    return total


def _plain() -> Kernels:
    import numpy as np

    def copy(to: Any, of: Any, n: int) -> None:
        for _ in range(n):
            np.copyto(to, of)

    def triad(to: Any, a: Any, b: Any, s: float, n: int) -> None:
        # In pieces that stay in a cache, so that the intermediate result costs no memory traffic.
        for _ in range(n):
            for at in range(0, to.size, _PIECE):
                piece = slice(at, at + _PIECE)
                np.multiply(b[piece], s, out=to[piece])
                np.add(a[piece], to[piece], out=to[piece])

    def read(words: Any, n: int) -> int:
        total = 0
        for _ in range(n):
            total = (total * 3 + int(np.bitwise_xor.reduce(words))) % (1 << 64)
        return total

    return Kernels(f"NumPy {np.__version__}", copy, triad, read)


def _compiled() -> Kernels:
    _widest_vectors()
    import numba
    import numpy as np

    # Contraction alone: with reassociation the compiler would shorten the chains.
    jit = numba.njit(nogil=True, fastmath={"contract"})

    def copy(to: Any, of: Any, n: int) -> None:
        for _ in range(n):
            for i in range(to.size):
                to[i] = of[i]

    def triad(to: Any, a: Any, b: Any, s: float, n: int) -> None:
        for _ in range(n):
            for i in range(to.size):
                to[i] = a[i] + s * b[i]

    def read(words: Any, n: int) -> Any:
        total, half = np.uint64(0), words.size // 2
        for _ in range(n):
            inner = np.uint64(0)
            # Two loads for one three-way operation, so that the loads are the limit.
            for i in range(half):
                inner ^= words[i] ^ words[half + i]
            total = total * np.uint64(3) + inner
        return total

    def one(v: Any, x: Any, y: Any) -> Any:
        return v * x + y

    def eight(v: Any, x: Any, y: Any) -> Any:
        return (((((((v * x + y) * x + y) * x + y) * x + y) * x + y) * x + y) * x + y) * x + y

    chain = jit(eight)

    def fma(values: Any, x: Any, y: Any, n: int) -> None:
        for _ in range(n):
            for i in range(values.size):
                values[i] = chain(chain(values[i], x, y), x, y)

    sweep = {1: jit(_sweeping(jit(one))), 8: jit(_sweeping(chain))}
    return Kernels(f"numba {numba.__version__}", jit(copy), jit(triad), jit(read), jit(fma), sweep)


def _sweeping(chain: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that reads each value, sends it ``n`` times through ``chain``, and writes it."""
    import numpy as np

    def sweep(to: Any, of: Any, x: Any, y: Any, n: int) -> None:
        held = np.empty(BLOCK, of.dtype)
        for at in range(0, of.size, BLOCK):
            for i in range(BLOCK):
                held[i] = of[at + i]
            for _ in range(n):
                for i in range(BLOCK):
                    held[i] = chain(held[i], x, y)
            for i in range(BLOCK):
                to[at + i] = held[i]

    return sweep


def _widest_vectors() -> None:
    """Let the compiler use 512-bit vectors where the processor has them; by itself it keeps to 256 bits on many."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        os.environ.setdefault("NUMBA_CPU_FEATURES", f"{features.flatten()},-prefer-256-bit")
