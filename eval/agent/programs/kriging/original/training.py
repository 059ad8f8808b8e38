"""Fits hyperparameters by their marginal likelihood."""

from contextlib import nullcontext
from dataclasses import dataclass

import gpytorch
import model as models
import torch
from monitor import Monitor


@dataclass
class Fit:
    """A fitted model and how it came about."""

    model: models.FieldModel
    monitor: Monitor

    @property
    def loss(self):
        """The loss of the last step."""
        return self.monitor.last


class Trainer:
    """Fits every field from each of its starts and keeps the best."""

    def __init__(self, settings, steps, device):
        self.settings, self.steps, self.device = settings, steps, device

    def guard(self):
        return torch.autograd.detect_anomaly(check_nan=True) if self.settings.training.guard else nullcontext()

    def fit(self, field, start, label):
        """A fixed number of steps of Adam from given values."""
        model = models.make(field.inputs, field.targets, self.settings.kernel, self.device).start(start)
        monitor = Monitor(label, self.settings.training)
        model.train()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        optimizer = torch.optim.Adam(
            model.parameters(), lr=self.settings.training.rate, betas=tuple(self.settings.training.betas)
        )
        inputs, targets = model.train_inputs[0], model.train_targets
        with self.guard():
            for step in range(self.steps):
                optimizer.zero_grad()
                loss = -objective(model(inputs), targets)
                loss.backward()
                monitor(step, loss, model)
                optimizer.step()
        return Fit(model, monitor)

    def best(self, field):
        """All fits of a field and the number of the one with the lowest loss."""
        fits = [self.fit(field, start, f"{field.name} from {n}") for n, start in enumerate(field.starts)]
        return fits, min(range(len(fits)), key=lambda n: fits[n].loss)
