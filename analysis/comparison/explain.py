"""Explain a change in time by its terms, and by the metrics that changed with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..catalogue.thresholds import threshold
from ..engine.evaluation import Figure, FigureRequest, figures
from ..rooflines.ceilings import Ceilings
from ..workload import Workload
from .time_ratio import TimeVerdict
from .work import LEVEL_TITLES, Side, family

_NOTHING = 1e-12


@dataclass(frozen=True)
class LeastTime:
    """The minimum time in ns that a resource needs for an amount of work (bytes, operations, instructions)."""

    time_ns: float
    amount: float
    unit: str


@dataclass(frozen=True)
class Term:
    """One term: its value before and after with its unit, the logarithm of its factor, and the ns per 1 of that."""

    name: str
    before: float | None
    after: float | None
    unit: str
    log: float
    unit_ns: float
    quantity: str = ""
    """The quantity that it was computed from, as in ``work.behind``; empty for the remainder."""

    @property
    def factor(self) -> float:
        """Its factor in the time."""
        return math.exp(self.log)

    @property
    def delta_ns(self) -> float:
        """The ns that it adds."""
        return self.unit_ns * self.log


def explain(before: Side, after: Side, target: str, ceilings: Ceilings | None) -> list[Term]:
    """Split the change of the total time T of all launches into terms whose ns add up to it exactly.

    T = rounds x R x 1/concurrency x 1/clock x rest. R is the minimum time for the work of a round at the ceilings of
    the device: the maximum of (bytes of a level / its bandwidth) and (operations of a unit / its rate). ``envelope``
    splits its change among these resources; a resource that is never the maximum gets no part. Without ceilings, R is
    the first of the bytes or instructions that both sides have. Concurrency is the mean number of resident waves
    (occupancy), and clock is the number of cycles per ns. ``rest`` is the rate of one wave per cycle, or the total
    rate if these were not counted; it is called "unexplained" if the work is unknown.

    A factor f adds L x ln f, with L = (T1 - T0) / ln(T1 / T0), the logarithmic mean: the logarithmic mean Divisia
    decomposition (Ang, Energy Policy 32, 2004), which leaves no remainder and does not depend on an order. Terms whose
    counters are missing are omitted and remain part of the last one. Returns an empty list without times.
    """
    totals = before.time_ns * before.rounds, after.time_ns * after.rounds
    if min(totals) <= 0:
        return []
    span = math.log(totals[1] / totals[0])
    mean = totals[0] if abs(span) < _NOTHING else (totals[1] - totals[0]) / span
    parts: list[Term] = []
    if before.rounds != after.rounds:
        launches = math.log(after.rounds / before.rounds)
        parts.append(Term("launches", before.rounds, after.rounds, "launches", launches, mean))
    work = _work(before, after, target, ceilings, mean)
    parts += work
    per_wave = ""
    running = ("CPUs used", "CPUs") if target == "cpu" else ("occupancy", "resident waves")
    for name, title, unit in (("concurrency", *running), ("clock", "clock", "cycles/ns")):
        values = before.ratio(name), after.ratio(name)
        if work and values[0] is not None and values[1] is not None:
            parts.append(Term(title, *values, unit, math.log(values[0] / values[1]), mean, name))
            if name == "concurrency" and target != "cpu":
                per_wave = " per wave"
    rest = span - sum(part.log for part in parts)
    parts.append(Term(f"achieved rate{per_wave}" if work else "unexplained", None, None, "", rest, mean))
    return parts


def least_times(side: Side, target: str, ceilings: Ceilings) -> dict[str, LeastTime]:
    """Resource -> the minimum time of a round, for resources with a ceiling and a count."""
    times: dict[str, LeastTime] = {}
    formulas = family(target)
    if formulas is None:
        return times
    for level in formulas.level:
        amount, peak = side.amount(level.name), ceilings.value(level.key)
        if amount is not None and peak:
            times[LEVEL_TITLES[level.name]] = LeastTime(amount / peak, amount, "bytes")
    for operation in formulas.operations("flop", "iop"):
        amount, peak = side.amount(operation.name), ceilings.value(operation.key)
        if amount is not None and peak:
            name = f"{operation.pipe} operations" + (f" ({operation.engine})" if operation.engine else "")
            so_far = times.get(name, LeastTime(0.0, 0.0, ""))
            times[name] = LeastTime(so_far.time_ns + amount / peak, so_far.amount + amount, "operations")
    issue = next((o for o in formulas.operation if o.name == "valu.issue"), None)
    if issue is not None and (amount := side.amount(issue.name)) is not None and (peak := ceilings.value(issue.key)):
        times["instructions"] = LeastTime(amount / peak, amount, "instructions")
    return times


def _work(before: Side, after: Side, target: str, ceilings: Ceilings | None, mean: float) -> list[Term]:
    """The terms of the work: from the minimum times if ceilings are known, or else from one quantity."""
    if ceilings is not None:
        first, second = (least_times(side, target, ceilings) for side in (before, after))
        shared = [name for name in first if name in second]
        shares = envelope([(first[name].time_ns, second[name].time_ns) for name in shared])
        if shares is not None:
            parts = [
                Term(name, first[name].amount, second[name].amount, first[name].unit, share, mean, name)
                for name, share in zip(shared, shares, strict=True)
            ]
            greatest = max(parts, key=lambda part: first[part.name].time_ns)
            return [part for part in parts if abs(part.log) > _NOTHING] or [greatest]
    for name, unit in (("hbm", "bytes"), ("l2", "bytes"), ("vl1d", "bytes"), ("instructions", "instructions")):
        amounts = before.amount(name), after.amount(name)
        if amounts[0] and amounts[1]:
            title = LEVEL_TITLES.get(name, name)
            return [Term(title, *amounts, unit, math.log(amounts[1] / amounts[0]), mean, title)]
    return []


def envelope(times: Sequence[tuple[float, float]]) -> list[float] | None:
    """The parts of ln(max after / max before) for resources with these minimum times; None if a maximum is 0.

    All times change linearly from before to after. Each resource gets the change of ln max over the section in which
    it is the maximum (the Aumann-Shapley values of the logarithm of the maximum).
    """
    if not times or max(t[0] for t in times) <= 0 or max(t[1] for t in times) <= 0:
        return None

    def at(place: float) -> list[float]:
        return [(1 - place) * first + place * last for first, last in times]

    # Between the places where two resources cross, one of them is the maximum.
    cuts = {0.0, 1.0}
    for one, other in combinations(times, 2):
        gap, gain = one[0] - other[0], (other[1] - other[0]) - (one[1] - one[0])
        cuts |= {gap / gain} if gain and 0 < gap / gain < 1 else set()
    shares = [0.0] * len(times)
    for start, end in pairwise(sorted(cuts)):
        middle = at((start + end) / 2)
        shares[middle.index(max(middle))] += math.log(max(at(end)) / max(at(start)))
    return shares


_PRESETS = ("overview", "memory", "compute", "lds", "occupancy")
_LEFT_OUT = ("dispatch.duration_ns", "dispatch.gpu_cycles", "dispatch.cycles")
"""Time itself, which the comparison reports separately."""
_LEAST = threshold("comparison.least_cause")
_STRONG = threshold("comparison.strong_cause")


@dataclass(frozen=True)
class MetricChange:
    """A metric before and after; ``good`` is None if neither direction is better in itself."""

    before: Figure
    after: Figure
    good: bool | None
    weight: float

    def better(self, verdict: TimeVerdict) -> bool | None:
        """Whether it changed like the time: None if the time did not clearly change, or changed in the other direction.

        For example, a hit rate that falls because lines are no longer read twice is not a loss if the time falls.
        """
        if verdict == "inconclusive" or self.good != (verdict == "improved"):
            return None
        return self.good

    @property
    def doubt(self) -> Reason | None:
        """Why one of the two figures is unreliable."""
        return next((f.reason for f in (self.before, self.after) if f.status != "ok"), None)


class MetricChanges(NamedTuple):
    """The metrics that changed, most significant first, and those that only one of the profiles has."""

    changed: list[MetricChange]
    only_before: list[str]
    only_after: list[str]


@dataclass(frozen=True)
class MetricSelection:
    """Which metrics to compare: those that changed most (of the usual presets), or all that ``words`` name."""

    words: Sequence[str] = ()
    normalised: bool = False
    """Whether to keep only percentages, which can be compared between different GPUs."""


def changes(before: Workload, kernel: str, after: Workload, candidate: str, asked: MetricSelection) -> MetricChanges:
    """The metrics of a kernel that changed, most significant first; named metrics are all included, in their order.

    Percentages, and values with a peak, are ranked by their change in percentage points. Other metrics are included
    only if more or less is better; they are ranked by a quarter of the logarithm of their ratio. Figures beyond their
    limits are omitted, and those that depend on doubted counters keep their status. Empty if a target has no metrics.
    """
    if not {before.arch, after.arch} <= {*catalog.targets_with_metrics()} or not (
        before.manifest.counters and after.manifest.counters
    ):
        return MetricChanges([], [], [])
    first, names_before = _figures(before, kernel, asked.words)
    second, names_after = _figures(after, candidate, asked.words)
    both = [(first[name], second[name]) for name in first if name in second]
    if asked.words:
        changed = [MetricChange(a, b, _is_better(a, b), 1.0) for a, b in both]
    else:
        by_values: dict[tuple[float | None, float | None], MetricChange] = {}
        for a, b in both:
            if change := _change(a, b, asked.normalised):
                by_values.setdefault((a.value, b.value), change)
        changed = sorted(by_values.values(), key=lambda c: -c.weight)
    return MetricChanges(
        changed, [n for n in names_before if n not in names_after], [n for n in names_after if n not in names_before]
    )


def _figures(workload: Workload, kernel: str, words: Sequence[str]) -> tuple[dict[str, Figure], list[str]]:
    """The comparable figures of the named metrics or the usual presets, and the names of all with a value.

    Raises BadArgument if a word selects no metric.
    """
    known = catalog.by_name(workload.arch)
    presets = [p for p in _PRESETS if any(n in known for n in catalog.presets()[p])]
    measured = figures(workload, list(words) or presets, FigureRequest(kernel=[kernel], quartiles=False))
    valued = [f for f in measured if f.value is not None and (words or f.name not in _LEFT_OUT)]
    # A figure that is only doubted can be compared too; the change is then marked.
    reliable = [
        f for f in valued if f.status == "ok" or (f.status == "suspect" and f.reason and f.reason.code == "doubted")
    ]
    return {f.name: f for f in reliable}, [f.name for f in valued]


def _is_better(before: Figure, after: Figure) -> bool | None:
    """Whether the second figure is better; None if they are equal or neither direction is better in itself."""
    a, b, better = before.value or 0.0, after.value or 0.0, before.metric.better
    return None if better == "none" or a == b else (b > a) == (better == "higher")


def _change(before: Figure, after: Figure, normalised: bool) -> MetricChange | None:
    a, b = before.value or 0.0, after.value or 0.0
    if before.unit == "%":
        weight = abs(b - a) / 100
    elif before.pct_of_peak is not None and after.pct_of_peak is not None:
        weight = abs(after.pct_of_peak - before.pct_of_peak) / 100
    elif normalised or before.metric.better == "none" or min(a, b) < 0 or max(a, b) == 0:
        return None
    else:
        weight = (_STRONG if min(a, b) == 0 else min(abs(math.log(b / a)), _STRONG)) / 4
    return MetricChange(before, after, _is_better(before, after), weight) if weight >= _LEAST else None
