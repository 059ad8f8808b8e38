"""The mesh: fields (..., rows, columns) of a doubly periodic rectangle.

Heights live in the middle of cells, currents to the east (u) in the middle of eastern edges, currents to the north (v)
in the middle of northern edges.
"""

import jax.numpy as jnp


def east(field):
    """Values of a field in the cell to the east."""
    return jnp.roll(field, -1, -1)


def west(field):
    """Values of a field in the cell to the west."""
    return jnp.roll(field, 1, -1)


def north(field):
    """Values of a field in the cell to the north."""
    return jnp.roll(field, -1, -2)


def south(field):
    """Values of a field in the cell to the south."""
    return jnp.roll(field, 1, -2)
