"""What happened while models were fitted."""

import logging
import math
from itertools import pairwise

log = logging.getLogger("kriging")


class Monitor:
    """The losses and hyperparameters of one fit."""

    def __init__(self, label, settings):
        self.label, self.settings = label, settings
        self.losses, self.trace = [], []

    def __call__(self, step, loss, model):
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(f"{self.label}: the loss of step {step} is {value}")
        self.losses.append(value)
        if step % self.settings.log_every == 0:
            self.trace.append(model.hyperparameters())
            log.info("%s step %d: loss %.4f noise %.4f", self.label, step, value, self.trace[-1]["noise"])

    @property
    def last(self):
        return self.losses[-1]

    def drift(self):
        """The largest relative change of the noise between two entries of the trace."""
        noises = [entry["noise"] for entry in self.trace]
        pairs = pairwise(noises)
        return max((abs(b - a) / a for a, b in pairs), default=0.0)
