"""Structures on the device, padded to the same number of atoms, and graphs of some of them."""

from dataclasses import dataclass

import numpy as np
import torch
from neighbours import by_structure, search


@dataclass(frozen=True)
class Graphs:
    """Some structures: (structure, atom) flattened, and edges between the atoms."""

    pos: torch.Tensor
    kind: torch.Tensor
    mask: torch.Tensor
    target: torch.Tensor
    source: torch.Tensor
    offset: torch.Tensor
    """Of the image in which the source lies."""


def padded(arrays, device, dtype):
    """One tensor of arrays that differ in length."""
    made = np.zeros((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), dtype=arrays[0].dtype)
    for row, array in zip(made, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(made).to(device=device, dtype=dtype)


class Structures:
    """Structures of a case."""

    def __init__(self, structures, settings, device):
        self.settings, self.device = settings, device
        self.pos = padded([one["positions"] for one in structures], device, torch.float32)
        self.kind = padded([one["kinds"] for one in structures], device, torch.int64)
        self.mask = padded([np.ones(len(one["kinds"]), dtype=bool) for one in structures], device, torch.bool)
        self.box = torch.from_numpy(np.stack([one["box"] for one in structures])).to(self.pos)
        self.sizes = [len(one["kinds"]) for one in structures]
        self.atoms = torch.tensor(self.sizes, device=device)
        if "energy" in structures[0]:
            self.energy = torch.tensor([one["energy"] for one in structures], device=device)
            self.force = padded([one["forces"] for one in structures], device, torch.float32)
            self.edges = by_structure(self.pos, self.mask, self.box, settings)

    def __len__(self):
        return len(self.pos)

    def graphs(self, chosen):
        """Graphs of chosen structures, with edges that were found before; their rows, too."""
        rows = torch.as_tensor(chosen).to(self.device, non_blocking=True)
        edges = [self.edges[n] for n in chosen]
        target, source, offset = (torch.cat(part) for part in zip(*edges, strict=True))
        most = self.pos.shape[1]
        counts = torch.tensor([len(edge[0]) for edge in edges])
        starts = torch.arange(len(edges), device=self.device) * most
        starts = starts.repeat_interleave(counts.to(self.device, non_blocking=True), output_size=len(target))
        pos, kind = self.pos[rows].flatten(0, 1), self.kind[rows].flatten()
        return Graphs(pos, kind, self.mask[rows], target + starts, source + starts, offset), rows

    def current(self, pos):
        """Graphs of all structures with other positions."""
        number, target, source, offset = search(pos, self.mask, self.box, self.settings)
        start = number * pos.shape[1]
        return Graphs(pos.flatten(0, 1), self.kind.flatten(), self.mask, target + start, source + start, offset)


def statistics(dataset):
    """Number of structures, and their sizes, for the log."""
    return {"structures": len(dataset), "least": min(dataset.sizes), "most": max(dataset.sizes)}
