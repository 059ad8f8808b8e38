"""Message passing between the atoms of a structure."""

import torch
from torch import nn
from torch.nn.functional import silu
from torch_geometric.nn import MessagePassing


class Interaction(MessagePassing):
    """Messages from both ends of an edge, its distance and its pair of kinds; their sum changes the target."""

    def __init__(self, width, basis, kinds):
        super().__init__(aggr="add")
        self.mix = nn.Linear(2 * width + basis, width)
        self.pair = nn.Parameter(torch.ones(kinds, kinds, width))
        self.out = nn.Linear(width, width)
        self.change = nn.Linear(width, width)

    def forward(self, x, edge_index, kind, radial, envelope):
        source, target = edge_index
        pair = self.pair[kind[target], kind[source]]
        total = self.propagate(edge_index, x=x, pair=pair, radial=radial, envelope=envelope)
        return x + silu(self.change(total))

    def message(self, x_i, x_j, pair, radial, envelope):
        mixed = silu(self.mix(torch.cat([x_i, x_j, radial], dim=-1)))
        return self.out(mixed * pair) * envelope[:, None]


class Readout(nn.Module):
    """Energy of an atom."""

    def __init__(self, width):
        super().__init__()
        self.into = nn.Linear(width, width // 2)
        self.out = nn.Linear(width // 2, 1)

    def forward(self, x):
        return self.out(silu(self.into(x))).squeeze(-1)
