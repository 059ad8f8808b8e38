"""The figures behind a finding, each with its threshold, its status and the SQL that reproduces it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Literal

from ..base.database import sql_literal
from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import first_usable, paths, thresholds
from ..catalogue.rules import Rule
from ..catalogue.thresholds import threshold
from ..engine.evaluation import Status, judge_share
from ..engine.expressions import Values, structures
from ..rooflines.loads import IMPOSSIBLE, REACHED, Load
from .kernel_figures import Case

_SHORT = 24
"""Longer kernel names are replaced by a digest in the SQL, because template names can fill pages."""
_DIGEST = 10
_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Evidence:
    """One figure; ``sql`` reproduces it with query_counters (always present with detail="full").

    ``threshold`` is what the rule compares the figure with, or None if the figure is only informative.
    """

    metric: str
    value: float | None
    unit: str
    threshold: str | None
    status: Status
    reason: Reason | None
    sql: str | None
    met: bool | None = None
    """Whether the value meets its threshold; in a condition with OR, one branch need not."""


def gather(case: Case, expressions: Sequence[str]) -> list[Evidence]:
    """The evidence of expressions: first the names that they compare with a number, then the others; each name once."""
    limits: dict[str, str] = {}
    for expression in expressions:
        limits = thresholds(expression) | limits
    names = dict.fromkeys([*limits, *(n for e in expressions for n in paths(e))])
    return [_evidence(case, n, limits.get(n)) for n in names if not n.startswith(rules.FACT)]


def _evidence(case: Case, name: str, threshold: str | None) -> Evidence:
    load, value = case.loads.get(name), case.values[name]
    met = _meets(value, threshold)
    if load is not None and load.pct is not None and _differs(load, met, threshold):
        status: Status = load.status  # by counted work, which the table metrics does not contain, or impossible
        return Evidence(name, load.pct, "%", threshold, status, load.reason, None, met)
    expression = _expression(case, name)
    if (above := case.above.get(name)) is not None:
        status, reason = judge_share(above)
        return Evidence(name, above, "%", threshold, status, reason, reproduce(case, expression), met)
    read = [n for n in paths(expression) if not n.startswith(rules.FACT)]
    figures = [case.subject.figures[n.removeprefix(rules.PEAK)] for n in read]
    worst = next((f for f in figures if f.status != "ok"), figures[0])
    metric = expression if read == [expression] else name
    if read == [expression] and not expression.startswith(rules.PEAK):
        value = figures[0].value
    return Evidence(
        metric=metric,
        value=value,
        unit=_unit(case.target, metric),
        threshold=threshold,
        status=worst.status,
        reason=worst.reason,
        sql=None if any(f.of_time for f in figures) else reproduce(case, expression),
        met=met,
    )


def _differs(load: Load, met: bool | None, threshold: str | None) -> bool:
    """Whether the unit's own counters alone do not show the load, or do not agree on whether it meets the threshold."""
    return load.status == "impossible" or load.cycles_pct is None or _meets(load.cycles_pct, threshold) != met


def _meets(value: float | None, threshold: str | None) -> bool | None:
    if value is None or threshold is None:
        return None
    sign, number = threshold.split()
    return bool(_COMPARE[sign](value, float(number)))


def _expression(case: Case, name: str) -> str:
    """The expression behind a name: the name itself, or the expression of a signal for which this kernel has
    figures."""
    signal = rules.signals(case.target).get(name)
    if signal is None:
        return name
    inputs = case.subject.inputs
    return first_usable(signal.expressions, lambda n: inputs.get(n) is not None) or signal.expressions[0]


def _unit(target: str, name: str) -> str:
    if name.startswith(rules.PEAK):
        return "%"
    return (catalog.by_name(target).get(name) or rules.signals(target)[name]).unit


def reproduce(case: Case, expression: str) -> str | None:
    """A query over the tables of query_counters that returns the same number, or None if no row contains it."""
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
    """An SQL condition that selects one kernel."""
    if len(kernel) <= _SHORT:
        return f"kernel = {sql_literal(kernel)}"
    digest = md5(kernel.encode(), usedforsecurity=False).hexdigest()
    return f"md5(kernel)[:{_DIGEST}] = '{digest[:_DIGEST]}'"


State = Literal["holds", "fails", "unknown"]
CONFIDENT = threshold("diagnosis.confident")
"""Missing counters may overturn a verdict with a confidence below this."""
_BEST = threshold("diagnosis.best")
_SUPPORT = threshold("diagnosis.support")
_CONTRADICTION = threshold("diagnosis.contradiction")
_NARROW = threshold("diagnosis.narrow")
_CLOSE = threshold("diagnosis.close")
_WEAK = threshold("diagnosis.weak")
UNDECIDED = threshold("diagnosis.undecided")
_EACH_MORE = threshold("diagnosis.each_more_undecided")
GATE, LAST = -1, 2
_DOUBTED = threshold("diagnosis.doubted")


@dataclass(frozen=True)
class Weighed:
    """The result of one rule for one kernel.

    ``tier`` is -1 for a gate, 0 for a cause, 1 for a limit that is reached, 2 for a wait or a limit that is near.
    """

    rule: Rule
    state: State
    severity: float
    tier: int
    supports: dict[str, bool | None]
    against: dict[str, bool | None]

    @property
    def weight(self) -> float:
        """The severity in percent of the highest severity that kernels reach."""
        return self.severity * 100 / self.rule.most

    @property
    def order(self) -> tuple[int, float]:
        """The sort key: the most significant rule first."""
        return (LAST + 1 if self.rule.kind == "sign" else self.tier, -self.weight)


def weigh(
    rule: Rule, values: Values, void: frozenset[str] = frozenset(), reached: frozenset[str] | None = None
) -> Weighed:
    """Decide one rule from the values of its expressions; if the severity cannot be computed, the rule is unknown.

    ``reached`` are the severity expressions of limits that are reached according to the loads, as in the roofline.
    ``void`` are expressions that contain 0/0: a rule does not hold on them, and they neither support nor contradict it.
    """
    when, severity = values[rule.when], values[rule.severity]
    state: State = "fails" if when == 0 else "unknown" if when is None or severity is None else "holds"
    if state == "unknown" and (rule.when in void or (when is not None and rule.severity in void)):
        state = "fails"
    if state == "holds" and (severity or 0.0) > IMPOSSIBLE:
        state = "unknown"
    tier = {"gate": GATE, "cause": 0, "limit": 1}.get(rule.kind, LAST)
    far = (severity or 0.0) < REACHED if reached is None else rule.severity not in reached
    if state == "holds" and rule.kind == "limit" and far:
        tier = LAST
    supports, against = (_truths(stated, values, void) for stated in (rule.supports, rule.against))
    return Weighed(rule, state, severity or 0.0, tier, supports, against)


def behind_the_gate(weighed: list[Weighed]) -> list[Weighed]:
    """The rules to consider: only the gate if one holds, otherwise all. A gate without its counters leaves a verdict
    open."""
    return [w for w in weighed if w.rule.kind == "gate" and w.state == "holds"][:1] or weighed


def strongest_rule(weighed: list[Weighed]) -> Weighed | None:
    """The rule of the verdict: causes first, then limits that are reached, then the others; within these by severity.

    If none holds, it is the largest part of the waves' lifetime.
    """
    holding = [w for w in weighed if w.state == "holds" and w.rule.kind != "sign"]
    preferred = [w for w in holding if w.rule.kind != "part"] or holding
    return min(preferred, key=lambda w: w.order) if preferred else None


def open_rules_beside(weighed: list[Weighed], chosen: Weighed | None) -> list[Weighed]:
    """The rules with missing counters that could have come before the chosen rule."""
    last = chosen.tier if chosen else LAST
    rules = [w for w in weighed if w.state == "unknown" and not w.rule.optional and w.rule.kind not in ("sign", "part")]
    return [w for w in rules if w.tier <= last]


def verdict_confidence(weighed: list[Weighed], chosen: Weighed | None, doubted: bool = False) -> float:
    """The confidence in the verdict, from 0 to 1.

    If every rule that could overturn it is decided, 0.95, reduced for missing support, contradicting evidence, a limit
    that is near or just reached, a wait that explains only part of the time, and a rival that is close and no limit,
    but at least 0.5. With n undecided rules, 0.45 x 0.95^(n - 1). Missing evidence counts like contradicting evidence,
    so removing a counter never raises the confidence. It is at most 0.65 if the deciding figures are ``doubted``, and
    0.5 for a gate, which only says what is not the limit.
    """
    if chosen is None:
        return 0.0
    if chosen.tier == GATE:
        return CONFIDENT
    if n := len(open_rules_beside(weighed, chosen)):
        return UNDECIDED * _EACH_MORE ** (n - 1)
    sure = _BEST
    sure -= _SUPPORT * sum(true is not True for true in chosen.supports.values())
    sure -= _CONTRADICTION * sum(true is not False for true in chosen.against.values())
    if len(_close_rivals(weighed, chosen)) > len(limits_beside(weighed, chosen)):
        sure -= _NARROW
    if chosen.tier == LAST:
        sure -= _WEAK * (1 - min(chosen.severity, 100.0) / 100)
    if chosen.rule.kind == "limit" and chosen.severity < REACHED / _CLOSE:
        sure -= _NARROW
    return max(CONFIDENT, min(sure, _DOUBTED) if doubted else sure)


def limits_beside(weighed: list[Weighed], chosen: Weighed) -> list[Weighed]:
    """The limits that are about as close as the chosen one, if it is a limit: they hold the kernel back together."""
    return [w for w in _close_rivals(weighed, chosen) if w.rule.kind == chosen.rule.kind == "limit"]


def _close_rivals(weighed: list[Weighed], chosen: Weighed) -> list[Weighed]:
    """The rules of other subsystems that weigh about as much as the chosen one, the heaviest first."""
    return [
        w
        for w in sorted(weighed, key=lambda w: -w.weight)
        if w.state == "holds" and w.tier == chosen.tier and w.rule.kind != "sign" and w.weight >= _CLOSE * chosen.weight
        and (w.rule.kind == "part") == (chosen.rule.kind == "part") and w.rule.subsystem != chosen.rule.subsystem
    ]  # fmt: skip


def _truths(expressions: list[str], values: Values, void: frozenset[str]) -> dict[str, bool | None]:
    return {e: False if e in void else None if values[e] is None else bool(values[e]) for e in expressions}
