"""Watches a forecast: Courant number, energy, and the gauges along its way."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

log = logging.getLogger("assimilation")


@jax.jit
def courant(members, column, gravity, ratio):
    """The largest Courant number of currents and gravity waves."""
    current = jnp.sqrt(members.u**2 + members.v**2)
    return jnp.max(current + jnp.sqrt(gravity * column)) * ratio


@jax.jit
def energy(members, column, gravity):
    """Mean energy of a unit of area, for a unit of density."""
    kinetic = 0.5 * column * (members.u**2 + members.v**2)
    return jnp.mean(kinetic + 0.5 * gravity * members.height**2)


class Monitor:
    """Numbers of every step of a run."""

    def __init__(self, case, ocean, mesh, settings):
        self.ocean, self.mesh, self.settings = ocean, mesh, settings
        self.places = mesh.number(case["gauges"][:, 0], case["gauges"][:, 1])
        self.courant, self.energy, self.gauges, self.steps = [], [], [], 0

    def record(self, members, step):
        """Look at the members after a step."""
        self.steps += 1
        if self.steps % self.settings.every:
            return
        column = self.ocean.column(members.height)
        self.courant.append(float(courant(members, column, self.ocean.gravity, step / self.mesh.spacing)))
        self.energy.append(float(energy(members, column, self.ocean.gravity)))
        self.gauges.append(np.asarray(members.height[:, self.places]).mean(axis=0))
        if not self.courant[-1] < self.settings.courant_limit:
            log.warning("step %d: the Courant number is %.3f", self.steps, self.courant[-1])

    def series(self):
        """What was recorded, as arrays by step."""
        return {
            "gauges": np.stack(self.gauges),
            "courant": np.array(self.courant),
            "energy": np.array(self.energy),
        }
