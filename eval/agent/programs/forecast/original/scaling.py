"""Scaling of a window by the median and the spread between two quantiles of its history."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scale:
    centre: float
    spread: float

    def apply(self, values):
        return (values - self.centre) / self.spread


class RobustScaler:
    """Takes the scale of a window from what was measured in its history."""

    def __init__(self, settings):
        self.quantiles = [settings.lower, 0.5, settings.upper]
        self.least = settings.least

    def fit(self, history):
        lower, centre, upper = np.nanquantile(history, self.quantiles)
        return Scale(float(centre), max(float(upper - lower), self.least))
