"""Which launch configurations of a program to count, and how many launches of each, so that a budget is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

ENOUGH_PCT = 95.0
"""Share of the time of all launches that the configurations worth counting make up."""
USUAL_LAUNCHES = 5
"""Launches of each configuration that are counted where nobody says otherwise."""
_FIRST = 3
"""Kernels with the longest total time, which come first whatever they cost."""
_MOST_SHARE = 2 / 3
"""Share of the launches that can be afforded which the longest kernels may take for themselves."""
_CHEAP_S, _CHEAP_SHARE = 1.0, 0.1
"""Every launch is counted where that adds no more than this, in seconds or as a share of the program's own time."""


@dataclass(frozen=True)
class ConfigurationTime:
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

    def estimate_s(self, launches: int) -> float:
        """The estimate for so many counted launches."""
        return self.run_s + self.launch_s * launches


@dataclass(frozen=True)
class CountingChoice:
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


def choose_launches(
    known: Sequence[ConfigurationTime], launches: int | None, cost: Cost, budget_s: float
) -> CountingChoice:
    """The kernels to count, and how many launches of each of their configurations.

    Without ``launches`` all are counted where that is cheap, else USUAL of each. All kernels are counted where that
    fits into the budget, else those that make up ENOUGH_PCT of the time; where that does not fit either, fewer launches
    of each, down to one; then fewer kernels, down to one: the longest, unless they would take most of the budget with
    their many configurations, and those that tell most for each counted launch. The first launch of a configuration
    is passed over, as it warms up, where all of them have launches enough. Where no launch has a time, launches count
    instead of it.
    """
    if not any(c.total_ns for c in known):
        alike = [replace(c, total_ns=float(c.launches)) for c in known]
        return replace(choose_launches(alike, launches, cost, budget_s), time_pct=None)
    every = sorted({c.kernel for c in known})
    if launches is None:
        everything = _make_choice(known, every, max(c.launches for c in known), cost)
        if everything.estimate_s - cost.run_s <= max(_CHEAP_S, _CHEAP_SHARE * cost.run_s):
            return everything
    each = USUAL_LAUNCHES if launches is None else launches
    if (all_kernels := _make_choice(known, every, each, cost)).estimate_s <= budget_s:
        return all_kernels
    by_kernel = _by_kernel(known)
    for kernels in (
        _worthwhile_kernels(by_kernel),
        _affordable_kernels(by_kernel, (budget_s - cost.run_s) / cost.launch_s),
    ):
        tries = [_make_choice(known, kernels, n, cost) for n in (each, 3, 2, 1) if n <= each]
        if fitting := next((one for one in tries if one.estimate_s <= budget_s), None):
            return fitting
    return tries[-1]


def least_choice(known: Sequence[ConfigurationTime], cost: Cost) -> CountingChoice:
    """One launch of every configuration of the kernels that make up ENOUGH_PCT of the time, whatever that costs."""
    return _make_choice(known, _worthwhile_kernels(_by_kernel(known)), 1, cost)


@dataclass(frozen=True)
class _PlannedKernel:
    """A kernel, the time of its launches, and how many configurations it has."""

    name: str
    total_ns: float
    configurations: int

    @property
    def ns_per_counted_launch(self) -> float:
        """The time that one counted launch stands for."""
        return self.total_ns / self.configurations


def _by_kernel(known: Sequence[ConfigurationTime]) -> list[_PlannedKernel]:
    """Every kernel, the longest first."""
    of: dict[str, list[float]] = {}
    for one in known:
        of.setdefault(one.kernel, []).append(one.total_ns)
    return sorted((_PlannedKernel(name, sum(ns), len(ns)) for name, ns in of.items()), key=lambda k: -k.total_ns)


def _worthwhile_kernels(by_time: Sequence[_PlannedKernel]) -> list[str]:
    """The kernels that make up enough of the time: the longest, then those that tell most for each counted launch."""
    enough = sum(k.total_ns for k in by_time) * ENOUGH_PCT / 100
    covered, kernels = 0.0, list[str]()
    for kernel in [*by_time[:_FIRST], *sorted(by_time[_FIRST:], key=lambda k: -k.ns_per_counted_launch)]:
        if kernels and covered >= enough:
            break
        covered += kernel.total_ns
        kernels.append(kernel.name)
    return kernels


def _affordable_kernels(by_time: Sequence[_PlannedKernel], launches: float) -> list[str]:
    """The kernels to count with so many launches, one of each configuration; one kernel at least."""
    order = sorted(by_time, key=lambda k: -k.ns_per_counted_launch)
    for count in range(_FIRST, 0, -1):
        longest = by_time[:count]
        if sum(k.configurations for k in longest) <= launches * _MOST_SHARE:
            order = [*longest, *(k for k in order if k not in longest)]
            break
    left, kernels = launches, list[str]()
    for kernel in order:
        if kernel.configurations <= left:
            left -= kernel.configurations
            kernels.append(kernel.name)
    return kernels or [order[0].name]


def _make_choice(known: Sequence[ConfigurationTime], kernels: Iterable[str], each: int, cost: Cost) -> CountingChoice:
    names = tuple(kernels)
    mine = [c for c in known if c.kernel in set(names)]
    skip = int(all(c.launches > each for c in mine))
    counted = sum(min(each, c.launches - skip) for c in mine)
    total = sum(c.total_ns for c in known)
    return CountingChoice(
        names,
        skip,
        each,
        counted,
        len(mine),
        100 * sum(c.launches for c in mine) / sum(c.launches for c in known),
        100 * sum(c.total_ns for c in mine) / total if total else None,
        cost.estimate_s(counted),
    )
