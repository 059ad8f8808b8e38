"""The figures behind a finding, each with its threshold, its status and the SQL that reproduces it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Annotated

from pydantic import Field

from ..base.database import sql_literal
from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import first_usable, paths, thresholds
from ..engine.evaluation import Status, judge_share
from ..engine.expressions import structures
from ..rooflines.loads import Load
from .kernel_figures import Case

_SHORT = 24
"""Names of kernels up to here stand in the SQL as they are; longer ones by a digest, as templates fill pages."""
_DIGEST = 10
_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Evidence:
    """One figure; ``sql`` reproduces it with query_counters (detail="full" has it everywhere).

    ``threshold`` is what the rule compares the figure with, None where it only informs.
    """

    metric: str
    value: float | None
    unit: str
    threshold: str | None
    status: Status
    reason: Reason | None
    sql: str | None
    met: Annotated[bool | None, Field(exclude=True)] = None
    """Whether the value meets its threshold; one branch of a condition with OR may not."""


def gather(case: Case, expressions: Sequence[str]) -> list[Evidence]:
    """The names that expressions compare with a number first, then what else they read; each name once."""
    limits: dict[str, str] = {}
    for expression in expressions:
        limits = thresholds(expression) | limits
    names = dict.fromkeys([*limits, *(n for e in expressions for n in paths(e))])
    return [_evidence(case, n, limits.get(n)) for n in names if not n.startswith(rules.FACT)]


def _evidence(case: Case, name: str, threshold: str | None) -> Evidence:
    load = case.loads.get(name)
    if load is not None and load.pct is not None and _differs(load, case.values[name], threshold):
        status: Status = load.status  # by counted work, which no row of the table metrics has, or impossible
        return Evidence(name, load.pct, "%", threshold, status, load.reason, None, _meets(case.values[name], threshold))
    expression = _expression(case, name)
    if (above := case.above.get(name)) is not None:
        status, reason = judge_share(above)
        met = _meets(case.values[name], threshold)
        return Evidence(name, above, "%", threshold, status, reason, reproduce(case, expression), met)
    read = [n for n in paths(expression) if not n.startswith(rules.FACT)]
    figures = [case.subject.figures[n.removeprefix(rules.PEAK)] for n in read]
    worst = next((f for f in figures if f.status != "ok"), figures[0])
    metric, value = name, case.values[name]
    if read == [expression]:
        metric = expression
        if not metric.startswith(rules.PEAK):
            value = figures[0].value
    return Evidence(
        metric=metric,
        value=value,
        unit=_unit(case.target, metric),
        threshold=threshold,
        status=worst.status,
        reason=worst.reason,
        sql=None if any(f.of_time for f in figures) else reproduce(case, expression),
        met=_meets(case.values[name], threshold),
    )


def _differs(load: Load, value: float | None, threshold: str | None) -> bool:
    """Whether the unit's own counters alone do not tell its load, or not that it meets the threshold."""
    return (
        load.status == "impossible"
        or load.cycles_pct is None
        or _meets(load.cycles_pct, threshold) != _meets(value, threshold)
    )


def _meets(value: float | None, threshold: str | None) -> bool | None:
    if value is None or threshold is None:
        return None
    sign, number = threshold.split()
    return bool(_COMPARE[sign](value, float(number)))


def _expression(case: Case, name: str) -> str:
    """What a name stands for: itself, or the expression of a signal whose figures this kernel has."""
    expressions = rules.signals(case.target).get(name)
    if expressions is None:
        return name
    inputs = case.subject.inputs
    return first_usable(expressions, lambda n: inputs.get(n) is not None) or expressions[0]


def _unit(target: str, name: str) -> str:
    if name.startswith(rules.PEAK):
        return "%"
    known = catalog.by_name(target)
    return known[name].unit if name in known else next(s.unit for s in rules.signals_and_rules()[0] if s.name == name)


def reproduce(case: Case, expression: str) -> str | None:
    """A query over the tables of query_counters that yields the same number; None where they have no such row."""
    if case.subject.in_sql is None:
        return None
    which = f"workload = {sql_literal(case.workload)} AND {_kernel_is(case.subject.in_sql)}"
    names = paths(expression)
    if names == [expression]:
        return f"SELECT {_column(expression)} FROM metrics WHERE {which} AND {_is_metric(expression)}"
    columns = {name: f"max({_column(name)}) FILTER ({_is_metric(name)})" for name in names}
    columns |= {name: repr(case.subject.inputs.get(name)) for name in names if name.startswith(rules.FACT)}
    return f"SELECT {expression} FROM (SELECT {structures(columns)} FROM metrics WHERE {which})"


def _column(name: str) -> str:
    return "pct_of_peak" if name.startswith(rules.PEAK) else "value"


def _is_metric(name: str) -> str:
    return f"metric = {sql_literal(name.removeprefix(rules.PEAK))}"


def _kernel_is(kernel: str) -> str:
    """A condition that is true for one kernel."""
    if len(kernel) <= _SHORT:
        return f"kernel = {sql_literal(kernel)}"
    digest = md5(kernel.encode(), usedforsecurity=False).hexdigest()
    return f"md5(kernel)[:{_DIGEST}] = '{digest[:_DIGEST]}'"
