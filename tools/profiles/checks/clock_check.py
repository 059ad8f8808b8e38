"""Check cycles against time: impossible clocks, and the cycles that counter collection adds to every launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.catalogue.thresholds import threshold
from ....analysis.store.doubts import Doubt
from .imported_tables import CheckResult, CheckResults, ImportedTables

_FITTED = 6
"""Minimum number of launches for a linear fit."""
_SPAN = 1.5
"""Minimum ratio of the longest to the shortest duration for a linear fit."""
_FIT = 0.5
_CLOCKS = (0.3, 1.1)
"""Plausible clocks of a fit, as shares of the maximum clock: under light load a GPU runs below it."""
_ALIKE = 3.0
_CLOCK_TOLERANCE = threshold("clocks.tolerance")
_ABSURD_CLOCK = threshold("clocks.absurd")
_STANDSTILL = threshold("clocks.standstill")
_PLAUSIBLE_MHZ = 10_000
_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg")
_MOST = 400_000
"""More cycles than starting and stopping the counters takes: some 30,000 on each XCD, 290,000 under rocprof v2."""

Ask = Callable[..., Sequence[float]]
"""Evaluates SQL aggregates over the launches: one number for each expression, 0 for NULL."""


def added_cycles(ask: Ask, cycles: str, clock_mhz: float) -> tuple[float, str] | None:
    """Return the cycles that collection adds to each launch, and how they were found; None if they are not constant.

    Launches of different durations give both the clock and the added cycles by a linear fit. Otherwise the added cycles
    are those beyond the maximum clock, provided that they are similar in all launches.
    """
    time = "c.duration_ns"
    n, short, long, slope, added, fit = ask(
        f"regr_count({cycles}, {time})", f"min({time})", f"max({time})", f"regr_slope({cycles}, {time})",
        f"regr_intercept({cycles}, {time})", f"regr_r2({cycles}, {time})",
    )  # fmt: skip
    low, high = (share * clock_mhz / 1000 for share in _CLOCKS)
    if n >= _FITTED and long > _SPAN * short and fit >= _FIT and low <= slope <= high and 0 < added <= _MOST:
        return added, f"a fit over {count_text(int(n), 'launch')}, which ran at {1000 * slope:.0f} MHz"
    beyond = f"{cycles} - {time} * {clock_mhz / 1000!r}"
    least, middle, most = ask(f"min({beyond})", f"median({beyond})", f"max({beyond})")
    if least > 0 and most <= min(_MOST, _ALIKE * least):
        return middle, "the cycles beyond the maximum clock, at least"
    return None


def amd_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time with the maximum clock of an AMD GPU."""
    clock = tables.facts.get("max_sclk")
    if clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    cycles = f'"GRBM_GUI_ACTIVE" / {tables.facts.get("num_xcd", 1)!r}'
    rate, limit = f"1000 * {cycles} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standstill(tables, "GRBM_GUI_ACTIVE", rate, clock)
    bad, known, highest = tables.count_above(rate, limit)
    if not bad:
        return
    wrong_times = False
    if overhead := added_cycles(tables.ask, cycles, clock):
        added, how = overhead
        cause = (
            f"collecting counters adds about {_two_digits(added)} cycles to each launch ({how}), so percentages of "
            "these cycles are too low, most for the shortest kernels; compute_metrics also gives them by time. "
            "Durations and figures per second are not affected"
        )
        brief = f"contains about {_two_digits(added)} cycles of collection per launch, so a share of it is too low"
    elif highest > _ABSURD_CLOCK * clock:
        cause = "the times are from another run, or wrong: do not trust rates"
        brief, wrong_times = "does not fit the times, which are from another run or wrong", True
    else:
        cause = "its cycles include the start and end of short kernels, so percentages of these cycles are too low"
        brief = "includes the start and end of short kernels, so a share of it is too low"
    text = (
        f"In {bad:.0f} of {count_text(int(known), 'dispatch')} GRBM_GUI_ACTIVE implies more than the maximum clock of "
        f"{clock:.0f} MHz (up to {highest:.0f} MHz): {cause}."
    )
    seen = tables.kernels_where(f"{rate} > {limit!r}")
    doubt = Doubt("clock", f"GRBM_GUI_ACTIVE {brief}", ("GRBM_GUI_ACTIVE",), times=wrong_times, kernels=seen)
    yield CheckResult("clock", text, (doubt,))


def nvidia_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time with the maximum clock of an NVIDIA GPU."""
    clock, name = tables.facts.get("max_sclk"), tables.first_collected(*_CYCLES)
    if clock is None or name is None:
        return
    rate, limit = f"1000 * {sql_name(name)} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standstill(tables, name, rate, clock)
    bad, known, highest = tables.count_above(rate, limit)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'launch')} {name} implies more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): cycles and time come from replays that took "
            "different times, so rates of short kernels are uncertain."
        )
        brief = f"{name} and the time are from replays that took different times"
        seen = tables.kernels_where(f"{rate} > {limit!r}")
        yield CheckResult("clock", text, (Doubt("clock", brief, (name,), times=True, kernels=seen),))


def _standstill(tables: ImportedTables, counter: str, rate: str, clock: float) -> CheckResults:
    """Report launches with far fewer cycles than any GPU clock would give in their time."""
    slow = f"{rate} < {_STANDSTILL * clock!r}"
    bad, known = tables.count_where(slow)
    if bad:
        text = f"In {bad:.0f} of {count_text(int(known), 'launch')} {counter} implies less than "
        text += f"{_STANDSTILL * clock:.0f} MHz"
        brief = f"{counter} implies a clock at which no GPU runs: it or the time is wrong"
        doubt = Doubt("standstill", brief, (counter,), times=True, kernels=tables.kernels_where(slow))
        yield CheckResult("standstill", f"{text}: it or the time is wrong, do not trust rates.", (doubt,))


def cpu_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time on the processor with the highest clock of any processor."""
    cycles, time = tables.first_collected("cycles", "cpu-cycles"), tables.first_collected("task-clock", "cpu-clock")
    if cycles is None or time is None:
        return
    bad, known, highest = tables.count_above(f"1000 * {sql_name(cycles)} / nullif({sql_name(time)}, 0)", _PLAUSIBLE_MHZ)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'run')} cycles per time on the processor imply {highest:.0f} "
            "MHz, which "
            "no processor reaches: the two were not counted over the same tasks or time."
        )
        brief = f"{cycles} and {time} were not counted over the same tasks or time"
        yield CheckResult("clock", text, (Doubt("clock", brief, (cycles, time)),))


def _two_digits(cycles: float) -> int:
    """Round to two significant digits, since no more are known."""
    return int(round(cycles, 1 - math.floor(math.log10(cycles))))
