"""PageRank with restarts at given nodes."""

import torch


def restart_vector(graph, seeds):
    """The distribution of a restart: equal for the given nodes."""
    vector = torch.zeros(graph.nodes, dtype=graph.degree.dtype, device=graph.device)
    vector[seeds.to(graph.device)] = 1.0 / len(seeds)
    return vector


def spread(graph, ranks):
    """What every node receives from the nodes that link to it."""
    messages = (ranks / graph.degree)[graph.sources]
    received = torch.zeros_like(ranks)
    return received.index_add_(0, graph.targets, messages)


def pagerank(graph, seeds, damping, tolerance, most):
    """The ranks for one query."""
    restart = restart_vector(graph, seeds)
    ranks = restart.clone()
    for _ in range(most):
        lost = ranks[graph.dangling].sum()
        after = damping * (spread(graph, ranks) + lost * restart) + (1 - damping) * restart
        change = (after - ranks).abs().sum().item()
        ranks = after
        if change < tolerance:
            break
    return ranks
