"""Watches a forecast: Courant number, energy, and the gauges along its way."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

log = logging.getLogger("assimilation")


def empty(room, gauges):
    """Space for the series of a forecast."""
    return {"gauges": jnp.zeros((room, gauges)), "courant": jnp.zeros(room), "energy": jnp.zeros(room)}


def look(members, ocean, step, places):
    """What is recorded of the members after a step."""
    column = ocean.column(members.height)
    square = members.u**2 + members.v**2
    fastest = jnp.max(jnp.sqrt(square) + jnp.sqrt(ocean.gravity * column))
    return {
        "gauges": members.height[:, places[:, 0], places[:, 1]].mean(axis=0),
        "courant": fastest * step / ocean.spacing,
        "energy": jnp.mean(0.5 * column * square + 0.5 * ocean.gravity * members.height**2),
    }


class Series:
    """Series of all forecasts of a run; they stay on the device until the end."""

    def __init__(self, settings):
        self.settings, self.parts = settings, []

    def add(self, series, steps):
        """Keep the series of a forecast."""
        self.parts.append((series, steps))

    def table(self):
        """What was recorded, as arrays by step."""
        parts = [jax.tree.map(lambda rows, n=n: rows[:n], jax.device_get(series)) for series, n in self.parts]
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for number in np.flatnonzero(~(table["courant"] < self.settings.courant_limit)):
            log.warning("step %d: the Courant number is %.3f", number + 1, table["courant"][number])
        return table
