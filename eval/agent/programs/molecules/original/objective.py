"""The loss of a run."""

import torch


class EnergyForceLoss:
    """Squares of the error of energies by atom and of forces."""

    def __init__(self, settings):
        self.weight = settings.force_weight

    def __call__(self, energy, force, batch):
        atoms = torch.bincount(batch.batch)
        of_energy = (((energy - batch.energy) / atoms) ** 2).mean()
        of_force = ((force - batch.force) ** 2).mean()
        return of_energy + self.weight * of_force
