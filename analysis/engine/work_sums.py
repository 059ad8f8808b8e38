"""The work of kernels: the quantities of work_formulas.py, summed per kernel or dispatch in one query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ..base.database import sql_name
from ..base.notes import Reason, join_reasons
from ..store.doubts import DURATION as DURATION
from ..workload import Selection, Workload
from .compile import FormulaScope
from .multiplexing import MEANS

TIME = "time_ns"
_MOST_NAMED = 3
"""How many missing inputs a quantity's reason lists."""
WorkUnit = Literal["kernel", "dispatch"]


@dataclass(frozen=True)
class KernelWork:
    """The work of one kernel (or dispatch). ``parts`` are sums over the dispatches that have the same quantities.

    If launches represent others, ``counted`` gives for each part the number of launches that have each quantity.
    """

    kernel: str
    dispatch: int | None
    dispatches: int
    parts: list[tuple[int, dict[str, float]]]
    counted: list[dict[str, int]] | None = None

    def has(self, name: str) -> bool:
        """Whether any dispatch has a value of this quantity."""
        return any(name in sums for _, sums in self.parts)

    def sums_over(self, names: Iterable[str]) -> tuple[int, dict[str, float]]:
        """The number of dispatches with all of these quantities, and the sums over exactly those dispatches."""
        wanted = set(names)
        fit = [(n, sums) for n, sums in self.parts if wanted <= sums.keys()]
        return sum(n for n, _ in fit), {name: sum(sums[name] for _, sums in fit) for name in wanted} if fit else {}

    def contributing_dispatches(self, names: Iterable[str]) -> int:
        """The number of dispatches that contribute to a figure over these quantities."""
        wanted = set(names)
        if self.counted is None:
            return self.sums_over(wanted)[0]
        parts = zip(self.parts, self.counted, strict=True)
        # A quantity that no launch has itself is computed from means of inputs that the launches have in turn.
        return sum(
            min((holders[q] or n for q in wanted), default=n) for (n, sums), holders in parts if wanted <= sums.keys()
        )


@dataclass(frozen=True)
class WorkSums:
    """The work of the requested groups, longest total time first, the missing quantities, and the number of groups."""

    groups: list[KernelWork]
    missing: dict[str, Reason]
    total: int
    reads: dict[str, frozenset[str]]
    """Quantity -> the columns that it reads, and the time."""

    def columns_behind(self, names: Iterable[str]) -> frozenset[str]:
        """The columns that figures computed from these quantities read."""
        return frozenset[str]().union(*(self.reads.get(name, frozenset()) for name in names))


@dataclass(frozen=True)
class WorkSelection:
    """The groups to collect: by kernel or dispatch, ``limit`` of them from ``offset``, longest first."""

    selection: Selection
    by: WorkUnit = "kernel"
    limit: int = 100_000
    offset: int = 0

    def of_kernels(self) -> Selection:
        """The launches of its kernels."""
        return self.selection.only(self.selection.kernels[self.offset : self.offset + self.limit])


def collect(workload: Workload, wanted: Mapping[str, str], page: WorkSelection) -> WorkSums:
    """Evaluate formulas over the selected dispatches and sum them per kernel or dispatch.

    Quantities are summed separately for each pattern of missing quantities, so that figures computed from several can
    be restricted to the dispatches that have all of them. ``time_ns`` (the run time) is always included.
    """
    scope = FormulaScope(workload, has_instances=False, measured_in=next(iter(workload.manifest.replayed), None))
    missing: dict[str, Reason] = {}
    ready = {TIME: "CASE WHEN duration_ns > 0 THEN duration_ns END"}
    reads = {TIME: frozenset({DURATION})}
    for name, formula in wanted.items():
        lacks, _ = scope.resolve([formula])
        if reason := join_reasons(lacks, _MOST_NAMED):
            missing[name] = reason
        else:
            ready[name], reads[name] = formula, scope.reads([formula])
    where, total = _page_condition(workload, page)
    source = f"{workload.relation('counters')} w"
    if scope.launch and workload.has("dispatches"):
        source += f" JOIN {workload.relation('dispatches')} d USING (dispatch_id)"
    if scope.multiplexed and page.by == "kernel":
        base = scope.with_constants(scope.rows(", ".join(scope.columns()), source, page.of_kernels()))
        return WorkSums(_by_configuration(workload, base, ready, page), missing, total, reads)
    base = scope.with_constants(f"SELECT w.dispatch_id, {', '.join(scope.columns())} FROM {source} WHERE {where}")
    values = _values_sql(ready)
    pattern = ", ".join(f"CASE WHEN {sql_name(name)} IS NULL THEN '0' ELSE '1' END" for name in ready)
    sums = ", ".join(f"sum({sql_name(name)})" for name in ready)
    key = "kernel, dispatch_id" if page.by == "dispatch" else "kernel, NULL::BIGINT"
    rows = workload.rows(
        f"SELECT {key}, concat({pattern}) AS pattern, count(*), {sums} "
        f"FROM (SELECT kernel, dispatch_id, {values} FROM ({base})) GROUP BY ALL"
    )
    groups: dict[tuple[str, int | None], list[tuple[int, dict[str, float]]]] = {}
    for kernel, dispatch, _, n, *totals in rows:
        amounts = {name: float(v) for name, v in zip(ready, totals, strict=True) if v is not None}
        groups.setdefault((kernel, dispatch), []).append((n, amounts))
    done = [KernelWork(k, d, sum(n for n, _ in parts), parts) for (k, d), parts in groups.items()]
    return WorkSums(_longest_first(done, page), missing, total, reads)


def _values_sql(formulas: Mapping[str, str]) -> str:
    return ", ".join(f"({formula})::DOUBLE AS {sql_name(name)}" for name, formula in formulas.items())


def _longest_first(work: Iterable[KernelWork], page: WorkSelection) -> list[KernelWork]:
    rank = {kernel: i for i, kernel in enumerate(page.selection.kernels)}
    return sorted(
        work, key=lambda g: (-sum(sums.get(TIME, 0.0) for _, sums in g.parts), rank[g.kernel], g.dispatch or 0)
    )


def _by_configuration(workload: Workload, base: str, ready: Mapping[str, str], page: WorkSelection) -> list[KernelWork]:
    """The work of every kernel of a multiplexed profile, one part per launch configuration; see multiplexing.py."""
    values = _values_sql(ready)
    # With a FILTER for each, DuckDB would keep another copy of all columns in memory for each.
    held_by = {
        n: (f"CASE WHEN tier < {MEANS} THEN {n} END", f"CASE WHEN tier = {MEANS} THEN {n} END")
        for n in map(sql_name, ready)
    }
    means = ", ".join(f"launches * coalesce(avg({own}), max({mean}))" for own, mean in held_by.values())
    counts = ", ".join(f"count({own})" for own, _ in held_by.values())
    rows = workload.rows(
        f"SELECT kernel, launches, [{counts}], {means} "
        f"FROM (SELECT kernel, cfg, launches, tier, {values} FROM ({base})) GROUP BY kernel, cfg, launches "
        "ORDER BY kernel, cfg"
    )
    done: dict[str, KernelWork] = {}
    for kernel, launches, held_counts, *totals in rows:
        amounts = {name: float(v) for name, v in zip(ready, totals, strict=True) if v is not None}
        one = done.get(kernel, KernelWork(kernel, None, 0, [], []))
        own = [*(one.counted or []), dict(zip(ready, held_counts, strict=True))]
        done[kernel] = KernelWork(kernel, None, one.dispatches + launches, [*one.parts, (launches, amounts)], own)
    return _longest_first(done.values(), page)


def _page_condition(workload: Workload, page: WorkSelection) -> tuple[str, int]:
    """The SQL condition for the kernels or dispatches of one page, longest first, and how many there are in total."""
    chosen = page.selection
    if page.by == "kernel":
        return replace(page.of_kernels(), every_kernel=False).condition("w"), len(chosen.kernels)
    rows = workload.rows(
        f"SELECT dispatch_id, count(*) OVER () FROM {workload.relation('dispatches')} d WHERE {chosen.condition('d')} "
        f"ORDER BY duration_ns DESC NULLS LAST, dispatch_id LIMIT {page.limit} OFFSET {page.offset}"
    )
    return f"w.dispatch_id IN ({', '.join(str(r[0]) for r in rows) or 'NULL'})", rows[0][1] if rows else 0
