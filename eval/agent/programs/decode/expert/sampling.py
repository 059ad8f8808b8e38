"""Top-k sampling on the device."""

import torch


def sample(logits, uniform, k, temperature):
    """One token for each row: the first whose cumulative probability among the top k exceeds its uniform number."""
    values, order = logits.topk(k, dim=-1)
    cumulative = torch.softmax(values.double() / temperature, dim=-1).cumsum(dim=-1)
    place = (cumulative <= uniform[:, None]).sum(dim=-1, keepdim=True).clamp(max=k - 1)
    return order.gather(1, place)[:, 0]
