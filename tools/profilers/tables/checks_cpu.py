"""What looks wrong in counts of perf stat: multiplexing, clocks, runs that differ."""

from __future__ import annotations

from collections.abc import Iterator

from ....analysis.database import sql_name
from .checked import Tables, listed

ALWAYS = {"cycles", "instructions", "cpu-cycles", "ref-cycles"}
"""Events that count in any program."""
_RUNNING = ":running_pct"
_PLAUSIBLE_MHZ = 10_000
_SPREAD_PCT = 5


def multiplexed(tables: Tables) -> Iterator[str]:
    """Events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(_RUNNING)]
    if not shared:
        return
    (least,) = tables.ask(f"least({', '.join(f'min({sql_name(c)})' for c in shared)})")
    yield (
        f"multiplexed: {listed([c.removesuffix(_RUNNING) for c in shared])} were counted only part of the time "
        f"(down to {least:.0f} %) and scaled up: ratios of them are estimates; ask for fewer events in one run."
    )


def clock(tables: Tables) -> Iterator[str]:
    """Cycles per time on the processor against any clock that exists."""
    cycles, time = tables.first("cycles", "cpu-cycles"), tables.first("task-clock", "cpu-clock")
    if cycles is None or time is None:
        return
    rate = f"1000 * {cycles} / nullif({time}, 0)"
    bad, known, highest = tables.ask(f"count(*) FILTER ({rate} > {_PLAUSIBLE_MHZ}), count({rate}), max({rate})")
    if bad:
        yield (
            f"clock: In {bad:.0f} of {known:.0f} runs cycles per time on the processor mean {highest:.0f} MHz, which "
            "no processor runs at: the two were not counted over the same tasks or time."
        )


def spread(tables: Tables) -> Iterator[str]:
    """How uncertain the mean of repeated runs is."""
    name = "duration_time:error_pct"
    if not tables.has(name):
        return
    (error,) = tables.ask(f"max({sql_name(name)})")
    if error > _SPREAD_PCT:
        yield (
            f"run_spread: The elapsed time of repeated runs is uncertain by {error:.0f} % (standard error): "
            "smaller differences between two such means tell nothing."
        )


CHECKS = (multiplexed, clock, spread)
