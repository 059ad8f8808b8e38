"""Fits hyperparameters by their marginal likelihood."""

from dataclasses import dataclass

import gpytorch
import torch
from model import FieldModels
from monitor import Monitor


@dataclass
class Fits:
    """The best model of every field, and losses (fields by starts by steps) and drifts of all fits."""

    model: FieldModels
    losses: torch.Tensor
    chosen: torch.Tensor
    drifts: torch.Tensor


class Trainer:
    """Fits every field from each of its starts, all in one batch, and keeps the best."""

    def __init__(self, settings, steps, device):
        self.settings, self.steps, self.device = settings, steps, device

    def fit(self, model):
        """A fixed number of steps of Adam; the fits do not influence each other, as Adam works by element."""
        model.train()
        monitor, options = Monitor(), self.settings.training
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, betas=tuple(options.betas), fused=True)
        inputs, targets = model.train_inputs[0], model.train_targets
        with gpytorch.settings.debug(False):
            for _ in range(self.steps):
                optimizer.zero_grad()
                losses = -objective(model(inputs), targets)
                losses.sum().backward()
                monitor(losses, model)
                optimizer.step()
        return monitor.finish()

    def best(self, survey):
        """Fit all fields and choose the start with the lowest loss for each."""
        starts = survey.starts(self.device)
        each = len(starts["noise"]) // len(survey)
        inputs, targets = survey.stacked("inputs", self.device), survey.stacked("targets", self.device)
        model = FieldModels(
            inputs.repeat_interleave(each, 0), targets.repeat_interleave(each, 0), self.settings.kernel
        ).start(starts)
        losses, drifts = (value.unflatten(0, (len(survey), each)) for value in self.fit(model))
        chosen = losses[..., -1].argmin(-1)
        rows = torch.arange(len(survey), device=chosen.device) * each + chosen
        return Fits(model.rows(rows), losses, chosen, drifts.gather(1, chosen[:, None])[:, 0])
