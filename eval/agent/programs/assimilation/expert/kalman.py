"""The Kalman filter with perturbed observations, in the space of the ensemble.

By the formula of Woodbury the gain times the innovations is the ensemble's distances from their mean times weights of
members by members. These are small and ill-conditioned: they are computed on the host in FP64.
"""

import numpy as np


def analyse(seen, observations, inflation):
    """Weights of the members' distances, degrees of freedom for signal, and the mean of what analysed members see."""
    members = seen.shape[1]
    mean = seen.mean(axis=1)
    off = seen - mean[:, None]
    scaled = off / observations.sigma[:, None]
    innovations = (observations.values[:, None] + observations.perturbations - seen) / observations.sigma[:, None]
    inner = scaled.T @ scaled
    solved = np.linalg.solve((members - 1) * np.eye(members) + inner, np.hstack([inner, scaled.T @ innovations]))
    weights = np.eye(members) + solved[:, members:]
    middle = weights.mean(axis=1, keepdims=True)
    return middle + inflation * (weights - middle), float(np.trace(solved[:, :members])), mean + off @ middle[:, 0]
