"""Metrics of an evaluation."""

import torch
from quantiles import pinball
from torchmetrics import Metric


class Forecasts(Metric):
    """Losses and coverage by quantile, errors of the median by series, and the root of its mean squared error."""

    full_state_update = False

    def __init__(self, quantiles, series):
        super().__init__()
        self.names = [f"{q:g}" for q in quantiles]
        for name, size in {"loss": len(quantiles), "below": len(quantiles), "error": series, "size": series}.items():
            self.add_state(name, default=torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("square", "count"):
            self.add_state(name, default=torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, forecast, target, measured, series, centre, spread, quantiles):
        keep = measured[..., None]
        self.loss += (pinball(forecast, target, quantiles) * keep).sum((0, 1))
        self.below += ((target[..., None] <= forecast) & keep).sum((0, 1))
        median = forecast[..., forecast.shape[-1] // 2]
        error = (median - target).double() * spread[:, None] * measured
        load = (target * spread[:, None] + centre[:, None]) * measured
        self.error.index_add_(0, series, error.abs().sum(1))
        self.size.index_add_(0, series, load.abs().sum(1))
        self.square += error.square().sum()
        self.count += measured.sum()

    def compute(self):
        parts = [self.loss, self.below, self.error, self.size, self.square[None], self.count[None]]
        loss, below, error, size, square, count = (
            part.tolist() for part in torch.cat(parts).cpu().split([len(part) for part in parts])
        )
        loss, below = ([value / count[0] for value in values] for values in (loss, below))
        return {
            "by_quantile": dict(zip(self.names, loss, strict=True)),
            "coverage": dict(zip(self.names, below, strict=True)),
            "loss": sum(loss) / len(loss),
            "rmse": (square[0] / count[0]) ** 0.5,
            "by_series": {n: a / b for n, (a, b) in enumerate(zip(error, size, strict=True)) if b > 0},
        }
