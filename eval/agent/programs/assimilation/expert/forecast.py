"""Ensemble forecasts from one analysis to the next: all members and steps in one loop on the device."""

from functools import partial

import jax
import jax.numpy as jnp
import monitor
import numpy as np
from settings import rounded
from stepping import plan, runge_kutta


@partial(jax.jit, static_argnames="room")
def advance(members, ocean, step, steps, places, room):
    """Members after a number of steps, and the series of the way there, with room for more steps."""

    def body(number, carried):
        members, series = carried
        members = runge_kutta(members, ocean, step)
        seen = monitor.look(members, ocean, step, places)
        return members, jax.tree.map(lambda row, value: row.at[number].set(value), series, seen)

    return jax.lax.fori_loop(0, steps, body, (members, monitor.empty(room, len(places))))


class Forecast:
    """Moves an ensemble through the interval of a window."""

    def __init__(self, case, ocean, settings):
        self.ocean, self.longest = ocean, case["model"]["longest_step"]
        self.places = jnp.asarray(case["gauges"], jnp.int32)
        self.series = monitor.Series(settings.monitor)
        most = max(plan(window["interval"], self.longest)[0] for window in case["windows"])
        self.room = rounded(most, settings.monitor.room)

    def __call__(self, members, interval):
        steps, step = plan(interval, self.longest)
        members, series = advance(members, self.ocean, np.float32(step), steps, self.places, self.room)
        self.series.add(series, steps)
        return members
