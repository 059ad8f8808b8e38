"""The potential: energies of structures, and forces as their derivatives."""

import torch
from basis import CosineEnvelope, RadialBasis
from blocks import Interaction, Readout
from torch import nn


class Potential(nn.Module):
    """Energy of every structure and force on every atom."""

    def __init__(self, settings, width, basis, layers, kinds):
        super().__init__()
        self.kinds = kinds
        self.embedding = nn.Embedding(kinds, width)
        self.radial = RadialBasis(basis, settings.graph.cutoff, settings.basis.width)
        self.envelope = CosineEnvelope(settings.graph.cutoff)
        self.blocks = nn.ModuleList(Interaction(width, basis, kinds) for _ in range(layers))
        self.readout = Readout(width)

    def energies(self, graphs, pos):
        """Energy of every structure."""
        offset = pos.index_select(0, graphs.source) - pos.index_select(0, graphs.target) + graphs.offset
        distance = torch.linalg.vector_norm(offset, dim=-1)
        radial, envelope = self.radial(distance), self.envelope(distance)[:, None]
        reach = torch.zeros(len(pos), 1, device=pos.device).index_add(0, graphs.target, envelope)
        number = graphs.kind[graphs.target] * self.kinds + graphs.kind[graphs.source]
        pairs = torch.zeros(len(number), self.kinds**2, device=pos.device).scatter_(1, number[:, None], 1.0)
        x = self.embedding(graphs.kind)
        for block in self.blocks:
            x = block(x, graphs, pairs, radial, envelope, reach)
        return (self.readout(x).view(graphs.mask.shape) * graphs.mask).sum(1)

    def forward(self, graphs):
        pos = graphs.pos.detach().requires_grad_()
        energy = self.energies(graphs, pos)
        (slope,) = torch.autograd.grad(energy.sum(), pos, create_graph=self.training)
        return energy, -slope.view(*graphs.mask.shape, 3)


def build(case, settings, device):
    """The potential with the starting weights of a case."""
    model = Potential(settings, **case["model"])
    model.load_state_dict(case["parameters"])
    return model.to(device)


def described(model):
    """One line for the log."""
    count = sum(value.numel() for value in model.parameters())
    return f"{type(model).__name__}, {count / 1e3:.0f} k parameters, {len(model.blocks)} blocks"
