"""Scores of normal predictions, one for each row."""

import math
from statistics import NormalDist

import torch


def summary(values, mean, variance, level):
    """Root mean square error, mean negative log density, coverage of central intervals, and mean CRPS."""
    reach = NormalDist().inv_cdf(0.5 + level / 2)
    spread, error = variance.sqrt(), values - mean
    score = error / spread
    density = torch.exp(-0.5 * score**2) / math.sqrt(2 * math.pi)
    ranked = spread * (score * torch.erf(score / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))
    return {
        "rmse": error.square().mean(-1).sqrt(),
        "nlpd": (0.5 * torch.log(2 * math.pi * variance) + 0.5 * score**2).mean(-1),
        "coverage": (score.abs() <= reach).double().mean(-1),
        "crps": ranked.mean(-1),
    }
