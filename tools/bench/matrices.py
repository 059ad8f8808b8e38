"""Operands of matrix kernels as their lanes hold them, and the products that must come out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .formats import Array, operands, packed
from .table import Spec

_WGMMA_DEPTH, _WGMMA_GROUPS = 8, 2
_CHAINS = {"mfma.cu": 4, "mma.cu": 8, "wgmma.cu": 1}


@dataclass(frozen=True)
class Operands:
    """Bytes for the kernel's arguments a and b, and the products A B of each part (warp group) that computes one."""

    a: bytes
    b: bytes
    products: tuple[Array, ...]


def of(spec: Spec, seed: int, *, exact: bool) -> Operands:
    """Random operands for a matrix kernel."""
    return {"mfma.cu": _mfma, "mma.cu": _mma, "wgmma.cu": _wgmma}[spec.source](spec, seed, exact)


def chains(spec: Spec) -> int:
    """Products that a wave or warp group adds up side by side."""
    return _CHAINS[spec.source]


def complaint(spec: Spec, given: Operands, out: bytes, rounds: int) -> str:
    """What is wrong with the results of one group, or an empty string.

    Which lane holds which element of a result is not looked at: all elements of a product must be there, in any order.
    """
    kind = np.int32 if spec.data == "i8" else np.float64 if spec.data == "f64" else np.float32
    results = np.frombuffer(out, kind)
    number = chains(spec)
    times = rounds if spec.source == "wgmma.cu" else rounds * spec.count // number
    parts = spec.threads // spec.lanes
    results = results.reshape(number, -1, parts, spec.lanes)
    for part in range(parts):
        wanted = np.sort(given.products[part % len(given.products)].ravel() * times)
        for chain in range(number):
            if not np.array_equal(np.sort(results[chain, :, part].ravel().astype(np.float64)), wanted):
                return f"the elements of product {chain} of part {part} are not those of A B"
    return ""


def _mfma(spec: Spec, seed: int, exact: bool) -> Operands:
    """Lane l holds row l % M of A and column l % N of B, at the same places along K for both."""
    m, _, k = spec.shape
    blocks = 64 // m
    unit = 32 if spec.data in ("f6", "f4") else 0

    def side(number: int) -> tuple[bytes, Array]:
        codes, values = operands(spec.data, 64 * spec.elements, seed + number, exact=exact)
        lanes = values.reshape(blocks, m, spec.elements)
        return packed(spec.data, codes.reshape(64, -1), unit), lanes.transpose(1, 0, 2).reshape(m, k)

    (a, rows), (b, columns) = side(0), side(1)
    return Operands(a, b, (rows @ columns.T,))


def _mma(spec: Spec, seed: int, exact: bool) -> Operands:
    """PTX's fragments: lane l holds rows l / 4 (and 8 more) of A and column l / 4 of B, at l % 4 along K."""
    m, n, k = spec.shape
    e = spec.elements

    def side(number: int, rows: int) -> tuple[bytes, Array]:
        halves, steps = rows // 8, k // (4 * e)
        codes, values = operands(spec.data, rows * k, seed + number, exact=exact)
        # By register (step along K, then half of the rows), lane (row, place along K), element.
        shape = (steps, halves, 8, 4, e)
        whole = values.reshape(shape).transpose(1, 2, 0, 3, 4).reshape(rows, k)
        return packed(spec.data, codes.reshape(steps * halves * 32, e), 0), whole

    (a, rows), (b, columns) = side(0, m), side(1, n)
    return Operands(a, b, (rows @ columns.T,))


def _wgmma(spec: Spec, seed: int, exact: bool) -> Operands:
    """Tiles of shared memory in core matrices of 8 rows x 16 bytes, two of them along K."""
    m, n, k = spec.shape

    def side(number: int, rows: int) -> tuple[bytes, Array]:
        codes, values = operands(spec.data, _WGMMA_DEPTH * rows * k, seed + number, exact=exact)
        # By tile, row / 8, half of K, row % 8, element.
        shape = (_WGMMA_DEPTH, rows // 8, 2, 8, k // 2)
        whole = values.reshape(shape).transpose(0, 1, 3, 2, 4).reshape(_WGMMA_DEPTH, rows, k)
        return codes.tobytes(), whole.transpose(1, 0, 2).reshape(rows, -1)

    b, columns = side(0, n)
    sides = [side(1 + group, m) for group in range(_WGMMA_GROUPS)]
    return Operands(b"".join(a for a, _ in sides), b, tuple(rows @ columns.T for _, rows in sides))
