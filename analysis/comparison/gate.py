"""Decide for each kernel whether a candidate is slower than allowed: pass, fail or inconclusive.

A kernel fails if it is slower by more than its limit and significantly slower: beyond the noise floor, with an
interval and a rank test that exclude "no change" at a level of 5 % for all kernels together (Holm's method). It passes
if its time is within the limit and the noise is not larger than the limit. Otherwise it is inconclusive.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ..base.notes import Note
from ..base.problems import BadArgument
from ..base.text import first_few, shorten
from ..catalogue import metrics as catalog
from ..catalogue.search import select_metrics
from ..catalogue.thresholds import threshold
from ..engine.evaluation import Figure, FigureRequest, figures
from ..launches import device_clocks
from ..store.doubts import DURATION
from ..workload import Workload
from .compare import ComparedPair, ComparedVersion, Comparison, compare_pairs, in_groups
from .gate_limits import GateLimits, MetricLimit
from .matching import Pair, match
from .sentences import notes
from .time_ratio import LAUNCHES_DIFFER, Effect
from .wording import note, sentence
from .work import DIFFERENT, Answer

Verdict = Literal["pass", "fail", "inconclusive"]
Status = Literal["pass", "fail", "inconclusive", "new", "vanished", "ignored"]
Code = Literal[
    "within", "beyond", "uncertain", "noise", "other_work", "other_gpu", "other_profiler", "clocks", "doubted",
    "no_time", "no_figure", "other_kernels", "from_zero", "new", "vanished", "ignored", "small",
]  # fmt: skip
"""The reason of a status, for programs."""
Kind = Literal["kernel", "group", "program", "metric"]
PROGRAM = "whole program"
LEVEL = threshold("gate.false_alarms")
"""For all kernels together: the maximum probability of calling one slower although nothing changed."""
_CLOCK = threshold("comparison.clock_change")
_UNMATCHED = threshold("comparison.unmatched_time")
_MOST_ITEMS = 200
_SHOWN = 60
_MOST_NAMED = 3
_OMITTED_NOTES = frozenset({"terms_add_up"})
"""Notes of a comparison about things that a gate does not show."""


@dataclass(frozen=True)
class Item:
    """One judged item, or why it was not judged.

    Shares and changes are fractions: 0.03 for 3 %. ``change`` is candidate / baseline - 1, with its 95 % interval from
    ``low`` to ``high``. ``noise`` is the largest change that cannot be distinguished from none. None is unknown, for
    the reason in ``why``.
    """

    kind: Kind
    name: str
    status: Status
    code: Code
    why: str
    limit: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    baseline: float | None = None
    candidate: float | None = None
    unit: str = "ns"
    launches: tuple[int, int] | None = None
    share: float | None = None
    """The larger of its fractions of the baseline's and the candidate's time."""
    same_work: Answer = "unknown"
    metric: str | None = None
    relative: bool = True
    """Whether ``limit`` is a fraction; otherwise it is an amount in ``unit``."""


@dataclass(frozen=True)
class Gate:
    """The verdict over all items, and the comparison behind it."""

    verdict: Verdict
    items: list[Item]
    notes: list[Note]
    comparison: Comparison

    def counts(self) -> Mapping[str, int]:
        """The number of items with each status."""
        return Counter(item.status for item in self.items)


_Judged = dict[Pair, tuple[Kind, float]]
"""The pairs whose times are judged, with their limits."""


def gate(baselines: Sequence[Workload], candidates: Sequence[Workload], limits: GateLimits) -> Gate:
    """Judge the candidate. Each side is one workload, or several runs of the same program, whose times are pooled.

    Work, metrics and device are taken from the first workload of each side. Raises BadArgument for a workload on both
    sides, for runs of different programs or GPUs on one side, and for an invalid pattern; raises BadInput for a
    workload without dispatches.
    """
    if both := {w.id for w in baselines} & {w.id for w in candidates}:
        raise BadArgument(f"Workload {min(both)} is on both sides", fix="Compare two different workloads")
    for side in (baselines, candidates):
        _refuse_other_runs(side)
    before, after = ComparedVersion.of(baselines[0], baselines[1:]), ComparedVersion.of(candidates[0], candidates[1:])
    # Kernels that vanished are a failure here, even if a new one was launched as often.
    matching = match(before.kernels.values(), after.kernels.values(), fused=False)
    whole = Pair(PROGRAM, tuple(before.kernels), tuple(after.kernels), "group")
    groups, (kernels, left_out) = _groups(before, after, limits), _kernels(before, after, matching.pairs, limits)
    to_judge: _Judged = {
        whole: ("program", limits.max_regression if limits.total is None else limits.total),
        **groups,
        **kernels,
    }
    comparison = compare_pairs(before, after, matching, list(to_judge))
    sure_of = certain([c.effect for c in comparison.pairs])
    items = [
        replace(_time_item(comparison, c, limit, certain=sure), kind=kind, share=_share(c.pair, before, after))
        for (kind, limit), c, sure in zip(to_judge.values(), comparison.pairs, sure_of, strict=True)
    ]
    of_kernels = comparison.pairs[len(to_judge) - len(kernels) :]
    items += [_metric_item(limit, c, before.workload, after.workload) for limit in limits.metrics for c in of_kernels]
    grouped = {name for pair in groups for name in (*pair.before, *pair.after)}
    vanished, new = ([n for n in names if n not in grouped] for names in (matching.only_before, matching.only_after))
    if items[0].status == "pass" and (why := _describe_unmatched(before, vanished, after, new, limits)):
        items[0] = replace(items[0], status="inconclusive", code="other_kernels", why=why)
    statuses = {item.status for item in items}
    verdict: Verdict = "fail" if "fail" in statuses else "inconclusive" if "inconclusive" in statuses else "pass"
    items += _one_sided(before, vanished, "vanished", limits)
    items += _one_sided(after, new, "new", limits)
    shown = replace(comparison, pairs=comparison.pairs[1:])
    gate_notes = [one for one in notes(shown) if one.code not in _OMITTED_NOTES] + _size_notes(of_kernels)
    return Gate(verdict, items + left_out, gate_notes, comparison)


def _size_notes(pairs: Sequence[ComparedPair]) -> list[Note]:
    """A note on kernels with another launch size for which no counter shows whether the work is the same."""
    descriptions = [
        f"{c.pair.label} ({d.before} -> {d.after} {d.unit})"
        for c in pairs
        for d in c.launched
        if d.quantity == "grid" and c.work.answer == "unknown"
    ]
    return [note("other_sizes", kernels=first_few(descriptions, _MOST_NAMED))] if descriptions else []


def _refuse_other_runs(side: Sequence[Workload]) -> None:
    """Raise BadArgument if these are not runs of one program on one kind of GPU, as far as this is known."""
    first = side[0].manifest
    for other in (workload.manifest for workload in side[1:]):
        for what, one, another in (
            ("target", first.arch, other.arch),
            ("device", first.device, other.device),
            ("format", first.format, other.format),
            ("command", first.command, other.command),
        ):
            if one and another and one != another:
                raise BadArgument(
                    f"{first.id} and {other.id} are not runs of one program",
                    f"their {what} is {shorten(one, _SHOWN)!r} and {shorten(another, _SHOWN)!r}",
                    "Pool fewer runs, or use a different name for each program and GPU",
                )


def _groups(before: ComparedVersion, after: ComparedVersion, limits: GateLimits) -> _Judged:
    patterns = {group.name: (group.baseline, group.candidate or group.baseline) for group in limits.group}
    caps = {g.name: limits.max_regression if g.max_regression is None else g.max_regression for g in limits.group}
    return {p: ("group", caps[p.label]) for p in in_groups(before, after, patterns).pairs}


def _kernels(
    before: ComparedVersion, after: ComparedVersion, pairs: Sequence[Pair], limits: GateLimits
) -> tuple[_Judged, list[Item]]:
    """The pairs that are judged individually, and those that are not."""
    caps = limits.of_kernels([pair.before[0] for pair in pairs])
    to_judge: _Judged = {}
    left_out: list[Item] = []
    for pair in pairs:
        share, cap = _share(pair, before, after), caps[pair.before[0]]
        if cap is None:
            left_out.append(Item("kernel", pair.label, "ignored", "ignored", "by the limits", share=share))
        elif share < limits.min_share or len(to_judge) == _MOST_ITEMS:
            why = sentence("small_share", share=share)
            left_out.append(Item("kernel", pair.label, "ignored", "small", why, share=share))
        else:
            to_judge[pair] = ("kernel", cap)
    return to_judge, left_out


def _share(pair: Pair, before: ComparedVersion, after: ComparedVersion) -> float:
    return max(before.share(pair.before), after.share(pair.after))


def certain(effects: Sequence[Effect | None]) -> list[bool]:
    """Whether each pair is significantly slower when all are tested together (Holm's step-down method).

    For a difference larger than that between single launches of one build, and with too few launches for an interval,
    the separate verdict of the pair decides.
    """
    slower = [e is not None and e.verdict == "regressed" for e in effects]
    known = {i: p for i, e in enumerate(effects) if e is not None and (p := _p_value(e)) is not None}
    surely_slower = [slow and i not in known for i, slow in enumerate(slower)]
    for rank, i in enumerate(sorted(known, key=known.__getitem__)):
        if known[i] > LEVEL / (len(known) - rank):
            break
        surely_slower[i] = slower[i]
    far = [e is not None and 1 / e.speedup > 1 + LAUNCHES_DIFFER for e in effects]
    return [sure or (slow and much) for sure, slow, much in zip(surely_slower, slower, far, strict=True)]


def _p_value(effect: Effect) -> float | None:
    """The probability of such a difference if nothing changed, estimated from the width of the interval.

    The interval is treated as that of Student's t over the launches of both sides, on a logarithmic scale. None with
    few launches.
    """
    if effect.low is None or effect.high is None:
        return None
    from scipy.stats import norm, t

    freedom = sum(effect.n) - 2
    deviation = math.log(effect.high / effect.low) / (2 * float(norm.ppf(0.975)))
    change = abs(math.log(effect.speedup))
    if deviation <= 0:
        return float(change == 0)
    return 2 * float(t.sf(change / deviation, freedom))


def _time_item(comparison: Comparison, c: ComparedPair, limit: float, *, certain: bool) -> Item:
    """The item of a pair, judged by its time; the caller sets its kind and share."""
    e = c.effect
    item = Item("kernel", c.pair.label, "inconclusive", "no_time", "no usable time on both sides", limit)
    if e is None:
        return item
    span = _Span.of(e)
    item = replace(
        item, change=span.change, low=span.low, high=span.high, noise=span.noise, baseline=e.baseline_ns,
        candidate=e.candidate_ns, launches=e.n, same_work=c.work.answer,
    )  # fmt: skip
    if blocked := _not_comparable(comparison, c):
        return replace(item, code=blocked[0], why=blocked[1])
    status, code = by_time(e, limit, certain=certain)
    if status != "inconclusive" and (clock := _clock(comparison, slower=status == "fail")):
        return replace(item, code="clocks", why=clock)
    why = sentence(f"gate_{code}", change=span.change, limit=limit, noise=span.noise, why=e.why)
    return replace(item, status=status, code=code, why=why)


class _Span(NamedTuple):
    """A change in time as a fraction, its 95 % interval if there is one, and the change that can be noise."""

    change: float
    low: float | None
    high: float | None
    noise: float

    @staticmethod
    def of(e: Effect) -> _Span:
        change = e.candidate_ns / e.baseline_ns - 1
        if e.low is None or e.high is None:
            return _Span(change, None, None, e.floor)
        low, high = 1 / e.high - 1, 1 / e.low - 1
        return _Span(change, low, high, max(e.floor, (1 + high) / (1 + change) - 1, (1 + change) / (1 + low) - 1))


_ByTime = Literal["within", "beyond", "uncertain", "noise"]


def by_time(e: Effect, limit: float, *, certain: bool) -> tuple[Verdict, _ByTime]:
    """The status according to the times alone; ``certain`` is the result of ``certain()``."""
    change, _, high, noise = _Span.of(e)
    if change > limit:
        return ("fail", "beyond") if certain else ("inconclusive", "uncertain")
    worst = max(change if high is None else high, (1 + change) * (1 + e.floor) - 1)
    return ("inconclusive", "noise") if noise > limit and worst > limit else ("pass", "within")


def _not_comparable(comparison: Comparison, c: ComparedPair) -> tuple[Code, str] | None:
    """Why the times of a pair cannot be compared; empty if they can."""
    before, after = comparison.before.workload.manifest, comparison.after.workload.manifest
    if comparison.other_gpu is not None:
        return "other_gpu", sentence("not_in_absolute_times", gpu=comparison.other_gpu)
    if before.format != after.format:
        return "other_profiler", sentence("other_profilers", before=before, after=after)
    if doubt := c.doubts.get(DURATION):
        return "doubted", sentence("doubted_times", why=doubt)
    if c.work.answer in DIFFERENT:
        return "other_work", sentence("other_work", work=c.work)
    return None


def _clock(comparison: Comparison, *, slower: bool) -> str:
    """A sentence if a difference of clocks could explain the verdict; otherwise empty.

    A lower clock of the candidate may be the reason why it is slower, and a higher one why it is not.
    """
    sides = comparison.before.workload, comparison.after.workload
    first, second = map(device_clocks.clock_state_of, sides)
    if first is None or second is None or not first.mhz or not second.mhz:
        return ""
    ratio = second.mhz / first.mhz
    if (ratio > 1 - _CLOCK) if slower else (ratio < 1 + _CLOCK):
        return ""
    return sentence("other_clock", first=first, second=second)


def _metric_item(limit: MetricLimit, c: ComparedPair, before: Workload, after: Workload) -> Item:
    """The item of a metric of one kernel."""
    sides = (before, c.pair.before[0]), (after, c.pair.after[0])
    one, other = (_figure(workload, limit.metric, kernel) for workload, kernel in sides)
    item = Item("metric", c.pair.label, "inconclusive", "no_figure", "", metric=limit.metric, unit=one.unit,
                same_work=c.work.answer, limit=limit.allowed, relative=limit.relative)  # fmt: skip
    for figure in (one, other):
        if figure.value is None or figure.status != "ok":
            return replace(item, why=f"{limit.metric} is {figure.status}: {figure.reason or 'no value'}")
    a, b = one.value or 0.0, other.value or 0.0
    change = (b - a) / abs(a) if a else None
    moved = b - a if change is None or not limit.relative else change
    item = replace(item, baseline=a, candidate=b, change=change)
    if limit.relative and limit.allowed and not a and (moved < 0 if limit.down else moved > 0):
        return replace(item, code="from_zero", why=sentence("from_zero", before=a, after=b, unit=one.unit))
    code = "metric_change" if change is None else "relative_metric_change"
    how = sentence(code, before=a, after=b, unit=one.unit, change=change)
    if moved < limit.allowed if limit.down else moved > limit.allowed:
        return replace(item, status="fail", code="beyond", why=f"{how}, beyond {limit}")
    return replace(item, status="pass", code="within", why=f"{how}, within {limit}")


def _figure(workload: Workload, metric: str, kernel: str) -> Figure:
    if workload.arch in catalog.targets_with_metrics():
        known = select_metrics(workload.arch, [metric])
        if len(known) != 1:
            fix = "Give the name of one metric; search_metrics finds them"
            raise BadArgument(f"{metric!r} matches {len(known)} metrics", fix=fix)
    return figures(workload, [metric], FigureRequest(kernel=[kernel], quartiles=False))[0]


def _describe_unmatched(
    before: ComparedVersion, vanished: Sequence[str], after: ComparedVersion, new: Sequence[str], limits: GateLimits
) -> str:
    """A sentence if kernels without a counterpart take much of a side's time; otherwise empty.

    A program that ends early is fast. Kernels that the limits ignore are not counted.
    """
    shares = []
    for version, names, whose in ((before, vanished, "baseline"), (after, new, "candidate")):
        counted = [name for name, cap in limits.of_kernels(list(names)).items() if cap is not None]
        if (share := version.share(counted)) > _UNMATCHED:
            shares.append(sentence("share_of_side", share=share, whose=whose))
    return sentence("unmatched", shares=" and ".join(shares)) if shares else ""


def _one_sided(
    version: ComparedVersion, names: Sequence[str], status: Literal["new", "vanished"], limits: GateLimits
) -> list[Item]:
    """The items of kernels on one side only; their time is part of the whole program."""
    items = []
    for kernel in version.only(names):
        share = version.share([kernel.name])
        if share >= limits.min_share:
            spent = kernel.total_ns / version.runs
            times = (None, spent) if status == "new" else (spent, None)
            why = f"only in the {'candidate' if status == 'new' else 'baseline'}: {share:.1%} of its time"
            item = Item("kernel", kernel.name, status, status, why, share=share, baseline=times[0], candidate=times[1])
            items.append(item)
    return items[:_MOST_ITEMS]
