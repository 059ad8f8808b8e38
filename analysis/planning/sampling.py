"""Choose which launch configurations of a program to count, and how many launches of each, within a time budget."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

ENOUGH_PCT = 90.0
"""The share that the counted configurations should cover, in percent: of what they could give the program, or of the
total launch time if that is not known."""
USUAL_LAUNCHES, LAUNCHES_OF_A_ROUND = 5, 2
"""How many launches of each configuration are counted if metrics are named, and if a round chooses what to count."""
PLACES = 32
"""How many first launches of a configuration have a known place in the program."""
_OF_LINES = 2
"""How many kernels have their lines counted."""
_FIRST = 3
"""How many kernels with the longest total time come first, whatever they cost."""
_MOST_SHARE = 2 / 3
"""The share of the affordable launches that the longest kernels may use."""
_CHEAP_S, _CHEAP_SHARE = 1.0, 0.1
"""Every launch is counted if that adds at most this, in seconds or as a share of the program's own time."""


@dataclass(frozen=True)
class LaunchPlace:
    """Where a launch is in the program: how many launches there are until it, and the seconds until it ends."""

    launches: int
    seconds: float


@dataclass(frozen=True)
class ConfigurationTime:
    """One launch configuration: its kernel, the number of its launches, and their total time."""

    kernel: str
    launches: int
    total_ns: float
    gain: float | None = None
    """The share of the program's time that vanishes without these launches; None if it is not known."""
    places: tuple[LaunchPlace, ...] = ()
    """The places of its first launches."""

    @property
    def weight(self) -> float:
        """What makes it worth counting."""
        return self.total_ns if self.gain is None else self.gain


@dataclass(frozen=True)
class EarlyEnd:
    """The cost in seconds of a program that is ended after its last counted launch: of its start, of each second that
    it then runs, and of each launch until then, counted or not."""

    start_s: float
    second_s: float
    launch_s: float


@dataclass(frozen=True)
class Cost:
    """The cost of counting in seconds: of the program under the profiler, and of every counted launch."""

    run_s: float
    launch_s: float
    known_by: str = "assumed"
    """The origin of the figures, in words."""
    early: EarlyEnd | None = None
    """The cost of a program that need not run to its end; None if it must."""

    def estimate_s(self, launches: int, last: LaunchPlace | None = None) -> float:
        """The estimated seconds for this many counted launches, the last of which has a place in the program."""
        run_s = self.run_s
        if self.early and last:
            run_s = min(run_s, self.early.start_s + self.early.second_s * last.seconds)
            run_s += self.early.launch_s * last.launches
        return run_s + self.launch_s * launches


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
    covered_pct: float
    """The share that they represent of what kernels could give the program, or of the time if that is not known."""
    estimate_s: float


def choose_launches(
    known: Sequence[ConfigurationTime],
    launches: int | None,
    cost: Cost,
    budget_s: float,
    usual: int = USUAL_LAUNCHES,
) -> CountingChoice:
    """Choose the kernels to count, and how many launches of each of their configurations.

    Without ``launches``, all launches are counted if that is cheap, otherwise ``usual`` of each configuration. If
    it is known what kernels could give the program, those are counted that make up ENOUGH_PCT of it. Otherwise all
    kernels are counted if that fits the budget, or those that make up ENOUGH_PCT of the time. If these do not fit,
    fewer launches of each are counted, down to one; then fewer kernels, down to one: the longest ones, unless their
    many configurations would use most of the budget, and those with most time per counted launch. The first launch of a
    configuration is a warm-up and is skipped if all configurations have enough launches. If no launch has a time, the
    number of launches is used instead.
    """
    if not any(c.total_ns for c in known):
        alike = [replace(c, total_ns=float(c.launches)) for c in known]
        return replace(choose_launches(alike, launches, cost, budget_s, usual), time_pct=None)
    every = sorted({c.kernel for c in known})
    if launches is None:
        everything = _make_choice(known, every, max(c.launches for c in known), cost)
        if everything.estimate_s - cost.run_s <= max(_CHEAP_S, _CHEAP_SHARE * cost.run_s):
            return everything
        launches = usual
    all_kernels = _make_choice(known, every, launches, cost)
    if all_kernels.estimate_s <= budget_s and any(c.gain is None for c in known):
        return all_kernels
    kernels = _by_kernel(known)
    tries = [_make_choice(known, _worthwhile_kernels(kernels), n, cost) for n in (launches, 3, 2, 1) if n <= launches]
    if fitting := next((one for one in tries if one.estimate_s <= budget_s), None):
        return fitting
    return _affordable_choice(known, kernels, cost, budget_s)


def least_choice(known: Sequence[ConfigurationTime], cost: Cost) -> CountingChoice:
    """Choose one launch of every configuration of the kernels that make up ENOUGH_PCT, at any cost."""
    return _make_choice(known, _worthwhile_kernels(_by_kernel(known)), 1, cost)


def first_launches(known: Sequence[ConfigurationTime], kernels: Container[str], cost: Cost) -> CountingChoice | None:
    """Choose the first launch of every configuration of those ``kernels`` that are among the ``_OF_LINES`` that matter
    most; None if none of them is."""
    names = [k.name for k in _by_kernel(known)[:_OF_LINES] if k.name in kernels]
    return replace(_make_choice(known, names, 1, cost), skip=0) if names else None


@dataclass(frozen=True)
class _PlannedKernel:
    """A kernel, the total weight of its launches, and the number of its configurations."""

    name: str
    weight: float
    configurations: int

    @property
    def weight_per_counted_launch(self) -> float:
        """The weight that one counted launch represents."""
        return self.weight / self.configurations


def _by_kernel(known: Sequence[ConfigurationTime]) -> list[_PlannedKernel]:
    """Every kernel, the one with the largest weight first."""
    of: dict[str, list[float]] = {}
    for one in known:
        of.setdefault(one.kernel, []).append(one.weight)
    kernels = (_PlannedKernel(name, sum(weights), len(weights)) for name, weights in of.items())
    return sorted(kernels, key=lambda k: -k.weight)


def _worthwhile_kernels(by_weight: Sequence[_PlannedKernel]) -> list[str]:
    """The kernels that make up enough: the largest, then those with most weight per counted launch."""
    enough = sum(k.weight for k in by_weight) * ENOUGH_PCT / 100
    covered, kernels = 0.0, list[str]()
    for kernel in [
        *by_weight[:_FIRST],
        *sorted(by_weight[_FIRST:], key=lambda k: -k.weight_per_counted_launch),
    ]:
        if kernels and covered >= enough:
            break
        covered += kernel.weight
        kernels.append(kernel.name)
    return kernels


def _affordable_choice(
    known: Sequence[ConfigurationTime], by_weight: Sequence[_PlannedKernel], cost: Cost, budget_s: float
) -> CountingChoice:
    """The kernels that fit the budget with one launch per configuration; at least one kernel.

    Of a kernel that is most of the weight, those configurations are counted that the budget allows.
    """
    order = sorted(by_weight, key=lambda k: -k.weight_per_counted_launch)
    launches = (budget_s - cost.run_s) / cost.launch_s if cost.launch_s else 0.0
    for count in range(_FIRST, 0, -1):
        longest = by_weight[:count]
        if sum(k.configurations for k in longest) <= launches * _MOST_SHARE:
            order = [*longest, *(k for k in order if k not in longest)]
            break
    fitting: CountingChoice | None = None
    for kernel in order:
        more = _make_choice(known, [*(fitting.kernels if fitting else ()), kernel.name], 1, cost)
        fitting = more if more.estimate_s <= budget_s else fitting
    # A program that can be ended early leaves what was counted until its budget is used up.
    longest_alone = _make_choice(known, [by_weight[0].name], 1, cost)
    if fitting is None or fitting.covered_pct < longest_alone.covered_pct * _MOST_SHARE:
        return longest_alone if cost.early else fitting or _make_choice(known, [order[0].name], 1, cost)
    return fitting


def _make_choice(known: Sequence[ConfigurationTime], kernels: Iterable[str], each: int, cost: Cost) -> CountingChoice:
    names = tuple(kernels)
    mine = [c for c in known if c.kernel in set(names)]
    skip = int(all(c.launches > each for c in mine))
    launches = sum(c.launches for c in known)
    end = LaunchPlace(launches, inf)
    last = [(*c.places[min(skip + each, c.launches) - 1 :], end)[0] for c in mine]
    counted = sum(min(each, c.launches - skip) for c in mine)
    total, weight = sum(c.total_ns for c in known), sum(c.weight for c in known)
    return CountingChoice(
        names,
        skip,
        each,
        counted,
        len(mine),
        100 * sum(c.launches for c in mine) / launches,
        100 * sum(c.total_ns for c in mine) / total if total else None,
        100 * sum(c.weight for c in mine) / weight if weight else 100.0,
        cost.estimate_s(counted, max(last, key=lambda p: p.launches)),
    )
