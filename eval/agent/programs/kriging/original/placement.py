"""Where to put new sensors: greedily, where all fields together are least known."""

from dataclasses import dataclass

import model as models
import numpy as np
import torch


@dataclass
class Plan:
    """Places of new sensors in the order of choice, numbers among the candidates."""

    chosen: list
    scores: list
    remaining: np.ndarray


class Design:
    """One field with the sensors that are planned so far."""

    def __init__(self, model):
        self.model = models.like(model, model.train_inputs[0], model.train_targets)
        self.model.eval()
        self.scale = model.prior_variance()

    def uncertainty(self, places):
        """The variance of the field at some places, relative to what it is where nothing is known."""
        return (self.model(places).variance / self.scale).detach().cpu().numpy()

    def extend(self, place):
        """Add a sensor that measures what is expected there."""
        expected = self.model(place[None]).mean.detach()
        inputs = torch.cat([self.model.train_inputs[0], place[None]])
        targets = torch.cat([self.model.train_targets, expected])
        self.model.set_train_data(inputs, targets, strict=False)


class Planner:
    """Chooses the next sensors of a network that measures every field at each site."""

    def __init__(self, fits, survey, settings, device):
        if settings.noise != "own":
            raise ValueError("sensors without noise are not implemented")
        self.designs = [Design(model) for model in fits]
        self.places = torch.as_tensor(survey.projection.all(survey.grid[survey.candidates]), device=device)

    def uncertainties(self):
        """Relative variances, one row a field."""
        return np.stack([design.uncertainty(self.places) for design in self.designs])

    def plan(self, sensors):
        """Choose sensors one after the other; a candidate may be chosen once."""
        chosen, scores = [], []
        for _ in range(sensors):
            score = self.uncertainties().sum(0)
            score[chosen] = -np.inf
            best = int(score.argmax())
            chosen.append(best)
            scores.append(float(score[best]))
            for design in self.designs:
                design.extend(self.places[best])
        return Plan(chosen, scores, self.uncertainties().mean(1))
