"""Relaxation of structures: atoms follow their forces for a number of steps."""

from dataclasses import dataclass, field

import numpy as np
import torch
from neighbours import PeriodicRadius
from structures import graph
from torch_geometric.data import Batch


class Calculator:
    """Energy and forces of one structure, as arrays."""

    def __init__(self, model, device, settings):
        self.model, self.device = model, device
        self.neighbours = PeriodicRadius(settings.graph.cutoff, settings.graph.images)

    def __call__(self, structure, positions):
        data = self.neighbours(graph(structure | {"positions": positions}))
        energy, force = self.model(Batch.from_data_list([data]).to(self.device))
        return energy.item(), force.detach().cpu().numpy()


@dataclass
class Path:
    """Energies and largest forces by step, and the positions at the end."""

    energies: list = field(default_factory=list)
    largest: list = field(default_factory=list)
    positions: torch.Tensor = None


class Descent:
    """Steps along the force, none of which is longer than set."""

    def __init__(self, calculator, settings):
        self.calculator = calculator
        self.rate, self.longest = settings.rate, settings.largest_step

    def step(self, force):
        step = self.rate * force
        length = np.linalg.norm(step, axis=1, keepdims=True)
        return step * np.minimum(1.0, self.longest / np.maximum(length, 1e-12))

    def run(self, structure, steps):
        path, positions = Path(), structure["positions"].copy()
        for _ in range(steps):
            energy, force = self.calculator(structure, positions)
            path.energies.append(energy)
            path.largest.append(float(np.linalg.norm(force, axis=1).max()))
            positions = (positions + self.step(force)) % structure["box"]
        path.positions = torch.from_numpy(positions)
        return path


def relax(case, settings, device, model):
    """Relax every structure that is asked for."""
    model.eval()
    descent = Descent(Calculator(model, device, settings), settings.relaxation)
    return [descent.run(structure, case["relaxation_steps"]) for structure in case["relaxation"]]
