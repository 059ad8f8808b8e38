"""A directed graph as lists of edges on the device."""

import numpy as np
import torch


class Graph:
    """Edges, and the out-degree of every node."""

    def __init__(self, sources, targets, nodes, device):
        self.nodes, self.device = nodes, device
        self.sources, self.targets = sources.to(device), targets.to(device)
        counted = np.bincount(sources.numpy(), minlength=nodes)
        self.degree = torch.from_numpy(np.maximum(counted, 1) / 1.0).to(device)
        self.dangling = torch.from_numpy(counted == 0).to(device)

    def edges_both_ways(self):
        """Every edge in both directions, for components."""
        return torch.cat([self.sources, self.targets]), torch.cat([self.targets, self.sources])
