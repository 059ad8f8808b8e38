"""Ranks for every query, and the components."""

import torch
from components import components
from graph import Graph
from rank import pagerank


@torch.no_grad()
def run(case, device):
    """``ranks``, (queries, nodes), and ``labels``."""
    graph = Graph(case["sources"], case["targets"], case["nodes"], device)
    every = [pagerank(graph, seeds, case["damping"], case["tolerance"], case["most"]) for seeds in case["queries"]]
    return {"ranks": torch.stack(every), "labels": components(graph)}
