"""scale * gelu(x + bias) with a bias for each column: the version to make faster."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_bias(x, bias, y, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, tl.load(x + at, mask=inside) + tl.load(bias + at % columns, mask=inside), mask=inside)


@triton.jit
def gelu(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside)
    tl.store(y + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=inside)


@triton.jit
def multiply(x, y, count, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, scale * tl.load(x + at, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, bias):
        biased, bent, y = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 256),)
        add_bias[grid](x, bias, biased, x.numel(), x.shape[1], BLOCK=256)
        gelu[grid](biased, bent, x.numel(), BLOCK=256)
        multiply[grid](bent, y, x.numel(), self.scale, BLOCK=256)
        return y
