"""Analyses of a basin by an ensemble Kalman filter."""

import logging

import ensemble
import physics
import settings as configuration
from cycle import Cycle
from forecast import Forecast
from mesh import rectangle
from monitor import Monitor
from report import tell
from verification import Verification

log = logging.getLogger("assimilation")


def run(case, device):
    """Series of all steps, scores and misfits of all windows, and moments of the last analysis."""
    settings = configuration.load()
    configuration.apply(settings)
    mesh = rectangle(*case["bottom"].shape, case["model"]["spacing"])
    ocean = physics.from_case(case, mesh, settings.dtype)
    monitor = Monitor(case, ocean, mesh, settings.monitor)
    verification = Verification(mesh, settings.verification)
    forecast = Forecast(case, ocean, mesh, settings, monitor)
    cycle = Cycle(case, mesh, settings, forecast, verification)
    log.info("%s: %d windows on %d cells", settings.run.name, len(case["windows"]), mesh.cells)
    mean, spread = ensemble.moments(cycle.run(ensemble.initial(case, mesh, settings.dtype)), mesh)
    result = {**monitor.series(), **cycle.history.table(), **verification.table(), "mean": mean, "spread": spread}
    tell(result, settings)
    return result
