"""The training loop."""

import logging

import torch
from objective import EnergyForceLoss
from structures import Structures, statistics

log = logging.getLogger("molecules")


class History:
    """Losses by step, read at the end."""

    def __init__(self):
        self.losses = []

    def add(self, loss):
        self.losses.append(loss)

    def close(self):
        losses = torch.stack(self.losses)
        if not losses.isfinite().all():
            raise FloatingPointError("a loss is not finite")
        self.losses = losses.tolist()


def fit(case, settings, device, model):
    """Train with the batches of a case; returns the history."""
    dataset = Structures(case["training"], settings.graph, device)
    log.info("%s", statistics(dataset))
    objective, history = EnergyForceLoss(settings.objective), History()
    chosen = settings.optimiser
    optimiser = torch.optim.Adam(model.parameters(), lr=chosen.rate, betas=tuple(chosen.betas), fused=True)
    model.train()
    for batch in case["batches"]:
        graphs, rows = dataset.graphs(batch)
        energy, force = model(graphs)
        loss = objective(energy, force, dataset, rows)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.add(loss.detach())
    history.close()
    return history
