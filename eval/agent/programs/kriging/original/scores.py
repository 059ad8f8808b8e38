"""Scores of normal predictions."""

import math
from statistics import NormalDist

import numpy as np


def rmse(values, mean):
    return float(np.sqrt(np.mean((values - mean) ** 2)))


def nlpd(values, mean, variance):
    """Mean negative log density of what was measured."""
    return float(np.mean(0.5 * np.log(2 * math.pi * variance) + 0.5 * (values - mean) ** 2 / variance))


def coverage(values, mean, variance, level):
    """The share of values in the central interval of a given probability."""
    reach = NormalDist().inv_cdf(0.5 + level / 2)
    return float(np.mean(np.abs(values - mean) <= reach * np.sqrt(variance)))


def crps(values, mean, variance):
    """Mean continuous ranked probability score."""
    spread = np.sqrt(variance)
    score = (values - mean) / spread
    density = np.exp(-0.5 * score**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.array([math.erf(s / math.sqrt(2)) for s in score]))
    return float(np.mean(spread * (score * (2 * below - 1) + 2 * density - 1 / math.sqrt(math.pi))))


def summary(values, mean, variance, level):
    return {
        "rmse": rmse(values, mean),
        "nlpd": nlpd(values, mean, variance),
        "coverage": coverage(values, mean, variance, level),
        "crps": crps(values, mean, variance),
    }
