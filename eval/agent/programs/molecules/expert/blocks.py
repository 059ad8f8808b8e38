"""Message passing between the atoms of a structure."""

import torch
from torch import nn
from torch.nn.functional import linear, silu


class Interaction(nn.Module):
    """Messages from both ends of an edge, its distance and its pair of kinds; their sum changes the target."""

    def __init__(self, width, basis, kinds):
        super().__init__()
        self.width = width
        self.mix = nn.Linear(2 * width + basis, width)
        self.pair = nn.Parameter(torch.ones(kinds, kinds, width))
        self.out = nn.Linear(width, width)
        self.change = nn.Linear(width, width)

    def forward(self, x, graphs, pairs, radial, envelope, reach):
        """The parts of ``mix`` are applied to atoms before they are gathered, and ``out`` to sums of messages."""
        of_target, of_source, of_radial = self.mix.weight.split([self.width, self.width, radial.shape[1]], dim=1)
        mixed = linear(radial, of_radial)
        mixed = mixed + linear(x, of_target, self.mix.bias).index_select(0, graphs.target)
        mixed = silu(mixed + linear(x, of_source).index_select(0, graphs.source))
        weight = (pairs @ self.pair.flatten(0, 1)) * envelope
        total = torch.zeros_like(x).index_add(0, graphs.target, mixed * weight)
        total = linear(total, self.out.weight) + reach * self.out.bias
        return x + silu(self.change(total))


class Readout(nn.Module):
    """Energy of an atom."""

    def __init__(self, width):
        super().__init__()
        self.into = nn.Linear(width, width // 2)
        self.out = nn.Linear(width // 2, 1)

    def forward(self, x):
        return self.out(silu(self.into(x))).squeeze(-1)
