"""Layers with parameters in the type of the arithmetic."""

import torch
import torch.nn.functional as F

TYPE = torch.bfloat16


class Linear:
    """A matrix without a bias, converted once."""

    def __init__(self, weight, device):
        self.weight = weight.to(device).to(TYPE)

    def __call__(self, x):
        return F.linear(x, self.weight)


class RMSNorm:
    """Scale by the root mean square of the last dimension."""

    def __init__(self, weight, device):
        self.weight = weight.to(device)

    def __call__(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (wide * scale * self.weight).to(x.dtype)


def rotary(x, cos, sin):
    """Rotary positions, for the angles of these positions."""
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)
