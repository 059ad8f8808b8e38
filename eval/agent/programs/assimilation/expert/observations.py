"""Observations of a window and the operator that gives what the members would have observed."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from settings import rounded

OFFSETS = np.array([[0.0, 0.0], [0.0, 0.5], [0.5, 0.0]])
"""Place of heights, u and v in a cell: rows, columns."""


@dataclass(frozen=True)
class Observations:
    """What was seen (0 height, 1 u, 2 v), where (in cells), how exactly, and the noise of every member."""

    kind: np.ndarray
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    sigma: np.ndarray
    perturbations: np.ndarray

    def subset(self, chosen):
        """The observations that are chosen."""
        return Observations(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def from_window(window):
    """The observations of a window."""
    return Observations(*(window[name] for name in Observations.__dataclass_fields__))


@jax.jit
def interpolate(members, kind, first, rest):
    """Values (members, observations) between the four points around every observation."""
    fields = jnp.stack([members.height, members.u, members.v])
    rows, columns = fields.shape[-2:]
    total = 0.0
    for row in (0, 1):
        for column in (0, 1):
            weight = jnp.abs(1 - row - rest[:, 0]) * jnp.abs(1 - column - rest[:, 1])
            total += weight * fields[kind, :, (first[:, 0] + row) % rows, (first[:, 1] + column) % columns].T
    return total


class Operator:
    """Observes ensembles; the observations are padded to a size that many windows share."""

    def __init__(self, windows, settings):
        self.room = rounded(max(len(window["values"]) for window in windows), settings.room)

    def __call__(self, members, observations):
        """Values (observations, members) on the host, in FP64."""
        count = len(observations.values)
        places = np.stack([observations.y, observations.x], 1) - OFFSETS[observations.kind]
        first = np.floor(places)
        padding = (0, self.room - count)
        given = (
            np.pad(observations.kind, padding),
            np.pad(first.astype(np.int32), (padding, (0, 0))),
            np.pad((places - first).astype(np.float32), (padding, (0, 0))),
        )
        return np.asarray(interpolate(members, *given)).T[:count].astype(np.float64)
