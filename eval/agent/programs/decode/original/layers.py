"""Layers that keep FP32 parameters and compute in the type of their input."""

import torch
import torch.nn.functional as F


class Linear:
    """A matrix without a bias."""

    def __init__(self, weight, device):
        self.weight = weight.to(device)

    def __call__(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class RMSNorm:
    """Scale by the root mean square of the last dimension."""

    def __init__(self, weight, device):
        self.weight = weight.to(device)

    def __call__(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (wide * scale * self.weight).to(x.dtype)


class Rotary:
    """Rotary positions."""

    def __init__(self, width, context, device):
        rates = 10000.0 ** (-torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
        angles = torch.arange(context, device=device, dtype=torch.float32)[:, None] * rates
        self.cos, self.sin = angles.cos(), angles.sin()

    def __call__(self, x, start):
        end = start + x.shape[2]
        cos, sin = self.cos[start:end], self.sin[start:end]
        even, odd = x[..., 0::2].float(), x[..., 1::2].float()
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return turned.flatten(-2).to(x.dtype)
