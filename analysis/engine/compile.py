"""From metrics to one SQL query: what a formula may name in a workload, which pass it reads, and the query itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..catalogue import metrics as catalog
from ..catalogue.formula import first_usable, references
from ..catalogue.metrics import LAUNCH, Metric
from ..database import sql_literal, sql_name
from ..notes import Reason, together
from ..workload import Selection, Workload

ALL_CHANNELS = "[*]"


def is_channelled(counter: str) -> bool:
    """Whether a counter of a per-channel formula is a channel's own: an L2 counter that is no total."""
    return counter.startswith("TCC_") and not counter.endswith("_sum")


@dataclass
class _Needs:
    """What a name or formula comes down to, and what of it is missing."""

    missing: set[Reason] = field(default_factory=set)
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
        self, workload: Workload, *, has_instances: bool, channel: bool = False, measured_in: str | None = None
    ) -> None:
        self.target = workload.arch
        self.facts = workload.facts
        self.available = set(workload.manifest.counters)
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

    def resolve(self, formulas: Iterable[str]) -> tuple[list[Reason], bool]:
        """Note what the formulas use; return what is missing and whether they use the duration."""
        needs = self._of_formulas(list(formulas))
        if not needs.missing:
            self.counters |= needs.counters
            self.launch |= needs.launch
            self.terms |= needs.terms
        return sorted(needs.missing, key=lambda reason: reason.text), needs.timed

    def has(self, name: str) -> bool:
        """Whether the workload has everything that a name comes down to."""
        return not self._of_name(name).missing

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
        stated = self._alternatives[name]
        formula = first_usable(stated, self.has) or stated[0]
        needs = self._of_formulas([formula])
        needs.terms[name] = formula
        return needs

    def _of_input(self, name: str) -> _Needs:
        if name == "duration_ns":
            return _Needs(timed=True)
        if name in LAUNCH:
            return _Needs(launch={name})
        if name in self.facts:
            return _Needs()
        if not catalog.is_counter(self.target, name):
            return _Needs(missing={Reason("no_fact", f"device fact {name} unknown")})
        if self.column(name) is None:
            return _Needs(missing={Reason("no_counter", f"counter {self.spelling(name)} missing")})
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
        items = {c: f"{self.column(c)} AS {sql_name(c)}" for c in sorted(self.counters)}
        return items | {"duration_ns": "w.duration_ns"}

    def with_constants(self, columns: str) -> str:
        """The relation ``columns`` plus facts and terms; DuckDB resolves a later alias against an earlier one."""
        order = [t for t in self._alternatives if t in self.terms]
        items = [f"{v!r}::DOUBLE AS {k}" for k, v in self.facts.items()] + [f"{self.terms[t]} AS {t}" for t in order]
        return f"SELECT {', '.join(['*', *items])} FROM ({columns})"

    def columns(self) -> list[str]:
        """The select items that come from files."""
        launch = [f"d.{n}" for n in sorted(self.launch)]
        return ["w.kernel", *self.named_columns().values(), *launch]


_NAMED = 6
"""Missing inputs named in a metric's reason."""
_OTHER_RULE = "rocprof-compute"
"""Its profiles are evaluated as that tool does, which divides across its files."""


def remeasured(workload: Workload) -> dict[str, frozenset[str]]:
    """Pass -> its columns of the table counters; empty where no counter was measured twice, so that all is settled."""
    manifest = workload.manifest
    if manifest.format == _OTHER_RULE or not any("@" in c for c in manifest.counters):
        return {}
    return workload.passes


def scattered(workload: Workload, figures: Mapping[str, Iterable[str]]) -> list[str]:
    """Of figures with the counters that they read, those that no single pass holds: they mix runs of the program.

    Counters that were not collected at all do not count.
    """
    passes = {name: frozenset(c.split("@")[0] for c in columns) for name, columns in workload.passes.items()}
    collected = frozenset[str]().union(*passes.values())
    mixed = []
    for name, counters in figures.items() if len(passes) > 1 else ():
        wanted = collected.intersection(counters)
        if not any(wanted <= columns for columns in passes.values()):
            mixed.append(name)
    return mixed


def pass_of(wanted_counters: Iterable[str], passes: Mapping[str, frozenset[str]]) -> str | None:
    """The first pass with all of these counters, measured there for the first time or again; None where there is none,
    or where all are columns of that pass under their plain names anyway."""
    wanted = {c.split("@")[0] for c in wanted_counters}
    for name, columns in passes.items():
        if all(c in columns or f"{c}@{name}" in columns for c in wanted):
            return None if wanted <= columns else name
    return None


@dataclass(frozen=True)
class Grouping:
    """Over what a query aggregates: dispatches, together or by kernel; ``norm`` divides normalised metrics.

    Without ``quartiles`` those and the deviation are left out, which is faster on many dispatches.
    """

    selection: Selection
    norm: str = "1"
    by_kernel: bool = False
    quartiles: bool = True

    @property
    def groups(self) -> list[str | None]:
        """The kernels, or None for all of them together."""
        return list(self.selection.kernels) if self.by_kernel else [None]


@dataclass(frozen=True)
class Query:
    """One query and what is needed to read its rows: kernel, i, ch, then the fields of Aggregate."""

    sql: str
    pairs: list[int | None]
    """Per metric: which pair of formulas (``i`` in the rows) holds its values; None where an input is missing."""
    metrics: list[Metric]
    missing: list[Reason | None]
    """Per metric: the counters or facts it lacks."""
    groups: list[str | None]
    channels: list[int]
    facts: dict[str, float]


def dispatch_query(
    workload: Workload, metrics: list[Metric], grouping: Grouping, measured_in: str | None = None
) -> Query:
    """The query over the wide table: one row per group and pair of formulas.

    Counters measured in several passes count as in the pass ``measured_in``, else as in the first.
    """
    scope = Scope(workload, has_instances=workload.has("counter_instances"), measured_in=measured_in)
    pairs = _Pairs(metrics, grouping.norm, scope)
    sql = ""
    if pairs.places:
        columns = (
            f"SELECT {', '.join(scope.columns())} FROM {_source(workload, scope)} "
            f"WHERE {grouping.selection.condition('w')}"
        )
        sql = _aggregate(scope.with_constants(columns), pairs, grouping, channel="0")
    return Query(sql, pairs.of_metric, metrics, pairs.missing, grouping.groups, [0], scope.facts)


def channel_query(workload: Workload, metrics: list[Metric], grouping: Grouping) -> Query:
    """The same per L2 channel: the counters come from counter_instances, one group per channel."""
    scope = Scope(workload, has_instances=False, channel=True)
    pairs = _Pairs(metrics, grouping.norm, scope)
    channels = list(range(int(scope.facts.get("total_l2_chan", 1))))
    sql = ""
    if workload.has("counter_instances") and pairs.places:
        per_xcd = max(1, len(channels) // max(1, int(scope.facts.get("num_xcd", 1))))
        channelled = {c: sql_literal(scope.spelling(c)) for c in sorted(scope.counters) if is_channelled(c)}
        pivot = ", ".join(f"max(value) FILTER (counter = {s}) AS {sql_name(c)}" for c, s in channelled.items())
        others = [e for c, e in scope.named_columns().items() if not is_channelled(c)]
        columns = (
            f"SELECT {', '.join(['w.kernel', 'i.*', *others])} FROM ("
            f"SELECT dispatch_id, xcd * {per_xcd} + instance AS ch, {pivot} "
            f"FROM {workload.relation('counter_instances')} WHERE counter IN ({', '.join(channelled.values())}) "
            f"GROUP BY ALL) i JOIN {workload.relation('counters')} w USING (dispatch_id) "
            f"WHERE {grouping.selection.condition('w')}"
        )
        sql = _aggregate(scope.with_constants(columns), pairs, grouping, channel="ch")
    return Query(sql, pairs.of_metric, metrics, pairs.missing, grouping.groups, channels, scope.facts)


class _Pairs:
    """The distinct pairs of formulas behind a list of metrics: many metrics share one, and DuckDB binds each once."""

    def __init__(self, metrics: list[Metric], norm: str, scope: Scope) -> None:
        self.places: dict[tuple[str, str], int] = {}
        """(num, den) -> its place, which is ``i`` in the rows."""
        self.timed: list[bool] = []
        """Per pair: whether it needs the duration."""
        self.of_metric: list[int | None] = []
        self.missing: list[Reason | None] = []
        formulas = [(m.num, norm if m.norm else m.den or "1") for m in metrics]
        references([f for pair in formulas for f in pair])
        for pair in formulas:
            lacks, timed = scope.resolve(pair)
            self.missing.append(together(lacks, _NAMED))
            if not lacks and pair not in self.places:
                self.places[pair] = len(self.places)
                self.timed.append(timed)
            self.of_metric.append(None if lacks else self.places[pair])


def _source(workload: Workload, scope: Scope) -> str:
    relation = f"{workload.relation('counters')} w"
    if scope.launch:
        relation += f" JOIN {workload.relation('dispatches')} d USING (dispatch_id)"
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
            f" LEFT JOIN (SELECT dispatch_id, {sums} FROM {workload.relation('counter_instances')} "
            f"WHERE counter IN ({wanted}) "
            "GROUP BY dispatch_id) x USING (dispatch_id)"
        )
    return relation


def _aggregate(base: str, pairs: _Pairs, grouping: Grouping, *, channel: str) -> str:
    """The whole query: lists of numerators and denominators per dispatch, unnested, aggregated."""
    formulas = list(dict.fromkeys(f for pair in pairs.places for f in pair))
    place = {formula: i for i, formula in enumerate(formulas)}
    values = ", ".join(f"({formula})::DOUBLE AS f{i}" for i, formula in enumerate(formulas))
    nums = ", ".join(f"f{place[num]}" for num, _ in pairs.places)
    dens = ", ".join(f"f{place[den]}" for _, den in pairs.places)
    timed = ", ".join(str(t).lower() for t in pairs.timed)
    kernel = "kernel" if grouping.by_kernel else "NULL::VARCHAR"
    deviation = "stddev_samp(v)" if grouping.quartiles else "NULL::DOUBLE"
    quartile = "quantile_cont(v, {})" if grouping.quartiles else "NULL::DOUBLE"
    return f"""
WITH base AS ({base}),
     formulas AS (SELECT {kernel} AS kernel, {channel} AS ch, duration_ns IS NULL AS untimed, {values} FROM base),
     lists AS (SELECT kernel, ch, untimed, [{nums}] AS nums, [{dens}] AS dens FROM formulas),
     flat AS (SELECT kernel, ch, untimed, unnest(nums) AS n, unnest(dens) AS d, unnest([{timed}]) AS timed,
                     unnest(range({len(pairs.places)})) AS i FROM lists),
     cells AS (SELECT *, CASE WHEN d <> 0 AND isfinite(n / d) THEN n / d END AS v FROM flat)
SELECT kernel, i, ch,
       sum(n) FILTER (v IS NOT NULL) / NULLIF(sum(d) FILTER (v IS NOT NULL), 0) AS ratio,
       avg(v) AS mean, min(v) AS min, max(v) AS max, {deviation} AS std,
       {quartile.format(0.25)} AS q1, {quartile.format(0.5)} AS median, {quartile.format(0.75)} AS q3,
       count(v) AS n, count(*) FILTER (d = 0) AS zero, count(*) AS total, count(*) FILTER (timed AND untimed) AS untimed
FROM cells GROUP BY kernel, i, ch"""
