"""Cycles counted against time: what collecting counters adds to every launch, told from times that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_FITTED = 6
"""Launches that a fit takes at least."""
_SPAN = 1.5
"""How far apart the durations of a fit lie at least: the longest over the shortest."""
_FIT = 0.5
_CLOCKS = (0.3, 1.1)
"""Clocks that a fit may find, as shares of the maximum: under light load a GPU runs below it."""
_ALIKE = 3.0
_MOST = 400_000
"""More cycles than starting and stopping the counters takes: some 30,000 on each XCD, 290,000 under rocprof v2."""

Ask = Callable[..., Sequence[float]]
"""Asks for aggregates of the launches: one number for each SQL expression, 0 for NULL."""


def added_cycles(ask: Ask, cycles: str, clock_mhz: float) -> tuple[float, str] | None:
    """The cycles that collecting adds to each launch, near-constant, and how that was found; None where they are not.

    Launches of different durations give both the clock and the added cycles by a linear fit; else what the maximum
    clock leaves over in the time counts, where it is alike in all launches.
    """
    time = "c.duration_ns"
    n, short, long, slope, added, fit = ask(
        f"regr_count({cycles}, {time})", f"min({time})", f"max({time})", f"regr_slope({cycles}, {time})",
        f"regr_intercept({cycles}, {time})", f"regr_r2({cycles}, {time})",
    )  # fmt: skip
    low, high = (share * clock_mhz / 1000 for share in _CLOCKS)
    if n >= _FITTED and long > _SPAN * short and fit >= _FIT and low <= slope <= high and 0 < added <= _MOST:
        return added, f"a fit over {n:.0f} launches, which ran at {1000 * slope:.0f} MHz"
    beyond = f"{cycles} - {time} * {clock_mhz / 1000!r}"
    least, middle, most = ask(f"min({beyond})", f"median({beyond})", f"max({beyond})")
    if least > 0 and most <= min(_MOST, _ALIKE * least):
        return middle, "what the maximum clock leaves over in the time, at least"
    return None
