"""Percentages of busy cycles restated by time, for profiles whose busy cycles are more than the time holds."""

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
"""The term of busy cycles of one compute die."""
_WHOLE = 100.0
_TIMES = frozenset({DURATION})


def shares_by_time(workload: Workload, figures: Iterable[Figure], view: FigureRequest) -> list[tuple[Figure, float]]:
    """The shares of busy cycles among ``figures``, in percent, each with what it is of the time at the maximum clock.

    Collecting counters adds cycles to every launch in which the kernel does not run. A GPU does not run faster than
    its maximum clock, so what a figure is of the time is at least that. Only where the cycles exceed the time, and
    nothing doubts the times.
    """
    return [(f, value) for f, value in _all_shares_by_time(workload, figures, view) if value]


def _all_shares_by_time(
    workload: Workload, figures: Iterable[Figure], view: FigureRequest
) -> list[tuple[Figure, float]]:
    """The same with those that are zero by either."""
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
    """The figures with those by time in the place of shares of busy cycles that are doubted as too low."""
    doubted = [f for f in figures if f.status == "suspect" and f.reason is not None and f.reason.code == "doubted"]
    shares = (
        {(f.kernel, f.name): (f, pct) for f, pct in _all_shares_by_time(workload, doubted, view)} if doubted else {}
    )
    return [_figure_by_time(*shares[key]) if (key := (f.kernel, f.name)) in shares else f for f in figures]


def _figure_by_time(figure: Figure, pct: float) -> Figure:
    factor = pct / (share_pct(figure) or 1.0)
    reason = Reason("doubted", f"{figure.reason}; this is its share of the time at the maximum clock, at least")
    return replace(
        figure,
        value=None if figure.value is None else figure.value * factor,
        pct_of_peak=None if figure.pct_of_peak is None else figure.pct_of_peak * factor,
        reason=reason,
        of_time=True,
    )


def share_pct(figure: Figure) -> float | None:
    """A figure in percent: of its peak, where it is no percentage itself."""
    return figure.value if figure.unit == "%" else figure.pct_of_peak


def _divides_by(target: str, figure: Figure, busy: set[str]) -> bool:
    """Whether a figure is a share of busy cycles and of nothing else that is counted."""
    den = figure.metric.den
    return den is not None and set(catalog.counters_of(target, [den])) == busy
