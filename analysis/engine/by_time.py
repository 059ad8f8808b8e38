"""Percentages of busy cycles restated by time, for profiles whose busy cycles are more than the time holds."""

from __future__ import annotations

from collections.abc import Iterable

from ..catalogue import metrics as catalog
from ..workload import Workload
from .evaluation import Figure, View
from .sums import TIME, Page, collect

_CYCLES = "gui"
"""The term of busy cycles of one compute die."""
_WHOLE = 100.0


def by_time(workload: Workload, figures: Iterable[Figure], view: View) -> list[tuple[Figure, float]]:
    """The percentages of busy cycles among ``figures``, each with what it is of the time at the maximum clock.

    Collecting counters adds cycles to every launch in which the kernel does not run. A GPU does not run faster than
    its maximum clock, so what a figure is of the time is at least that. Only where the cycles exceed the time.
    """
    clock = workload.facts.get("max_sclk")
    if not clock or view.launched_by or _CYCLES not in catalog.terms(workload.arch):
        return []
    busy = set(catalog.counters_of(workload.arch, [_CYCLES]))
    percentages = [f for f in figures if f.unit == "%" and f.value and _divides_by(workload.arch, f, busy)]
    if not percentages:
        return []
    selection = workload.select(view.kernel, view.dispatches)
    work = collect(workload, {"cycles": _CYCLES}, Page(selection)).groups
    together: dict[str | None, list[float]] = {}
    for one in work:
        _, sums = one.over(["cycles", TIME])
        for group in (one.kernel, None):
            held = together.setdefault(group, [0.0, 0.0])
            held[0] += sums.get("cycles", 0.0)
            held[1] += sums.get(TIME, 0.0) * clock / 1000
    factors = {group: counted / held for group, (counted, held) in together.items() if held and counted > held}
    restated = [(f, f.value * factors[f.kernel]) for f in percentages if f.value and f.kernel in factors]
    return [(f, value) for f, value in restated if value <= _WHOLE]


def _divides_by(target: str, figure: Figure, busy: set[str]) -> bool:
    """Whether a figure is a share of busy cycles and of nothing else that is counted."""
    den = figure.metric.den
    return den is not None and set(catalog.counters_of(target, [den])) == busy
