"""Scaling of windows by the median and the spread between two quantiles of their histories."""

import torch


class RobustScaler:
    """Takes the scale of every window from what was measured in its history."""

    def __init__(self, settings):
        self.quantiles = [settings.lower, 0.5, settings.upper]
        self.least = settings.least

    def fit(self, history):
        """Centres and spreads of rows."""
        levels = torch.tensor(self.quantiles, dtype=history.dtype, device=history.device)
        lower, centre, upper = torch.nanquantile(history, levels, dim=1)
        return centre, (upper - lower).clamp(min=self.least)
