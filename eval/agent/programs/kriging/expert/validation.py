"""Cross-validation over regions: each is predicted from the sites of all others.

The hyperparameters stay, so nothing has to be factorised again: with Q the inverse of the covariance of all
measurements, those of a region given all others have the covariance inv(Q[r, r]), and are off by inv(Q[r, r]) (Q y)[r].
"""

from dataclasses import dataclass

import numpy as np
import scores
import torch


@dataclass
class Validation:
    """Predictions for all sites by models that have not seen their regions, fields by sites."""

    mean: torch.Tensor
    variance: torch.Tensor
    scores: dict


def members(regions, device):
    """Numbers of the sites of every region (fields by regions by places) and which of the places are used."""
    found = [[np.flatnonzero(row == region) for region in np.unique(regions)] for row in regions]
    longest = max(len(numbers) for row in found for numbers in row)
    numbers = np.zeros((len(found), len(found[0]), longest), dtype=np.int64)
    used = np.zeros(numbers.shape, dtype=bool)
    for n, row in enumerate(found):
        for m, own in enumerate(row):
            numbers[n, m, : len(own)], used[n, m, : len(own)] = own, True
    return torch.from_numpy(numbers).to(device), torch.from_numpy(used).to(device)


@torch.no_grad()
def validate(posterior, survey, settings, device):
    """Predict and score the sites of all fields, region by region."""
    numbers, used = members(np.array([field.regions for field in survey]), device)
    field = torch.arange(len(numbers), device=device)[:, None, None]
    inverse = posterior.inverse_root.mT @ posterior.inverse_root
    blocks = inverse[field[..., None], numbers[..., :, None], numbers[..., None, :]]
    both = used[..., :, None] & used[..., None, :]
    blocks = torch.where(both, blocks, torch.eye(blocks.shape[-1], dtype=blocks.dtype, device=device))
    covariance = torch.cholesky_inverse(torch.linalg.cholesky(blocks))
    weights = posterior.weights[..., 0][field, numbers] * used
    off = (covariance @ weights[..., None])[..., 0]
    targets = posterior.model.train_targets
    mean, variance = torch.empty_like(targets), torch.empty_like(targets)
    at = (field.expand_as(numbers)[used], numbers[used])
    mean[at] = targets[at] - off[used]
    variance[at] = covariance.diagonal(dim1=-2, dim2=-1)[used]
    mean, variance = survey.untransformed(mean, variance)
    values = survey.stacked("values", device)
    return Validation(mean, variance, scores.summary(values, mean, variance, settings.level))
