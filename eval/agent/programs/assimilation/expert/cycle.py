"""The cycle of forecast, screening and analysis."""

from dataclasses import dataclass, field

import ensemble
import kalman
import numpy as np
from observations import Operator, from_window
from screening import accept, misfit


@dataclass
class History:
    """What every analysis tells of itself."""

    used: list = field(default_factory=list)
    signal: list = field(default_factory=list)
    background: list = field(default_factory=list)
    analysis: list = field(default_factory=list)

    def table(self):
        numbers = {name: np.array(getattr(self, name)) for name in ("signal", "background", "analysis")}
        return {"used": self.used} | numbers


class Cycle:
    """Goes through the windows of a case."""

    def __init__(self, case, settings, forecast, verification):
        self.windows, self.inflation, self.settings = case["windows"], case["inflation"], settings
        self.observe = Operator(case["windows"], settings.analysis)
        self.forecast, self.verification, self.history = forecast, verification, History()

    def analyse(self, members, observations):
        """The members after an analysis."""
        seen = self.observe(members, observations)
        used = accept(observations, seen, self.settings.screening)
        chosen, seen = observations.subset(used), seen[used]
        weights, signal, after = kalman.analyse(seen, chosen, self.inflation)
        self.history.used.append(used)
        self.history.signal.append(signal)
        self.history.background.append(misfit(chosen, seen))
        self.history.analysis.append(misfit(chosen, after[:, None]))
        return ensemble.transform(members, weights.astype(np.float32))

    def run(self, members):
        """The members after the last analysis."""
        for window in self.windows:
            members = self.forecast(members, window["interval"])
            self.verification.add(members, window["truth"])
            members = self.analyse(members, from_window(window))
        return members
