"""Functions of the distance of two atoms."""

import math

import torch
from torch import nn


class Gaussian(nn.Module):
    """One Gaussian around a centre."""

    def __init__(self, centre, width):
        super().__init__()
        self.centre, self.factor = centre, -0.5 / width**2

    def forward(self, distance):
        return torch.exp(self.factor * (distance - self.centre) ** 2)


class RadialBasis(nn.Module):
    """Gaussians that are spread evenly up to the cutoff."""

    def __init__(self, count, cutoff, width):
        super().__init__()
        spacing = cutoff / (count - 1)
        self.functions = nn.ModuleList(Gaussian(n * spacing, width * spacing) for n in range(count))

    def forward(self, distance):
        return torch.stack([function(distance) for function in self.functions], dim=-1)


class CosineEnvelope(nn.Module):
    """Falls from 1 to 0 at the cutoff, with a slope of 0 there."""

    def __init__(self, cutoff):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, distance):
        inside = 0.5 * (torch.cos(distance * (math.pi / self.cutoff)) + 1.0)
        return torch.where(distance < self.cutoff, inside, torch.zeros_like(inside))
