"""Analyses of a basin by an ensemble Kalman filter."""

import logging

import ensemble
import jax
import physics
import settings as configuration
from cycle import Cycle
from forecast import Forecast
from report import tell
from verification import Verification

log = logging.getLogger("assimilation")


def run(case, device):
    """Series of all steps, scores and misfits of all windows, and moments of the last analysis."""
    settings = configuration.load()
    forecast, verification = Forecast(case, physics.from_case(case), settings), Verification()
    cycle = Cycle(case, settings, forecast, verification)
    log.info("%s: %d windows on %d cells", settings.run.name, len(case["windows"]), case["bottom"].size)
    mean, spread = jax.device_get(ensemble.moments(cycle.run(ensemble.initial(case))))
    result = {
        **forecast.series.table(), **cycle.history.table(), **verification.table(), "mean": mean, "spread": spread,
    }  # fmt: skip
    tell(result, settings)
    return result
