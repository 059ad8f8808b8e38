"""The metric engine: catalogue formulas compiled to one DuckDB query over a workload's counters.

Every metric of a dispatch is num / den. The query computes both as lists, unnests them and aggregates
per kernel and metric, so its plan stays small however many metrics are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import catalog
from .catalog import Metric
from .compile import Query, channel_query, dispatch_query
from .problems import BadArgument, BadInput
from .selection import Selection, choose
from .store import Manifest, Store

if TYPE_CHECKING:
    import duckdb

Normalization = Literal["per_kernel", "per_wave", "per_cycle", "per_second"]
Aggregation = Literal["sum_ratio", "mean"]
Status = Literal["ok", "suspect", "impossible", "not_collected", "not_supported"]
NORMALIZATIONS: dict[str, tuple[str, str]] = {
    "per_kernel": ("1", "kernel"),
    "per_wave": ("SQ_WAVES", "wave"),
    "per_cycle": ("gui", "cycle"),
    "per_second": ("seconds", "s"),
}
_SUSPECT_PCT = 100.0
_IMPOSSIBLE_PCT = 105.0
_TOLERANCE_PCT = 1.0


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
) -> list[Figure]:
    """Evaluate metrics (names, ids, tables, panels, subsystems, presets, ``*``) over one workload.

    aggregation="sum_ratio" is sum(num) / sum(den) over the selected dispatches; "mean" is the unweighted mean of
    the per-dispatch ratios, as rocprof-compute up to 3.6 computes it. Figures come in catalogue order, per kernel
    by total time where ``by_kernel``. Raises Problem subclasses for anything the caller can mend.
    """
    import duckdb

    if normalization not in NORMALIZATIONS:
        raise BadArgument(f"Unknown normalization {normalization!r}", fix=f"Use one of {', '.join(NORMALIZATIONS)}")
    if aggregation not in ("sum_ratio", "mean"):
        raise BadArgument(f"Unknown aggregation {aggregation!r}", fix="Use sum_ratio or mean")
    manifest = workload if isinstance(workload, Manifest) else store.resolve(workload)
    if manifest.arch not in catalog.targets():
        raise BadInput(f"No metrics are known for workload {manifest.name!r}",
                       f"its GPU target is {manifest.arch or 'not stated in the profile'}",
                       f"Import it again with gpu= one of {', '.join(catalog.targets())}")
    wanted = list(metrics)
    chosen = catalog.select(manifest.arch, wanted)
    con = duckdb.connect()
    try:
        selection = choose(con, store, manifest, kernel, dispatches)
        den, per = NORMALIZATIONS[normalization]
        plain = _with_used([m for m in chosen if m.per == "dispatch"], catalog.by_name(manifest.arch))
        found = _evaluate(con, dispatch_query(store, manifest, plain, selection, den, by_kernel), per, aggregation)
        channels = [m for m in chosen if m.per == "l2_channel"]
        if channels:
            query = channel_query(store, manifest, channels, selection, den, by_kernel)
            found += _asked_channels(_evaluate(con, query, per, aggregation), wanted)
    finally:
        con.close()
    order = {m.name: i for i, m in enumerate(chosen)}
    ranks = {k: i for i, k in enumerate(selection.kernels)}
    return sorted((f for f in found if f.metric.name in order), key=lambda f: (ranks.get(f.kernel or "", -1), order[f.metric.name], _channel(f.id)))


def _with_used(chosen: list[Metric], known: dict[str, Metric]) -> list[Metric]:
    """The metrics chosen, and those that their ``finish`` needs, which come first."""
    named = {m.name: m for m in chosen}
    used = {name: known[name] for m in chosen for name in m.uses.values()}
    return list((used | named).values())


def _asked_channels(figures: list[Figure], wanted: list[str]) -> list[Figure]:
    """All channels of a metric, unless only single channels of its table were asked for (18.2.17)."""
    single = {f.id for f in figures} & set(wanted)
    whole = {m for m in wanted if m not in single}
    return [
        f for f in figures
        if f.id in single or not any(i.rpartition(".")[0] == f.metric.table for i in single)
        or whole & {f.metric.name, f.metric.table, str(f.metric.panel), f.metric.subsystem, "*"}
    ]  # fmt: skip


def _evaluate(con: duckdb.DuckDBPyConnection, query: Query, per: str, aggregation: Aggregation) -> list[Figure]:
    """Run one query and turn its rows, and the metrics that could not be compiled, into figures."""
    facts = query.facts
    peaks = _constants(con, {m.name: m.peak for m in query.metrics if m.peak}, facts)
    rows: dict[tuple[str | None, int, int], dict[str, Any]] = {}
    if query.sql:
        cursor = con.execute(query.sql)
        names = [c[0] for c in cursor.description or ()]
        for values in cursor.fetchall():
            row = dict(zip(names, values, strict=True))
            rows[row["kernel"], row["i"], row["ch"]] = row
    finishes = _finish(con, query, rows, aggregation)
    figures = []
    for kernel in query.groups:
        for i, metric in enumerate(query.metrics):
            for channel in query.channels:
                key = (kernel, i, channel)
                missing = query.missing[i]
                row = None if missing else rows.get(key)
                figures.append(
                    _figure(metric, kernel, channel, row, finishes.get(key), missing, peaks.get(metric.name), per, aggregation)
                )
    return figures


def _figure(
    metric: Metric, kernel: str | None, channel: int, row: dict[str, Any] | None, finished: float | None,
    missing: str | None, peak: float | str | None, per: str, aggregation: Aggregation,
) -> Figure:  # fmt: skip
    value = None
    if row is not None:
        value = row["mean"] if aggregation == "mean" or metric.rule == "mean" else row["ratio"]
        if metric.finish:
            value = finished
        if metric.chart and aggregation == "mean" and value is not None:
            value = float(round(value))
        if value is not None and not math.isfinite(value):
            value = None
    top = peak if isinstance(peak, float) else None
    pct = 100 * value / top if value is not None and top else None
    status, reason = _judge(metric, value, pct, row, missing, channel)
    if status == "ok" and isinstance(peak, str):
        reason = peak
    stats = {k: row[k] for k in ("min", "max", "q1", "median", "q3", "std")} if row and value is not None else {}
    suffix = f"[{channel}]" if metric.per == "l2_channel" else ""
    return Figure(
        metric=metric, name=metric.name + suffix, id=f"{metric.table}.{channel}" if suffix else metric.id, kernel=kernel,
        value=value, min=stats.get("min"), max=stats.get("max"), unit=f"{metric.unit}/{per}" if metric.norm else metric.unit,
        peak=top, pct_of_peak=pct, status=status, reason=reason, n=int(row["n"]) if row else 0,
        q1=stats.get("q1"), median=stats.get("median"), q3=stats.get("q3"), std=stats.get("std"),
    )  # fmt: skip


def _judge(
    metric: Metric, value: float | None, pct: float | None, row: dict[str, Any] | None, missing: str | None, channel: int
) -> tuple[Status, str | None]:
    """Status and reason of one figure; nothing is clamped, and what cannot be is called so."""
    if missing:
        return "not_collected", missing
    if row is None:
        return "not_collected", f"no values for channel {channel}" if metric.per == "l2_channel" else "no dispatch has its counters"
    if value is None:
        if row["untimed"] == row["total"]:
            return "not_collected", "the dispatches have no usable timing"
        if row["zero"]:
            return "not_collected", f"the denominator is zero in {row['zero']} of {row['total']} dispatches: nothing to relate to"
        return "not_collected", "its counters hold no value for these dispatches"
    share = pct if pct is not None else 100 * value / (metric.limit or 100) if metric.unit == "%" else None
    if value < 0:
        small = metric.unit == "%" and value > -_TOLERANCE_PCT
        return "suspect" if small else "impossible", "negative: counters of different replays do not fit together"
    if share is not None and share > _IMPOSSIBLE_PCT:
        return "impossible", (
            f"{share:.4g} % of its limit: counters or times of different replays mixed, a wrong clock, or a wrong unit count"
        )
    if share is not None and share > _SUSPECT_PCT:
        return "suspect", f"{share:.4g} % of its limit: replays differ or the clock was above the nominal one"
    return "ok", None


def _constants(
    con: duckdb.DuckDBPyConnection, formulas: dict[str, str], facts: dict[str, float]
) -> dict[str, float | str]:
    """Peaks by metric: a number, or a text that names the device fact that is unknown."""
    from .formula import references

    needs = references(formulas.values())
    found: dict[str, float | str] = {}
    ready: dict[str, str] = {}
    for name, formula in formulas.items():
        if unknown := sorted(needs[formula] - facts.keys()):
            found[name] = f"no peak: the profile does not state {', '.join(unknown)}"
        else:
            ready[name] = formula
    if ready:
        given = ", ".join(f"{v!r}::DOUBLE AS {k}" for k, v in facts.items())
        values = con.execute(
            f"SELECT {', '.join(f'({f})::DOUBLE' for f in ready.values())} FROM (SELECT {given or '1 AS one'})"
        ).fetchone() or ()
        found |= {name: float(v) for name, v in zip(ready, values, strict=True) if v is not None and math.isfinite(v)}
    return found


def _finish(
    con: duckdb.DuckDBPyConnection, query: Query, rows: dict[tuple[str | None, int, int], dict[str, Any]], aggregation: Aggregation
) -> dict[tuple[str | None, int, int], float | None]:
    """Apply ``finish`` expressions to the aggregates of the metrics that have one, those first that others use."""
    found: dict[tuple[str | None, int, int], float | None] = {}
    place = {m.name: i for i, m in enumerate(query.metrics)}
    given = "".join(f", {v!r}::DOUBLE AS {k}" for k, v in query.facts.items())
    for key, row in sorted(rows.items(), key=lambda item: bool(query.metrics[item[0][1]].uses)):
        metric = query.metrics[key[1]]
        value = row["mean"] if aggregation == "mean" else row["ratio"]
        others = {name: found.get((key[0], place[used], key[2])) for name, used in metric.uses.items()}
        if not metric.finish or value is None or any(not v for v in others.values()):
            continue
        named = "".join(f", {v!r}::DOUBLE AS {k}" for k, v in others.items())
        answer = con.execute(f"SELECT ({metric.finish})::DOUBLE FROM (SELECT {value!r}::DOUBLE AS value{given}{named})").fetchone()
        found[key] = answer[0] if answer else None
    return found


def _channel(id: str) -> int:
    return int(id.rsplit(".", 1)[-1])
