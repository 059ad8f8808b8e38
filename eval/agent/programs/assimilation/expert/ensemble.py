"""Ensembles: states with members in front."""

import jax
import jax.numpy as jnp
import numpy as np
from state import State


def initial(case):
    """The first ensemble of a case."""
    fields = jnp.asarray(np.asarray(case["ensemble"], np.float32))
    return State(fields[:, 0], fields[:, 1], fields[:, 2])


@jax.jit
def transform(members, weights):
    """The mean and combinations of the distances from it, one column of weights for a new member."""

    def combined(field):
        mean = field.mean(axis=0)
        # tensor cores would round the distances to 10 bits
        return mean + jnp.einsum("mij,mn->nij", field - mean, weights, precision="highest")

    return jax.tree.map(combined, members)


@jax.jit
def moments(members):
    """Mean and standard deviation by kind of field, row and column."""
    fields = (members.height, members.u, members.v)
    return jnp.stack([f.mean(axis=0) for f in fields]), jnp.stack([f.std(axis=0, ddof=1) for f in fields])
