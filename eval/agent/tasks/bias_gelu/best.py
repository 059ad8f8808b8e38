"""scale * gelu(x + bias) with a bias for each column: the best version known."""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu(x, bias, y, count, columns, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside) + tl.load(bias + at % columns, mask=inside)
    tl.store(y + at, scale * 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, bias):
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        bias_gelu[grid](x, bias, y, x.numel(), x.shape[1], self.scale, BLOCK=1024)
        return y
