"""Triton kernels with a known limit, each with changes that reveal it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from cases import MI, Call, Case, case, indices, real


@triton.jit
def add_columns(x, out, rows, columns, block: tl.constexpr):
    column = tl.program_id(0)
    total = tl.zeros([block], tl.float32)
    for start in range(0, rows, block):
        total += tl.load(x + (start + tl.arange(0, block)) * columns + column)
    tl.store(out + column, tl.sum(total))


@triton.jit
def add_rows_of(x, out, columns, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], tl.float32)
    for start in range(0, columns, block):
        total += tl.load(x + row * columns + start + tl.arange(0, block))
    tl.store(out + row, tl.sum(total))


@case
def triton_down_columns() -> Case:
    x, out = real(4096, 4096), torch.empty(4096, device="cuda")
    return Case(
        lambda: add_columns[(4096,)](x, out, 4096, 4096, block=1024),
        fixes={"unit_stride": lambda: add_rows_of[(4096,)](x, out, 4096, block=1024)},
    )


@triton.jit
def count_values(x, bins, spread, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(bins + tl.load(x + at) * spread, 1)


@case
def triton_histogram() -> Case:
    few, many = (indices(16 * MI, n).to(torch.int32) for n in (4, 65536))
    bins = torch.zeros(65536, device="cuda", dtype=torch.int32)
    grid = (16 * MI // 1024,)
    return Case(
        lambda: count_values[grid](few, bins, 1, block=1024),
        fixes={"spread_atomics": lambda: count_values[grid](many, bins, 1, block=1024)},
    )


@triton.jit
def polynomial(x, out, count, steps, block: tl.constexpr):
    for start in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        at = start + tl.arange(0, block)
        value = tl.load(x + at)
        total = value
        for _ in range(steps):
            total = total * value + 0.5
        tl.store(out + at, total)


@case
def triton_polynomial() -> Case:
    x, out = real(8 * MI), torch.empty(8 * MI, device="cuda")
    return Case(
        lambda: polynomial[(2112,)](x, out, 8 * MI, 512, block=1024),
        removals={"no_operations": lambda: polynomial[(2112,)](x, out, 8 * MI, 1, block=1024)},
    )


@case
def triton_few_programs() -> Case:
    x, out = real(8 * MI), torch.empty(8 * MI, device="cuda")
    return Case(
        lambda: polynomial[(24,)](x, out, 8 * MI, 64, block=1024),
        fixes={"more_groups": lambda: polynomial[(2112,)](x, out, 8 * MI, 64, block=1024)},
        removals={"no_operations": lambda: polynomial[(24,)](x, out, 8 * MI, 1, block=1024)},
    )


@triton.jit
def sigmoids(x, out, count, steps, block: tl.constexpr):
    for start in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        at = start + tl.arange(0, block)
        value = tl.load(x + at)
        for _ in range(steps):
            value = tl.exp(-value)
        tl.store(out + at, value)


@case
def triton_exponentials() -> Case:
    x, out = real(8 * MI), torch.empty(8 * MI, device="cuda")
    return Case(
        lambda: sigmoids[(2112,)](x, out, 8 * MI, 128, block=1024),
        removals={"no_operations": lambda: sigmoids[(2112,)](x, out, 8 * MI, 1, block=1024)},
    )


@triton.jit
def normalised(x, out, columns, block: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, block)
    row = tl.load(x + at)
    row = tl.exp(row - tl.max(row))
    tl.store(out + at, row / tl.sum(row))


@case
def triton_rows_in_one_warp() -> Case:
    x, out = real(4096, 16384), torch.empty(4096, 16384, device="cuda")
    return Case(
        lambda: normalised[(4096,)](x, out, 16384, block=16384, num_warps=1),
        fixes={"no_spills": lambda: normalised[(4096,)](x, out, 16384, block=16384, num_warps=16)},
    )


@triton.jit
def tiles(a, b, c, n, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    row = tl.program_id(0) * bm + tl.arange(0, bm)
    column = tl.program_id(1) * bn + tl.arange(0, bn)
    inner = tl.arange(0, bk)
    total = tl.zeros([bm, bn], tl.float32)
    for k in range(0, n, bk):
        left = tl.load(a + row[:, None] * n + k + inner[None, :])
        right = tl.load(b + (k + inner)[:, None] * n + column[None, :])
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))


def tiled(size: int, bm: int, bn: int, bk: int, **how: int) -> Call:
    a, b, c = (real(size, size, dtype=torch.float16) for _ in "abc")
    return lambda: tiles[(size // bm, size // bn)](a, b, c, size, bm=bm, bn=bn, bk=bk, **how)


@case
def triton_small_tiles() -> Case:
    return Case(
        tiled(4096, 16, 16, 32, num_warps=1),
        fixes={"larger_tiles": tiled(4096, 128, 128, 64, num_warps=8, num_stages=3)},
    )


@case
def triton_one_stage() -> Case:
    return Case(
        tiled(4096, 128, 128, 64, num_warps=8, num_stages=1),
        fixes={"pipelined": tiled(4096, 128, 128, 64, num_warps=8, num_stages=3)},
    )


@case
def triton_large_tiles() -> Case:
    return Case(tiled(8192, 128, 256, 64, num_warps=8, num_stages=3))


@triton.jit
def follow(links, out, steps, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    place = at
    for _ in range(steps):
        place = tl.load(links + place)
    tl.store(out + at, place)


@case
def triton_chain() -> Case:
    links, out = (
        torch.randperm(32 * MI, device="cuda").to(torch.int32),
        torch.empty(MI, device="cuda", dtype=torch.int32),
    )
    few = 132 * 2
    near = torch.randperm(few * 128, device="cuda").to(torch.int32)
    ordered = ((torch.arange(32 * MI, device="cuda") + few * 128) % (32 * MI)).to(torch.int32)
    return Case(
        lambda: follow[(few,)](links, out, 512, block=128, num_warps=4),
        removals={"in_l2": lambda: follow[(few,)](near, out, 512, block=128, num_warps=4)},
        fixes={
            "in_order": lambda: follow[(few,)](ordered, out, 512, block=128, num_warps=4),
            "more_groups": (lambda: follow[(few * 8,)](links, out, 512, block=128, num_warps=4), 8.0),
        },
    )
