"""Errors on structures that were not trained with."""

import torch
from structures import Structures
from torch_geometric.loader import DataLoader


class Errors:
    """Sums of absolute errors: of energies by atom, and of forces for every kind of atom."""

    def __init__(self, kinds):
        self.energy, self.structures = 0.0, 0
        self.force, self.atoms = [0.0] * kinds, [0] * kinds

    def add(self, energy, force, batch):
        atoms = torch.bincount(batch.batch)
        self.energy += ((energy - batch.energy).abs() / atoms).sum().item()
        self.structures += batch.num_graphs
        error = (force - batch.force).abs().mean(dim=1)
        for kind in range(len(self.force)):
            chosen = batch.kind == kind
            if chosen.any():
                self.force[kind] += error[chosen].sum().item()
                self.atoms[kind] += int(chosen.sum())

    def summary(self):
        return {
            "energy": self.energy / self.structures,
            "force": sum(self.force) / sum(self.atoms),
            "force_by_kind": [error / max(count, 1) for error, count in zip(self.force, self.atoms, strict=True)],
        }


def evaluate(case, settings, device, model):
    """Mean absolute errors of a trained potential."""
    model.eval()
    errors = Errors(case["model"]["kinds"])
    dataset = Structures(case["evaluation"], settings.graph)
    for batch in DataLoader(dataset, batch_size=settings.loader.evaluation_batch):
        batch = batch.to(device)
        energy, force = model(batch)
        errors.add(energy.detach(), force.detach(), batch)
    return errors.summary()
