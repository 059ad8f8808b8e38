"""Comparison of an ensemble with the truth: ranked probability scores and histograms of ranks."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def compare(members, truth):
    """Continuous ranked probability scores and counts of ranks by field."""
    scores, ranks = [], []
    for values, true in zip((members.height, members.u, members.v), truth, strict=True):
        count = len(values)
        factors = (2.0 * jnp.arange(count) - count + 1) / count**2
        among = jnp.mean(jnp.sum(factors[:, None, None] * jnp.sort(values, axis=0), axis=0))
        scores.append(jnp.mean(jnp.abs(values - true)) - among)
        below = (values < true).sum(axis=0).ravel()
        ranks.append(jnp.sum(below[:, None] == jnp.arange(count + 1), axis=0))
    return jnp.stack(scores), jnp.stack(ranks)


class Verification:
    """Scores of every window by field; they stay on the device until the end."""

    def __init__(self):
        self.parts = []

    def add(self, members, truth):
        """Compare a forecast with the truth at its end."""
        self.parts.append(compare(members, np.asarray(truth, np.float32)))

    def table(self):
        """Scores and ranks by window and field."""
        scores, ranks = zip(*jax.device_get(self.parts), strict=True)
        return {"crps": np.stack(scores), "ranks": np.stack(ranks)}
