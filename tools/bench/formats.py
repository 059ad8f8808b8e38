"""Number formats of matrix units: random operands in them, and what the bits mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_EXACT = np.array([-3.0, -2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0])
"""Values that every floating-point format has; sums of a few thousand products of them are exact in FP32."""
_SMALL = {"f8": (4, 3, 7), "f8_fnuz": (4, 3, 8), "f6": (2, 3, 1), "f4": (2, 1, 1)}
"""Exponent bits, fraction bits and bias. E4M3 of OCP and with the bias of CDNA 3; E2M3; E2M1."""
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i8": 8, "f8": 8, "f8_fnuz": 8, "f6": 6, "f4": 4}


def values_of(name: str) -> Array:
    """What each code of a format of 8 bits or fewer means; NaN where it is none."""
    exponent_bits, fraction_bits, bias = _SMALL[name]
    codes = np.arange(1 << (1 + exponent_bits + fraction_bits))
    exponent = codes >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = (codes & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
    size = np.where(exponent > 0, (1 + fraction) * 2.0 ** (exponent - bias), fraction * 2.0 ** (1 - bias))
    values = np.where(codes >> (exponent_bits + fraction_bits), -size, size)
    if name == "f8":
        values[[0x7F, 0xFF]] = np.nan
    if name == "f8_fnuz":
        values[0x80] = np.nan
    return values


def operands(name: str, count: int, seed: int, *, exact: bool) -> tuple[Array, Array]:
    """``count`` random numbers that are not zero: their codes (one per number) and their values.

    ``exact`` ones have products and sums without rounding; the others vary in every bit, as real data does.
    """
    rng = np.random.default_rng(seed)
    if name == "i8":
        values = rng.integers(1, 128, count) * rng.choice([-1, 1], count)
        return values.astype(np.int8).view(np.uint8), values.astype(np.float64)
    wanted = rng.choice(_EXACT, count) if exact else rng.normal(size=count)
    wanted = np.where(wanted == 0, 1.0, wanted)
    if name in _SMALL:
        return _nearest(name, wanted)
    if name == "bf16":
        codes = (wanted.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return codes, (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[name]
    return wanted.astype(kind), wanted.astype(kind).astype(np.float64)


def packed(name: str, codes: Array, unit_bytes: int) -> bytes:
    """Rows of codes as bytes, the first in the lowest bits, each row filled up with zeros to ``unit_bytes``."""
    if BITS[name] >= 8:
        rows = np.ascontiguousarray(codes).view(np.uint8).reshape(codes.shape[0], -1)
    else:
        bits = codes[:, :, None] >> np.arange(BITS[name]) & 1
        rows = np.packbits(bits.reshape(codes.shape[0], -1).astype(np.uint8), axis=1, bitorder="little")
    whole = np.zeros((rows.shape[0], max(unit_bytes, rows.shape[1])), np.uint8)
    whole[:, : rows.shape[1]] = rows
    return whole.tobytes()


def _nearest(name: str, wanted: Array) -> tuple[Array, Array]:
    """Codes nearest to the numbers, leaving zero and NaN out."""
    values = values_of(name)
    codes = np.flatnonzero(np.isfinite(values) & (values != 0))
    known = values[codes]
    order = np.argsort(known)
    edges = (known[order][1:] + known[order][:-1]) / 2
    chosen = codes[order][np.searchsorted(edges, wanted)]
    return chosen.astype(np.uint8), values[chosen]
