"""Status and reason of a figure: nothing is clamped, and what cannot be is called so."""

from __future__ import annotations

from typing import Literal

from .catalog import Metric
from .derived import Aggregate

Status = Literal["ok", "suspect", "impossible", "not_collected", "not_supported"]
_SUSPECT_PCT = 100.0
_IMPOSSIBLE_PCT = 105.0
_TOLERANCE_PCT = 1.0
NOTHING_THERE = "the denominator is zero"
"""How the reason begins where a ratio has nothing to relate to: a kernel without loads has no hit rate."""


def judge(
    metric: Metric, value: float | None, pct: float | None, found: Aggregate | None, missing: str | None
) -> tuple[Status, str | None]:
    """The status of one figure and, where it is not ok, the reason in words.

    ``pct`` is the share of the peak where there is one; a percentage without a peak is held against its limit.
    Up to 105 % counts as suspect (replays differ, clocks boost), more as impossible.
    """
    if missing or found is None or value is None:
        return "not_collected", missing or _why_empty(metric, found)
    if value < 0:
        small = metric.unit == "%" and value > -_TOLERANCE_PCT
        return "suspect" if small else "impossible", "negative: counters of different replays do not fit together"
    share = pct
    if share is None and metric.unit == "%":
        share = 100 * value / (metric.limit or 100)
    if share is None or share <= _SUSPECT_PCT:
        return "ok", None
    if share <= _IMPOSSIBLE_PCT:
        return "suspect", f"{share:.4g} % of its limit: replays differ, or the clock was above the nominal one"
    return "impossible", f"{share:.4g} % of its limit: replays were mixed, a clock is wrong, or units are miscounted"


def _why_empty(metric: Metric, found: Aggregate | None) -> str:
    if found is None:
        return "this channel was not collected" if metric.per == "l2_channel" else "no dispatch has its counters"
    if found.total and found.untimed == found.total:
        return "the dispatches have no usable timing"
    if found.zero:
        return f"{NOTHING_THERE} in {found.zero} of {found.total} dispatches: nothing to relate to"
    return "its counters hold no value for these dispatches"
