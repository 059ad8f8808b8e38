"""Compute on the host what kernels with known work must store, for the first group or the first and last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ....analysis.base.text import count_text
from ....analysis.counter_check.known_kernels import KnownLaunch

Array = npt.NDArray[Any]
Download = Callable[[int, int], bytes]
"""Maps offset and size in the result buffer to its bytes."""
TYPES: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.uint32}
"""NumPy types of the operands of arithmetic kernels."""


def explain_wrong_result(launch: KnownLaunch, download: Download) -> str | None:
    """Return what is wrong with the results of a launch; empty if they are right, None if this is not known."""
    bad = _wrong_lanes(launch, download)
    if bad is None:
        return None
    return f"{int(bad.sum())} of {count_text(bad.size, 'result is', 'results are')} wrong" if bad.any() else ""


def _wrong_lanes(launch: KnownLaunch, download: Download) -> Array | None:
    """Return which results differ from the expected ones."""
    if launch.result is not None:
        return _same_everywhere(launch, download, launch.result)
    short = launch.name.removeprefix("known_")
    if short.startswith("write_"):
        return _wrong_writes(launch, download)
    if short in ("copy_16", "bulk"):
        words = np.frombuffer(download(0, 1 << 16), np.uint32)
        return np.asarray(words != np.arange(words.size, dtype=np.uint32))
    if (expected := _sums(launch, short)) is None:
        return None
    return np.asarray(np.frombuffer(_ends(launch, download, launch.threads * 4), np.uint32) != expected)


def _ends(launch: KnownLaunch, download: Download, size: int) -> bytes:
    """The ``size`` bytes of each of the first and the last group."""
    return download(0, size) + download((launch.groups - 1) * size, size)


def _same_everywhere(launch: KnownLaunch, download: Download, result: float) -> Array:
    """Check that every lane stores one number: arithmetic kernels in their operands' format, others whole words."""
    kind = TYPES[launch.data] if launch.data else np.uint64 if launch.source == "states.cu" else np.uint32
    # 16 chains per lane; of a pair of FP16 numbers, AMD's scalar instructions leave the upper one unchanged.
    each = 16 * (2 if launch.data == "f16" else 1) if launch.data else 2 if kind is np.uint64 else 1
    size = launch.threads * each * np.dtype(kind).itemsize
    got = np.frombuffer(_ends(launch, download, size), kind)
    return np.asarray(got[:: 2 if launch.data == "f16" or kind is np.uint64 else 1] != kind(result))


def _wrong_writes(launch: KnownLaunch, download: Download) -> Array:
    """Check the first group's stores of the first and last iteration: the numbers of the lane and of the iteration."""
    apart, lanes = int(launch.quantities["apart"]), launch.groups * launch.threads
    bad = []
    for time in (0, 4 * launch.rounds - 1):
        raw = download(time * lanes * apart, launch.threads * apart)
        got = np.frombuffer(raw, np.uint32)[:: apart // 4]
        bad.append(got != np.arange(launch.threads, dtype=np.uint32) + np.uint32(time))
    return np.concatenate(bad)


def _sums(launch: KnownLaunch, short: str) -> Array | None:
    """Return the sums stored by lanes of the first and the last group: buffer a contains the index of every word,
    LDS that of every word within it."""
    lane = np.concatenate([np.arange(launch.threads)] * 2).astype(np.uint64)
    group = np.repeat([0, launch.groups - 1], launch.threads).astype(np.uint64)
    words = _words_read(launch, short, lane, group)
    return None if words is None else np.asarray(sum(words).astype(np.uint32))


def _words_read(launch: KnownLaunch, short: str, lane: Array, group: Array) -> list[Any] | None:
    """Return what the lanes add up, in any order; None for a kernel whose sum is not known."""
    threads, rounds, none = launch.threads, launch.rounds, np.zeros_like(lane)
    if short.startswith("read_"):
        size, apart = int(launch.quantities["size"]), int(launch.quantities["apart"])
        first = (group * threads + lane) * (apart // 4)
        step = launch.groups * threads * (apart // 4)
        return [first + number * step + word for number in range(4 * rounds) for word in range(size // 4)]
    if short == "reread_vl1d":
        return [rounds * (group * (8 * threads) + lane + number * threads) for number in range(8)]
    if short == "scratch":
        return [none + sum(8 * r + 28 for r in range(rounds))]
    if short.startswith("lds_read"):
        wave = int(launch.quantities["wave"])
        return [lane, *(rounds * (lane % wave * launch.step + number * 1024) for number in range(8))]
    if short == "scalar_read":
        return [none + rounds * (0 + 17 + 35 + 55 + 79)]
    if short == "cluster":
        return [rounds * (lane + number * threads) for number in range(8)]
    return None
