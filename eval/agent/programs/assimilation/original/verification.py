"""Comparison of an ensemble with the truth: ranked probability scores and histograms of ranks."""

import numpy as np
from state import FIELDS


def spread_term(values):
    """Half the mean distance of two members, by cell."""
    count = len(values)
    factors = 2 * np.arange(count) - count + 1
    return np.tensordot(factors, np.sort(values, axis=0), axes=1) / count**2


def ranked_score(values, truth):
    """Mean continuous ranked probability score of an ensemble (members, cells)."""
    return np.mean(np.abs(values - truth).mean(axis=0) - spread_term(values))


def rank_histogram(values, truth):
    """How many cells have how many members below the truth."""
    return np.bincount((values < truth).sum(axis=0), minlength=len(values) + 1)


class Verification:
    """Scores of every window by field."""

    def __init__(self, mesh, settings):
        self.mesh, self.fields = mesh, settings.fields
        self.scores, self.ranks = [], []

    def add(self, members, truth):
        """Compare a forecast with the truth at its end."""
        truth = dict(zip(FIELDS, self.mesh.flat(truth), strict=True))
        values = {name: np.asarray(getattr(members, name)) for name in self.fields}
        self.scores.append([ranked_score(values[name], truth[name]) for name in self.fields])
        self.ranks.append([rank_histogram(values[name], truth[name]) for name in self.fields])

    def table(self):
        """Scores and ranks by window and field."""
        return {"crps": np.array(self.scores), "ranks": np.array(self.ranks)}
