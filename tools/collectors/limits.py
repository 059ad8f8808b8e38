"""Passes checked against the counter registers of a GPU before anything starts."""

from __future__ import annotations

from collections import Counter

from ...analysis import catalog
from ...analysis.events import block_of, events_of, level_of
from ...analysis.problems import BadArgument
from .steps import Request


def check_limits(request: Request) -> None:
    """BadArgument where a pass holds more counters of a block than that has registers.

    A set over capacity makes older profilers abort or hang inside the first kernel, so it never gets that far.
    """
    limits = catalog.gpu(request.target).counter_limits if request.target else {}
    for number, counters in enumerate(request.passes, 1):
        over = {b: n for b, n in block_use(counters).items() if limits and n > limits.get(b, 0)}
        if over:
            block, used = next(iter(over.items()))
            raise BadArgument(
                f"Pass {number} takes {used} counters of block {block}",
                f"{request.target} has {limits.get(block, 0)} registers for them",
                "Split it; plan_profile packs counters into passes that fit",
            )
        if limits and sum(1 for c in counters if level_of(c)) > 1:
            raise BadArgument(
                f"Pass {number} integrates more than one level counter", "the hardware has one accumulator", "Split it"
            )


def block_use(counters: tuple[str, ...]) -> dict[str, int]:
    """The registers that the counters of one pass take, by block, in the order of the blocks' names."""
    events = dict.fromkeys(e for c in counters for e in events_of(c))
    return dict(sorted(Counter(block_of(e) or "" for e in events).items()))
