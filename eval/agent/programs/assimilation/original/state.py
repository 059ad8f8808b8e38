"""States of the sea, of one member or with members in front."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

FIELDS = ("height", "u", "v")


@jax.tree_util.register_dataclass
@dataclass
class State:
    """Height of the surface above rest and currents, by cell."""

    height: jnp.ndarray
    u: jnp.ndarray
    v: jnp.ndarray


def plus(state, factor, change):
    """A state and a multiple of a change."""
    return jax.tree.map(lambda a, b: a + factor * b, state, change)
