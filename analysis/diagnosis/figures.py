"""The figures that the rules read, and the conditions decided over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import paths
from ..database import sql_name
from ..engine.evaluation import Figure, View, figures
from ..problems import BadInput
from ..workload import KernelTime, Workload

if TYPE_CHECKING:
    import duckdb

    from ..rooflines import limits

Values = Mapping[str, float | None]
_ANY = 1.0
"""What stands for a 0/0 to see whether an expression lacks anything else."""


@dataclass(frozen=True)
class Subject:
    """One kernel: its share of the workload's time in percent (None without times), its figures and the inputs.

    ``inputs`` has every name that expressions may use, None where unknown: metrics, pct_of_peak.<metric>, fact.<name>.
    ``in_sql`` is the name under which the SQL table metrics has these figures; None for one of several configurations.
    """

    rank: int
    number: str
    kernel: str
    share_pct: float | None
    launches: int
    figures: dict[str, Figure]
    inputs: Values
    in_sql: str | None

    @property
    def undefined(self) -> frozenset[str]:
        """The inputs that are 0/0: what they are a share of was counted and did not happen."""
        names = {n for n, f in self.figures.items() if f.status == "undefined"}
        return frozenset(names | {rules.PEAK + n for n in names})


@dataclass(frozen=True)
class Case:
    """One kernel with all that its rules are decided by: the value of every expression, and the mixed-pipe view.

    ``void`` are the expressions without a value only because something in them is 0/0: no evidence of anything.
    """

    workload: str
    target: str
    subject: Subject
    values: Values
    void: frozenset[str]
    view: limits.KernelLimits | None


def subjects(workload: Workload, kernel: str | None, limit: int | None) -> tuple[list[Subject], int]:
    """The kernels asked for, longest total time first, at most ``limit``, and how many there are.

    Raises BadInput for a device without rules or a profile without counters.
    """
    manifest, target = workload.manifest, workload.arch
    if target not in catalog.with_metrics():
        raise catalog.no_formulas(manifest.name, manifest.arch)
    if not rules.rules(target):
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
    by_kernel: dict[str, dict[str, Figure]] = {name: {} for name in wanted}
    for figure in figures(workload, rules.all_metrics(target), View(kernel=wanted, by_kernel=True, quartiles=False)):
        by_kernel[figure.kernel or ""][figure.name] = figure
    facts = {f"{rules.FACT}{name}": value for name, value in workload.facts.items()}
    times = [workload.kernels[name] for name in wanted]
    return [_subject(time, by_kernel[time.kernel], facts) for time in times], len(chosen)


def _subject(time: KernelTime, figures: dict[str, Figure], facts: Mapping[str, float]) -> Subject:
    inputs = {**facts, **_inputs(figures)}
    return Subject(
        time.rank, time.number, time.kernel, time.share_pct, time.launches, figures, inputs, time.whole_kernel
    )


def _inputs(figures: dict[str, Figure]) -> dict[str, float | None]:
    inputs: dict[str, float | None] = {}
    for name, figure in figures.items():
        inputs[name] = _usable(figure)
        if figure.metric.peak:
            inputs[rules.PEAK + name] = figure.pct_of_peak if figure.status in ("ok", "suspect") else None
    return inputs


def _usable(figure: Figure) -> float | None:
    """The figure where it can be trusted."""
    return figure.value if figure.status in ("ok", "suspect") else None


def void(
    con: duckdb.DuckDBPyConnection, target: str, subjects: Sequence[Subject], values: Sequence[Values]
) -> list[frozenset[str]]:
    """For each kernel the expressions that have no value though all they read was counted: with a number in place of
    each 0/0 they have one."""
    if not any(s.undefined for s in subjects):
        return [frozenset()] * len(subjects)
    filled = [replace(s, inputs={**s.inputs, **dict.fromkeys(s.undefined, _ANY)}) for s in subjects]
    with_any = evaluate(con, target, filled, list(values[0]))
    return [
        frozenset(e for e, value in one.items() if value is None and other[e] is not None)
        for one, other in zip(values, with_any, strict=True)
    ]


def evaluate(
    con: duckdb.DuckDBPyConnection, target: str, subjects: Sequence[Subject], expressions: Iterable[str]
) -> list[dict[str, float | None]]:
    """For each kernel every expression's value: 1 and 0 for true and false, None where an input is missing.

    Metrics appear to the expressions as fields of structures (hbm.bw_gbs), signals likewise on top of them.
    """
    wanted = list(dict.fromkeys(expressions))
    names = sorted({name for s in subjects for name in s.inputs} | _named(target))
    columns = {f"c{i}": [_finite(s.inputs.get(name)) for s in subjects] for i, name in enumerate(names)}
    lists = ", ".join(f"unnest(${column}::DOUBLE[]) AS {column}" for column in columns)
    metrics = structures(dict(zip(names, columns, strict=True)))
    alternatives = rules.signals(target).items()
    signals = structures({name: f"coalesce({', '.join(f'({e})' for e in given)})" for name, given in alternatives})
    rows = con.execute(
        f"SELECT {', '.join(f'({e})::DOUBLE' for e in wanted)} FROM (SELECT *, {signals} FROM (SELECT place, {metrics} "
        f"FROM (SELECT unnest(range({len(subjects)})) AS place, {lists}))) ORDER BY place",
        columns,
    ).fetchall()
    return [dict(zip(wanted, map(_finite, row), strict=True)) for row in rows]


def structures(columns: Mapping[str, str]) -> str:
    """Select items that show ``columns`` (dotted name -> SQL) as structures: hbm.bw_gbs is field bw_gbs of hbm."""
    return ", ".join(f"{sql} AS {sql_name(head)}" for head, sql in _packed(columns).items())


def _packed(columns: Mapping[str, str]) -> dict[str, str]:
    """First part of the names -> SQL of the structure with the rest as its fields."""
    heads: dict[str, dict[str, str]] = {}
    for name, sql in columns.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, {})[rest] = sql
    packed = {}
    for head, fields in heads.items():
        inner = {name: sql for name, sql in fields.items() if "." not in name}
        inner |= _packed({name: sql for name, sql in fields.items() if "." in name})
        packed[head] = f"struct_pack({', '.join(f'{sql_name(name)} := {sql}' for name, sql in inner.items())})"
    return packed


def _named(target: str) -> set[str]:
    """Every plain name that expressions of a target read, so that each exists even where nothing gives it a value."""
    signals = rules.signals(target)
    expressions = [e for alternatives in signals.values() for e in alternatives]
    expressions += [e for rule in rules.rules(target) for e in rule.expressions]
    return {name for e in expressions for name in paths(e)} - signals.keys()


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
