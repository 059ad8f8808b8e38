"""Times calls of the host's kernels, all threads together, until the median stays; results are checked as well."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .host_calls import Call
from .host_team import Team
from .judge import Outcome

_STEADY = 5
_SETTLED = 0.003
"""Relative change of the median over as many samples at which more add nothing."""
_PART = 0.25
"""Of a sample, that one call takes: long beside what it costs to make it."""
_DOUBTFUL = 0.25
"""Spread (p95 - p05) / median above which something else ran on the machine."""


@dataclass(frozen=True)
class Effort:
    """How much a mode may take."""

    total_s: float
    """Of all ceilings."""
    ceiling_s: float
    """Of the samples of one ceiling."""
    fewest: int
    """Samples of one ceiling."""
    sample_s: float
    """Least length of one sample."""
    most_bytes: int
    """Of the arrays in memory, all together."""


def checked(team: Team, calls: Sequence[Call], outcome: Outcome) -> Outcome:
    """``outcome`` after one call of every thread: its check is ok, or its status failed with what is wrong."""
    _seconds(team, calls, 1)
    return _judged(calls, 1, replace(outcome, check="ok"))


def timed(team: Team, calls: Sequence[Call], outcome: Outcome, effort: Effort, budget_s: float) -> Outcome:
    """``outcome`` with median, p05 and p95 of the rate (work in units of 1e9 a second)."""
    outcome = checked(team, calls, outcome)
    if outcome.status == "failed":
        return outcome
    n = _times(team, calls, effort.sample_s * _PART)
    # All threads have the same work.
    amount = calls[0].work * n / 1e9
    samples = _settled(
        lambda: amount * team.calls_per_s(lambda rank: calls[rank].go(n), effort.sample_s), effort.fewest, budget_s
    )
    p05, median, p95 = (float(v) for v in np.percentile(samples, (5, 50, 95)))
    outcome = replace(outcome, value=median, median=median, p05=p05, p95=p95, n=len(samples))
    if p95 - p05 > _DOUBTFUL * median:
        outcome = replace(outcome, status="suspect", reason="samples differ widely: something else ran on the machine")
    return _judged(calls, n, outcome)


def _times(team: Team, calls: Sequence[Call], sample_s: float) -> int:
    """How often to repeat a call for a sample of that length; that of one short call is mostly the threads' start."""
    n = 1
    while (took := _seconds(team, calls, n)) < sample_s:
        n = max(2 * n, round(n * min(16.0, sample_s / max(took, 1e-9))))
    return n


def _seconds(team: Team, calls: Sequence[Call], n: int) -> float:
    return team.seconds(lambda rank: calls[rank].go(n))


def _judged(calls: Sequence[Call], n: int, outcome: Outcome) -> Outcome:
    wrong = next((text for call in calls if (text := call.wrong(n))), None)
    if wrong is None:
        return outcome
    return Outcome(
        outcome.ceiling, outcome.unit, "failed", wrong, kernel=outcome.kernel, method=outcome.method, check=wrong,
        intensity=outcome.intensity,
    )  # fmt: skip


def _settled(sample: Callable[[], float], fewest: int, budget_s: float) -> list[float]:
    """Samples until their median stays, or the time is over."""
    samples, medians = list[float](), list[float]()
    end = time.monotonic() + budget_s
    while len(samples) < fewest or time.monotonic() < end:
        samples.append(sample())
        medians.append(statistics.median(samples))
        recent = medians[-_STEADY:]
        if len(samples) >= 4 * _STEADY and max(recent) - min(recent) < _SETTLED * recent[-1]:
            break
    return samples
