"""Connected components: every node takes the smallest label around it until nothing changes."""

import torch


def components(graph):
    """The smallest node of the component of every node."""
    first, second = graph.edges_both_ways()
    labels = torch.arange(graph.nodes, device=graph.device)
    while True:
        smallest = labels.scatter_reduce(0, second, labels[first], "amin")
        if torch.equal(smallest, labels):
            return labels
        labels = smallest
