"""Cross-validation over regions: each is predicted from the sites of all others."""

from dataclasses import dataclass

import model as models
import numpy as np
import scores
import torch


@dataclass
class Validation:
    """Predictions for the sites of a field by models that have not seen their regions."""

    mean: np.ndarray
    variance: np.ndarray
    scores: dict


class RegionFolds:
    """Splits of the sites of a field by region."""

    def __init__(self, field, device):
        self.regions = torch.as_tensor(field.regions, device=device)

    def __iter__(self):
        for region in self.regions.unique().tolist():
            held = self.regions == region
            yield region, held.nonzero()[:, 0], (~held).nonzero()[:, 0]


class Validator:
    """Scores fitted models on regions that are held out; hyperparameters stay."""

    def __init__(self, predictor, settings, device):
        self.predictor, self.settings, self.device = predictor, settings, device

    def fold(self, model, held, kept):
        """Mean and variance for some sites, given others."""
        inputs, targets = model.train_inputs[0], model.train_targets
        return self.predictor.at(models.like(model, inputs[kept], targets[kept]), inputs[held])

    def __call__(self, field, model):
        mean, variance = np.empty(len(field)), np.empty(len(field))
        for _, held, kept in RegionFolds(field, self.device):
            rows = held.cpu().numpy()
            mean[rows], variance[rows] = self.fold(model, held, kept)
        mean, variance = field.transform.mean(mean), field.transform.variance(variance)
        return Validation(mean, variance, scores.summary(field.values, mean, variance, self.settings.level))
