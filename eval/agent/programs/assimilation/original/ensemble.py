"""Ensembles: their members, and the state matrix of an analysis, one column a member."""

import jax.numpy as jnp
import numpy as np
from state import FIELDS, State


def initial(case, mesh, dtype):
    """The first ensemble of a case."""
    fields = mesh.flat(case["ensemble"])
    return State(*(jnp.asarray(fields[:, n], dtype) for n in range(len(FIELDS))))


def matrix(members):
    """The state matrix: all fields of a member below each other."""
    return np.concatenate([np.asarray(getattr(members, name)).T for name in FIELDS])


def members(columns):
    """The members in a state matrix."""
    return State(*(jnp.asarray(part.T) for part in np.split(columns, len(FIELDS))))


def anomalies(columns):
    """Distances of columns from their mean."""
    return columns - columns.mean(axis=1, keepdims=True)


def inflate(columns, factor):
    """Move all members away from their mean."""
    return columns + (factor - 1.0) * anomalies(columns)


def moments(columns, mesh):
    """Mean and standard deviation by kind of field, row and column."""
    shape = (len(FIELDS), *mesh.shape)
    return columns.mean(axis=1).reshape(shape), columns.std(axis=1, ddof=1).reshape(shape)
