"""Observations of a window and the operator that gives what the members would have observed."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from state import FIELDS

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

    def __len__(self):
        return len(self.values)

    def subset(self, chosen):
        """The observations that are chosen."""
        return Observations(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def from_window(window):
    """The observations of a window."""
    return Observations(*(window[name] for name in Observations.__dataclass_fields__))


def corners(observations, mesh):
    """Numbers and weights of the four points around every observation."""
    places = np.stack([observations.y, observations.x], 1) - OFFSETS[observations.kind]
    first = np.floor(places).astype(int)
    rest = places - first
    numbers, weights = [], []
    for row in (0, 1):
        for column in (0, 1):
            numbers.append(mesh.number(first[:, 0] + row, first[:, 1] + column))
            weights.append(np.abs(1 - row - rest[:, 0]) * np.abs(1 - column - rest[:, 1]))
    return np.stack(numbers, 1), np.stack(weights, 1)


@jax.jit
def interpolate(columns, points, weights):
    """Values (observations, members) from a state matrix."""
    return jnp.einsum("pcm,pc->pm", columns[points], weights)


class Operator:
    """Observes the columns of a state matrix."""

    def __init__(self, observations, mesh):
        numbers, self.weights = corners(observations, mesh)
        self.points = numbers + observations.kind[:, None] * mesh.cells
        assert observations.kind.max(initial=0) < len(FIELDS)

    def __call__(self, columns):
        return np.asarray(interpolate(jnp.asarray(columns), self.points, self.weights.astype(columns.dtype)))
