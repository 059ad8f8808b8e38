"""Steps in time: the classical Runge-Kutta method."""

import math
from dataclasses import dataclass

import jax
from physics import tendency
from state import plus


@dataclass(frozen=True)
class Plan:
    """How an interval is divided: a number of equal steps, in seconds."""

    steps: int
    step: float


def plan(interval, longest):
    """The fewest steps that reach the end of an interval and are not too long."""
    steps = math.ceil(interval / longest)
    return Plan(steps, interval / steps)


def runge_kutta(state, rates, step):
    """One step of a state."""
    one = rates(state)
    two = rates(plus(state, step / 2, one))
    three = rates(plus(state, step / 2, two))
    four = rates(plus(state, step, three))
    total = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, one, two, three, four)
    return plus(state, step / 6, total)


def stepper(ocean, mesh, step, settings):
    """A function that takes all members of an ensemble one step further."""

    def advance(member):
        return runge_kutta(member, lambda state: tendency(state, ocean, mesh), step)

    @jax.jit
    def advance_all(members):
        return jax.lax.map(advance, members, batch_size=settings.members_at_once)

    return advance_all
