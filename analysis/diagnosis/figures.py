"""The figures that the rules read, and the conditions decided over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import paths
from ..database import sql_name
from ..engine.evaluation import Figure, View, figures
from ..problems import BadInput
from ..workload import Workload

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Subject:
    """One kernel: its share of the workload's time in percent (None without times), its figures and the inputs.

    ``values`` has every name that expressions may use, None where unknown: metrics, pct_of_peak.<metric>, fact.<name>.
    """

    rank: int
    kernel: str
    share_pct: float | None
    launches: int
    figures: dict[str, Figure]
    values: dict[str, float | None]


def subjects(workload: Workload, kernel: str | None, limit: int | None) -> tuple[list[Subject], int]:
    """The kernels asked for, longest total time first, at most ``limit``, and how many there are.

    Raises BadInput for a device without rules or a profile without counters.
    """
    manifest, target = workload.manifest, workload.arch
    if target not in catalog.with_metrics() or not rules.rules(target):
        raise BadInput(
            f"No diagnosis rules are known for workload {manifest.name!r}",
            f"its target is {manifest.arch or 'not stated in the profile'}",
            "compute_metrics and query_counters show what was measured",
        )
    if not manifest.counters:
        raise BadInput(
            f"Workload {manifest.name!r} has no counters",
            "times and launch sizes alone do not tell what limits a kernel",
            "plan_profile names the counters to collect; list_workloads shows the kernels by time",
        )
    chosen = workload.select(kernel).kernels
    wanted = chosen[:limit]
    by_kernel: dict[str, dict[str, Figure]] = {}
    for figure in figures(workload, rules.all_metrics(target), View(kernel=wanted, by_kernel=True, quartiles=False)):
        by_kernel.setdefault(figure.kernel or "", {})[figure.name] = figure
    facts: dict[str, float | None] = {f"{rules.FACT}{name}": value for name, value in workload.facts.items()}
    found = []
    for name in wanted:
        time, own = workload.kernels[name], by_kernel.get(name, {})
        found.append(Subject(time.rank, name, time.share_pct, time.launches, own, facts | _values(own)))
    return found, len(chosen)


def _values(own: dict[str, Figure]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, figure in own.items():
        found[name] = _usable(figure)
        if figure.metric.peak:
            found[rules.PEAK + name] = figure.pct_of_peak if figure.status in ("ok", "suspect") else None
    return found


def _usable(figure: Figure) -> float | None:
    """The figure where it can be trusted; a ratio with nothing to relate to counts as its best: nothing is wrong."""
    if figure.value is None and figure.reason and figure.reason.code == "nothing_there":
        if figure.metric.better == "lower":
            return 0.0
        return 100.0 if figure.metric.better == "higher" and figure.unit == "%" else None
    return figure.value if figure.status in ("ok", "suspect") else None


_AT_ONCE = 400
"""Kernels in one query: more would make its text too long to parse quickly."""


def evaluate(
    con: duckdb.DuckDBPyConnection, target: str, subjects: Sequence[Subject], expressions: Iterable[str]
) -> list[dict[str, float | None]]:
    """For each kernel every expression's value: 1 and 0 for true and false, None where an input is missing.

    Metrics appear to the expressions as fields of structures (hbm.bw_gbs), signals likewise on top of them.
    """
    wanted = list(dict.fromkeys(expressions))
    found: list[dict[str, float | None]] = []
    for start in range(0, len(subjects), _AT_ONCE):
        part = subjects[start : start + _AT_ONCE]
        items = ", ".join(f"({e})::DOUBLE" for e in wanted)
        rows = con.execute(f"SELECT {items} FROM ({_signals(target, part)}) ORDER BY place").fetchall()
        found += [
            {e: v if v is not None and math.isfinite(v) else None for e, v in zip(wanted, row, strict=True)}
            for row in rows
        ]
    return found


def structures(columns: dict[str, str]) -> str:
    """Select items that show ``columns`` (dotted name -> SQL) as structures: hbm.bw_gbs is field bw_gbs of hbm."""
    heads: dict[str, dict[str, str]] = {}
    for name, sql in columns.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, {})[rest] = sql
    items = []
    for head, fields in heads.items():
        flat = {rest: sql for rest, sql in fields.items() if "." not in rest}
        deep = {rest: sql for rest, sql in fields.items() if "." in rest}
        packed = [f"{sql_name(field)} := {sql}" for field, sql in flat.items()]
        packed += _nested(deep)
        items.append(f"struct_pack({', '.join(packed)}) AS {sql_name(head)}")
    return ", ".join(items)


def _nested(fields: dict[str, str]) -> list[str]:
    heads: dict[str, list[str]] = {}
    for name, sql in fields.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, []).append(f"{sql_name(rest)} := {sql}")
    return [f"{sql_name(head)} := struct_pack({', '.join(packed)})" for head, packed in heads.items()]


def _signals(target: str, subjects: Sequence[Subject]) -> str:
    """The relation with a row per kernel: its place, the metrics and the signals."""
    known = rules.signals(target)
    names = sorted({n for s in subjects for n in s.values} | _named(target))
    rows = ", ".join(
        f"({place}, {', '.join(_number(s.values.get(n)) for n in names)})" for place, s in enumerate(subjects)
    )
    columns = ", ".join(["place", *(f"c{i}" for i in range(len(names)))])
    base = structures({name: f"c{i}::DOUBLE" for i, name in enumerate(names)})
    signals = structures({name: f"coalesce({', '.join(f'({e})' for e in found)})" for name, found in known.items()})
    return f"SELECT *, {signals} FROM (SELECT place, {base} FROM (VALUES {rows}) v({columns}))"


def _named(target: str) -> set[str]:
    """Every plain name that expressions of a target read, so that each exists even where nothing gives it a value."""
    found = {n for expressions in rules.signals(target).values() for e in expressions for n in paths(e)}
    for rule in rules.rules(target):
        for expression in (rule.when, rule.severity, *rule.supports, *rule.against, rule.bound or "0"):
            found |= set(paths(expression))
    return found - rules.signals(target).keys()


def _number(value: float | None) -> str:
    return "NULL" if value is None or not math.isfinite(value) else repr(float(value))
