"""The metrics that would decide what is open, and what they cost to collect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import catalog, rules
from ..formula import paths
from ..planning import plan
from .inputs import Subject
from .score import Weighed

Values = Mapping[str, float | None]
_MOST = 8
"""Metrics named in one request: more belongs into a preset."""


@dataclass(frozen=True)
class Request:
    """Metrics to collect, the subsystems between which they decide, and the runs of the program that it takes."""

    metrics: tuple[str, ...]
    decides: tuple[str, ...]
    passes: int


def requests(target: str, subject: Subject, open_rules: list[Weighed], values: Values) -> list[Request]:
    """One request per kind of rule, those first that go before the others."""
    found = []
    for kind in rules.KINDS:
        here = [w.rule for w in open_rules if w.rule.kind == kind]
        metrics = dict.fromkeys(
            m for r in here for e in (r.when, r.severity) for m in lacking(target, subject, e, values)
        )
        if not metrics:
            continue
        chosen = tuple(metrics)[:_MOST]
        planned = plan(target, chosen)
        helped = dict.fromkeys(r.subsystem for r in here)
        found.append(Request(chosen, tuple(helped), len(planned.passes)))
    return found


def undecided(target: str, subject: Subject, open_rules: list[Weighed], values: Values) -> list[str]:
    """Why rules stay open whose counters are all there: figures that cannot be, or facts that the profile lacks."""
    found = dict[str, None]()
    for rule in (w.rule for w in open_rules):
        if any(lacking(target, subject, e, values) for e in (rule.when, rule.severity)):
            continue
        for name in dict.fromkeys(m for e in (rule.when, rule.severity) for m in rules.metrics_of(target, e)):
            figure = subject.figures.get(name)
            if figure is not None and figure.reason and subject.values.get(name) is None:
                found[f"{rule.subsystem}: {name}: {figure.reason}"] = None
    return list(found)


def lacking(target: str, subject: Subject, expression: str, values: Values) -> list[str]:
    """The metrics an expression needs whose counters were not collected and can be; ``values`` has those of signals."""
    known = catalog.by_name(target)
    names = [m for n in paths(expression) if values.get(n) is None for m in rules.metrics_of(target, n)]
    missing = [n for n in dict.fromkeys(names) if subject.values.get(n) is None and n in known]
    return [n for n in missing if not known[n].imported_only and catalog.counters(target, known[n])]
