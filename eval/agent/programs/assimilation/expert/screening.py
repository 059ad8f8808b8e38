"""Gross errors: observations that are too far from the forecast."""

import logging

import numpy as np

log = logging.getLogger("assimilation")


def departures(observations, seen):
    """Observations less the mean of what the members see."""
    return observations.values - seen.mean(axis=1)


def accept(observations, seen, settings):
    """Which observations are used."""
    expected = np.sqrt(observations.sigma**2 + seen.var(axis=1, ddof=1))
    used = np.abs(departures(observations, seen)) <= settings.limit * expected
    log.debug("%d of %d observations are used", used.sum(), len(used))
    return used


def misfit(observations, seen):
    """Root mean square of departures in standard deviations of the observations."""
    return float(np.sqrt(np.mean((departures(observations, seen) / observations.sigma) ** 2)))
