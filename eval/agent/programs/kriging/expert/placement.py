"""Where to put new sensors: greedily, where all fields together are least known."""

import math
from dataclasses import dataclass

import torch


@dataclass
class Plan:
    """Places of new sensors in the order of choice, numbers among the candidates."""

    chosen: torch.Tensor
    scores: torch.Tensor
    remaining: torch.Tensor


@torch.no_grad()
def plan(posterior, survey, settings, sensors, device):
    """Choose sensors one after the other; a candidate may be chosen once.

    A sensor changes the covariance of the candidates by a product of one row with itself, and these rows are kept:
    the covariances of one candidate with all others are those before any sensor less the products of the rows.
    """
    if settings.noise != "own":
        raise ValueError("sensors without noise are not implemented")
    places = torch.as_tensor(survey.candidates, device=device).expand(len(survey), -1, -1)
    _, half = posterior.whitened(places)
    rows = torch.cat([half, half.new_zeros(len(survey), sensors, half.shape[-1])], 1)
    variance = posterior.prior - half.square().sum(1)
    taken = variance.new_zeros(variance.shape[1])
    chosen, scores = [], []
    for number in range(sensors):
        score, best = ((variance / posterior.prior).sum(0) + taken).max(0)
        chosen.append(best)
        scores.append(score)
        at = best[None]
        column = posterior.model.covariance(places, places.index_select(1, at))
        column = (column - rows.mT @ rows.index_select(2, at))[..., 0]
        row = column / (column.index_select(1, at) + posterior.noise).sqrt()
        rows[:, half.shape[1] + number] = row
        variance = variance - row.square()
        taken.index_fill_(0, at, -math.inf)
    return Plan(torch.stack(chosen), torch.stack(scores), (variance / posterior.prior).mean(1))
