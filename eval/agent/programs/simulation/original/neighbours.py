"""Neighbour lists from cells that are as wide as the cutoff."""

import numpy as np


def cells_of(positions, box, cutoff):
    """The cell of every particle, and the number of cells of a side."""
    side = max(3, int(box // cutoff))
    place = np.floor(positions / box * side).astype(np.int64) % side
    return (place[:, 0] * side + place[:, 1]) * side + place[:, 2], side


def around(side):
    """The 27 cells at and around every cell, (cells, 27)."""
    numbers = np.arange(side**3)
    x, y, z = numbers // side**2, numbers // side % side, numbers % side
    shifts = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]
    return np.stack([((x + i) % side * side + (y + j) % side) * side + (z + k) % side for i, j, k in shifts], axis=1)


def candidates(positions, box, cutoff):
    """For every particle the particles of the cells around it, filled up with -1: (particles, most)."""
    cells, side = cells_of(positions, box, cutoff)
    order = np.argsort(cells, kind="stable")
    begins = np.searchsorted(cells[order], np.arange(side**3 + 1))
    near = around(side)[cells]
    counts = begins[near + 1] - begins[near]
    most = int(counts.sum(1).max())
    table = np.full((len(positions), most), -1, dtype=np.int64)
    filled = np.zeros(len(positions), dtype=np.int64)
    for column in range(27):
        for offset in range(int(counts[:, column].max())):
            has = counts[:, column] > offset
            rows = np.flatnonzero(has)
            table[rows, filled[rows]] = order[begins[near[rows, column]] + offset]
            filled[rows] += 1
    return table
