"""The Kalman filter with perturbed observations."""

import jax
import jax.numpy as jnp
from ensemble import anomalies


def covariances(off, off_seen):
    """Sample covariances of the state with the observed, and of the observed."""
    count = off.shape[1] - 1
    return off @ off_seen.T / count, off_seen @ off_seen.T / count


@jax.jit
def gain(columns, seen, sigma):
    """The gain (state, observations) and the degrees of freedom for signal."""
    cross, own = covariances(anomalies(columns), anomalies(seen))
    inverse = jnp.linalg.inv(own + jnp.diag(sigma**2))
    return cross @ inverse, jnp.sum(own * inverse)


@jax.jit
def correct(columns, gained, innovations):
    """Members after the analysis."""
    return columns + gained @ innovations


def analyse(columns, seen, observations):
    """The analysed state matrix, and the degrees of freedom for signal."""
    gained, signal = gain(columns, seen, observations.sigma.astype(columns.dtype))
    innovations = observations.values[:, None] + observations.perturbations - seen
    return correct(columns, gained, innovations.astype(columns.dtype)), float(signal)
