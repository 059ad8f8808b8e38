"""What kernels did: the quantities of work.py summed per kernel or dispatch in one query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..base.database import sql_literal, sql_name
from ..base.notes import Reason, join_reasons
from ..store.doubts import DURATION as DURATION
from ..workload import Selection, Workload
from .compile import FormulaScope
from .multiplexing import MEANS

TIME = "time_ns"
_MOST_NAMED = 3
"""Missing inputs named in a quantity's reason."""
WorkUnit = Literal["kernel", "dispatch"]


@dataclass(frozen=True)
class KernelWork:
    """What one kernel (or dispatch) did. ``parts`` holds sums over the dispatches that have the same quantities.

    Where launches stand for others, ``counted`` has for each part how many hold each quantity themselves.
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
        """The number of dispatches that have all of these quantities, and their sums over exactly those."""
        wanted = set(names)
        fit = [(n, sums) for n, sums in self.parts if wanted <= sums.keys()]
        return sum(n for n, _ in fit), {name: sum(sums[name] for _, sums in fit) for name in wanted} if fit else {}

    def contributing_dispatches(self, names: Iterable[str]) -> int:
        """The dispatches that a figure over these quantities is made of."""
        wanted = set(names)
        if self.counted is None:
            return self.sums_over(wanted)[0]
        parts = zip(self.parts, self.counted, strict=True)
        # What no launch holds itself is a mean of inputs that all of them hold in turn.
        return sum(
            min((holders[q] or n for q in wanted), default=n) for (n, sums), holders in parts if wanted <= sums.keys()
        )


@dataclass(frozen=True)
class WorkSums:
    """The work of the groups asked for, longest total time first, what was missing, and how many groups there are."""

    groups: list[KernelWork]
    missing: dict[str, Reason]
    total: int
    reads: dict[str, frozenset[str]]
    """Quantity -> the columns behind it, and the time."""

    def columns_behind(self, names: Iterable[str]) -> frozenset[str]:
        """What figures made of these quantities read."""
        return frozenset[str]().union(*(self.reads.get(name, frozenset()) for name in names))


@dataclass(frozen=True)
class WorkSelection:
    """Which groups are wanted: by kernel or dispatch, ``limit`` of them from ``offset``, longest first."""

    selection: Selection
    by: WorkUnit = "kernel"
    limit: int = 100_000
    offset: int = 0

    def of_kernels(self) -> Selection:
        """The launches of its kernels."""
        return self.selection.only(self.selection.kernels[self.offset : self.offset + self.limit])


def collect(workload: Workload, wanted: Mapping[str, str], page: WorkSelection) -> WorkSums:
    """Evaluate formulas over the selected dispatches and sum them per kernel or dispatch.

    Quantities are summed together with the pattern of those that a dispatch lacks, so that figures made of several
    can be restricted to the dispatches that have all of them. ``time_ns`` (the run time) is always among them.
    """
    counters = workload.relation("counters")
    replays = workload.manifest.replayed
    scope = FormulaScope(workload, has_instances=False, measured_in=replays[0] if replays else None)
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
    source = f"{counters} w"
    if scope.launch and workload.has("dispatches"):
        source += f" JOIN {workload.relation('dispatches')} d USING (dispatch_id)"
    if scope.multiplexed and page.by == "kernel":
        base = scope.with_constants(scope.rows(", ".join(scope.columns()), source, page.of_kernels()))
        return WorkSums(_by_configuration(workload, base, ready, page), missing, total, reads)
    base = scope.with_constants(f"SELECT w.dispatch_id, {', '.join(scope.columns())} FROM {source} WHERE {where}")
    values = ", ".join(f"({formula})::DOUBLE AS {sql_name(name)}" for name, formula in ready.items())
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
    rank = {kernel: i for i, kernel in enumerate(page.selection.kernels)}
    done.sort(key=lambda g: (-sum(sums.get(TIME, 0.0) for _, sums in g.parts), rank[g.kernel], g.dispatch or 0))
    return WorkSums(done, missing, total, reads)


def _by_configuration(workload: Workload, base: str, ready: Mapping[str, str], page: WorkSelection) -> list[KernelWork]:
    """The work of every kernel of a multiplexed profile, a part for each launch configuration; see multiplexed.py."""
    values = ", ".join(f"({formula})::DOUBLE AS {sql_name(name)}" for name, formula in ready.items())
    # A FILTER for each would have DuckDB hold all columns once more for each.
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
    rank = {kernel: i for i, kernel in enumerate(page.selection.kernels)}
    return sorted(done.values(), key=lambda g: (-sum(sums.get(TIME, 0.0) for _, sums in g.parts), rank[g.kernel]))


def _page_condition(workload: Workload, page: WorkSelection) -> tuple[str, int]:
    """The condition for the kernels or dispatches of one page, longest first, and how many there are."""
    chosen = page.selection
    if page.by == "kernel":
        listed = ", ".join(map(sql_literal, chosen.kernels[page.offset : page.offset + page.limit]))
        return f"{chosen.condition('w')} AND w.kernel IN ({listed or 'NULL'})", len(chosen.kernels)
    rows = workload.rows(
        f"SELECT dispatch_id, count(*) OVER () FROM {workload.relation('dispatches')} d WHERE {chosen.condition('d')} "
        f"ORDER BY duration_ns DESC NULLS LAST, dispatch_id LIMIT {page.limit} OFFSET {page.offset}"
    )
    return f"w.dispatch_id IN ({', '.join(str(r[0]) for r in rows) or 'NULL'})", rows[0][1] if rows else 0
