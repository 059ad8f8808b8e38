"""What a counter's name says about the hardware: its block, and the events that must be counted for it.

How counters are written in formulas and in plans:

- ``X_sum`` (also ``_avr``, ``_min``, ``_max``): one figure over all instances of a block; ``X[*]``: one figure for each
  instance, ``X[max]`` the largest of these, ``X[xcd]`` the largest total of an XCD. To the hardware all are the event
  X, counted once.
- ``L_ACCUM``: the time integral of the level counter L. The hardware accumulates the counter selected directly before
  the accumulator, so L is always counted with it: two registers, and only one such pair in a pass.
"""

from __future__ import annotations

import re
from functools import cache

from . import targets

EVERY_INSTANCE = "[*]"
_BLOCK = re.compile(r"[A-Z][A-Z0-9]*(?=_)")
_REGISTERS_OF = {"SQC": "SQ"}
"""Blocks that are counted in the registers of another."""
_INSTANCED = ("TA", "TD", "TCP", "TCC", "GL1A", "GL1C", "GL2A", "GL2C", "GCEA")
_TOTAL = re.compile(r"_(sum|avr|min|max)$")
_INTEGRAL = "_ACCUM"
_NAME = re.compile(r"[A-Z0-9_]+[A-Z0-9](_(sum|avr|min|max)|\[(\d+|\*|max|xcd)\])?")


def block_of(counter: str) -> str | None:
    """The hardware block in whose registers a counter is counted, or None for what is no hardware counter."""
    block = _BLOCK.match(counter) if _NAME.fullmatch(counter) else None
    return _REGISTERS_OF.get(block[0], block[0]) if block else None


def level_of(counter: str) -> str | None:
    """The level counter whose time integral this is, or None."""
    level = counter.removesuffix(_INTEGRAL)
    return level if level != counter and "LEVEL" in level and block_of(counter) == "SQ" else None


def events_of(counter: str) -> tuple[str, ...]:
    """The events that take a register each for this counter; a level stands before its integral."""
    if level := level_of(counter):
        return level, counter
    if block_of(counter):
        return (_TOTAL.sub("", counter.split("[")[0]),)
    return (counter,)


def per_instance(counter: str) -> str:
    """The counter of every instance, for one whose block has instances and whose name does not ask for their total."""
    if block_of(counter) in _INSTANCED and events_of(counter) == (counter,):
        return counter + EVERY_INSTANCE
    return counter


def in_total(counter: str) -> str:
    """The total over all instances, for a counter whose name does not say; a single instance becomes every one."""
    if block_of(counter) in _INSTANCED and events_of(counter) == (counter,):
        return f"{counter}_sum"
    return f"{counter.split('[')[0]}{EVERY_INSTANCE}" if "[" in counter else counter


@cache
def why_not_countable(target: str, counter: str) -> str | None:
    """Why a target cannot count what a counter needs, as far as AMD's definitions tell, or None."""
    for event in events_of(counter):
        if why := targets.why_event_absent(target, event):
            return f"{target} has no counter {event}: {why}"
    return None
