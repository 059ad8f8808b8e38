"""Ranks of all queries as one sparse product per iteration, and components by hooking and pointer jumping."""

import torch

_CHECKED_EVERY = 8


def _matrix(case, device):
    """The transition matrix by target in rows: a product reads the edges of a row in order and adds without atomics."""
    nodes = case["nodes"]
    sources, targets = case["sources"].to(device), case["targets"].to(device)
    degree = torch.bincount(sources, minlength=nodes)
    order = torch.argsort(targets)
    begins = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
    begins[1:] = torch.bincount(targets, minlength=nodes).cumsum(0)
    columns = sources[order]
    values = (1.0 / degree.clamp(min=1).float())[columns]
    made = torch.sparse_csr_tensor(begins.int(), columns.int(), values, (nodes, nodes))
    return made, (degree == 0).float()


def _ranks(case, device):
    matrix, dangling = _matrix(case, device)
    restart = torch.zeros(case["nodes"], len(case["queries"]), device=device)
    for column, seeds in enumerate(case["queries"]):
        restart[seeds.to(device), column] = 1.0 / len(seeds)
    ranks, damping = restart.clone(), case["damping"]
    for number in range(case["most"]):
        after = damping * (matrix @ ranks + (dangling @ ranks) * restart) + (1 - damping) * restart
        done = number % _CHECKED_EVERY == 0 and bool(((after - ranks).abs().sum(0) < case["tolerance"]).all())
        ranks = after
        if done:
            break
    return ranks.T


def _components(case, device):
    first, second = case["sources"].to(device).long(), case["targets"].to(device).long()
    labels = torch.arange(case["nodes"], device=device)
    while True:
        one, other = labels[first], labels[second]
        apart = one != other
        if not bool(apart.any()):
            return labels
        first, second, one, other = first[apart], second[apart], one[apart], other[apart]
        high, low = torch.maximum(one, other), torch.minimum(one, other)
        labels = labels.scatter_reduce(0, high, low, "amin")
        while True:
            jumped = labels[labels]
            if torch.equal(jumped, labels):
                break
            labels = jumped


@torch.no_grad()
def run(case, device):
    """``ranks``, (queries, nodes), and ``labels``."""
    return {"ranks": _ranks(case, device), "labels": _components(case, device)}
