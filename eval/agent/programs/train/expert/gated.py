"""The gated activation u * sigmoid(g) with its own backward pass; Triton kernels on a GPU."""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BLOCK = 1024

if triton is not None:

    @triton.jit
    def _forward(u, g, out, total, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < total
        a = tl.load(u + at, mask=inside)
        b = tl.load(g + at, mask=inside)
        tl.store(out + at, a * tl.sigmoid(b), mask=inside)

    @triton.jit
    def _backward(u, g, up, du, dg, total, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < total
        a = tl.load(u + at, mask=inside)
        s = tl.sigmoid(tl.load(g + at, mask=inside))
        d = tl.load(up + at, mask=inside)
        tl.store(du + at, d * s, mask=inside)
        tl.store(dg + at, d * a * s * (1 - s), mask=inside)


class Gated(torch.autograd.Function):
    """u * sigmoid(g) of two matrices."""

    @staticmethod
    def forward(ctx, u, g):
        u, g = u.contiguous(), g.contiguous()
        ctx.save_for_backward(u, g)
        if not u.is_cuda:
            return u * torch.sigmoid(g)
        out = torch.empty_like(u)
        _forward[(triton.cdiv(u.numel(), BLOCK),)](u, g, out, u.numel(), BLOCK=BLOCK)
        return out

    @staticmethod
    def backward(ctx, up):
        u, g = ctx.saved_tensors
        up = up.contiguous()
        if not u.is_cuda:
            s = torch.sigmoid(g)
            return up * s, up * u * s * (1 - s)
        du, dg = torch.empty_like(u), torch.empty_like(g)
        _backward[(triton.cdiv(u.numel(), BLOCK),)](u, g, up, du, dg, u.numel(), BLOCK=BLOCK)
        return du, dg
