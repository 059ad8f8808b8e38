"""Posteriors of a batch of fitted fields, and their maps."""

import math
from dataclasses import dataclass

import torch


class Posterior:
    """What the measured values say, for all fields at once; the covariances of the sites are factorised once."""

    @torch.no_grad()
    def __init__(self, model):
        self.model, self.sites = model, model.train_inputs[0]
        self.parameters = model.hyperparameters()
        self.noise, self.constant = self.parameters["noise"][:, None], self.parameters["constant"][:, None]
        self.prior = (self.parameters["outputscale"] + self.parameters["trend_scale"])[:, None]
        covariance = model.covariance(self.sites, self.sites)
        covariance.diagonal(dim1=-2, dim2=-1).add_(self.noise)
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        self.inverse_root = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), eye, upper=False)
        self.rest = (model.train_targets - self.constant)[..., None]
        self.weights = self.inverse_root.mT @ (self.inverse_root @ self.rest)

    def whitened(self, places):
        """Covariances of sites and places: as they are, and after the inverse root of those of the sites."""
        places = places.expand(len(self.sites), -1, -1)
        cross = self.model.covariance(self.sites, places)
        return cross, self.inverse_root @ cross

    @torch.no_grad()
    def __call__(self, places):
        """Means and variances of measurements, fields by places."""
        cross, half = self.whitened(places)
        mean = self.constant + (cross.mT @ self.weights)[..., 0]
        return mean, self.prior + self.noise - half.square().sum(-2)


@dataclass
class Maps:
    """All fields on the grid, on the scale of the transformed values."""

    mean: torch.Tensor
    variance: torch.Tensor
    exceedance: torch.Tensor

    def share_above(self, probability=0.5):
        """The share of the grid that exceeds the limit with at least a given probability, for each field."""
        return (self.exceedance >= probability).double().mean(-1).tolist()


def draw(posterior, survey, settings, device):
    """Maps of all fields."""
    found = [posterior(places) for places in torch.as_tensor(survey.grid, device=device).split(settings.chunk)]
    mean, variance = survey.untransformed(*(torch.cat(parts, -1) for parts in zip(*found, strict=True)))
    limits = survey.stacked("limit", device)[:, None]
    exceedance = 0.5 * torch.erfc((limits - mean) / (variance.sqrt() * math.sqrt(2)))
    return Maps(mean, variance, exceedance)
