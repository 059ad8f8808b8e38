"""Formulas of the catalogue compiled to the SQL that evaluates them over one workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .catalog import Metric
from .formula import references
from .problems import BadInput
from .scope import ALL_CHANNELS, Scope, is_channelled
from .selection import Selection
from .store import Manifest, Store, sql_literal, sql_name, sql_path


@dataclass(frozen=True)
class Query:
    """One query and what is needed to read its rows: kernel, i, ch, then the fields of Aggregate."""

    sql: str
    pairs: list[int | None]
    """Per metric: which pair of formulas (``i`` in the rows) holds its values; None where an input is missing."""
    metrics: list[Metric]
    missing: list[str | None]
    """Per metric: the counters or facts it lacks, in words."""
    groups: list[str | None]
    channels: list[int]
    facts: dict[str, float]


def dispatch_query(
    store: Store,
    manifest: Manifest,
    metrics: list[Metric],
    chosen: Selection,
    norm: str,
    by_kernel: bool,
    quartiles: bool,
    measured_in: str | None = None,
) -> Query:
    """The query over the wide table: one row per kernel (or one for all) and pair of formulas.

    Counters measured in several passes count as in the pass ``measured_in``, else as in the first.
    """
    has_instances = store.file(manifest, "counter_instances") is not None
    scope = Scope(manifest, has_instances=has_instances, measured_in=measured_in)
    pairs = _Pairs(metrics, norm, scope)
    groups: list[str | None] = list(chosen.kernels) if by_kernel else [None]
    sql = ""
    if pairs.found:
        source = _source(store, manifest, scope)
        columns = f"SELECT {', '.join(scope.columns())} FROM {source} WHERE {chosen.condition('w')}"
        sql = _aggregate(scope.with_constants(columns), pairs, by_kernel, "0", quartiles)
    return Query(sql, pairs.of_metric, metrics, pairs.missing, groups, [0], scope.facts)


def channel_query(
    store: Store,
    manifest: Manifest,
    metrics: list[Metric],
    chosen: Selection,
    norm: str,
    by_kernel: bool,
    quartiles: bool,
) -> Query:
    """The same per L2 channel: the counters come from counter_instances, one group per channel."""
    instances = store.file(manifest, "counter_instances")
    scope = Scope(manifest, has_instances=False, channel=True)
    pairs = _Pairs(metrics, norm, scope)
    channels = list(range(int(scope.facts.get("total_l2_chan", 1))))
    groups: list[str | None] = list(chosen.kernels) if by_kernel else [None]
    sql = ""
    if instances is not None and pairs.found:
        per_xcd = max(1, len(channels) // max(1, int(scope.facts.get("num_xcd", 1))))
        channelled = {c: sql_literal(scope.spelling(c)) for c in sorted(scope.counters) if is_channelled(c)}
        pivot = ", ".join(f"max(value) FILTER (counter = {s}) AS {sql_name(c)}" for c, s in channelled.items())
        wide = _file(store, manifest, "counters")
        others = [e for c, e in scope.named_columns().items() if not is_channelled(c)]
        columns = (
            f"SELECT {', '.join(['w.kernel', 'i.*', *others])} FROM ("
            f"SELECT dispatch_id, xcd * {per_xcd} + instance AS ch, {pivot} "
            f"FROM read_parquet({sql_path(instances)}) WHERE counter IN ({', '.join(channelled.values())}) "
            f"GROUP BY ALL) i JOIN read_parquet({sql_path(wide)}) w USING (dispatch_id) "
            f"WHERE {chosen.condition('w')}"
        )
        sql = _aggregate(scope.with_constants(columns), pairs, by_kernel, "ch", quartiles)
    return Query(sql, pairs.of_metric, metrics, pairs.missing, groups, channels, scope.facts)


class _Pairs:
    """The distinct pairs of formulas behind a list of metrics: many metrics share one, and DuckDB binds each once."""

    def __init__(self, metrics: list[Metric], norm: str, scope: Scope) -> None:
        self.found: dict[tuple[str, str], bool] = {}
        """(num, den) -> whether they need the duration."""
        self.of_metric: list[int | None] = []
        self.missing: list[str | None] = []
        formulas = [(m.num, norm if m.norm else m.den or "1") for m in metrics]
        references([f for pair in formulas for f in pair])
        places: dict[tuple[str, str], int] = {}
        for pair in formulas:
            lacks, timed = scope.resolve(pair)
            self.missing.append(f"{', '.join(lacks[:6])}{' ...' if len(lacks) > 6 else ''}" if lacks else None)
            if lacks:
                self.of_metric.append(None)
                continue
            self.found[pair] = timed
            self.of_metric.append(places.setdefault(pair, len(places)))


def _file(store: Store, manifest: Manifest, table: str) -> Path:
    """A table that every profile with dispatches has."""
    path = store.file(manifest, table)
    if path is None:
        raise BadInput(f"Workload {manifest.name!r} has no table {table}", fix="Import the profile again")
    return path


def _source(store: Store, manifest: Manifest, scope: Scope) -> str:
    relation = f"read_parquet({sql_path(_file(store, manifest, 'counters'))}) w"
    if scope.launch:
        relation += f" JOIN read_parquet({sql_path(_file(store, manifest, 'dispatches'))}) d USING (dispatch_id)"
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
            f"{sql_path(_file(store, manifest, 'counter_instances'))}) WHERE counter IN ({wanted}) "
            "GROUP BY dispatch_id) x USING (dispatch_id)"
        )
    return relation


def _aggregate(base: str, pairs: _Pairs, by_kernel: bool, channel: str, quartiles: bool) -> str:
    """The whole query: lists of numerators and denominators per dispatch, unnested, aggregated."""
    formulas = list(dict.fromkeys(f for pair in pairs.found for f in pair))
    place = {formula: i for i, formula in enumerate(formulas)}
    values = ", ".join(f"({formula})::DOUBLE AS f{i}" for i, formula in enumerate(formulas))
    nums = ", ".join(f"f{place[num]}" for num, _ in pairs.found)
    dens = ", ".join(f"f{place[den]}" for _, den in pairs.found)
    timed = ", ".join(str(t).lower() for t in pairs.found.values())
    kernel = "kernel" if by_kernel else "NULL::VARCHAR"
    deviation = "stddev_samp(v)" if quartiles else "NULL::DOUBLE"
    quartile = "quantile_cont(v, {})" if quartiles else "NULL::DOUBLE"
    return f"""
WITH base AS ({base}),
     formulas AS (SELECT {kernel} AS kernel, {channel} AS ch, duration_ns IS NULL AS untimed, {values} FROM base),
     lists AS (SELECT kernel, ch, untimed, [{nums}] AS nums, [{dens}] AS dens FROM formulas),
     flat AS (SELECT kernel, ch, untimed, unnest(nums) AS n, unnest(dens) AS d, unnest([{timed}]) AS timed,
                     unnest(range({len(pairs.found)})) AS i FROM lists),
     cells AS (SELECT *, CASE WHEN d <> 0 AND isfinite(n / d) THEN n / d END AS v FROM flat)
SELECT kernel, i, ch,
       sum(n) FILTER (v IS NOT NULL) / NULLIF(sum(d) FILTER (v IS NOT NULL), 0) AS ratio,
       avg(v) AS mean, min(v) AS min, max(v) AS max, {deviation} AS std,
       {quartile.format(0.25)} AS q1, {quartile.format(0.5)} AS median, {quartile.format(0.75)} AS q3,
       count(v) AS n, count(*) FILTER (d = 0) AS zero, count(*) AS total, count(*) FILTER (timed AND untimed) AS untimed
FROM cells GROUP BY kernel, i, ch"""
