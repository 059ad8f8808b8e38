"""The cache of keys and values of one layer, with room for the whole context."""

import torch


class LayerCache:
    """Keys and values: (batch, heads, context, width), of which the first positions are valid."""

    def __init__(self, batch, heads, context, width, device, dtype):
        self.keys, self.values = (
            torch.zeros(batch, heads, context, width, device=device, dtype=dtype) for _ in range(2)
        )

    def write(self, k, v, positions):
        """Store new positions, a tensor on the device."""
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
