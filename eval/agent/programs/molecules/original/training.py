"""The training loop."""

import logging

import torch
from objective import EnergyForceLoss
from structures import Structures, statistics
from torch_geometric.loader import DataLoader

log = logging.getLogger("molecules")


class History:
    """Losses by step and their running mean."""

    def __init__(self, keep=0.9):
        self.losses, self.mean, self.keep = [], None, keep

    def add(self, loss):
        self.losses.append(loss.item())
        self.mean = self.losses[-1] if self.mean is None else self.keep * self.mean + (1 - self.keep) * self.losses[-1]


def fit(case, settings, device, model):
    """Train with the batches of a case; returns the history."""
    dataset = Structures(case["training"], settings.graph)
    log.info("%s", statistics(dataset))
    loader = DataLoader(dataset, batch_sampler=[[int(n) for n in batch] for batch in case["batches"]])
    objective, history = EnergyForceLoss(settings.objective), History()
    chosen = settings.optimiser
    optimiser = torch.optim.Adam(model.parameters(), lr=chosen.rate, betas=tuple(chosen.betas))
    model.train()
    for number, batch in enumerate(loader, 1):
        batch = batch.to(device)
        energy, force = model(batch)
        loss = objective(energy, force, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.add(loss.detach())
        log.debug("step %d: loss %.5f, mean %.5f", number, history.losses[-1], history.mean)
    return history
