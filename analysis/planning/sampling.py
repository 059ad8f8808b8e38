"""Which launch configurations of a program to count, and how many launches of each, so that a budget is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ENOUGH_PCT = 95.0
"""Share of the time of all launches that the configurations worth counting make up."""
USUAL = 5
"""Launches of each configuration that are counted where nobody says otherwise."""
_FIRST = 3
"""Kernels with the longest total time, which are counted whatever they cost."""
_FIRST = 3
"""Kernels with the longest total time, which are counted whatever they cost."""
_CHEAP_S, _CHEAP_SHARE = 1.0, 0.1
"""Every launch is counted where that adds no more than this, in seconds or as a share of the program's own time."""


@dataclass(frozen=True)
class Configuration:
    """One launch configuration: its kernel, how often it was launched, and the time of all of its launches."""

    kernel: str
    launches: int
    total_ns: float


@dataclass(frozen=True)
class Cost:
    """Seconds that counting takes: for the program under the profiler, and for every launch that is counted."""

    run_s: float
    launch_s: float
    known_by: str = "assumed"
    """Where the figures come from, in words."""

    def of(self, launches: int) -> float:
        """The estimate for so many counted launches."""
        return self.run_s + self.launch_s * launches


@dataclass(frozen=True)
class Chosen:
    """The kernels to count, and how many launches of each of their configurations, after how many."""

    kernels: tuple[str, ...]
    skip: int
    launches: int
    counted: int
    """Launches that will be counted."""
    configurations: int
    """Configurations that they belong to."""
    launches_pct: float
    """Share of all launches that they stand for."""
    time_pct: float | None
    """Share of the time that they stand for; None without times."""
    estimate_s: float


def choose(known: Sequence[Configuration], launches: int | None, cost: Cost, budget_s: float) -> Chosen:
    """The kernels to count, and how many launches of each of their configurations.

    Without ``launches`` all are counted where that is cheap, else USUAL of each. All kernels are counted where that
    fits into the budget, else those that make up ENOUGH_PCT of the time; where that does not fit either, fewer launches
    of each, down to one; then fewer kernels, down to one. The first launch of a configuration
    is passed over, as it warms up, where all of them have launches enough.
    """
    every = sorted({c.kernel for c in known})
    if launches is None:
        whole = _chosen(known, every, max(c.launches for c in known), cost)
        if whole.estimate_s - cost.run_s <= max(_CHEAP_S, _CHEAP_SHARE * cost.run_s):
            return whole
    each = USUAL if launches is None else launches
    if (all_kernels := _chosen(known, every, each, cost)).estimate_s <= budget_s:
        return all_kernels
    kernels = _worth(known)
    while True:
        tries = [_chosen(known, kernels, n, cost) for n in (each, 3, 2, 1) if n <= each]
        if fitting := next((one for one in tries if one.estimate_s <= budget_s), None):
            return fitting
        if len(kernels) == 1:
            return tries[-1]
        kernels.pop()


def _worth(known: Sequence[Configuration]) -> list[str]:
    """The kernels that make up enough of the time: the longest, then those that tell most for each counted launch."""
    times: dict[str, float] = {}
    configurations: dict[str, int] = {}
    for one in known:
        times[one.kernel] = times.get(one.kernel, 0.0) + one.total_ns
        configurations[one.kernel] = configurations.get(one.kernel, 0) + 1
    by_time = sorted(times, key=lambda kernel: -times[kernel])
    others = sorted(by_time[_FIRST:], key=lambda kernel: -times[kernel] / configurations[kernel])
    enough = sum(times.values()) * ENOUGH_PCT / 100
    covered, kernels = 0.0, list[str]()
    for kernel in [*by_time[:_FIRST], *others]:
        if kernels and covered >= enough:
            break
        covered += times[kernel]
        kernels.append(kernel)
    return kernels


def _chosen(known: Sequence[Configuration], kernels: Iterable[str], each: int, cost: Cost) -> Chosen:
    names = tuple(kernels)
    mine = [c for c in known if c.kernel in set(names)]
    skip = int(all(c.launches > each for c in mine))
    counted = sum(min(each, c.launches - skip) for c in mine)
    total = sum(c.total_ns for c in known)
    return Chosen(
        names,
        skip,
        each,
        counted,
        len(mine),
        100 * sum(c.launches for c in mine) / sum(c.launches for c in known),
        100 * sum(c.total_ns for c in mine) / total if total else None,
        cost.of(counted),
    )
