"""The potential: energies of structures, and forces as their derivatives."""

import torch
from basis import CosineEnvelope, RadialBasis
from blocks import Interaction, Readout
from torch import nn
from torch_geometric.nn import global_add_pool


class Potential(nn.Module):
    """Energy of every structure of a batch and force on every atom."""

    def __init__(self, settings, width, basis, layers, kinds):
        super().__init__()
        self.embedding = nn.Embedding(kinds, width)
        self.radial = RadialBasis(basis, settings.graph.cutoff, settings.basis.width)
        self.envelope = CosineEnvelope(settings.graph.cutoff)
        self.blocks = nn.ModuleList(Interaction(width, basis, kinds) for _ in range(layers))
        self.readout = Readout(width)

    def distances(self, batch):
        """Length of every edge."""
        source, target = batch.edge_index
        cell = batch.cell[batch.batch[source]]
        moved = torch.einsum("ei,eij->ej", batch.shift, cell)
        return torch.linalg.norm(batch.pos[source] + moved - batch.pos[target], dim=-1)

    def energies(self, batch):
        """Energy of every structure."""
        distance = self.distances(batch)
        radial, envelope = self.radial(distance).float(), self.envelope(distance).float()
        x = self.embedding(batch.kind)
        for block in self.blocks:
            x = block(x, batch.edge_index, batch.kind, radial, envelope)
        return global_add_pool(self.readout(x), batch.batch)

    def forward(self, batch):
        batch.pos.requires_grad_()
        energy = self.energies(batch)
        (slope,) = torch.autograd.grad(energy.sum(), batch.pos, create_graph=True)
        return energy, -slope


def build(case, settings, device):
    """The potential with the starting weights of a case."""
    model = Potential(settings, **case["model"])
    model.load_state_dict(case["parameters"])
    return model.to(device)


def described(model):
    """One line for the log."""
    count = sum(value.numel() for value in model.parameters())
    return f"{type(model).__name__}, {count / 1e3:.0f} k parameters, {len(model.blocks)} blocks"
