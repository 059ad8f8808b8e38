"""Damage to one counter or to the times of recorded launches, and the verdicts that are another one then."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb

from rooflens.analysis.base.database import sql_literal, sql_name, sql_path
from rooflens.analysis.catalogue import rules
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.store.doubts import DURATION
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tools.profiles.checks.counter_checks import doubts_of_readers, faults
from rooflens.tools.profiles.merging.contract import CounterColumns, PassTable
from rooflens.tools.profiles.merging.merge import MergedPass, StoredProfile

SURE = 0.7
_TOGETHER = 400
"""Damaged launches that are judged together, as one workload."""
_MARK = " damaged "


@dataclass(frozen=True)
class Damage:
    """One counter of every launch of a kernel, or ``DURATION`` for its times, multiplied."""

    kernel: str
    counter: str
    factor: float


class Outcome(NamedTuple):
    """Whether damage made a verdict another one that is sure of itself."""

    damage: Damage
    misled: bool


def read_by_verdicts(workload: Workload) -> list[str]:
    """The columns of counters that any figure of a verdict reads, and ``DURATION``."""
    found = figures(workload, rules.all_metrics(workload.arch), FigureRequest(quartiles=False))
    read = frozenset[str]().union(*(f.reads for f in found))
    return sorted({_counter(c) for c in read & {*workload.manifest.counters, DURATION}})


def _counter(column: str) -> str:
    """The counter of a column; what ncu makes of the values of its instances (``.sum``, ``.avg``) is one counter."""
    return DURATION if column.startswith(f"{DURATION}@") else column.partition(".")[0]


def every(workload: Workload, factors: Sequence[float] = (4.0, 0.25)) -> Iterator[Damage]:
    """Each such column of each kernel, by each factor."""
    for kernel in workload.kernels:
        for counter in read_by_verdicts(workload):
            yield from (Damage(kernel, counter, factor) for factor in factors)


def outcomes(store: Store, of: Manifest, damages: Iterable[Damage], work: Path) -> Iterator[Outcome]:
    """The verdict of each damaged kernel beside that of the kernel as it was recorded."""
    before = {d.kernel: d.verdict.subsystem for d in _verdicts(store, of)}
    left = list(damages)
    together = max(1, _TOGETHER * max(of.kernels, 1) // max(of.dispatches, 1))
    for some in (left[i : i + together] for i in range(0, len(left), together)):
        scratch = Store(work)
        made = _damaged(store, of, some, scratch)
        for one in _verdicts(scratch, made):
            damage, verdict = some[int(one.kernel.rpartition(_MARK)[2])], one.verdict
            another = verdict.subsystem != before[damage.kernel]
            yield Outcome(damage, another and verdict.confidence >= SURE and verdict.doubt is None)


def _verdicts(store: Store, of: Manifest) -> list[Diagnosis]:
    with Workload(store, of) as workload:
        return diagnose(workload)[0]


def _damaged(store: Store, of: Manifest, damages: Sequence[Damage], to: Store) -> Manifest:
    """A workload with a copy of a kernel's launches for each damage, checked as imports are."""
    with to.draft() as folder, duckdb.connect() as con:
        launches = f"read_parquet({sql_path(store.file(of, 'dispatches'))}, hive_partitioning = false)"
        con.execute(f"CREATE TABLE launches AS SELECT dispatch_id AS launch, kernel AS damaged FROM {launches}")
        con.execute("CREATE TABLE damage (number BIGINT, damaged_kernel VARCHAR, of_counter VARCHAR, factor DOUBLE)")
        con.executemany(
            "INSERT INTO damage VALUES (?, ?, ?, ?)", [[i, *vars(d).values()] for i, d in enumerate(damages)]
        )
        for table in ("dispatches", "counters", "counter_instances"):
            path = store.file(of, table)
            if path is None:
                continue
            rows = f"read_parquet({sql_path(path)}, hive_partitioning = false)"
            columns = [str(row[0]) for row in con.execute(f"DESCRIBE FROM {rows}").fetchall()]
            chosen = "SELECT * FROM damage g JOIN launches l ON l.damaged = g.damaged_kernel"
            picks = ", ".join(_picks(columns, {damage.counter for damage in damages}))
            to_file = sql_path(folder / f"{table}.parquet")
            con.execute(
                f"COPY (SELECT {picks} FROM {rows} t JOIN ({chosen}) g ON g.launch = t.dispatch_id) TO {to_file}"
            )
        shutil.copy(store.file(of, "passes"), folder)
        counted = con.execute(f"SELECT count(*) FROM {sql_path(folder / 'dispatches.parquet')}").fetchone() or (0,)
        merged = StoredProfile(int(counted[0]), len(damages), of.counters, _passes(con, folder), [])
        found = faults(con, folder, of, merged)
        doubts = [*doubts_of_readers(of.warnings), *(doubt for one in found for doubt in one.doubts)]
        changed = {"doubts": doubts, "kernels": merged.kernels, "dispatches": merged.dispatches}
        return to.publish(folder, of.model_copy(update=changed))


def _picks(columns: Sequence[str], counters: set[str]) -> Iterator[str]:
    """SQL for the columns of a table, with the damaged one multiplied and the kernel named after the damage."""
    for name in columns:
        value = f"t.{sql_name(name)}"
        if name == "dispatch_id":
            value = f"{value} + g.number * (SELECT max(launch) + 1 FROM launches)"
        elif name == "kernel":
            value = f"{value} || {sql_literal(_MARK)} || g.number"
        elif _counter(name) in counters:
            value = f"CASE WHEN g.of_counter = {sql_literal(_counter(name))} THEN g.factor ELSE 1 END * {value}"
        elif name == "value":  # of an instance of the counter
            value = f"CASE WHEN g.of_counter IN (t.counter, t.counter || '_sum') THEN g.factor ELSE 1 END * {value}"
        yield f"{value} AS {sql_name(name)}"


def _passes(con: duckdb.DuckDBPyConnection, folder: Path) -> list[MergedPass]:
    """The passes as a reader hands them over, with the bounds of their counters as they are now."""
    rows = con.execute(f"SELECT name, counters FROM {sql_path(folder / 'passes.parquet')} ORDER BY pass_id").fetchall()
    counters = [name for _, listed in rows for name in listed.split(",") if name]
    picks = ", ".join(f"min({sql_name(c)}), max({sql_name(c)})" for c in counters)
    low_high = con.execute(f"SELECT {picks} FROM {sql_path(folder / 'counters.parquet')}").fetchone() or ()
    bounds = {c: (low_high[2 * i], low_high[2 * i + 1]) for i, c in enumerate(counters) if low_high[2 * i] is not None}
    made = []
    for name, listed in rows:
        own = {c.partition("@")[0]: c for c in listed.split(",") if c}
        wide = CounterColumns(bounds={read: bounds[c] for read, c in own.items() if c in bounds})
        made.append(MergedPass(PassTable(name, Path(name), wide=wide), own))
    return made
