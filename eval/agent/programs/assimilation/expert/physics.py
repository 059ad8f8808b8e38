"""The rotating shallow-water equations with bottom, wind, drag and viscosity, in vector-invariant form."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from mesh import east, north, south, west
from state import State


@jax.tree_util.register_dataclass
@dataclass
class Ocean:
    """Constants of a basin and the fields that force it; all are arguments of what is compiled."""

    spacing: float
    depth: float
    gravity: float
    coriolis: float
    viscosity: float
    drag: float
    bottom: jnp.ndarray
    wind: jnp.ndarray

    def column(self, height):
        """Thickness of the water."""
        return self.depth + height - self.bottom


def from_case(case):
    """The basin of a case."""
    given = {name: np.float32(value) for name, value in case["model"].items() if name != "longest_step"}
    bottom, wind = (jnp.asarray(case[name], jnp.float32) for name in ("bottom", "wind"))
    return Ocean(**given, bottom=bottom, wind=wind)


def friction(field, ocean):
    """Viscosity and drag at the bottom."""
    around = east(field) + west(field) + north(field) + south(field)
    return ocean.viscosity / ocean.spacing**2 * (around - 4 * field) - ocean.drag * field


def tendency(state, ocean):
    """Time derivatives of a state."""
    height, u, v = state.height, state.u, state.v
    column = ocean.column(height)
    along = 0.5 * (column + east(column)) * u
    across = 0.5 * (column + north(column)) * v
    vorticity = ocean.coriolis + (east(v) - v - north(u) + u) / ocean.spacing
    turn_u = vorticity * 0.5 * (v + east(v))
    turn_v = vorticity * 0.5 * (u + north(u))
    head = ocean.gravity * height + 0.25 * (u**2 + west(u) ** 2 + v**2 + south(v) ** 2)
    return State(
        height=-(along - west(along) + across - south(across)) / ocean.spacing,
        u=0.5 * (turn_u + south(turn_u)) - (east(head) - head) / ocean.spacing + friction(u, ocean) + ocean.wind,
        v=-0.5 * (turn_v + west(turn_v)) - (north(head) - head) / ocean.spacing + friction(v, ocean),
    )
