"""The random words that the fill kernel writes, computed again on the host for any index."""

from __future__ import annotations

import numpy as np

from .formats import Array


def words(first: int, count: int, seed: int) -> Array:
    """Words ``first`` to ``first + count`` of a buffer filled with ``seed``, as unsigned 32-bit integers."""
    return at(np.arange(first, first + count, dtype=np.uint64), seed)


def at(index: Array, seed: int) -> Array:
    """The words at these indices (kernels/memory.h, noise)."""
    word: Array = (index.astype(np.uint64) + np.uint64(seed)).astype(np.uint32)
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x7FEB352D)
    word = (word ^ (word >> np.uint32(15))) * np.uint32(0x846CA68B)
    word = word ^ (word >> np.uint32(16))
    return (word >> np.uint32(9)) | np.uint32(0x3F800000)
