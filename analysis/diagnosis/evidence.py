"""The figures behind a finding, each with its threshold, its status and the SQL that reproduces it."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from hashlib import md5

from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import first_usable, paths, thresholds
from ..database import sql_literal
from ..engine.evaluation import Status
from .figures import Subject, structures

_SHORT = 24
"""Names of kernels up to here stand in the SQL as they are; longer ones by a digest, as templates fill pages."""
_DIGEST = 10
_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Evidence:
    """One figure: ``threshold`` is what the rule compares it with, None where it only informs."""

    metric: str
    value: float | None
    unit: str
    threshold: str | None
    met: bool | None
    """Whether the value meets its threshold; one branch of a condition with OR may not."""
    status: Status
    reason: str | None
    sql: str


def gather(
    target: str, workload: str, subject: Subject, expressions: list[str], values: dict[str, float | None]
) -> list[Evidence]:
    """The names that expressions compare with a number first, then what else they read; each name once."""
    limits: dict[str, str] = {}
    for expression in expressions:
        limits = thresholds(expression) | limits
    names = dict.fromkeys([*limits, *(n for e in expressions for n in paths(e))])
    return [_one(target, workload, subject, n, limits.get(n), values) for n in names if not n.startswith(rules.FACT)]


def _one(
    target: str,
    workload: str,
    subject: Subject,
    name: str,
    threshold: str | None,
    values: dict[str, float | None],
) -> Evidence:
    expression = _expression(target, subject, name)
    inner = [n for n in paths(expression) if not n.startswith(rules.FACT)]
    figures = [subject.figures[n.removeprefix(rules.PEAK)] for n in inner]
    worst = next((f for f in figures if f.status != "ok"), figures[0])
    shown = inner[0] if inner == [expression] else name
    value = values[name]
    if shown == inner[0] and not shown.startswith(rules.PEAK):
        value = figures[0].value
    unit = "%" if shown.startswith(rules.PEAK) else _unit(target, shown)
    sql = reproduce(workload, subject, expression)
    return Evidence(
        shown,
        value,
        unit,
        threshold,
        _met(values[name], threshold),
        worst.status,
        worst.reason.text if worst.reason else None,
        sql,
    )


def _met(value: float | None, threshold: str | None) -> bool | None:
    if value is None or threshold is None:
        return None
    sign, number = threshold.split()
    return bool(_COMPARE[sign](value, float(number)))


def _expression(target: str, subject: Subject, name: str) -> str:
    """What a name stands for: itself, or the expression of a signal whose figures this kernel has."""
    expressions = rules.signals(target).get(name)
    if expressions is None:
        return name
    return first_usable(expressions, lambda n: subject.values.get(n) is not None) or expressions[0]


def _unit(target: str, name: str) -> str:
    known = catalog.by_name(target)
    return known[name].unit if name in known else next(s.unit for s in rules.stated()[0] if s.name == name)


def reproduce(workload: str, subject: Subject, expression: str) -> str:
    """A query over the tables of query_counters that yields the same number."""
    names = paths(expression)
    which = f"workload = {sql_literal(workload)} AND {kernel_is(subject.kernel)}"
    if names == [expression]:
        column = "pct_of_peak" if expression.startswith(rules.PEAK) else "value"
        metric = sql_literal(expression.removeprefix(rules.PEAK))
        return f"SELECT {column} FROM metrics WHERE {which} AND metric = {metric}"
    columns = {}
    for name in names:
        if name.startswith(rules.FACT):
            columns[name] = f"{subject.values.get(name)!r}"
            continue
        column = "pct_of_peak" if name.startswith(rules.PEAK) else "value"
        columns[name] = f"max({column}) FILTER (metric = {sql_literal(name.removeprefix(rules.PEAK))})"
    return f"SELECT {expression} FROM (SELECT {structures(columns)} FROM metrics WHERE {which})"


def kernel_is(kernel: str) -> str:
    """A condition that is true for one kernel."""
    if len(kernel) <= _SHORT:
        return f"kernel = {sql_literal(kernel)}"
    digest = md5(kernel.encode(), usedforsecurity=False).hexdigest()
    return f"md5(kernel)[:{_DIGEST}] = '{digest[:_DIGEST]}'"
