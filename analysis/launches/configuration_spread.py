"""Kernels whose launch configurations take different times, which a figure over all of them hides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.database import sql_literal
from ..base.notes import Note
from ..workload import Workload

_LEAST_RATIO = 2.0
"""Ratio of the times of a launch from which on configurations are told to differ."""
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3))


@dataclass(frozen=True)
class ConfigurationSpread:
    """A kernel by its number, and the mean times of a launch of its shortest and longest configuration in ns."""

    number: str
    configurations: int
    shortest_ns: float
    longest_ns: float


def configuration_spreads(workload: Workload, kernels: Iterable[str]) -> list[ConfigurationSpread]:
    """Those of some kernels whose configurations differ much, longest total time first; none where they are apart."""
    if workload.by == "launch" or not workload.has("dispatches"):
        return []
    several = [name for name in kernels if workload.kernels[name].configurations > 1]
    if not several:
        return []
    rows = workload.rows(
        "SELECT kernel, min(mean), max(mean) FROM (SELECT kernel, avg(duration_ns) AS mean "
        f"FROM {workload.relation('dispatches')} WHERE duration_ns > 0 "
        f"AND kernel IN ({', '.join(map(sql_literal, several))}) GROUP BY kernel, launch) GROUP BY kernel"
    )
    times = {name: (low, high) for name, low, high in rows if high >= _LEAST_RATIO * low}
    known = workload.kernels
    return [ConfigurationSpread(known[n].number, known[n].configurations, *times[n]) for n in several if n in times]


def spread_notes(spreads: list[ConfigurationSpread]) -> list[Note]:
    """One sentence about the first of them, and how many there are."""
    if not spreads:
        return []
    first = spreads[0]
    more = f"; so have {len(spreads) - 1} more" if len(spreads) > 1 else ""
    text = (
        f"#{first.number} has {first.configurations} launch configurations, from {short_time(first.shortest_ns)} to "
        f"{short_time(first.longest_ns)} a launch{more}; by='launch' or kernel='#{first.number}.1' tells them apart."
    )
    return [Note("configurations", text)]


def short_time(ns: float) -> str:
    """A time with three digits in the unit that suits it."""
    unit, size = next(((unit, size) for unit, size in _UNITS if ns >= size), ("ns", 1.0))
    return f"{ns / size:.3g} {unit}"
