"""Steps in time: the classical Runge-Kutta method."""

import math

import jax
from physics import tendency
from state import plus


def plan(interval, longest):
    """Number and length of the fewest steps that reach the end of an interval and are not too long."""
    steps = math.ceil(interval / longest)
    return steps, interval / steps


def runge_kutta(state, ocean, step):
    """One step of a state."""
    one = tendency(state, ocean)
    two = tendency(plus(state, step / 2, one), ocean)
    three = tendency(plus(state, step / 2, two), ocean)
    four = tendency(plus(state, step, three), ocean)
    total = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, one, two, three, four)
    return plus(state, step / 6, total)
