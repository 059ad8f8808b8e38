"""The cache of keys and values of one layer."""

import torch


class LayerCache:
    """Keys and values of all earlier positions: (batch, heads, positions, width)."""

    def __init__(self):
        self.keys = self.values = None

    def append(self, k, v):
        """Add new positions and return all of them."""
        if self.keys is None:
            self.keys, self.values = k, v
        else:
            self.keys = torch.cat([self.keys, k], dim=2)
            self.values = torch.cat([self.values, v], dim=2)
        return self.keys, self.values
