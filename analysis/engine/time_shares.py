"""Recompute percentages of busy cycles from the time, for profiles with more busy cycles than the time allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..store.doubts import DURATION as DURATION
from ..workload import Workload
from .evaluation import Figure, FigureRequest
from .work_sums import TIME, WorkSelection, collect

_CYCLES = "gui"
"""The term for the busy cycles of one compute die."""
_WHOLE = 100.0
_TIMES = frozenset({DURATION})


def shares_by_time(workload: Workload, figures: Iterable[Figure], view: FigureRequest) -> list[tuple[Figure, float]]:
    """The shares of busy cycles among ``figures``, each with its share of the time at the maximum clock, in percent.

    Collecting counters adds cycles to every launch in which the kernel does not run. A GPU does not exceed its maximum
    clock, so the share of the time is a lower bound. Only figures whose cycles exceed the time are included, and only
    if the times are not doubted.
    """
    clock = workload.facts.get("max_sclk")
    if not clock or view.launched_by or _CYCLES not in catalog.terms(workload.arch):
        return []
    busy = set(catalog.counters_of(workload.arch, [_CYCLES]))
    percentages = [f for f in figures if share_pct(f) is not None and _divides_by(workload.arch, f, busy)]
    if not percentages:
        return []
    selection = workload.select(view.kernel, view.dispatches)
    work = collect(workload, {"cycles": _CYCLES}, WorkSelection(selection)).groups
    cycles_of_groups: dict[str | None, list[float]] = {}
    for one in work:
        _, sums = one.sums_over(["cycles", TIME])
        for group in (one.kernel, None):
            held = cycles_of_groups.setdefault(group, [0.0, 0.0])
            held[0] += sums.get("cycles", 0.0)
            held[1] += sums.get(TIME, 0.0) * clock / 1000
    factors = {group: counted / held for group, (counted, held) in cycles_of_groups.items() if held and counted > held}
    wrong = {group for group in factors if workload.doubts.about(_TIMES, [group] if group else workload.kernels)}
    shares = [(f, (share_pct(f) or 0.0) * factors[f.kernel]) for f in percentages if f.kernel in factors.keys() - wrong]
    return [(f, value) for f, value in shares if value <= _WHOLE]


def replace_cycle_shares_by_time(workload: Workload, figures: Sequence[Figure], view: FigureRequest) -> list[Figure]:
    """The figures, with shares of busy cycles that are doubted as too low replaced by shares of the time."""
    doubted = [f for f in figures if f.status == "suspect" and f.reason is not None and f.reason.code == "doubted"]
    shares = {(f.kernel, f.name): (f, pct) for f, pct in shares_by_time(workload, doubted, view)} if doubted else {}
    return [_figure_by_time(*shares[key]) if (key := (f.kernel, f.name)) in shares else f for f in figures]


def _figure_by_time(figure: Figure, pct: float) -> Figure:
    factor = pct / (share_pct(figure) or 1.0)
    reason = Reason("doubted", f"{figure.reason}; this is at least its share of the time at the maximum clock")
    return replace(
        figure,
        value=None if figure.value is None else figure.value * factor,
        pct_of_peak=None if figure.pct_of_peak is None else figure.pct_of_peak * factor,
        reason=reason,
        of_time=True,
    )


def share_pct(figure: Figure) -> float | None:
    """A figure in percent: its own value if it is a percentage, or else its share of the peak."""
    return figure.value if figure.unit == "%" else figure.pct_of_peak


def _divides_by(target: str, figure: Figure, busy: set[str]) -> bool:
    """Whether the only counted denominator of a figure is busy cycles."""
    den = figure.metric.den
    return den is not None and set(catalog.counters_of(target, [den])) == busy
