"""The metric engine: catalogue formulas compiled to one DuckDB query over a workload's counters.

Every metric of a dispatch is num / den. The query computes both as lists, unnests them and aggregates
per kernel and metric, so its plan stays small however many metrics are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import catalog
from .catalog import Metric
from .coherence import pass_of, passes_of
from .compile import Query, channel_query, dispatch_query
from .database import connect
from .derived import NOTHING, Aggregate, Aggregation, Key, finish, peaks, run
from .problems import BadArgument, BadInput
from .selection import choose
from .status import Status, judge
from .store import Manifest, Store

if TYPE_CHECKING:
    import duckdb

Normalization = Literal["per_kernel", "per_wave", "per_cycle", "per_second"]
NORMALIZATIONS = ("per_kernel", "per_wave", "per_cycle", "per_second")


@dataclass(frozen=True)
class Figure:
    """One metric of one selection of dispatches.

    ``value`` follows the aggregation; minimum, maximum, quartiles and std are statistics of the per-dispatch values
    (std with ddof 1). Everything is None where there is no value, and ``reason`` says why. ``n`` counts the
    dispatches that contributed.
    """

    metric: Metric
    name: str
    id: str
    kernel: str | None
    value: float | None
    min: float | None
    max: float | None
    unit: str
    peak: float | None
    pct_of_peak: float | None
    status: Status
    reason: str | None
    n: int
    q1: float | None = None
    median: float | None = None
    q3: float | None = None
    std: float | None = None


def evaluate(
    store: Store,
    workload: str | Manifest,
    metrics: Iterable[str] = ("overview",),
    *,
    kernel: str | None = None,
    by_kernel: bool = False,
    dispatches: str | Sequence[int] | None = None,
    normalization: Normalization = "per_kernel",
    aggregation: Aggregation = "sum_ratio",
    quartiles: bool = True,
) -> list[Figure]:
    """Evaluate metrics (names, ids, tables, panels, subsystems, presets, ``*``) over one workload.

    aggregation="sum_ratio" is sum(num) / sum(den) over the selected dispatches; "mean" is the unweighted mean of
    the per-dispatch ratios, as rocprof-compute up to 3.6 computes it. Figures come in the order asked for, per kernel
    by total time where ``by_kernel``. Without ``quartiles`` those and the deviation are left out, which is faster on
    many dispatches. Raises Problem subclasses for anything the caller can mend.
    """
    if normalization not in NORMALIZATIONS:
        raise BadArgument(f"Unknown normalization {normalization!r}", fix=f"Use one of {', '.join(NORMALIZATIONS)}")
    if aggregation not in ("sum_ratio", "mean"):
        raise BadArgument(f"Unknown aggregation {aggregation!r}", fix="Use sum_ratio or mean")
    manifest = workload if isinstance(workload, Manifest) else store.resolve(workload)
    if manifest.arch not in catalog.with_metrics():
        raise BadInput(
            f"No metrics are known for workload {manifest.name!r}",
            f"its GPU target is {manifest.arch or 'not stated in the profile'}",
            f"Import it again with gpu= one of {', '.join(catalog.with_metrics())}",
        )
    wanted = list(metrics)
    chosen = catalog.select(manifest.arch, wanted)
    con = connect()
    try:
        selection = choose(con, store, manifest, kernel, dispatches)
        normal = _normal(manifest.arch, normalization)
        plain = _with_used([m for m in chosen if m.per == "dispatch"], catalog.by_name(manifest.arch))
        found = []
        for measured_in, together in _by_pass(con, store, manifest, plain).items():
            query = dispatch_query(
                store, manifest, together, selection, normal.den, by_kernel, quartiles, measured_in=measured_in
            )
            found += _evaluate(con, query, normal.word, aggregation)
        channels = [m for m in chosen if m.per == "l2_channel"]
        if channels:
            query = channel_query(store, manifest, channels, selection, normal.den, by_kernel, quartiles)
            found += _asked_channels(_evaluate(con, query, normal.word, aggregation), wanted)
    finally:
        con.close()
    order = {m.name: i for i, m in enumerate(chosen)}
    ranks = {k: i for i, k in enumerate(selection.kernels)}
    return sorted(
        (f for f in found if f.metric.name in order),
        key=lambda f: (ranks.get(f.kernel or "", -1), order[f.metric.name], _channel(f.id)),
    )


def _normal(target: str, normalization: Normalization) -> catalog.Normal:
    """What normalised metrics are divided by; a target without such a divisor has no such metrics."""
    if normalization == "per_kernel":
        return catalog.Normal(den="1", word="kernel")
    known = catalog.normalizations(target)
    if normalization not in known:
        raise BadArgument(
            f"{normalization} means nothing on {target}", fix=f"Use one of {', '.join(['per_kernel', *known])}"
        )
    return known[normalization]


def _by_pass(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, metrics: list[Metric]
) -> dict[str | None, list[Metric]]:
    """The metrics by the pass that holds all of their counters; None: as first measured."""
    passes, target = passes_of(con, store, manifest), manifest.arch or ""
    linked = {name for m in metrics if m.uses for name in (m.name, *m.uses.values())}
    found: dict[str | None, list[Metric]] = {}
    for metric in metrics:
        place = pass_of(catalog.counters(target, metric), passes) if passes and metric.name not in linked else None
        found.setdefault(place, []).append(metric)
    return found


def _with_used(chosen: list[Metric], known: dict[str, Metric]) -> list[Metric]:
    """The metrics chosen, and those that their ``finish`` needs, which come first."""
    named = {m.name: m for m in chosen}
    used = {name: known[name] for m in chosen for name in m.uses.values()}
    return list((used | named).values())


def _asked_channels(figures: list[Figure], wanted: list[str]) -> list[Figure]:
    """All channels of a metric, unless only single channels of its table were asked for (18.2.17)."""
    single = {f.id for f in figures} & set(wanted)
    tables = {i.rpartition(".")[0] for i in single}
    whole = set(wanted) - single

    def asked(figure: Figure) -> bool:
        metric = figure.metric
        named = whole & {metric.name, metric.table, str(metric.panel), metric.subsystem, "*"}
        return figure.id in single or metric.table not in tables or bool(named)

    return [f for f in figures if asked(f)]


def _evaluate(con: duckdb.DuckDBPyConnection, query: Query, per: str, aggregation: Aggregation) -> list[Figure]:
    """Run one query and turn its rows, and the metrics that could not be compiled, into figures."""
    aggregates = run(con, query)
    finished = finish(con, query, aggregates, aggregation)
    limits = peaks(con, query)
    figures = []
    for i, metric in enumerate(query.metrics):
        for key in [(kernel, i, channel) for kernel in query.groups for channel in query.channels]:
            found, final, missing = aggregates.get(key), finished.get(key), query.missing[i]
            figures.append(_figure(metric, key, found, final, missing, limits.get(metric.name), per, aggregation))
    return figures


def _figure(
    metric: Metric,
    key: Key,
    found: Aggregate | None,
    finished: float | None,
    missing: str | None,
    limit: float | str | None,
    per: str,
    aggregation: Aggregation,
) -> Figure:
    """One figure from its aggregate; ``limit`` is the peak, or a sentence why there is none."""
    kernel, _, channel = key
    value = finished if metric.finish else found.value(metric, aggregation) if found else None
    if metric.chart and aggregation == "mean" and value is not None:
        value = float(round(value))
    peak = limit if isinstance(limit, float) else None
    pct = 100 * value / peak if value is not None and peak else None
    status, reason = judge(metric, value, pct, found, missing)
    channelled = metric.per == "l2_channel"
    shown = found if found and value is not None else NOTHING
    return Figure(
        metric=metric,
        name=f"{metric.name}[{channel}]" if channelled else metric.name,
        id=f"{metric.table}.{channel}" if channelled else metric.id,
        kernel=kernel,
        value=value,
        min=shown.min,
        max=shown.max,
        unit=f"{metric.unit}/{per}" if metric.norm else metric.unit,
        peak=peak,
        pct_of_peak=pct,
        status=status,
        reason=reason or (limit if isinstance(limit, str) else None),
        n=found.n if found else 0,
        q1=shown.q1,
        median=shown.median,
        q3=shown.q3,
        std=shown.std,
    )


def _channel(id: str) -> int:
    return int(id.rsplit(".", 1)[-1])
