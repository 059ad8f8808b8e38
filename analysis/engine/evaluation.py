"""Evaluate the metrics of a workload: every figure with value, unit, status, reason, n and peak."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from ..base.notes import Reason
from ..base.problems import BadArgument
from ..base.text import count_text
from ..catalogue import metrics as catalog
from ..catalogue.formula import references, values_over_facts
from ..catalogue.metrics import Metric
from ..catalogue.search import select_metrics
from ..catalogue.thresholds import threshold
from ..launches import coverage
from ..store.doubts import DURATION, Doubts
from ..workload import Selection, Workload
from . import launching_ranges
from .compile import (
    Grouping,
    Query,
    channel_query,
    dispatch_query,
    pass_of,
    remeasured_passes,
    replayed_pass,
)
from .launching_ranges import ProgramPart

if TYPE_CHECKING:
    import duckdb


Aggregation = Literal["sum_ratio", "mean"]
Key = tuple[str | None, int, int]
"""Kernel (None for all), index of the metric in the query, channel (0 without channels)."""


@dataclass(frozen=True)
class Aggregate:
    """The values of one metric over the dispatches of one group; ``zero`` and ``untimed`` count those without a value.

    Minimum, maximum, quartiles and std are statistics of the per-dispatch values (std with ddof 1).
    """

    ratio: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    std: float | None = None
    q1: float | None = None
    median: float | None = None
    q3: float | None = None
    n: int = 0
    zero: int = 0
    total: int = 0
    untimed: int = 0
    combined: int = 0
    """Launch configurations whose inputs come from different launches; each input is the mean of the launches with
    it."""
    unseen: int = 0
    """Dispatches without a value because they did work that the counters do not see."""

    def value(self, metric: Metric, aggregation: Aggregation) -> float | None:
        """The requested aggregate, or None if the sums overflowed."""
        return finite_value(self.mean if aggregation == "mean" or metric.rule == "mean" else self.ratio)


def finite_value(value: float | None) -> float | None:
    """The value, or None if it is not finite."""
    return value if value is not None and math.isfinite(value) else None


NO_AGGREGATE = Aggregate()


def run_query(con: duckdb.DuckDBPyConnection, query: Query) -> dict[Key, Aggregate]:
    """Execute a compiled query; returns an empty dictionary if nothing could be compiled."""
    if not query.sql:
        return {}
    users: dict[int, list[int]] = {}
    for metric, pair in enumerate(query.pairs):
        if pair is not None:
            users.setdefault(pair, []).append(metric)
    return {
        (kernel, metric, channel): Aggregate(*values)
        for kernel, pair, channel, *values in con.execute(query.sql).fetchall()
        for metric in users[pair]
    }


def peaks(con: duckdb.DuckDBPyConnection, query: Query) -> dict[str, float | Reason]:
    """The peaks by metric name: a number, or the reason if a device fact is unknown."""
    formulas = {m.name: m.peak for m in query.metrics if m.peak}
    needs = references(formulas.values())
    limits: dict[str, float | Reason] = {}
    ready: dict[str, str] = {}
    for name, formula in formulas.items():
        if unknown := sorted(needs[formula] - query.facts.keys()):
            limits[name] = Reason("no_fact", f"no peak: {', '.join(unknown)} unknown")
        else:
            ready[name] = formula
    values = values_over_facts(con, ready.values(), query.facts)
    return limits | {name: values[formula] for name, formula in ready.items() if formula in values}


def _unknown_facts(query: Query, metric: Metric) -> Reason | None:
    """The reason if the ``finish`` expression of a metric needs unknown device facts, or None."""
    needs = references([metric.finish])[metric.finish] if metric.finish else frozenset()
    lacks = sorted(needs - query.facts.keys() - metric.uses.keys() - {"value"})
    return Reason("no_fact", ", ".join(f"device fact {name} unknown" for name in lacks)) if lacks else None


def finish(
    con: duckdb.DuckDBPyConnection, query: Query, aggregates: dict[Key, Aggregate], aggregation: Aggregation
) -> dict[Key, float | None]:
    """Apply the ``finish`` expressions to the aggregates of their metrics, in the order of their dependencies."""
    finished: dict[Key, float | None] = {}
    place = {m.name: i for i, m in enumerate(query.metrics)}
    wanted = [key for key in aggregates if query.metrics[key[1]].finish]
    for key in sorted(wanted, key=lambda k: bool(query.metrics[k[1]].uses)):
        metric = query.metrics[key[1]]
        formula, value = metric.finish or "", aggregates[key].value(metric, aggregation)
        others = {name: finished.get((key[0], place[used], key[2])) for name, used in metric.uses.items()}
        known = {name: v for name, v in others.items() if v}
        if value is None or len(known) < len(others) or _unknown_facts(query, metric):
            continue
        inputs = {**query.facts, **known, "value": value}
        finished[key] = values_over_facts(con, [formula], inputs).get(formula)
    return finished


Status = Literal["ok", "suspect", "impossible", "undefined", "not_collected", "not_supported"]
_SUSPECT_PCT = threshold("figures.suspect_pct")
IMPOSSIBLE_PCT = threshold("figures.impossible_pct")
"""A share above this means that the counters do not agree, so it is not used for decisions."""
_TOLERANCE_PCT = threshold("figures.tolerance_pct")


def judge(
    metric: Metric, value: float | None, pct: float | None, aggregate: Aggregate | None, missing: Reason | None
) -> tuple[Status, Reason | None]:
    """The status of one figure and, if it is not ok, the reason.

    ``pct`` is the share of the peak, if there is one; a percentage without a peak is compared with its limit.
    Above 100 %, up to 105 % is suspect (replays differ, clocks boost), and more is impossible.
    """
    if value is None and aggregate and aggregate.unseen and not missing:
        return "not_supported", Reason("unseen", metric.unseen_why)
    if missing or aggregate is None or value is None:
        reason = missing or _why_empty(metric, aggregate)
        return ("undefined" if reason.code == "nothing_there" else "not_collected"), reason
    if value < 0:
        small = metric.unit == "%" and value > -_TOLERANCE_PCT
        reason = Reason("negative", "negative: the counters come from different replays that do not agree")
        return ("suspect" if small else "impossible"), reason
    share = pct
    if share is None and (metric.unit == "%" or metric.limit is not None):
        share = 100 * value / (metric.limit or 100)
    if share is None:
        return "ok", None
    status, why = judge_share(share)
    if status == "impossible" and why and metric.instead:
        why = Reason(why.code, f"{why.text}; {metric.instead} has no such error")
    return status, why


def judge_share(share: float) -> tuple[Status, Reason | None]:
    """The status of a share of a limit or of a whole, in percent, and the reason if it is not ok."""
    if share <= _SUSPECT_PCT:
        return "ok", None
    limit = f"{share:.4g} % of its limit"
    if share <= IMPOSSIBLE_PCT:
        return "suspect", Reason("near_limit", f"{limit}: replays differ, or the clock was above the nominal one")
    return "impossible", Reason(
        "above_limit", f"{limit}: replays were mixed, a clock is wrong, or units were miscounted"
    )


_EMPTY_CODES = ("no_value", "no_dispatch", "no_channel")
"""The reason codes of figures without a value although their counters were collected."""


def _why_empty(metric: Metric, aggregate: Aggregate | None) -> Reason:
    if aggregate is None and metric.per == "l2_channel":
        return Reason("no_channel", "this channel was not collected")
    if aggregate is None:
        return Reason("no_dispatch", "no dispatch has its counters")
    if aggregate.total and aggregate.untimed == aggregate.total:
        return Reason("no_timing", "the dispatches have no usable timing: start and end are missing, equal or rounded")
    if aggregate.zero:
        every = count_text(aggregate.total, "dispatch")
        launches = "all dispatches" if aggregate.zero == aggregate.total else f"{aggregate.zero} of {every}"
        return Reason(
            "nothing_there",
            f"the denominator is zero in {launches}: {metric.den or 'normalization'}",
        )
    return Reason("no_value", "its counters have no value for these dispatches")


Normalization = Literal["per_kernel", "per_wave", "per_cycle", "per_second"]
NORMALIZATIONS = ("per_kernel", "per_wave", "per_cycle", "per_second")


@dataclass(frozen=True)
class Figure:
    """One metric of one selection of dispatches.

    ``value`` follows the aggregation; it is None if there is none, and ``reason`` says why. ``n`` is the number of
    contributing dispatches.
    """

    metric: Metric
    name: str
    id: str
    kernel: str | None
    value: float | None
    unit: str
    peak: float | None
    pct_of_peak: float | None
    status: Status
    reason: Reason | None
    n: int
    over: Aggregate
    """The values over the dispatches; empty without a value."""
    reads: frozenset[str]
    """The columns of counters and launches that it reads, and ``duration_ns`` if it needs the time."""
    of_time: bool = False
    """Whether it is a share of the time that replaces a share of cycles which include more than the kernel's."""


@dataclass(frozen=True)
class FigureRequest:
    """How to compute figures: over which dispatches, together or by kernel, and the normalisation and aggregation.

    aggregation="sum_ratio" is sum(num) / sum(den) over the selected dispatches; "mean" is the unweighted mean of the
    per-dispatch ratios, as in rocprof-compute up to 3.6. Without ``quartiles``, quartiles and standard deviation are
    omitted, which is faster for many dispatches.
    """

    kernel: str | Sequence[str] | None = None
    """As in ``Workload.select``, and likewise ``dispatches``."""
    dispatches: str | Sequence[int] | None = None
    by_kernel: bool = False
    normalization: Normalization = "per_kernel"
    aggregation: Aggregation = "sum_ratio"
    quartiles: bool = True
    launched_by: ProgramPart | None = None
    """Group by the part of the program that launched them (table ranges) instead; ``Figure.kernel`` is its name
    then."""


def figures(workload: Workload, metrics: Iterable[str], view: FigureRequest = FigureRequest()) -> list[Figure]:
    """Evaluate metrics (names, ids, tables, panels, subsystems, presets, ``*``) over one workload.

    Figures are in the requested order, per kernel by total time with ``by_kernel``. Raises Problem subclasses for
    anything that the caller can correct.
    """
    if view.normalization not in NORMALIZATIONS:
        raise BadArgument(
            f"Unknown normalization {view.normalization!r}", fix=f"Use one of {', '.join(NORMALIZATIONS)}"
        )
    if view.aggregation not in ("sum_ratio", "mean"):
        raise BadArgument(f"Unknown aggregation {view.aggregation!r}", fix="Use sum_ratio or mean")
    if workload.arch not in catalog.targets_with_metrics():
        raise workload.no_formulas()
    wanted = list(metrics)
    chosen = select_metrics(workload.arch, wanted)
    selection = workload.select(view.kernel, view.dispatches)
    known = {
        "per_kernel": catalog.NormalizationDivisor(den="1", word="kernel"),
        **catalog.normalizations(workload.arch),
    }
    if view.normalization not in known:
        raise BadArgument(
            f"{view.normalization} is not available on {workload.arch}", fix=f"Use one of {', '.join(known)}"
        )
    divisor = known[view.normalization]
    part = view.launched_by
    parts = launching_ranges.parts_by_time(workload, selection, part) if part else ()
    grouping = Grouping(selection, divisor.den, view.by_kernel, view.quartiles, part, parts)
    plain = _with_dependencies([m for m in chosen if m.per == "dispatch"], catalog.by_name(workload.arch))
    evaluated = []
    for measured_in, of_pass in _by_pass(workload, plain).items():
        query = dispatch_query(workload, of_pass, grouping, measured_in)
        evaluated += _evaluate(workload, query, divisor.word, view.aggregation)
    if channels := [m for m in chosen if m.per == "l2_channel"]:
        query = channel_query(workload, channels, grouping)
        evaluated += _asked_channels(_evaluate(workload, query, divisor.word, view.aggregation), wanted)
    order = {m.name: i for i, m in enumerate(chosen)}
    ranks = {k: i for i, k in enumerate(grouping.groups)}
    every = selection.kernels if part or not view.by_kernel else None
    asked = [f for f in evaluated if f.metric.name in order]
    return sorted(
        (
            _mark_doubted(f, workload.doubts, every or [f.kernel or ""])
            for f in (asked if part else _explain_not_counted(workload, selection, asked))
        ),
        key=lambda f: (ranks.get(f.kernel, -1), order[f.metric.name], _channel(f.id)),
    )


def _explain_not_counted(workload: Workload, selection: Selection, figures: list[Figure]) -> list[Figure]:
    """The figures, with the reason set if no launch of their kernel was counted although others were."""
    empty = {f.kernel for f in figures if _lacks_counts(f)}
    lacking = coverage.uncounted_kernels(workload, selection.kernels if None in empty else [k for k in empty if k])
    without = lacking | ({None} if lacking >= set(selection.kernels) else set())
    return [replace(f, reason=coverage.NOT_COUNTED) if f.kernel in without and _lacks_counts(f) else f for f in figures]


def _lacks_counts(figure: Figure) -> bool:
    """Whether a figure has no value although its counters were collected."""
    code = figure.reason.code if figure.reason and figure.value is None else None
    return code in _EMPTY_CODES or (code == "no_timing" and bool(figure.reads - {DURATION}))


def _by_pass(workload: Workload, metrics: list[Metric]) -> dict[str | None, list[Metric]]:
    """The metrics by the pass with all their counters; None means as first measured."""
    passes = remeasured_passes(workload)
    linked = {name for m in metrics if m.uses for name in (m.name, *m.uses.values())}
    places: dict[str | None, list[Metric]] = {}
    for metric in metrics:
        counters = catalog.counters(workload.arch, metric)
        alone = passes and metric.name not in linked
        place = (pass_of(counters, passes) if alone else None) or replayed_pass(workload, counters)
        places.setdefault(place, []).append(metric)
    return places


def _with_dependencies(chosen: list[Metric], known: dict[str, Metric]) -> list[Metric]:
    """The chosen metrics, preceded by those that their ``finish`` needs."""
    named = {m.name: m for m in chosen}
    used = {name: known[name] for m in chosen for name in m.uses.values()}
    return list((used | named).values())


def _asked_channels(figures: list[Figure], wanted: list[str]) -> list[Figure]:
    """All channels of a metric, unless only single channels of its table were requested (18.2.17)."""
    single = {f.id for f in figures} & set(wanted)
    tables = {i.rpartition(".")[0] for i in single}
    whole = set(wanted) - single
    return [
        f
        for f, m in ((f, f.metric) for f in figures)
        if f.id in single or m.table not in tables or whole & {m.name, m.table, str(m.panel), m.subsystem, "*"}
    ]


def _evaluate(workload: Workload, query: Query, per: str, aggregation: Aggregation) -> list[Figure]:
    """Run one query and convert its rows, and the metrics that could not be compiled, to figures."""
    aggregates = run_query(workload.cursor, query)
    finished = finish(workload.cursor, query, aggregates, aggregation)
    limits = peaks(workload.cursor, query)
    place = {m.name: i for i, m in enumerate(query.metrics)}
    judged = []
    for i, (metric, missing) in enumerate(zip(query.metrics, query.missing, strict=True)):
        unit = f"{metric.unit}/{per}" if metric.norm else metric.unit
        missing = missing or _unknown_facts(query, metric)
        reads = query.reads[i].union(*(query.reads[place[name]] for name in metric.uses.values()))
        common = _MetricFacts(unit, reads, missing, limits.get(metric.name))
        for key in [(kernel, i, channel) for kernel in query.groups for channel in query.channels]:
            aggregate = aggregates.get(key)
            value = finished.get(key) if metric.finish else aggregate.value(metric, aggregation) if aggregate else None
            if metric.chart and aggregation == "mean" and value is not None:
                value = float(round(value))
            figure = _figure(metric, key, value, aggregate, common)
            judged.append(_with_caveat(figure, aggregate, query.last_resort))
    return judged


def _with_caveat(figure: Figure, aggregate: Aggregate | None, last_resort: frozenset[str]) -> Figure:
    """The figure with a caveat as its reason, unless it has one: dispatches without a value, or that of its metric."""
    metric = figure.metric
    if figure.value is None or figure.reason:
        return figure
    if aggregate and aggregate.unseen:
        text = f"without {aggregate.unseen} of {count_text(aggregate.total, 'dispatch')}: {metric.unseen_why}"
    elif figure.value:
        last = (text for term, text in metric.caveat_last.items() if term in last_resort)
        text = "; ".join(filter(None, [metric.caveat, *last]))
    else:
        text = ""
    return replace(figure, reason=Reason("caveat", text)) if text else figure


def _mark_doubted(figure: Figure, known: Doubts, kernels: Iterable[str]) -> Figure:
    """The figure, suspect if it is built on a doubted counter or time."""
    doubt = known.about(figure.reads, kernels) if figure.reads else None
    status, reason = with_doubt(figure.status, figure.reason, doubt)
    return replace(figure, status=status, reason=reason) if doubt else figure


_AnyStatus = TypeVar("_AnyStatus", bound=str)


def with_doubt(
    status: _AnyStatus, reason: Reason | None, doubt: Reason | None
) -> tuple[_AnyStatus | Literal["suspect"], Reason | None]:
    """The status and reason of a figure, including doubts about its inputs, which come first if there is a value."""
    if doubt is None or status in ("not_collected", "not_supported", "bypassed"):
        return status, reason
    text = "; ".join(dict.fromkeys([doubt.text, *([reason.text] if reason else [])]))
    if status in ("ok", "suspect"):
        return "suspect", Reason(doubt.code, text)
    return status, Reason(reason.code if reason else doubt.code, text)


class _MetricFacts(NamedTuple):
    """What all figures of a metric have in common; ``limit`` is the peak, or why there is none."""

    unit: str
    reads: frozenset[str]
    missing: Reason | None
    limit: float | Reason | None


def _figure(metric: Metric, key: Key, value: float | None, aggregate: Aggregate | None, common: _MetricFacts) -> Figure:
    """One figure with its statistics, its share of the peak, and its status."""
    kernel, _, channel = key
    peak, no_peak = (None, common.limit) if isinstance(common.limit, Reason) else (common.limit, None)
    pct = 100 * value / peak if value is not None and peak else None
    status, reason = judge(metric, value, pct, aggregate, common.missing)
    channelled = metric.per == "l2_channel"
    return Figure(
        metric=metric,
        name=f"{metric.name}[{channel}]" if channelled else metric.name,
        id=f"{metric.table}.{channel}" if channelled else metric.id,
        kernel=kernel,
        value=value,
        unit=common.unit,
        peak=peak,
        pct_of_peak=pct,
        status=status,
        reason=reason or no_peak,
        n=aggregate.n if aggregate else 0,
        over=aggregate if aggregate and value is not None else NO_AGGREGATE,
        reads=common.reads,
    )


def _channel(id: str) -> int:
    return int(id.rsplit(".", 1)[-1])
