"""Between concentrations and the targets of a Gaussian process."""

import numpy as np


class Standard:
    """Zero mean and unit variance, after a logarithm where one is asked for."""

    kinds = ("log", "none")

    def __init__(self, kind):
        if kind not in self.kinds:
            raise ValueError(f"no transform {kind}; there are {', '.join(self.kinds)}")
        self.kind, self.shift, self.scale = kind, 0.0, 1.0

    def raw(self, values):
        """Values on the scale of the maps, not yet standardised."""
        values = np.asarray(values, dtype=np.float64)
        if self.kind == "log":
            if (values <= 0).any():
                raise ValueError("concentrations are not positive")
            return np.log(values)
        return values

    def fit(self, values):
        raw = self.raw(values)
        self.shift, self.scale = float(raw.mean()), float(raw.std())
        return self

    def forward(self, values):
        return (self.raw(values) - self.shift) / self.scale

    def mean(self, values):
        """Means of targets on the scale of the maps."""
        return values * self.scale + self.shift

    def variance(self, values):
        """Variances of targets on the scale of the maps."""
        return values * self.scale**2
