"""Data for chains of multiply-adds, and what a chain must come to: exactly, with one rounding a step."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .formats import Array

Step = Callable[[float, float, float], float]

_KINDS: dict[str, tuple[str, int]] = {
    "f32": ("f4", 1), "f32x2": ("f4", 2), "f64": ("f8", 1), "f16x2": ("f2", 2), "bf16x2": ("u2", 2),
    "i32": ("u4", 1), "u24": ("u4", 1),
}  # fmt: skip
"""NumPy's type of one number, and how many stand in one operand of an instruction."""


def data(kind: str, count: int, seed: int) -> tuple[bytes, bytes]:
    """Starts of ``count`` chains, and multipliers and summands for 64 lanes: chains neither grow nor die out."""
    code, width = _KINDS[kind]
    rng = np.random.default_rng(seed)
    if kind in ("i32", "u24"):
        limit = 1 << (32 if kind == "i32" else 24)
        return (
            rng.integers(1, limit, count, dtype=np.uint32).tobytes(),
            rng.integers(1, limit, 128, dtype=np.uint32).tobytes(),
        )
    starts = rng.uniform(0.5, 2.0, count * width)
    factors = rng.uniform(0.5, 0.98, 64 * width) * rng.choice([-1, 1], 64 * width)
    # The FP64 kernel adds its factor (kernels/valu.cu).
    both = np.concatenate([factors, factors if kind == "f64" else rng.uniform(0.25, 1.0, 64 * width)])
    return _encoded(kind, starts, code), _encoded(kind, both, code)


def numbers(kind: str, raw: bytes) -> Array:
    """The numbers in bytes, as doubles or integers; one row per operand."""
    code, width = _KINDS[kind]
    found = np.frombuffer(raw, f"<{code}").reshape(-1, width)
    if kind == "bf16x2":
        return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return found


def run(kind: str, start: float, factor: float, summand: float, steps: int) -> float:
    """x = x * factor + summand, ``steps`` times."""
    step, x = _STEPS[kind], start
    for _ in range(steps):
        x = step(x, factor, summand)
    return x


def _encoded(kind: str, values: Array, code: str) -> bytes:
    if kind == "bf16x2":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype(f"<{code}").tobytes()


# A product of two FP32 (or shorter) numbers is exact in FP64. Rounding the sum to FP64 first can change the result only
# where it then lies within 2^-29 of a tie.
def _f32(x: float, y: float, z: float) -> float:
    value: float = struct.unpack("f", struct.pack("f", x * y + z))[0]
    return value


def _f16(x: float, y: float, z: float) -> float:
    value: float = struct.unpack("e", struct.pack("e", x * y + z))[0]
    return value


def _bf16(x: float, y: float, z: float) -> float:
    bits: int = struct.unpack("I", struct.pack("f", x * y + z))[0]
    value: float = struct.unpack("f", struct.pack("I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]
    return value


def _f64(x: float, y: float, z: float) -> float:
    return float(Fraction(x) * Fraction(y) + Fraction(z))


_STEPS: dict[str, Step] = {
    "f32": _f32,
    "f32x2": _f32,
    "f64": _f64,
    "f16x2": _f16,
    "bf16x2": _bf16,
    "i32": lambda x, y, z: (int(x) * int(y) + int(z)) % (1 << 32),
    "u24": lambda x, y, z: ((int(x) & 0xFFFFFF) * (int(y) & 0xFFFFFF) + int(z)) % (1 << 32),
}
