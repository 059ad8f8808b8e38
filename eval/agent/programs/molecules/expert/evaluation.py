"""Errors on structures that were not trained with."""

import torch
from structures import Structures


def evaluate(case, settings, device, model):
    """Mean absolute errors of a trained potential: of energies by atom, and of forces for every kind of atom."""
    model.eval()
    model.requires_grad_(False)
    kinds = case["model"]["kinds"]
    dataset = Structures(case["evaluation"], settings.graph, device)
    sums = torch.zeros(2, kinds + 1, dtype=torch.float64, device=device)
    for at in range(0, len(dataset), settings.loader.evaluation_batch):
        chosen = range(at, min(at + settings.loader.evaluation_batch, len(dataset)))
        graphs, rows = dataset.graphs(chosen)
        energy, force = model(graphs)
        sums[0, kinds] += ((energy - dataset.energy[rows]).abs() / dataset.atoms[rows]).sum()
        error = (force - dataset.force[rows]).abs().mean(-1)
        parts = torch.stack([error, torch.ones_like(error)]) * graphs.mask
        sums.index_add_(1, graphs.kind, parts.flatten(1).double())
    (*force, energy), (*count, _) = sums.tolist()
    return {
        "energy": energy / len(dataset),
        "force": sum(force) / sum(count),
        "force_by_kind": [error / max(number, 1) for error, number in zip(force, count, strict=True)],
    }
