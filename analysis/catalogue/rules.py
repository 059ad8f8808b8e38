"""The diagnosis rules, read from rules/*.toml: conditions over metrics, claims, advice, and what would falsify them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import pydantic

from . import metrics as catalog
from . import targets
from .formula import paths, trees
from .targets import Strict

_HERE = Path(__file__).parent / "rules"
PEAK, FACT = "pct_of_peak.", "fact."
Kind = Literal["cause", "limit", "wait", "sign"]
KINDS: tuple[Kind, ...] = ("cause", "limit", "wait", "sign")
"""A cause explains a limit or a wait and goes before both; a limit is a unit near what it sustains; a wait holds where
no unit is; a sign never is a verdict, but belongs to the picture."""


class Advice(Strict):
    """One concrete action, and the document that recommends it; answers show it as its text."""

    do: str
    source: str

    @pydantic.model_serializer
    def __str__(self) -> str:
        return f"{self.do} ({self.source})"


class Rule(Strict):
    """One way in which a subsystem holds a kernel back. Expressions are SQL over names of metrics and signals.

    ``when`` decides; unknown (NULL) means that counters are missing. ``severity`` (0-100) ranks rules of a kind.
    ``supports`` and ``against`` move the confidence. ``lifts`` names the pipes and levels of the mixed-pipe view whose
    load a perfect fix would remove, ``bound`` a further limit of the speed-up.
    """

    id: str
    subsystem: str
    kind: Kind
    gpus: list[str] | None = None
    when: str
    severity: str
    claim: str
    supports: list[str] = []
    against: list[str] = []
    lifts: list[str] = []
    bound: str | None = None
    advice: list[Advice]
    falsify: str

    @property
    def expressions(self) -> list[str]:
        """All that is evaluated for it."""
        return [self.when, self.severity, *self.supports, *self.against, *([self.bound] if self.bound else [])]

    @property
    def claimed(self) -> list[str]:
        """The names whose figures the claim shows."""
        return [name for _, name, _, _ in Formatter().parse(self.claim) if name]


class Signal(Strict):
    """A quantity that the rules share; per family the expressions that give it, best first."""

    name: str
    unit: str
    title: str
    nvidia: list[str] = []
    cdna: list[str] = []


@cache
def stated() -> tuple[tuple[Signal, ...], tuple[Rule, ...]]:
    """Everything in rules/*.toml."""
    signals: list[Signal] = []
    rules: list[Rule] = []
    for path in sorted(_HERE.glob("*.toml")):
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        signals += [Signal.model_validate(entry) for entry in data.get("signal", [])]
        rules += [Rule.model_validate(entry) for entry in data.get("rule", [])]
    return tuple(signals), tuple(rules)


@cache
def signals(target: str) -> dict[str, tuple[str, ...]]:
    """Signal -> its expressions on a target, best first; those with a metric that the target lacks are left out."""
    family = targets.gpu(target).family
    chosen = {s.name: list(getattr(s, family, [])) for s in stated()[0]}
    trees([e for expressions in chosen.values() for e in expressions])
    kept = {name: tuple(e for e in found if _known(target, paths(e))) for name, found in chosen.items()}
    return {name: found for name, found in kept.items() if found}


@cache
def rules(target: str) -> tuple[Rule, ...]:
    """The rules that a target's metrics can decide; conditions beside the point on this target are left out of them."""
    here = [r for r in stated()[1] if r.gpus is None or target in r.gpus]
    trees([e for r in here for e in r.expressions])
    found = []
    for rule in here:
        if not usable(target, rule.when) or not usable(target, rule.severity):
            continue
        kept = {k: [e for e in getattr(rule, k) if usable(target, e)] for k in ("supports", "against")}
        found.append(rule.model_copy(update=kept))
    return tuple(found)


def usable(target: str, expression: str) -> bool:
    """Whether every name of an expression means something on a target."""
    known = signals(target)
    return all(name in known or _known(target, [name]) for name in paths(expression))


def metrics_of(target: str, expression: str) -> list[str]:
    """The metrics that an expression comes down to, in order, by the first expression of each signal."""
    known, found = signals(target), dict[str, None]()
    for name in paths(expression):
        for inner in paths(known[name][0]) if name in known else [name]:
            if not inner.startswith(FACT):
                found[inner.removeprefix(PEAK)] = None
    return list(found)


def all_metrics(target: str) -> list[str]:
    """Every metric that a rule of a target can read."""
    found = dict[str, None]()
    for name in (n for s in signals(target).values() for e in s for n in paths(e)):
        found[name] = None
    for rule in rules(target):
        for name in (*(n for e in rule.expressions for n in paths(e)), *rule.claimed):
            found[name] = None
    known = catalog.by_name(target)
    return [m for m in dict.fromkeys(n.removeprefix(PEAK) for n in found) if m in known]


def _known(target: str, names: list[str]) -> bool:
    metrics = catalog.by_name(target)
    for name in names:
        if name.startswith(PEAK):
            metric = metrics.get(name.removeprefix(PEAK))
            if metric is None or not metric.peak:
                return False
        elif not name.startswith(FACT) and name not in metrics:
            return False
    return True
