"""From metrics to one SQL query: what a formula may name in a workload, which pass it reads, and the query itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalogue import metrics as catalog
from ..catalogue import targets
from ..catalogue.formula import references
from ..catalogue.metrics import LAUNCH, Metric
from ..problems import BadInput
from ..store import Manifest, Store, sql_literal, sql_name, sql_path
from ..workload import Selection

if TYPE_CHECKING:
    import duckdb


ALL_CHANNELS = "[*]"


def facts_of(manifest: Manifest) -> dict[str, float]:
    """The facts that formulas may use: those of the GPU target, overridden by what the profile states."""
    target = targets.gpu(manifest.arch or "")
    return {name: fact.value for name, fact in target.facts.items()} | manifest.facts


def is_channelled(counter: str) -> bool:
    """Whether a counter of a per-channel formula is a channel's own: an L2 counter that is no total."""
    return counter.startswith("TCC_") and not counter.endswith("_sum")


@dataclass
class _Needs:
    """What a name or formula comes down to, and what of it is missing, in words."""

    missing: set[str] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    launch: set[str] = field(default_factory=set)
    terms: dict[str, str] = field(default_factory=dict)
    timed: bool = False

    def add(self, other: _Needs) -> None:
        """Join what another name needs."""
        self.missing |= other.missing
        self.counters |= other.counters
        self.launch |= other.launch
        self.terms |= other.terms
        self.timed = self.timed or other.timed


class Scope:
    """The names formulas of one query use, resolved against what the workload has."""

    def __init__(
        self, manifest: Manifest, *, has_instances: bool, channel: bool = False, measured_in: str | None = None
    ) -> None:
        self.target = manifest.arch or ""
        self.facts = facts_of(manifest)
        self.available = set(manifest.counters)
        self.has_instances = has_instances
        self.channel = channel
        self.measured_in = measured_in
        """The pass whose values count where a counter was measured in several."""
        self.terms: dict[str, str] = {}
        """The terms in use, each as the expression whose inputs this workload has."""
        self.counters: set[str] = set()
        self.launch: set[str] = set()
        self._alternatives = catalog.alternatives(self.target)
        self._needs: dict[str, _Needs] = {}

    def resolve(self, formulas: Iterable[str]) -> tuple[list[str], bool]:
        """Note what the formulas use; return what is missing, in words, and whether they use the duration."""
        needs = self._of_formulas(list(formulas))
        if not needs.missing:
            self.counters |= needs.counters
            self.launch |= needs.launch
            self.terms |= needs.terms
        return sorted(needs.missing), needs.timed

    def _of_formulas(self, formulas: list[str]) -> _Needs:
        total = _Needs()
        for name in {n for names in references(formulas).values() for n in names}:
            total.add(self._of_name(name))
        return total

    def _of_name(self, name: str) -> _Needs:
        if name not in self._needs:
            self._needs[name] = self._of_term(name) if name in self._alternatives else self._of_input(name)
        return self._needs[name]

    def _of_term(self, name: str) -> _Needs:
        """What a term needs by the first of its expressions that lacks nothing, else by its first."""
        first: _Needs | None = None
        for formula in self._alternatives[name]:
            needs = self._of_formulas([formula])
            needs.terms = needs.terms | {name: formula}
            if not needs.missing:
                return needs
            first = first or needs
        return first or _Needs()

    def _of_input(self, name: str) -> _Needs:
        if name == "duration_ns":
            return _Needs(timed=True)
        if name in LAUNCH:
            return _Needs(launch={name})
        if name in self.facts:
            return _Needs()
        if not catalog.is_counter(self.target, name):
            return _Needs(missing={f"device fact {name} unknown"})
        if self.column(name) is None:
            return _Needs(missing={f"counter {self.spelling(name)} missing"})
        return _Needs(counters={name})

    def spelling(self, name: str) -> str:
        """The target's spelling of a counter that formulas call ``name``."""
        return catalog.spelling(self.target, name)

    def column(self, name: str) -> str | None:
        """The SQL expression that yields counter ``name``, or None where the workload has no such column.

        ``C@PASS`` means C as measured in that pass, or C itself in a profile taken in one piece.
        ``C[*]`` means the sum over all L2 channels.
        """
        actual = self.spelling(name)
        if actual.endswith(ALL_CHANNELS):
            return f"x.{sql_name(actual)}" if self.has_instances else None
        if self.channel and is_channelled(name):
            return f"i.{sql_name(name)}"
        plain = actual.split("@")[0]
        for candidate in (actual if "@" in actual else f"{plain}@{self.measured_in}", plain):
            if candidate in self.available or (candidate.startswith("duration_ns") and candidate == plain):
                return f"w.{sql_name(candidate)}"
        return None

    def named_columns(self) -> dict[str, str]:
        """Counter -> select item under the name the formulas use, plus duration."""
        found = {c: f"{self.column(c)} AS {sql_name(c)}" for c in sorted(self.counters)}
        found["duration_ns"] = "w.duration_ns"
        return found

    def with_constants(self, columns: str) -> str:
        """The relation ``columns`` plus facts and terms; DuckDB resolves a later alias against an earlier one."""
        order = [t for t in self._alternatives if t in self.terms]
        items = [f"{v!r}::DOUBLE AS {k}" for k, v in self.facts.items()] + [f"{self.terms[t]} AS {t}" for t in order]
        return f"SELECT {', '.join(['*', *items])} FROM ({columns})"

    def columns(self) -> list[str]:
        """The select items that come from files."""
        launch = [f"d.{n}" for n in sorted(self.launch)]
        return ["w.kernel", *self.named_columns().values(), *launch]


_OTHER_RULE = "rocprof-compute"
"""Its profiles are evaluated as that tool does, which divides across its files."""


def passes_of(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> dict[str, frozenset[str]]:
    """Pass -> its columns of the table counters; empty where no counter was measured twice, so that all is settled."""
    if manifest.format == _OTHER_RULE or not any("@" in c for c in manifest.counters):
        return {}
    return _columns(con, store, manifest)


def scattered(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, figures: Mapping[str, Iterable[str]]
) -> list[str]:
    """Of figures with the counters that they read, those that no single pass holds: they mix runs of the program.

    Counters that were not collected at all do not count.
    """
    passes = {
        name: frozenset(c.split("@")[0] for c in columns) for name, columns in _columns(con, store, manifest).items()
    }
    collected = frozenset[str]().union(*passes.values())
    found = []
    for name, counters in figures.items() if len(passes) > 1 else ():
        wanted = collected.intersection(counters)
        if not any(wanted <= columns for columns in passes.values()):
            found.append(name)
    return found


def _columns(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> dict[str, frozenset[str]]:
    path = store.file(manifest, "passes")
    if path is None:
        return {}
    rows = con.execute(f"SELECT name, counters FROM read_parquet({sql_path(path)}) ORDER BY pass_id").fetchall()
    return {name: frozenset(listed.split(",")) for name, listed in rows if listed}


def pass_of(wanted_counters: Iterable[str], passes: Mapping[str, frozenset[str]]) -> str | None:
    """The first pass with all of these counters, measured there for the first time or again; None where there is none,
    or where all are columns of that pass under their plain names anyway."""
    wanted = {c.split("@")[0] for c in wanted_counters}
    for name, columns in passes.items():
        if all(c in columns or f"{c}@{name}" in columns for c in wanted):
            return None if wanted <= columns else name
    return None


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
