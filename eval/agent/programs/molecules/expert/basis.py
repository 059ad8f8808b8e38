"""Functions of the distance of two atoms."""

import math

import torch
from torch import nn


class RadialBasis(nn.Module):
    """Gaussians that are spread evenly up to the cutoff."""

    def __init__(self, count, cutoff, width):
        super().__init__()
        spacing = cutoff / (count - 1)
        self.factor = -0.5 / (width * spacing) ** 2
        self.register_buffer("centres", torch.arange(count) * spacing, persistent=False)

    def forward(self, distance):
        return torch.exp(self.factor * (distance[:, None] - self.centres) ** 2)


class CosineEnvelope(nn.Module):
    """Falls from 1 to 0 at the cutoff, with a slope of 0 there; no edge is longer."""

    def __init__(self, cutoff):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, distance):
        return 0.5 * (torch.cos(distance * (math.pi / self.cutoff)) + 1.0)
