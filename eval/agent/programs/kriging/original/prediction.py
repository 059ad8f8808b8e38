"""Maps of fitted fields: means, variances and probabilities of exceeding the limit."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from grid import chunks


@dataclass
class FieldMap:
    """One field on the grid, on the scale of the transformed values."""

    mean: np.ndarray
    variance: np.ndarray
    exceedance: np.ndarray

    def share_above(self, probability=0.5):
        """The share of the grid that exceeds the limit with at least a given probability."""
        return float((self.exceedance >= probability).mean())


class Predictor:
    """Evaluates models at many places."""

    def __init__(self, settings, device):
        self.settings, self.device = settings, device

    def posterior(self, model, inputs):
        """The distribution of measurements, or of the field itself, at some places."""
        model.eval()
        latent = model(inputs)
        return model.likelihood(latent) if self.settings.with_noise else latent

    def at(self, model, inputs):
        """Mean and variance at some places, as arrays."""
        found = self.posterior(model, inputs)
        return found.mean.detach().cpu().numpy(), found.variance.detach().cpu().numpy()

    def map(self, field, model, survey):
        """A field on the whole grid."""
        means, variances, exceedances = [], [], []
        for places in chunks(survey.grid, survey.projection, self.settings):
            mean, variance = self.at(model, places.to(self.device))
            mean, variance = field.transform.mean(mean), field.transform.variance(variance)
            means.append(mean)
            variances.append(variance)
            exceedances.append(exceedance(mean, variance, field.limit))
        return FieldMap(np.concatenate(means), np.concatenate(variances), np.concatenate(exceedances))


def exceedance(mean, variance, limit):
    """The probability that a normal variable exceeds a limit."""
    score = (limit - mean) / np.sqrt(variance)
    return 0.5 * torch.erfc(torch.from_numpy(score) / math.sqrt(2)).numpy()
