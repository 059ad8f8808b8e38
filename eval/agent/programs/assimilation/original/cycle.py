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

    def __init__(self, case, mesh, settings, forecast, verification):
        self.windows, self.inflation = case["windows"], case["inflation"]
        self.mesh, self.settings = mesh, settings
        self.forecast, self.verification, self.history = forecast, verification, History()

    def analyse(self, members, observations):
        """The state matrix after an analysis."""
        columns = ensemble.matrix(members)
        seen = Operator(observations, self.mesh)(columns)
        used = accept(observations, seen, self.settings.screening)
        chosen, seen = observations.subset(used), seen[used]
        analysed, signal = kalman.analyse(columns, seen, chosen)
        analysed = ensemble.inflate(np.asarray(analysed), self.inflation)
        self.history.used.append(used)
        self.history.signal.append(signal)
        self.history.background.append(misfit(chosen, seen))
        self.history.analysis.append(misfit(chosen, Operator(chosen, self.mesh)(analysed)))
        return analysed

    def run(self, members):
        """The state matrix after the last analysis."""
        for window in self.windows:
            members = self.forecast(members, window["interval"])
            self.verification.add(members, window["truth"])
            columns = self.analyse(members, from_window(window))
            members = ensemble.members(columns)
        return columns
