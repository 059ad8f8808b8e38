"""Several replays of one program: which counter keeps its plain name, and which is told apart by its pass."""

from __future__ import annotations

from collections.abc import Sequence

from .keys import Pass
from .staged import Staged

ACCUMULATE = "SQ_ACCUM_PREV_HIRES"


def as_replays(replays: Sequence[Staged]) -> list[Pass]:
    """Passes in which every counter has its plain name once; measured again, it is called ``NAME@PASS``."""
    taken: set[str] = set()
    passes = []
    for staged in replays:
        counters = {}
        for header in staged.counters():
            name = accumulated(staged, header) or header
            counters[header] = f"{name}@{staged.name}" if name.casefold() in taken else name
            taken.add(name.casefold())
        passes.append(Pass(staged, counters, instances_of(staged)))
    return passes


def instances_of(staged: Staged) -> dict[str, tuple[str, int]]:
    """The per-instance columns of a file with their counter and number."""
    return {c.header: c.instance for c in staged.columns if c.role == "instance"}


def accumulated(staged: Staged, header: str) -> str | None:
    """The store's name of SQ_ACCUM_PREV_HIRES, the time integral of a level counter: ``<LEVEL>_ACCUM``, as in rocpd.

    The level is what the file is named after, else the counter in the column before, which is how the hardware pairs
    them. None where neither is a level, or ``header`` another counter.
    """
    if header != ACCUMULATE:
        return None
    counters = staged.counters()
    position = counters.index(header)
    before = staged.name if "LEVEL" in staged.name else counters[position - 1] if position else ""
    return f"{before}_ACCUM" if "LEVEL" in before else None
