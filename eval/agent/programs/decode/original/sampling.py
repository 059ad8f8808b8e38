"""Top-k sampling: the k most likely tokens in order of their logits, chosen by a uniform number."""

import numpy as np
import torch


def sample(logits, uniform, k, temperature):
    """One token for each row: the first whose cumulative probability among the top k exceeds its uniform number."""
    rows = logits.cpu().numpy().astype(np.float64)
    chosen = []
    for row, number in zip(rows, uniform.tolist(), strict=True):
        order = np.argsort(-row, kind="stable")[:k]
        scaled = row[order] / temperature
        weights = np.exp(scaled - scaled.max())
        cumulative = np.cumsum(weights / weights.sum())
        chosen.append(int(order[min(int(np.searchsorted(cumulative, number, side="right")), k - 1)]))
    return torch.tensor(chosen, device=logits.device)
