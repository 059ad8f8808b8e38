"""Losses of quantiles."""

import torch


def pinball(forecast, target, quantiles):
    """Pinball loss of every hour and quantile; forecasts have one dimension more than targets."""
    error = target[..., None] - forecast
    return torch.maximum(quantiles * error, (quantiles - 1) * error)


def mean_pinball(forecast, target, measured, quantiles):
    """The mean over the hours that were measured and over quantiles."""
    loss = pinball(forecast, target, quantiles) * measured[..., None]
    return loss.sum() / (measured.sum() * len(quantiles))
