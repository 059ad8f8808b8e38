"""Ensemble forecasts from one analysis to the next."""

from stepping import plan, stepper


class Forecast:
    """Moves an ensemble through the interval of a window."""

    def __init__(self, case, ocean, mesh, settings, monitor):
        self.longest = case["model"]["longest_step"]
        self.ocean, self.mesh = ocean, mesh
        self.settings, self.monitor = settings.numerics, monitor

    def __call__(self, members, interval):
        chosen = plan(interval, self.longest)
        advance = stepper(self.ocean, self.mesh, chosen.step, self.settings)
        for _ in range(chosen.steps):
            members = advance(members)
            self.monitor.record(members, chosen.step)
        return members
