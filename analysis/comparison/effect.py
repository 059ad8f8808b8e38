"""How much longer or shorter a kernel takes, with an interval, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .samples import Part

if TYPE_CHECKING:
    import numpy as np

Verdict = Literal["improved", "regressed", "inconclusive"]
ENOUGH = 5
"""Launches from which on the bootstrap interval of a ratio of medians covers at least 95 %; measured for 4 to 40."""
RUNS_DIFFER = 0.025
"""Medians of 30 launches of one build differed by up to 2.4 % between ten runs (17 kernels of examples/kernels on an
H200); launches of one run share its clock and placement, so their own spread does not show that."""
LAUNCHES_DIFFER = 0.15
"""Single launches of one build differed by up to 5 %, of two kernels by 15 and 20 % (the same kernels)."""
JITTER_NS = 1000.0
"""Start and end of a launch: what makes kernels of a few microseconds differ by tens of percent."""
_RESAMPLES = 2000
_LEVEL = 0.95
_WEIGHS = 0.05
"""Share of an average part's time from which on the number of launches of a part counts."""


@dataclass(frozen=True)
class Effect:
    """The time of one round of launches before and after, in ns, and ``speedup`` = before / after.

    ``low`` and ``high`` bound the speed-up with 95 % confidence; None with fewer than ENOUGH launches. ``floor`` is
    the relative difference that is taken for noise whatever the interval says. ``p`` is that of the rank test.
    """

    baseline_ns: float
    candidate_ns: float
    speedup: float
    low: float | None
    high: float | None
    floor: float
    n: tuple[int, int]
    verdict: Verdict
    why: str
    p: float | None = None


def effect(before: Sequence[Part], after: Sequence[Part], rounds: tuple[int, int], *, short: int = 1) -> Effect:
    """Compare run times as samples.

    The time of a round is the sum over parts of launches / rounds x median. Its ratio has a bootstrap interval
    (scipy.stats.bootstrap, percentiles, parts resampled one by one); where both sides are one part, the
    Mann-Whitney test must agree. A difference counts only beyond the noise floor: RUNS_DIFFER with repeated launches,
    LAUNCHES_DIFFER with few, and never less than JITTER_NS for each of ``short`` launches in a round.
    """
    times = [
        sum(_share(part, n) * _median(part.times) for part in side)
        for side, n in zip((before, after), rounds, strict=True)
    ]
    n = (_fewest(before, rounds[0]), _fewest(after, rounds[1]))
    speedup, few = times[0] / times[1], min(n) < ENOUGH
    floor = max(LAUNCHES_DIFFER if few else RUNS_DIFFER, short * JITTER_NS / min(times))
    beyond = abs(math.log(speedup)) > math.log1p(floor)
    low = high = p = None
    if few:
        certain, why = beyond and _apart(before, after), _few(n, floor, beyond)
    else:
        low, high = _interval(before, after, rounds)
        p = _ranks(before, after)
        excluded = not low <= 1 <= high and (p is None or p < 1 - _LEVEL)
        certain, why = beyond and excluded, _many(floor, beyond, excluded)
    verdict: Verdict = "inconclusive" if not certain else "improved" if speedup > 1 else "regressed"
    return Effect(times[0], times[1], speedup, low, high, floor, n, verdict, why, p)


def _few(n: tuple[int, int], floor: float, beyond: bool) -> str:
    counted = f"only {n[0]} and {n[1]} launches" if n != (1, 1) else "one launch each (n=1)"
    return f"{counted}: no interval, and {'beyond' if beyond else 'within'} the noise floor of {floor:.0%}"


def _many(floor: float, beyond: bool, excluded: bool) -> str:
    if beyond and excluded:
        return f"beyond the interval and the noise floor of {floor:.1%}"
    if excluded:
        return f"within the noise floor of {floor:.1%}, by which runs of one build differ"
    return "the interval does not exclude that nothing changed"


def _share(part: Part, rounds: int) -> float:
    return part.launches / rounds


def _fewest(side: Sequence[Part], rounds: int) -> int:
    """The least number of launches of the parts that weigh; repeats of one part cannot stand for another."""
    spent = [_share(part, rounds) * _median(part.times) for part in side]
    return min(p.launches for p, time in zip(side, spent, strict=True) if time >= _WEIGHS * sum(spent) / len(spent))


def _apart(before: Sequence[Part], after: Sequence[Part]) -> bool:
    """Whether no launch of one side took as long as any of the other; launches of several parts are not compared."""
    if len(before) != 1 or len(after) != 1:
        return True
    return max(before[0].times) < min(after[0].times) or max(after[0].times) < min(before[0].times)


def _interval(before: Sequence[Part], after: Sequence[Part], rounds: tuple[int, int]) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    weights = [_share(part, rounds[0]) for part in before] + [_share(part, rounds[1]) for part in after]

    def logarithm(*parts: np.ndarray[Any, Any], axis: int) -> Any:
        spent = [w * np.median(p, axis=axis) for w, p in zip(weights, parts, strict=True)]
        return np.log(sum(spent[: len(before)])) - np.log(sum(spent[len(before) :]))

    data = tuple(np.asarray(part.times) for part in (*before, *after))
    # A seed of its own: the same samples give the same interval.
    found = bootstrap(
        data, logarithm, n_resamples=_RESAMPLES, method="percentile", confidence_level=_LEVEL, vectorized=True, rng=0
    ).confidence_interval
    return math.exp(found.low), math.exp(found.high)


def _ranks(before: Sequence[Part], after: Sequence[Part]) -> float | None:
    """The p-value of the Mann-Whitney test, where one part faces one other."""
    if len(before) != 1 or len(after) != 1:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(before[0].times, after[0].times).pvalue)


def _median(times: Sequence[float]) -> float:
    from statistics import median

    return median(times)
