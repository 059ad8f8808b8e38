"""Check the stored results of a kernel against the same work done on the host."""

from __future__ import annotations

import numpy as np

from . import data
from .data import Array, noise, noise_at
from .measure import SEEDS, ReadyKernel
from .runtime import settle

_WINDOW = 1 << 14
"""Number of words compared at each position."""
_ROUNDS, _GROUPS = 3, 2


def wrong_results(ready: ReadyKernel, groups: int) -> str:
    """Launch the kernel with its results stored and compare them; return the error, or an empty string.

    Streaming kernels are checked with the ``groups`` and buffers that are timed; kernels that repeat, with two groups
    and a few rounds of the same code.
    """
    spec = ready.spec
    if spec.kind == "launch":
        ready.launch(0, 1)
        settle(ready.runtime)
        return ""
    if spec.kind == "stream":
        return _stream(ready, groups)
    if spec.shape:
        return _matrix(ready)
    if spec.kind == "sweep":
        return _sweep(ready)
    return _chain(ready) if spec.data else _cache(ready)


def _stream(ready: ReadyKernel, groups: int) -> str:
    spec, memory = ready.spec, ready.memory
    ready.runtime.clear(memory.out, memory.size)
    _run(ready, ready.tiles, groups)
    whole = ready.tiles * spec.tile_bytes // 4
    if spec.kernel == "hbm_read":
        return _sums(ready, groups)
    for first in sorted({0, whole // 2, whole - _WINDOW}):
        results = _words(ready, first, _WINDOW)
        if spec.kernel == "hbm_write":
            wanted = noise_at((np.arange(first, first + _WINDOW) % (spec.threads * 4)).astype(np.uint64), SEEDS[0])
        else:
            wanted = noise(first, _WINDOW, SEEDS[0])
            if spec.kernel == "hbm_triad":
                wanted = wanted + 2 * noise(first, _WINDOW, SEEDS[1])
        if not np.array_equal(results, wanted):
            return f"{np.count_nonzero(results != wanted)} of {_WINDOW} words from word {first} on are wrong"
    return ""


def _sums(ready: ReadyKernel, groups: int) -> str:
    """Check hbm_read: the sums of the first and last group over all of their tiles."""
    spec = ready.spec
    row = spec.threads * 4
    for group in (0, groups - 1):
        tiles = np.arange(group, ready.tiles, groups, dtype=np.uint64)
        starts = tiles[:, None] * (spec.tile_bytes // 4) + np.arange(spec.tile_bytes // 4, dtype=np.uint64)
        wanted = noise_at(starts, SEEDS[0]).reshape(-1, row).sum(axis=0, dtype=np.uint32)
        if not np.array_equal(_words(ready, group * row, row), wanted):
            return f"the sums of group {group} are wrong"
    return ""


def _cache(ready: ReadyKernel) -> str:
    spec, row = ready.spec, ready.spec.threads * 4
    tiles = ready.region(ready.grid(spec.groups[0])) if spec.kind == "tiles" else 1
    rounds = _ROUNDS * tiles
    # A launch of two groups gives each the region that it has in the timed launch.
    arguments = (*ready.arguments, ready.memory.out, rounds, tiles if spec.kind == "tiles" else 0, 1)
    ready.runtime.clear(ready.memory.out, _GROUPS * row * 4)
    ready.runtime.launch(ready.kernel, _GROUPS, spec.threads, 0, arguments)
    settle(ready.runtime)
    lanes = np.arange(spec.threads, dtype=np.uint64)
    for group in range(_GROUPS):
        if spec.kind == "tiles":
            vectors = lanes[:, None] + np.arange(8 * tiles, dtype=np.uint64) * spec.threads
            vectors = vectors + group * tiles * 8 * spec.threads
        elif spec.kernel == "vl1d_read":
            span = int(spec.defines["SPAN"])
            vectors = lanes[:, None] % span + np.arange(8, dtype=np.uint64) * span
        else:
            vectors = lanes[:, None] % 512 + np.arange(8, dtype=np.uint64) * 64
        words = vectors[:, :, None] * 4 + np.arange(4, dtype=np.uint64)
        wanted = noise_at(words, SEEDS[0]).sum(axis=1, dtype=np.uint32) * _ROUNDS
        if not np.array_equal(_words(ready, group * row, row), wanted.ravel()):
            return f"the sums of group {group} are wrong"
    return ""


def _chain(ready: ReadyKernel) -> str:
    spec, threads = ready.spec, ready.spec.threads
    ready.load_operands(exact=False)
    start, factors = (data.numbers(spec.data, raw) for raw in data.chains(spec.data, 16 * threads, SEEDS[0]))
    _run_small(ready)
    raw = ready.runtime.download(ready.memory.out, _GROUPS * 16 * threads * start.shape[1] * start.itemsize)
    results = data.numbers(spec.data, raw).reshape(_GROUPS, 16, threads, -1)
    start = start.reshape(16, threads, -1)
    steps = _ROUNDS * spec.count // 16
    for group, chain, lane in ((0, 0, 0), (0, 15, 1), (1, 7, threads - 1), (1, 8, threads // 2)):
        for part in range(start.shape[2]):
            factor, summand = factors[lane % 64, part].item(), factors[64 + lane % 64, part].item()
            wanted = data.run_chain(spec.data, start[chain, lane, part].item(), factor, summand, steps)
            if (end := results[group, chain, lane, part]) != wanted:
                return f"chain {chain} of lane {lane} ends at {end!r} instead of {wanted!r}"
    return ""


def _sweep(ready: ReadyKernel) -> str:
    threads = ready.spec.threads
    ready.load_operands(exact=False)
    factors = data.numbers("f32", data.chains("f32", 16 * threads, SEEDS[0])[1]).ravel()
    _run(ready, 2 * _GROUPS, _GROUPS)
    results = _words(ready, 0, _GROUPS * 16 * threads).reshape(_GROUPS, 16, threads)
    for group, chain, lane in ((0, 0, 0), (1, 15, threads - 1), (1, 6, 77)):
        wanted = 0
        for tile in (group, group + _GROUPS):
            word = ((tile * 4 + chain // 4) * threads + lane) * 4 + chain % 4
            start = noise(word, 1, SEEDS[0]).view(np.float32).item()
            end = data.run_chain("f32", start, factors[lane % 64].item(), factors[64 + lane % 64].item(), ready.point)
            wanted ^= int(np.float32(end).view(np.uint32))
        if results[group, chain, lane] != wanted:
            return f"word {chain} of lane {lane} is wrong after {ready.point} multiply-adds"
    return ""


def _matrix(ready: ReadyKernel) -> str:
    spec = ready.spec
    operands = ready.load_operands(exact=True)
    assert operands is not None
    _run_small(ready)
    size = (
        {"f64": 8}.get(spec.data, 4) * operands.products[0].size * spec.threads // spec.lanes * data.side_by_side(spec)
    )
    raw = ready.runtime.download(ready.memory.out, _GROUPS * size)
    for group in range(_GROUPS):
        if wrong := data.wrong_products(spec, operands, raw[group * size : (group + 1) * size], _ROUNDS):
            return f"{wrong} (group {group})"
    return ""


def _run_small(ready: ReadyKernel) -> None:
    ready.runtime.clear(ready.memory.out, min(ready.memory.size, 1 << 20))
    _run(ready, _ROUNDS, _GROUPS)


def _run(ready: ReadyKernel, rounds: int, groups: int) -> None:
    ready.launch(rounds, groups, keep=True)
    settle(ready.runtime)


def _words(ready: ReadyKernel, first: int, count: int) -> Array:
    return np.frombuffer(ready.runtime.download(ready.memory.out + 4 * first, 4 * count), np.uint32)
