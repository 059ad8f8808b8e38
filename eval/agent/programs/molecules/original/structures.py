"""Data sets of structures."""

import numpy as np
import torch
from neighbours import PeriodicRadius
from torch_geometric.data import Data, Dataset


def graph(structure):
    """The nodes of a structure and what is known of it."""
    data = Data(
        pos=torch.from_numpy(structure["positions"]),
        kind=torch.from_numpy(structure["kinds"]),
        cell=torch.from_numpy(np.diag(structure["box"]))[None],
    )
    if "energy" in structure:
        data.energy = torch.tensor([structure["energy"]], dtype=torch.float64)
        data.force = torch.from_numpy(structure["forces"])
    return data


class Structures(Dataset):
    """Structures with their neighbours."""

    def __init__(self, structures, settings):
        super().__init__(transform=PeriodicRadius(settings.cutoff, settings.images))
        self.structures = [graph(one) for one in structures]

    def len(self):
        return len(self.structures)

    def get(self, idx):
        return self.structures[idx].clone()


def statistics(dataset):
    """Number of structures, and their sizes, for the log."""
    sizes = sorted(one.num_nodes for one in dataset.structures)
    return {"structures": len(sizes), "least": sizes[0], "most": sizes[-1]}
