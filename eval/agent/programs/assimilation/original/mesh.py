"""The mesh: cells in one row of memory, with tables of their neighbours.

Heights live in the middle of cells, currents to the east (u) in the middle of eastern edges, currents to the north (v)
in the middle of northern edges. Both directions are periodic.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Mesh:
    """Numbers of rows and columns, the width of a cell in metres, and the four neighbours of every cell."""

    rows: int
    columns: int
    spacing: float
    east: jnp.ndarray
    west: jnp.ndarray
    north: jnp.ndarray
    south: jnp.ndarray

    @property
    def cells(self):
        return self.rows * self.columns

    @property
    def shape(self):
        return self.rows, self.columns

    def flat(self, field):
        """A field (..., rows, columns) by cell."""
        return field.reshape(*field.shape[:-2], self.cells)

    def square(self, field):
        """A field by cell as (..., rows, columns)."""
        return field.reshape(*field.shape[:-1], *self.shape)

    def number(self, row, column):
        """Numbers of cells by row and column, beyond the edges too."""
        return row % self.rows * self.columns + column % self.columns


def neighbour(field, table):
    """Values of a field at the neighbours of all cells."""
    return jnp.take(field, table, axis=-1)


def rectangle(rows, columns, spacing):
    """The mesh of a doubly periodic rectangle."""
    cells = np.arange(rows * columns).reshape(rows, columns)

    def table(axis, by):
        return jnp.asarray(np.roll(cells, -by, axis).ravel())

    return Mesh(rows, columns, spacing, table(1, 1), table(1, -1), table(0, 1), table(0, -1))
