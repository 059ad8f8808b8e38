"""The data that kernels compute on: number formats, chains, matrices, noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .specs import BenchmarkSpec

Array = npt.NDArray[Any]

_EXACT = np.array([-3.0, -2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0])
"""Values that every floating-point format contains; sums of a few thousand of their products are exact in FP32."""
TYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
    "f8": ml_dtypes.float8_e4m3fn, "f8_fnuz": ml_dtypes.float8_e4m3fnuz, "f6": ml_dtypes.float6_e2m3fn,
    "f4": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""NumPy type of each format: E4M3 as defined by OCP and with the bias of CDNA 3 (fnuz), E2M3, E2M1."""
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i8": 8, "f8": 8, "f8_fnuz": 8, "f6": 6, "f4": 4}


def random_numbers(name: str, count: int, seed: int, *, exact: bool) -> tuple[Array, Array]:
    """Return ``count`` random nonzero numbers: their codes (one per number) and their values.

    With ``exact``, products and sums need no rounding; otherwise all bits vary, as in real data.
    """
    rng = np.random.default_rng(seed)
    if name == "i8":
        wanted = rng.integers(1, 128, count) * rng.choice([-1, 1], count)
    else:
        wanted = rng.choice(_EXACT, count) if exact else rng.normal(size=count)
    numbers = wanted.astype(TYPES[name])
    numbers[numbers == 0] = 1
    return numbers.view(f"u{numbers.itemsize}"), numbers.astype(np.float64)


def pack_codes(name: str, codes: Array, unit_bytes: int) -> bytes:
    """Pack rows of codes into bytes, first code in the lowest bits, each row zero-padded to ``unit_bytes``."""
    if BITS[name] >= 8:
        rows = np.ascontiguousarray(codes).view(np.uint8).reshape(codes.shape[0], -1)
    else:
        bits = codes[:, :, None] >> np.arange(BITS[name]) & 1
        rows = np.packbits(bits.reshape(codes.shape[0], -1).astype(np.uint8), axis=1, bitorder="little")
    whole = np.zeros((rows.shape[0], max(unit_bytes, rows.shape[1])), np.uint8)
    whole[:, : rows.shape[1]] = rows
    return whole.tobytes()


_KINDS: dict[str, tuple[str, int]] = {
    "f32": ("f32", 1), "f32x2": ("f32", 2), "f64": ("f64", 1), "f16x2": ("f16", 2), "bf16x2": ("bf16", 2),
}  # fmt: skip
"""Format of one number, and how many numbers one instruction operand contains."""
_MASKS = {"i32": (1 << 32) - 1, "u24": (1 << 24) - 1}
"""Bits of an operand that an integer multiplication uses."""


def chains(kind: str, count: int, seed: int) -> tuple[bytes, bytes]:
    """Return start values of ``count`` chains, and multipliers and summands for 64 lanes that keep chains bounded."""
    rng = np.random.default_rng(seed)
    if mask := _MASKS.get(kind):
        words = rng.integers(1, mask + 1, count + 128, dtype=np.uint32)
        return words[:count].tobytes(), words[count:].tobytes()
    name, width = _KINDS[kind]
    starts = rng.uniform(0.5, 2.0, count * width)
    factors = rng.uniform(0.5, 0.98, 64 * width) * rng.choice([-1, 1], 64 * width)
    # The FP64 kernel adds its factor (kernels/valu.cu).
    both = np.concatenate([factors, factors if kind == "f64" else rng.uniform(0.25, 1.0, 64 * width)])
    return starts.astype(TYPES[name]).tobytes(), both.astype(TYPES[name]).tobytes()


def numbers(kind: str, raw: bytes) -> Array:
    """Return the numbers in bytes; one row per operand."""
    name, width = _KINDS.get(kind, ("", 1))
    return np.frombuffer(raw, TYPES.get(name, np.uint32)).reshape(-1, width)


def run_chain(kind: str, start: float, factor: float, summand: float, steps: int) -> float:
    """Apply x = x * factor + summand ``steps`` times, rounding once in each."""
    x = start
    for _ in range(steps):
        if mask := _MASKS.get(kind):
            x = ((int(x) & mask) * (int(factor) & mask) + int(summand)) % (1 << 32)
        elif kind == "f64":
            x = float(Fraction(x) * Fraction(factor) + Fraction(summand))
        else:
            # A product of two FP32 (or shorter) numbers is exact in FP64. Rounding the sum to FP64 first can change the
            # result only if it is then within 2^-29 of a tie.
            x = float(TYPES[_KINDS[kind][0]](x * factor + summand))
    return x


_WGMMA_DEPTH, _WGMMA_GROUPS = 8, 2
_CHAINS = {"mfma.cu": 4, "mma.cu": 8, "wgmma.cu": 1}


@dataclass(frozen=True)
class Operands:
    """Bytes of the kernel's arguments a and b, and the product A B of each part (warp group) that computes one."""

    a: bytes
    b: bytes
    products: tuple[Array, ...]


def operands(spec: BenchmarkSpec, seed: int, *, exact: bool) -> Operands:
    """Return random operands for a matrix kernel, in the order in which its lanes hold them.

    MFMA: lane l contains row l % M of A and column l % N of B, at the same positions along K for both. PTX fragments
    (mma): lane l contains rows l / 4 (and 8 more) of A and column l / 4 of B, at l % 4 along K. WGMMA: tiles of shared
    memory in core matrices of 8 rows x 16 bytes, two of them along K.
    """
    m, n, k = spec.shape
    e = spec.elements

    def side(number: int, rows: int) -> tuple[bytes, Array]:
        shape, axes = {
            # By block along K, row, element.
            "mfma.cu": ((64 // m, m, e), (1, 0, 2)),
            # By register (step along K, then half of the rows), lane (row, position along K), element.
            "mma.cu": ((k // (4 * e or 1), rows // 8, 8, 4, e), (1, 2, 0, 3, 4)),
            # By tile, row / 8, half of K, row % 8, element.
            "wgmma.cu": ((_WGMMA_DEPTH, rows // 8, 2, 8, k // 2), (1, 3, 0, 2, 4)),
        }[spec.source]
        codes, values = random_numbers(spec.data, math.prod(shape), seed + number, exact=exact)
        unit = 32 if spec.data in ("f6", "f4") else 0
        packed = pack_codes(spec.data, codes.reshape(-1, shape[-1]), unit)
        return packed, values.reshape(shape).transpose(axes).reshape(rows, -1)

    if spec.source == "wgmma.cu":
        b, columns = side(0, n)
        sides = [side(1 + group, m) for group in range(_WGMMA_GROUPS)]
    else:
        sides = [side(0, m)]
        b, columns = side(1, n)
    return Operands(b"".join(a for a, _ in sides), b, tuple(rows @ columns.T for _, rows in sides))


def side_by_side(spec: BenchmarkSpec) -> int:
    """Return the number of products that a wave or warp group accumulates in parallel."""
    return _CHAINS[spec.source]


def wrong_products(spec: BenchmarkSpec, matrices: Operands, out: bytes, rounds: int) -> str:
    """Return the error in the results of one group, or an empty string.

    The mapping of result elements to lanes is not checked: all elements of a product must be present, in any order.
    """
    kind = np.int32 if spec.data == "i8" else np.float64 if spec.data == "f64" else np.float32
    results = np.frombuffer(out, kind)
    number = side_by_side(spec)
    times = rounds if spec.source == "wgmma.cu" else rounds * spec.count // number
    parts = spec.threads // spec.lanes
    results = results.reshape(number, -1, parts, spec.lanes)
    for part in range(parts):
        wanted = np.sort(matrices.products[part % len(matrices.products)].ravel() * times)
        for chain in range(number):
            if not np.array_equal(np.sort(results[chain, :, part].ravel().astype(np.float64)), wanted):
                return f"the elements of product {chain} of part {part} are not those of A B"
    return ""


def noise(first: int, count: int, seed: int) -> Array:
    """Return words ``first`` to ``first + count`` of a buffer filled with ``seed``, as unsigned 32-bit integers."""
    return noise_at(np.arange(first, first + count, dtype=np.uint64), seed)


def noise_at(index: Array, seed: int) -> Array:
    """Return the words at these indices (kernels/memory.h, noise)."""
    word: Array = (index.astype(np.uint64) + seed).astype(np.uint32)
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 15)) * 0x846CA68B
    word = word ^ (word >> 16)
    return (word >> 9) | 0x3F800000
