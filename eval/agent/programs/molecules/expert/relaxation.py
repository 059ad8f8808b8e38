"""Relaxation of structures: atoms follow their forces for a number of steps, in all structures at once."""

from dataclasses import dataclass, field

import torch
from structures import Structures


@dataclass
class Path:
    """Energies and largest forces by step, and the positions at the end."""

    energies: list = field(default_factory=list)
    largest: list = field(default_factory=list)
    positions: torch.Tensor = None


class Descent:
    """Steps along the force, none of which is longer than set."""

    def __init__(self, settings):
        self.rate, self.longest = settings.rate, settings.largest_step

    def step(self, force):
        step = self.rate * force
        length = torch.linalg.vector_norm(step, dim=-1, keepdim=True)
        return step * (self.longest / length.clamp(min=1e-12)).clamp(max=1.0)


def relax(case, settings, device, model):
    """Relax every structure that is asked for."""
    model.eval()
    model.requires_grad_(False)
    dataset, descent = Structures(case["relaxation"], settings.graph, device), Descent(settings.relaxation)
    positions, energies, largest = dataset.pos, [], []
    for _ in range(case["relaxation_steps"]):
        energy, force = model(dataset.current(positions))
        energies.append(energy)
        largest.append(torch.linalg.vector_norm(force, dim=-1).amax(1))
        positions = (positions + descent.step(force)) % dataset.box[:, None]
    energies, largest = torch.stack([torch.stack(energies, 1), torch.stack(largest, 1)]).tolist()
    ends = [place[:size] for place, size in zip(positions.cpu(), dataset.sizes, strict=True)]
    return [Path(*parts) for parts in zip(energies, largest, ends, strict=True)]
