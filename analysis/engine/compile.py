"""Compile metrics to one SQL query: resolve the names in formulas, choose the pass to read, and build the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..base.database import sql_literal, sql_name
from ..base.notes import Reason, join_reasons
from ..catalogue import metrics as catalog
from ..catalogue import targets
from ..catalogue.counter_names import canonical, names, spelling
from ..catalogue.formula import first_usable, references
from ..catalogue.metrics import LAUNCH, Metric
from ..store.doubts import DURATION
from ..workload import Selection, Workload
from . import launching_ranges, multiplexing

_CHANNEL_AGGREGATES = {"[*]": "sum(value)", "[max]": "max(value)"}
_OF_AN_XCD = "[xcd]"
_INSTANCED = (*_CHANNEL_AGGREGATES, _OF_AN_XCD)
_MOST_XCDS = 64
"""More than any device has; guards against arbitrary numbers in a profile."""
"""The notation of formulas for figures over all L2 channels, and their meaning."""


def is_channelled(counter: str) -> bool:
    """Whether a counter of a per-channel formula is per channel: an L2 counter that is not a total."""
    return counter.startswith("TCC_") and not counter.endswith("_sum")


@dataclass
class _FormulaInputs:
    """The inputs behind a name or formula, and those that are missing."""

    missing: set[Reason] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    launch: set[str] = field(default_factory=set)
    terms: dict[str, str] = field(default_factory=dict)
    timed: bool = False

    def add(self, other: _FormulaInputs) -> None:
        """Add the inputs of another name."""
        self.missing |= other.missing
        self.counters |= other.counters
        self.launch |= other.launch
        self.terms |= other.terms
        self.timed = self.timed or other.timed


class FormulaScope:
    """The names in the formulas of one query, resolved against the contents of the workload."""

    def __init__(
        self, workload: Workload, *, has_instances: bool, channel: bool = False, measured_in: str | None = None
    ) -> None:
        self.target = workload.arch
        self.facts = workload.facts
        self.available = set(workload.manifest.counters)
        self.workload = workload
        self.multiplexed = multiplexing.is_multiplexed(workload)
        """Whether launches have different counters, so that rows of means are added to the rows of launches."""
        self.has_instances = has_instances
        self.channel = channel
        self.measured_in = measured_in
        """The pass whose values are used if a counter was measured in several passes."""
        self.terms: dict[str, str] = {}
        """The terms in use, each with the expression whose inputs this workload has."""
        self.counters: set[str] = set()
        self.launch: set[str] = set()
        self._alternatives = catalog.alternatives(self.target)
        self._needs: dict[str, _FormulaInputs] = {}

    def resolve(self, formulas: Iterable[str]) -> tuple[list[Reason], bool]:
        """Record what the formulas use; return the missing inputs and whether they use the duration."""
        needs = self._of_formulas(formulas)
        if not needs.missing:
            self.counters |= needs.counters
            self.launch |= needs.launch
            self.terms |= needs.terms
        return sorted(needs.missing, key=lambda reason: reason.text), needs.timed

    def has(self, name: str) -> bool:
        """Whether the workload has all inputs behind a name."""
        return not self._of_name(name).missing

    def _of_formulas(self, formulas: Iterable[str]) -> _FormulaInputs:
        total = _FormulaInputs()
        for name in {n for read in references(formulas).values() for n in read}:
            total.add(self._of_name(name))
        return total

    def _of_name(self, name: str) -> _FormulaInputs:
        if name not in self._needs:
            self._needs[name] = self._of_term(name) if name in self._alternatives else self._of_input(name)
        return self._needs[name]

    def _of_term(self, name: str) -> _FormulaInputs:
        """The inputs of a term, by the first of its expressions with all inputs, or else by its first expression."""
        stated = self._alternatives[name]
        formula = first_usable(stated, self.has) or stated[0]
        needs = self._of_formulas([formula])
        needs.terms[name] = formula
        return needs

    def _of_input(self, name: str) -> _FormulaInputs:
        if name == "duration_ns":
            return _FormulaInputs(timed=True)
        if name in LAUNCH:
            return _FormulaInputs(launch={name})
        if name in self.facts:
            return _FormulaInputs()
        if not catalog.is_counter(self.target, name):
            return _FormulaInputs(missing={Reason("no_fact", f"device fact {name} unknown")})
        if self.column(name) is None:
            return _FormulaInputs(missing={Reason("no_counter", f"counter {spelling(self.target, name)} missing")})
        return _FormulaInputs(counters={name})

    def last_resort(self) -> frozenset[str]:
        """The terms in use with several expressions for which the last one is used."""
        stated = self._alternatives
        return frozenset(t for t, used in self.terms.items() if len(stated[t]) > 1 and used == stated[t][-1])

    def column(self, name: str) -> str | None:
        """The SQL expression of counter ``name``, or None if the workload has no column for it.

        ``C@PASS`` is C as measured in that pass, or simply C in a profile that was collected in one pass. ``C[*]`` is
        the sum over all L2 channels, ``C[max]`` their maximum, and ``C[xcd]`` the largest sum over the channels of one
        XCD.
        """
        if name.endswith(_INSTANCED):
            return f"x.{sql_name(spelling(self.target, name))}" if self.has_instances else None
        if self.channel and is_channelled(name):
            return f"i.{sql_name(name)}"
        column = self.stored_column(name)
        return column and f"w.{sql_name(column)}"

    def stored_column(self, name: str) -> str | None:
        """The column of the table counters for counter ``name``."""
        counter, _, stated = name.partition("@")
        known = names(self.target, counter)
        for candidate in (*(f"{n}@{stated or self.measured_in}" for n in known), *known):
            if candidate in self.available or (candidate.startswith("duration_ns") and candidate == counter):
                return candidate
        return None

    def reads(self, formulas: Iterable[str]) -> frozenset[str]:
        """The columns that formulas read: of counters and of launches, and the time."""
        needs = self._of_formulas(formulas)
        columns = {self.stored_column(name) or _of_a_channel(name) for name in needs.counters}
        return frozenset(columns | needs.launch | ({DURATION} if needs.timed else set()))

    def named_columns(self) -> dict[str, str]:
        """Counter -> select item with the name that the formulas use, plus the duration."""
        items = {c: f"{self.column(c)} AS {sql_name(c)}" for c in sorted(self.counters)}
        return items | {"duration_ns": f"{self._duration()} AS duration_ns"}

    def _duration(self) -> str:
        """The duration that belongs to the counters: that of their own pass if it replayed single kernels."""
        if self.measured_in not in self.workload.manifest.replayed:
            return "w.duration_ns"
        return f"w.{sql_name(f'duration_ns@{self.measured_in}')}"

    def with_constants(self, columns: str) -> str:
        """The relation ``columns`` plus facts and terms; DuckDB resolves later aliases against earlier ones."""
        order = [t for t in self._alternatives if t in self.terms]
        items = [f"{v!r}::DOUBLE AS {k}" for k, v in self.facts.items()] + [f"{self.terms[t]} AS {t}" for t in order]
        return f"SELECT {', '.join(['*', *items])} FROM ({columns})"

    def rows(self, picks: str, source: str, selection: Selection, groups: str | None = None) -> str:
        """The select items ``picks`` of the selected launches, with rows of means if launches represent others.

        ``groups`` is SQL for the parts of the program of every launch, if ``picks`` contain one as l.part.
        """
        if not self.multiplexed:
            join_groups = f" JOIN ({groups}) l USING (dispatch_id)" if groups else ""
            return f"SELECT {picks} FROM {source}{join_groups} WHERE {selection.condition('w')}"
        own = multiplexing.join(self.workload, selection, groups)
        # Launches without any input say nothing, and there can be hundreds of thousands of them.
        inputs = [self.column(c) for c in sorted(self.counters)] + [self._duration()]
        known = " OR ".join(f"{c} IS NOT NULL" for c in [*inputs, *(f"d.{n}" for n in sorted(self.launch))])
        chosen = f"{selection.condition('w')} AND ({known})"
        held = f"SELECT {picks}, l.cfg, l.launches, l.tier FROM {source}{own} WHERE {chosen}"
        averaged = [*sorted(self.counters), "duration_ns", *sorted(self.launch)]
        return multiplexing.with_means(held, averaged, ["ch"] if self.channel else [])

    def columns(self, group: str = "w.kernel") -> list[str]:
        """The select items that are read from files; ``group`` becomes the column kernel."""
        launch = [f"d.{n}" for n in sorted(self.launch)]
        return [group, *self.named_columns().values(), *launch]


_MOST_NAMED = 6
"""How many missing inputs a metric's reason lists."""
_ROCPROF_COMPUTE = "rocprof-compute"
"""Profiles of this tool are evaluated as the tool itself does, which divides figures of different files."""


def replayed_pass(workload: Workload, counters: Iterable[str]) -> str | None:
    """The pass of replayed kernels with any of these counters, or None if they belong to the times of the run."""
    wanted = {c.split("@")[0] for c in counters}
    for name in workload.manifest.replayed:
        if wanted & {c.split("@")[0] for c in workload.passes.get(name, ())}:
            return name
    return None


def remeasured_passes(workload: Workload) -> dict[str, frozenset[str]]:
    """Pass -> its columns in the table counters; empty if no counter was measured twice, so there is no choice."""
    manifest = workload.manifest
    if manifest.format == _ROCPROF_COMPUTE or not any("@" in c for c in manifest.counters):
        return {}
    return _columns_of_passes(workload)


def _columns_of_passes(workload: Workload) -> dict[str, frozenset[str]]:
    """Pass -> its columns in the table counters, spelled as in plans."""
    known = workload.arch in targets.targets()
    return {
        name: frozenset(canonical(workload.arch, c) for c in columns) if known else columns
        for name, columns in workload.passes.items()
    }


def scattered_figures(workload: Workload, figures: Mapping[str, Iterable[str]]) -> list[str]:
    """The figures whose counters are not all in one pass, so that they mix runs of the program.

    ``figures`` maps names to the counters that they read. Counters that were not collected at all are ignored.
    """
    passes = {
        name: frozenset(c.split("@")[0] for c in columns) for name, columns in _columns_of_passes(workload).items()
    }
    collected = frozenset[str]().union(*passes.values())
    mixed = []
    for name, counters in figures.items() if len(passes) > 1 else ():
        wanted = collected.intersection(counters)
        if not any(wanted <= columns for columns in passes.values()):
            mixed.append(name)
    return mixed


def pass_of(wanted_counters: Iterable[str], passes: Mapping[str, frozenset[str]]) -> str | None:
    """The first pass that measured all these counters, for the first time or again. None if there is none, or if their
    plain column names already are those of that pass."""
    wanted = {c.split("@")[0] for c in wanted_counters}
    for name, columns in passes.items():
        if all(c in columns or f"{c}@{name}" in columns for c in wanted):
            return None if wanted <= columns else name
    return None


@dataclass(frozen=True)
class Grouping:
    """What a query aggregates over: dispatches, together or by kernel; ``norm`` divides normalised metrics.

    Without ``quartiles``, quartiles and standard deviation are omitted, which is faster for many dispatches.
    """

    selection: Selection
    norm: str = "1"
    by_kernel: bool = False
    quartiles: bool = True
    part: launching_ranges.ProgramPart | None = None
    """What to group by instead of the kernels; a launch can belong to several ``parts`` of that kind."""
    parts: tuple[str, ...] = ()

    @property
    def groups(self) -> list[str | None]:
        """The kernels or parts of the program, or None for all launches together."""
        if self.part is not None:
            return list(self.parts)
        return list(self.selection.kernels) if self.by_kernel else [None]

    def group_item(self, workload: Workload) -> tuple[str, str | None]:
        """The name of a row's group as a select item, and SQL for the parts that the name depends on."""
        if self.part is None:
            return "w.kernel", None
        return "l.part AS kernel", launching_ranges.parts_of_launches_sql(workload, self.part, self.parts)


@dataclass(frozen=True)
class Query:
    """One query and what is needed to read its rows: kernel, i, ch, then the fields of Aggregate."""

    sql: str
    pairs: list[int | None]
    """Per metric: the index of its pair of formulas (``i`` in the rows), or None if an input is missing."""
    metrics: list[Metric]
    missing: list[Reason | None]
    """Per metric: the missing counters or facts."""
    groups: list[str | None]
    channels: list[int]
    facts: dict[str, float]
    reads: list[frozenset[str]]
    """Per metric: the columns of counters and launches behind it, and the time."""
    last_resort: frozenset[str]
    """The terms for which the last expression is used, because the workload lacks the inputs of all others."""


def dispatch_query(
    workload: Workload, metrics: list[Metric], grouping: Grouping, measured_in: str | None = None
) -> Query:
    """The query over the wide table, with one row per group and pair of formulas.

    For counters measured in several passes, the values of the pass ``measured_in`` are used, or else those of the
    first.
    """
    scope = FormulaScope(workload, has_instances=workload.has("counter_instances"), measured_in=measured_in)
    pairs = _FormulaPairs(metrics, grouping.norm, scope)
    rows = ""
    if pairs.places:
        group, groups = grouping.group_item(workload)
        rows = scope.rows(", ".join(scope.columns(group)), _source(workload, scope), grouping.selection, groups)
    return pairs.query(rows, grouping, [0])


def channel_query(workload: Workload, metrics: list[Metric], grouping: Grouping) -> Query:
    """The query per L2 channel, with one group per channel; the counters come from the table counter_instances."""
    scope = FormulaScope(workload, has_instances=False, channel=True)
    pairs = _FormulaPairs(metrics, grouping.norm, scope)
    channels = list(range(int(scope.facts.get("total_l2_chan", 1))))
    rows = ""
    if workload.has("counter_instances") and pairs.places:
        per_xcd = max(1, len(channels) // max(1, int(scope.facts.get("num_xcd", 1))))
        channelled = {c: names(scope.target, c) for c in sorted(scope.counters) if is_channelled(c)}
        pivot = ", ".join(
            f"{_first_name_with_rows('max(value)', known)} AS {sql_name(c)}" for c, known in channelled.items()
        )
        others = [e for c, e in scope.named_columns().items() if not is_channelled(c)]
        group, groups = grouping.group_item(workload)
        instances = (
            f"(SELECT dispatch_id, xcd * {per_xcd} + instance AS ch, {pivot} "
            f"FROM {workload.relation('counter_instances')} "
            f"WHERE counter IN ({_counter_list_sql(channelled.values())}) "
            f"GROUP BY ALL) i JOIN {workload.relation('counters')} w USING (dispatch_id)"
        )
        picks = ", ".join([group, "i.* EXCLUDE (dispatch_id)", *others])
        rows = scope.rows(picks, instances, grouping.selection, groups)
    return pairs.query(rows, grouping, channels)


_SEES_ALL = "0"
"""The formula ``unseen`` of metrics whose counters see everything, or for which the unseen part is unknown."""


class _FormulaPairs:
    """The distinct pairs of formulas of a list of metrics; many metrics share one, so DuckDB binds each only once."""

    def __init__(self, metrics: list[Metric], norm: str, scope: FormulaScope) -> None:
        self.places: dict[tuple[str, str, str], int] = {}
        """(num, den, unseen) -> its index, ``i`` in the rows."""
        self.timed: list[bool] = []
        """Per pair: whether it needs the duration."""
        self.of_metric: list[int | None] = []
        self.missing: list[Reason | None] = []
        self.reads: list[frozenset[str]] = []
        stated = [(m.num, norm if m.norm else m.den or "1", m.unseen or _SEES_ALL) for m in metrics]
        references([f for formulas in stated for f in formulas])
        self.metrics, self.scope = metrics, scope
        for num, den, unseen in stated:
            lacks, timed = scope.resolve([num, den])
            self.missing.append(join_reasons(lacks, _MOST_NAMED))
            self.reads.append(frozenset() if lacks else scope.reads([num, den]))
            told = not lacks and not scope.resolve([unseen])[0]
            pair = (num, den, unseen if told else _SEES_ALL)
            if not lacks and pair not in self.places:
                self.places[pair] = len(self.places)
                self.timed.append(timed)
            self.of_metric.append(None if lacks else self.places[pair])

    def query(self, rows: str, grouping: Grouping, channels: list[int]) -> Query:
        """The query over these rows of launches, which are empty if no metric can be computed."""
        sql, scope = _aggregate(rows, self, grouping) if rows else "", self.scope
        return Query(
            sql, self.of_metric, self.metrics, self.missing, grouping.groups, channels, scope.facts, self.reads,
            scope.last_resort(),
        )  # fmt: skip


def _source(workload: Workload, scope: FormulaScope) -> str:
    relation = f"{workload.relation('counters')} w"
    if scope.launch:
        relation += f" JOIN {workload.relation('dispatches')} d USING (dispatch_id)"
    if summed := sorted(c for c in scope.counters if c.endswith(_INSTANCED)):
        channels = int(scope.facts.get("total_l2_chan", 0))
        plain = {c: names(scope.target, _of_a_channel(c)) for c in summed}
        xcds = min(int(scope.facts.get("num_xcd", 1)), _MOST_XCDS)
        sums = ", ".join(
            f"CASE WHEN {_first_name_with_rows('count(value)', known, zero=True)} = {channels} "
            f"THEN {_over_channels_sql(c[c.index('[') :], known, xcds)} END AS {sql_name(spelling(scope.target, c))}"
            for c, known in plain.items()
        )
        relation += (
            f" LEFT JOIN (SELECT dispatch_id, {sums} FROM {workload.relation('counter_instances')} "
            f"WHERE counter IN ({_counter_list_sql(plain.values())}) "
            "GROUP BY dispatch_id) x USING (dispatch_id)"
        )
    return relation


def _of_a_channel(counter: str) -> str:
    """The counter of a single channel from which ``C[*]``, ``C[max]`` and ``C[xcd]`` are computed."""
    return next((counter.removesuffix(end) for end in _INSTANCED if counter.endswith(end)), counter)


def _over_channels_sql(end: str, known: tuple[str, ...], xcds: int) -> str:
    """SQL for one figure over all channels of a dispatch."""
    if end != _OF_AN_XCD:
        return _first_name_with_rows(_CHANNEL_AGGREGATES[end], known)
    sums = [_first_name_with_rows("sum(value)", known, where=f" AND xcd = {k}") for k in range(xcds)]
    return f"greatest({', '.join(sums)})"


def _first_name_with_rows(aggregate: str, known: Iterable[str], *, zero: bool = False, where: str = "") -> str:
    """SQL for an aggregate of the rows of a counter, using the first of its names with rows."""
    aggregates = [f"{aggregate} FILTER (counter = {sql_literal(name)}{where})" for name in known]
    return f"coalesce({', '.join(f'nullif({one}, 0)' if zero else one for one in aggregates)})"


def _counter_list_sql(names_of: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(sql_literal(name) for known in names_of for name in known)


def _aggregate(rows: str, pairs: _FormulaPairs, grouping: Grouping) -> str:
    """The complete query: lists of numerators and denominators per dispatch, unnested and aggregated."""
    channel, filled = "ch" if pairs.scope.channel else "0", pairs.scope.multiplexed
    formulas = list(dict.fromkeys(f for pair in pairs.places for f in pair))
    all_seen = all(unseen == _SEES_ALL for _, _, unseen in pairs.places)
    place = {formula: i for i, formula in enumerate(formulas)}
    values = ", ".join(f"({formula})::DOUBLE AS f{i}" for i, formula in enumerate(formulas))
    nums, dens, unseens = (", ".join(f"f{place[pair[part]]}" for pair in pairs.places) for part in range(3))
    timed = ", ".join(str(t).lower() for t in pairs.timed)
    kernel = "kernel" if grouping.by_kernel or grouping.part else "NULL::VARCHAR"
    deviation = "stddev_samp(v)" if grouping.quartiles else "max(NULL::DOUBLE)"
    quartile = "quantile_cont(v, {})" if grouping.quartiles else "max(NULL::DOUBLE)"
    own, weight, measured = "", "", ""
    if filled:
        own, weight, measured = multiplexing.carried_columns(), " * w", f" FILTER (tier < {multiplexing.MEANS})"
    lists, seen = f"[{nums}] AS nums, [{dens}] AS dens", "NOT coalesce(u > 0, false) AND "
    units = "unnest(nums) AS n, unnest(dens) AS d"
    if all_seen:
        seen = ""
    else:
        lists, units = f"{lists}, [{unseens}] AS unseens", f"{units}, unnest(unseens) AS u"
    cells = f"SELECT *, CASE WHEN {seen}d <> 0 AND isfinite(n / d) THEN n / d END AS v FROM flat"
    used = multiplexing.choose_cells_sql("every_cell") if filled else "FROM every_cell"
    mean = "sum(v * w) / sum(w) FILTER (v IS NOT NULL)" if filled else "avg(v)"
    combined = f"count(v) FILTER (tier = {multiplexing.MEANS})" if filled else "0"
    return f"""
WITH base AS ({pairs.scope.with_constants(rows)}),
     formulas AS (SELECT {kernel} AS kernel, {channel} AS ch, duration_ns IS NULL AS untimed, {values}{own} FROM base),
     lists AS (SELECT kernel, ch, untimed, {lists}{own} FROM formulas),
     flat AS (SELECT kernel, ch, untimed, {units}, unnest([{timed}]) AS timed,
                     unnest(range({len(pairs.places)})) AS i{own} FROM lists),
     every_cell AS ({cells}),
     cells AS ({used})
SELECT kernel, i, ch,
       sum(n{weight}) FILTER (v IS NOT NULL) / NULLIF(sum(d{weight}) FILTER (v IS NOT NULL), 0) AS ratio,
       {mean} AS mean, min(v){measured} AS min, max(v){measured} AS max, {deviation}{measured} AS std,
       {quartile.format(0.25)}{measured} AS q1, {quartile.format(0.5)}{measured} AS median,
       {quartile.format(0.75)}{measured} AS q3,
       count(v) AS n, count(*) FILTER (d = 0 AND n IS NOT NULL) AS zero, count(*) AS total,
       count(*) FILTER (timed AND untimed) AS untimed,
       {combined} AS combined, {"0" if all_seen else "count(*) FILTER (u > 0)"} AS unseen
FROM cells GROUP BY kernel, i, ch"""
