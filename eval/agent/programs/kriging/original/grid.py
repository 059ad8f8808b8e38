"""Places of the map, in chunks."""

import torch
from torch.utils.data import DataLoader, Dataset


class Places(Dataset):
    """Places in coordinates of the kernel."""

    def __init__(self, places, projection):
        self.places, self.projection = places, projection

    def __len__(self):
        return len(self.places)

    def __getitem__(self, number):
        return torch.from_numpy(self.projection(self.places[number]))


def chunks(places, projection, settings):
    """A loader of the places in their order."""
    return DataLoader(Places(places, projection), batch_size=settings.chunk, num_workers=settings.workers)
