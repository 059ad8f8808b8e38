"""Formulas of the catalogue compiled to the SQL that evaluates them over one workload."""

from __future__ import annotations

from dataclasses import dataclass

from .catalog import Metric
from .formula import references
from .scope import ALL_CHANNELS, Scope, is_channelled
from .selection import Selection
from .store import Manifest, Store, sql_literal, sql_name


@dataclass(frozen=True)
class Query:
    """One query and what is needed to read its rows (kernel, i, ch, ratio, mean, ... , n, zero, total)."""

    sql: str
    metrics: list[Metric]
    missing: list[str | None]
    """Per metric: the counters or facts it lacks, in words; such a metric is not in the SQL."""
    groups: list[str | None]
    channels: list[int]
    facts: dict[str, float]


def dispatch_query(
    store: Store, manifest: Manifest, metrics: list[Metric], chosen: Selection, norm: str, by_kernel: bool
) -> Query:
    """The query over the wide table: one row per kernel (or one for all) and metric."""
    scope = Scope(manifest, has_instances=store.file(manifest, "counter_instances") is not None)
    pairs, missing = _compile(metrics, norm, scope)
    groups: list[str | None] = list(chosen.kernels) if by_kernel else [None]
    if not pairs:
        return Query("", metrics, missing, groups, [0], scope.facts)
    source, condition = _source(store, manifest, scope), _qualified(chosen.condition)
    columns = f"SELECT {', '.join(scope.columns())} FROM {source} WHERE {condition}"
    base = scope.with_constants(columns)
    return Query(_aggregate(base, pairs, by_kernel, "0"), metrics, missing, groups, [0], scope.facts)


def channel_query(
    store: Store, manifest: Manifest, metrics: list[Metric], chosen: Selection, norm: str, by_kernel: bool
) -> Query:
    """The same per L2 channel: the counters come from counter_instances, one group per channel."""
    instances = store.file(manifest, "counter_instances")
    counts = Scope(manifest, has_instances=False, channel=True)
    pairs, missing = _compile(metrics, norm, counts)
    channels = list(range(int(counts.facts.get("total_l2_chan", 1))))
    groups: list[str | None] = list(chosen.kernels) if by_kernel else [None]
    if instances is None:
        missing = ["per-channel counters were not collected"] * len(metrics)
    if not pairs or instances is None:
        return Query("", metrics, missing, groups, channels, counts.facts)
    per_xcd = max(1, len(channels) // max(1, int(counts.facts.get("num_xcd", 1))))
    channelled = sorted(c for c in counts.counters if is_channelled(c))
    spelled = {c: counts.spelling(c) for c in channelled}
    pivot = ", ".join(f"max(value) FILTER (counter = {sql_literal(spelled[c])}) AS {sql_name(c)}" for c in channelled)
    wanted = ", ".join(sql_literal(s) for s in spelled.values())
    wide = store.file(manifest, "counters")
    others = [e for c, e in counts.named_columns().items() if not is_channelled(c)]
    columns = (
        f"SELECT {', '.join(['w.kernel', 'i.*', *others])} FROM ("
        f"SELECT dispatch_id, xcd * {per_xcd} + instance AS ch, {pivot} "
        f"FROM read_parquet({sql_literal(str(instances))}) WHERE counter IN ({wanted}) GROUP BY ALL"
        f") i JOIN read_parquet({sql_literal(str(wide))}) w USING (dispatch_id) "
        f"WHERE {_qualified(chosen.condition)}"
    )
    return Query(
        _aggregate(counts.with_constants(columns), pairs, by_kernel, "ch"),
        metrics,
        missing,
        groups,
        channels,
        counts.facts,
    )


@dataclass(frozen=True)
class _Pair:
    """One metric that can be computed: its place in the list, its two formulas, whether they need the duration."""

    index: int
    num: str
    den: str
    timed: bool


def _compile(metrics: list[Metric], norm: str, scope: Scope) -> tuple[list[_Pair], list[str | None]]:
    """Every metric whose inputs exist, and for all what is missing."""
    references([f for m in metrics for f in (m.num, norm if m.norm else m.den or "1")])
    pairs, missing = [], []
    for index, metric in enumerate(metrics):
        den = norm if metric.norm else metric.den or "1"
        lacks, timed = scope.resolve([metric.num, den])
        missing.append(f"{', '.join(lacks[:6])}{' ...' if len(lacks) > 6 else ''}" if lacks else None)
        if not lacks:
            pairs.append(_Pair(index, metric.num, den, timed))
    return pairs, missing


def _source(store: Store, manifest: Manifest, scope: Scope) -> str:
    relation = f"read_parquet({sql_literal(str(store.file(manifest, 'counters')))}) w"
    if scope.launch:
        relation += f" JOIN read_parquet({sql_literal(str(store.file(manifest, 'dispatches')))}) d USING (dispatch_id)"
    if summed := sorted(c for c in scope.counters if c.endswith(ALL_CHANNELS)):
        channels = int(scope.facts.get("total_l2_chan", 0))
        plain = {c: scope.spelling(c).removesuffix(ALL_CHANNELS) for c in summed}
        sums = ", ".join(
            f"CASE WHEN count(value) FILTER (counter = {sql_literal(p)}) = {channels} "
            f"THEN sum(value) FILTER (counter = {sql_literal(p)}) END AS {sql_name(scope.spelling(c))}"
            for c, p in plain.items()
        )
        wanted = ", ".join(sql_literal(p) for p in plain.values())
        relation += (
            f" LEFT JOIN (SELECT dispatch_id, {sums} FROM read_parquet("
            f"{sql_literal(str(store.file(manifest, 'counter_instances')))}) WHERE counter IN ({wanted}) "
            "GROUP BY dispatch_id) x USING (dispatch_id)"
        )
    return relation


def _aggregate(base: str, pairs: list[_Pair], by_kernel: bool, channel: str) -> str:
    """The whole query: lists of numerators and denominators per dispatch, unnested, aggregated."""
    nums = ", ".join(f"({p.num})::DOUBLE" for p in pairs)
    dens = ", ".join(f"({p.den})::DOUBLE" for p in pairs)
    index = ", ".join(str(p.index) for p in pairs)
    timed = ", ".join(str(p.timed).lower() for p in pairs)
    kernel = "kernel" if by_kernel else "NULL::VARCHAR"
    return f"""
WITH base AS ({base}),
     lists AS (SELECT {kernel} AS kernel, {channel} AS ch, duration_ns IS NULL AS untimed, [{nums}] AS nums,
                      [{dens}] AS dens FROM base),
     flat AS (SELECT kernel, ch, untimed, unnest(nums) AS n, unnest(dens) AS raw, unnest([{index}]) AS i,
                     unnest([{timed}]) AS timed FROM lists),
     cells AS (SELECT kernel, ch, i, untimed, timed, raw, n, raw AS d,
                      CASE WHEN raw <> 0 AND isfinite(n / raw) THEN n / raw END AS v FROM flat)
SELECT kernel, i, ch,
       sum(n) FILTER (v IS NOT NULL) / NULLIF(sum(d) FILTER (v IS NOT NULL), 0) AS ratio,
       avg(v) AS mean, min(v) AS min, max(v) AS max, stddev_samp(v) AS std,
       quantile_cont(v, 0.25) AS q1, quantile_cont(v, 0.5) AS median, quantile_cont(v, 0.75) AS q3,
       count(v) AS n, count(*) FILTER (raw = 0) AS zero, count(*) AS total,
       count(*) FILTER (timed AND untimed) AS untimed
FROM cells GROUP BY kernel, i, ch"""


def _qualified(condition: str) -> str:
    return condition.replace("dispatch_id", "w.dispatch_id").replace(" kernel IN", " w.kernel IN")
