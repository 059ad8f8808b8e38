"""The rotating shallow-water equations with bottom, wind, drag and viscosity, in vector-invariant form."""

from dataclasses import dataclass

import jax.numpy as jnp
from mesh import neighbour
from state import State


@dataclass(frozen=True, eq=False)
class Ocean:
    """Constants of a basin and the fields that force it."""

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


def from_case(case, mesh, dtype):
    """The basin of a case."""
    given = {k: v for k, v in case["model"].items() if k in ("depth", "gravity", "coriolis", "viscosity", "drag")}
    bottom, wind = (jnp.asarray(mesh.flat(case[name]), dtype) for name in ("bottom", "wind"))
    return Ocean(**given, bottom=bottom, wind=wind)


def transports(state, ocean, mesh):
    """Volume that flows through eastern and northern edges, for a metre of their length."""
    column = ocean.column(state.height)
    along = 0.5 * (column + neighbour(column, mesh.east)) * state.u
    across = 0.5 * (column + neighbour(column, mesh.north)) * state.v
    return along, across


def divergence(along, across, mesh):
    """What leaves a cell through its four edges."""
    return (along - neighbour(along, mesh.west) + across - neighbour(across, mesh.south)) / mesh.spacing


def absolute_vorticity(state, ocean, mesh):
    """Rotation of the currents and of the earth at north-eastern corners."""
    shear = (neighbour(state.v, mesh.east) - state.v) / mesh.spacing
    return ocean.coriolis + shear - (neighbour(state.u, mesh.north) - state.u) / mesh.spacing


def bernoulli(state, ocean, mesh):
    """Pressure head and kinetic energy in the middle of cells."""
    along = 0.5 * (state.u**2 + neighbour(state.u, mesh.west) ** 2)
    across = 0.5 * (state.v**2 + neighbour(state.v, mesh.south) ** 2)
    return ocean.gravity * state.height + 0.5 * (along + across)


def laplacian(field, mesh):
    """The five-point operator."""
    around = sum(neighbour(field, table) for table in (mesh.east, mesh.west, mesh.north, mesh.south))
    return (around - 4.0 * field) / mesh.spacing**2


def friction(field, ocean, mesh):
    """Viscosity and drag at the bottom."""
    return ocean.viscosity * laplacian(field, mesh) - ocean.drag * field


def tendency(state, ocean, mesh):
    """Time derivatives of a state."""
    vorticity = absolute_vorticity(state, ocean, mesh)
    turn_u = vorticity * 0.5 * (state.v + neighbour(state.v, mesh.east))
    turn_v = vorticity * 0.5 * (state.u + neighbour(state.u, mesh.north))
    head = bernoulli(state, ocean, mesh)
    push_u = (neighbour(head, mesh.east) - head) / mesh.spacing
    push_v = (neighbour(head, mesh.north) - head) / mesh.spacing
    return State(
        height=-divergence(*transports(state, ocean, mesh), mesh),
        u=0.5 * (turn_u + neighbour(turn_u, mesh.south)) - push_u + friction(state.u, ocean, mesh) + ocean.wind,
        v=-0.5 * (turn_v + neighbour(turn_v, mesh.west)) - push_v + friction(state.v, ocean, mesh),
    )
