"""What explains a change of time, and which metrics changed with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..catalogue.thresholds import threshold
from ..engine.evaluation import Figure, FigureRequest, figures
from ..rooflines.ceilings import Ceilings
from ..workload import Workload
from .time_ratio import TimeVerdict
from .work import Side, family, level_title

_NOTHING = 1e-12


class _TermDraft(NamedTuple):
    """A term before it is in ns: ``log`` is the logarithm of its factor."""

    name: str
    before: float | None
    after: float | None
    unit: str
    log: float
    quantity: str = ""


@dataclass(frozen=True)
class LeastTime:
    """The least time in ns that a resource needs for an amount of work (bytes, operations, instructions)."""

    time_ns: float
    amount: float
    unit: str


@dataclass(frozen=True)
class Term:
    """One term: its value before and after with its unit, the factor that it puts on the time, and the ns it adds."""

    name: str
    before: float | None
    after: float | None
    unit: str
    factor: float
    delta_ns: float
    quantity: str = ""
    """What it was computed from, as ``work.behind`` knows it; empty for what is left over."""


def explain(before: Side, after: Side, target: str, ceilings: Ceilings | None) -> list[Term]:
    """Split the change of the total time T of all launches into terms whose ns add up to it exactly.

    T = rounds x R x 1/concurrency x 1/clock x rest. R is the least time that the work of a round needs on the ceilings
    of the device: the greatest of (bytes of a level / its bandwidth) and (operations of a unit / its rate); see
    ``envelope`` for how its change is shared out among them: a resource that is never the greatest gets nothing.
    Without ceilings R is the first of the bytes or instructions that both sides have. Concurrency is the mean number
    of resident waves (occupancy), clock the cycles per ns; ``rest`` is the rate achieved by one wave in a cycle, or
    the achieved rate as a whole where those were not counted, and "unexplained" where the work is unknown.

    A factor f adds L x ln f, with L = (T1 - T0) / ln(T1 / T0), the logarithmic mean: the logarithmic mean Divisia
    decomposition (Ang, Energy Policy 32, 2004), which leaves no remainder and does not depend on an order. Terms whose
    counters are missing are left out and stay in the last. Returns an empty list without times.
    """
    totals = before.time_ns * before.rounds, after.time_ns * after.rounds
    if min(totals) <= 0:
        return []
    span = math.log(totals[1] / totals[0])
    mean = totals[0] if abs(span) < _NOTHING else (totals[1] - totals[0]) / span
    parts: list[_TermDraft] = []
    if before.rounds != after.rounds:
        launches = math.log(after.rounds / before.rounds)
        parts.append(_TermDraft("launches", before.rounds, after.rounds, "launches", launches))
    work = _work(before, after, target, ceilings)
    parts += work
    per_wave = ""
    running = ("CPUs used", "CPUs") if target == "cpu" else ("occupancy", "resident waves")
    for name, title, unit in (("concurrency", *running), ("clock", "clock", "cycles/ns")):
        values = before.ratio(name), after.ratio(name)
        if work and values[0] is not None and values[1] is not None:
            parts.append(_TermDraft(title, *values, unit, math.log(values[0] / values[1]), name))
            if name == "concurrency" and target != "cpu":
                per_wave = " per wave"
    rest = span - sum(part.log for part in parts)
    parts.append(_TermDraft(f"achieved rate{per_wave}" if work else "unexplained", None, None, "", rest))
    return [Term(p.name, p.before, p.after, p.unit, math.exp(p.log), mean * p.log, p.quantity) for p in parts]


def least_times(side: Side, target: str, ceilings: Ceilings) -> dict[str, LeastTime]:
    """Resource -> the least time of a round, for those with a ceiling and a count."""
    times: dict[str, LeastTime] = {}
    formulas = family(target)
    if formulas is None:
        return times
    for level in formulas.level:
        amount, peak = side.amount(level.name), ceilings.value(level.key)
        if amount is not None and peak:
            times[level_title(level.name)] = LeastTime(amount / peak, amount, "bytes")
    for operation in formulas.operations(target, "flop", "iop"):
        amount, peak = side.amount(operation.name), ceilings.value(operation.key)
        if amount is not None and peak:
            name = f"{operation.pipe} operations" + (f" ({operation.engine})" if operation.engine else "")
            so_far = times.get(name, LeastTime(0.0, 0.0, ""))
            times[name] = LeastTime(so_far.time_ns + amount / peak, so_far.amount + amount, "operations")
    issue = next((o for o in formulas.operation if o.name == "valu.issue"), None)
    if issue is not None and (amount := side.amount(issue.name)) is not None and (peak := ceilings.value(issue.key)):
        times["instructions"] = LeastTime(amount / peak, amount, "instructions")
    return times


def _work(before: Side, after: Side, target: str, ceilings: Ceilings | None) -> list[_TermDraft]:
    """The terms of the work: by the greatest least time where ceilings are known, else by one quantity."""
    if ceilings is not None:
        first, second = (least_times(side, target, ceilings) for side in (before, after))
        shared = [name for name in first if name in second]
        shares = envelope([(first[name].time_ns, second[name].time_ns) for name in shared])
        if shares is not None:
            parts = [
                _TermDraft(name, first[name].amount, second[name].amount, first[name].unit, share, name)
                for name, share in zip(shared, shares, strict=True)
            ]
            greatest = max(parts, key=lambda part: first[part.name].time_ns)
            return [part for part in parts if abs(part.log) > _NOTHING] or [greatest]
    for name, unit in (("hbm", "bytes"), ("l2", "bytes"), ("vl1d", "bytes"), ("instructions", "instructions")):
        amounts = before.amount(name), after.amount(name)
        if amounts[0] and amounts[1]:
            title = level_title(name) if unit == "bytes" else name
            return [_TermDraft(title, *amounts, unit, math.log(amounts[1] / amounts[0]), title)]
    return []


def envelope(times: Sequence[tuple[float, float]]) -> list[float] | None:
    """Shares of ln(max after / max before) for resources with these least times; None where either is nothing.

    All times move on a straight line from before to after. A resource has the change of ln max over the stretch on
    which it is the greatest (the Aumann-Shapley values of the logarithm of the maximum).
    """
    if not times or max(t[0] for t in times) <= 0 or max(t[1] for t in times) <= 0:
        return None

    def at(i: int, s: float) -> float:
        return (1 - s) * times[i][0] + s * times[i][1]

    def greatest(s: float) -> float:
        return max(at(i, s) for i in range(len(times)))

    shares, s = [0.0] * len(times), 0.0
    while s < 1:
        # Of those that are greatest here, the one that rises most is greatest next.
        ahead = [i for i in range(len(times)) if at(i, s) >= greatest(s) * (1 - _NOTHING)]
        top = max(ahead, key=lambda i: times[i][1] - times[i][0])
        end = min(1.0, *(c for t in times if (c := _crossing(times[top], t)) > s), 1.0)
        shares[top] += math.log(greatest(end) / greatest(s))
        s = end
    return shares


def _crossing(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Where on the way from before to after the other overtakes the one; 2 where it does not."""
    gap, gain = one[0] - other[0], (other[1] - other[0]) - (one[1] - one[0])
    return gap / gain if gain > 0 else 2.0


_PRESETS = ("overview", "memory", "compute", "lds", "occupancy")
_LEFT_OUT = ("dispatch.duration_ns", "dispatch.gpu_cycles", "dispatch.cycles")
"""Time itself, which the comparison states anyway."""
_LEAST = threshold("comparison.least_cause")
_STRONG = threshold("comparison.strong_cause")


@dataclass(frozen=True)
class MetricChange:
    """One metric before and after; ``good`` is None where neither direction is better in itself."""

    before: Figure
    after: Figure
    good: bool | None
    weight: float

    def better(self, verdict: TimeVerdict) -> bool | None:
        """Whether it went with the time: None where that did not change for certain, or changed the other way.

        A hit rate that falls because the same lines are not read again is no loss, as the time tells.
        """
        if verdict == "inconclusive" or self.good != (verdict == "improved"):
            return None
        return self.good

    @property
    def doubt(self) -> Reason | None:
        """Why one of the two figures is not to be trusted."""
        return next((f.reason for f in (self.before, self.after) if f.status != "ok"), None)


class MetricChanges(NamedTuple):
    """The metrics that changed, the most telling first, and those that only one of the two profiles can tell."""

    changed: list[MetricChange]
    only_before: list[str]
    only_after: list[str]


def changes(before: Workload, kernel: str, after: Workload, candidate: str, normalised: bool) -> MetricChanges:
    """The metrics of a kernel that changed, the most telling first.

    Shares (percentages, or values with a peak) weigh by their change in points; of others only those of which more or
    less is better, by the logarithm of their ratio, which counts a quarter. ``normalised`` leaves only the shares,
    which can be compared between different GPUs. Figures beyond their limits are left out, those built on doubted
    counters keep their status. Empty where a target has no metrics.
    """
    if not {before.arch, after.arch} <= {*catalog.targets_with_metrics()} or not (
        before.manifest.counters and after.manifest.counters
    ):
        return MetricChanges([], [], [])
    (first, names_before), (second, names_after) = _figures(before, kernel), _figures(after, candidate)
    by_values: dict[tuple[float | None, float | None], MetricChange] = {}
    for name in first:
        if name in second and (change := _change(first[name], second[name], normalised)):
            by_values.setdefault((change.before.value, change.after.value), change)
    changed = sorted(by_values.values(), key=lambda c: -c.weight)
    return MetricChanges(
        changed, [n for n in names_before if n not in names_after], [n for n in names_after if n not in names_before]
    )


def _figures(workload: Workload, kernel: str) -> tuple[dict[str, Figure], list[str]]:
    """The figures that can be compared, and the names of all that have a value."""
    known = catalog.by_name(workload.arch)
    presets = [p for p in _PRESETS if any(n in known for n in catalog.presets()[p])]
    measured = figures(workload, presets, FigureRequest(kernel=[kernel], quartiles=False))
    valued = [f for f in measured if f.value is not None and f.name not in _LEFT_OUT]
    return {f.name: f for f in valued if _comparable(f)}, [f.name for f in valued]


def _comparable(figure: Figure) -> bool:
    """Whether a figure is sound, or only doubted: then the change is shown as such."""
    return figure.status == "ok" or (
        figure.status == "suspect" and figure.reason is not None and figure.reason.code == "doubted"
    )


def _change(before: Figure, after: Figure, normalised: bool) -> MetricChange | None:
    a, b = before.value or 0.0, after.value or 0.0
    better = before.metric.better
    good = None if better == "none" or a == b else (b > a) == (better == "higher")
    if before.unit == "%":
        weight = abs(b - a) / 100
    elif before.pct_of_peak is not None and after.pct_of_peak is not None:
        weight = abs(after.pct_of_peak - before.pct_of_peak) / 100
    elif normalised or better == "none" or min(a, b) < 0 or max(a, b) == 0:
        return None
    else:
        weight = (_STRONG if min(a, b) == 0 else min(abs(math.log(b / a)), _STRONG)) / 4
    return MetricChange(before, after, good, weight) if weight >= _LEAST else None
