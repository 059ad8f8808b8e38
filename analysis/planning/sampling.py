"""Choose which launch configurations of a program to count, and how many launches of each, within a time budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

ENOUGH_PCT = 95.0
"""The share of the total launch time, in percent, that the counted configurations should cover."""
USUAL_LAUNCHES = 5
"""How many launches of each configuration are counted by default."""
_FIRST = 3
"""How many kernels with the longest total time come first, whatever they cost."""
_MOST_SHARE = 2 / 3
"""The share of the affordable launches that the longest kernels may use."""
_CHEAP_S, _CHEAP_SHARE = 1.0, 0.1
"""Every launch is counted if that adds at most this, in seconds or as a share of the program's own time."""


@dataclass(frozen=True)
class ConfigurationTime:
    """One launch configuration: its kernel, the number of its launches, and their total time."""

    kernel: str
    launches: int
    total_ns: float


@dataclass(frozen=True)
class Cost:
    """The cost of counting in seconds: of the program under the profiler, and of every counted launch."""

    run_s: float
    launch_s: float
    known_by: str = "assumed"
    """The origin of the figures, in words."""

    def estimate_s(self, launches: int) -> float:
        """The estimated seconds for this many counted launches."""
        return self.run_s + self.launch_s * launches


@dataclass(frozen=True)
class CountingChoice:
    """The kernels to count, how many launches of each configuration, and how many launches to skip before."""

    kernels: tuple[str, ...]
    skip: int
    launches: int
    counted: int
    """The number of launches that will be counted."""
    configurations: int
    """The number of configurations that they belong to."""
    launches_pct: float
    """The share of all launches that they represent."""
    time_pct: float | None
    """The share of the time that they represent; None without times."""
    estimate_s: float


def choose_launches(
    known: Sequence[ConfigurationTime], launches: int | None, cost: Cost, budget_s: float
) -> CountingChoice:
    """Choose the kernels to count, and how many launches of each of their configurations.

    Without ``launches``, all launches are counted if that is cheap, otherwise USUAL_LAUNCHES of each configuration. All
    kernels are counted if that fits the budget, otherwise those that make up ENOUGH_PCT of the time. If these do not
    fit either, fewer launches of each are counted, down to one; then fewer kernels, down to one: the longest ones,
    unless their many configurations would use most of the budget, and those with most time per counted launch. The
    first launch of a configuration is a warm-up and is skipped if all configurations have enough launches. If no launch
    has a time, the number of launches is used instead.
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


def cover_time(known: Sequence[ConfigurationTime], launches: int | None, cost: Cost, most_s: float) -> CountingChoice:
    """Choose the cheapest way to count kernels that make up ENOUGH_PCT of the time; fewer if that exceeds ``most_s``.

    A given number of ``launches`` of each configuration is kept if it fits.
    """
    kernels = _worthwhile_kernels(_by_kernel(known))
    for each in dict.fromkeys((launches or 1, 1)):
        if (chosen := _make_choice(known, kernels, each, cost)).estimate_s <= most_s:
            return chosen
    return choose_launches(known, launches, cost, most_s)


def least_choice(known: Sequence[ConfigurationTime], cost: Cost) -> CountingChoice:
    """Choose one launch of every configuration of the kernels that make up ENOUGH_PCT of the time, at any cost."""
    return _make_choice(known, _worthwhile_kernels(_by_kernel(known)), 1, cost)


@dataclass(frozen=True)
class _PlannedKernel:
    """A kernel, the total time of its launches, and the number of its configurations."""

    name: str
    total_ns: float
    configurations: int

    @property
    def ns_per_counted_launch(self) -> float:
        """The time that one counted launch represents."""
        return self.total_ns / self.configurations


def _by_kernel(known: Sequence[ConfigurationTime]) -> list[_PlannedKernel]:
    """Every kernel, the one with the longest total time first."""
    of: dict[str, list[float]] = {}
    for one in known:
        of.setdefault(one.kernel, []).append(one.total_ns)
    return sorted((_PlannedKernel(name, sum(ns), len(ns)) for name, ns in of.items()), key=lambda k: -k.total_ns)


def _worthwhile_kernels(by_time: Sequence[_PlannedKernel]) -> list[str]:
    """The kernels that make up enough of the time: the longest, then those with most time per counted launch."""
    enough = sum(k.total_ns for k in by_time) * ENOUGH_PCT / 100
    covered, kernels = 0.0, list[str]()
    for kernel in [*by_time[:_FIRST], *sorted(by_time[_FIRST:], key=lambda k: -k.ns_per_counted_launch)]:
        if kernels and covered >= enough:
            break
        covered += kernel.total_ns
        kernels.append(kernel.name)
    return kernels


def _affordable_kernels(by_time: Sequence[_PlannedKernel], launches: float) -> list[str]:
    """The kernels that fit this many launches with one launch per configuration; at least one kernel."""
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
