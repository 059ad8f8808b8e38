"""The diagnosis rules from rules/*.toml: conditions over metrics, claims, advice, and what would falsify a claim."""

from __future__ import annotations

import re
from functools import cache
from string import Formatter
from typing import Literal

import pydantic

from ..base.problems import BadInput
from ..base.text import gain_text
from . import files, metrics, targets
from .files import CatalogueModel
from .formula import compares_quantities, paths, trees
from .vocabulary import entry_in_vendor_terms, in_vendor_terms

Bound = Literal["memory", "compute", "latency", "unknown"]
"""The kind of limit of a kernel."""
PEAK, FACT = "pct_of_peak.", "fact."
BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(("hbm", "l2", "gl1", "vl1d", "lds", "fabric", "scratch", "atomics"), "memory"),
    **dict.fromkeys(("valu", "issue", "sfu", "matrix", "salu", "divergence"), "compute"),
    **dict.fromkeys(("dispatch", "occupancy", "latency", "barrier", "instruction_fetch"), "latency"),
    "unknown": "unknown",
}
"""The kind of limit of each subsystem."""
RuleKind = Literal["gate", "cause", "limit", "wait", "part", "sign"]
KINDS: tuple[RuleKind, ...] = ("gate", "cause", "limit", "wait", "part", "sign")
"""A gate means that there is nothing to judge and excludes all other rules; a cause explains a limit or a wait and
comes before both; a limit is a unit near what it can sustain; a wait applies if no unit is at its limit; a part of the
waves' lifetime is the verdict if nothing else holds; a sign is never a verdict, but adds detail."""


class Advice(CatalogueModel):
    """One concrete action and the document that recommends it; answers show both as one text."""

    do: str
    source: str
    change: str | None = None
    """The kind of change that it is, whose gain it then carries."""
    gain: tuple[float | None, float | None] | None = None
    """How many times as fast this kind of change could make the kernel: as expected, and at most."""
    shown_for: str | None = None
    """The kernel for which an answer shows this advice in full; here it is then shortened to its beginning."""

    @property
    def text(self) -> str:
        """What to do, with its gain."""
        gain = gain_text(*self.gain) if self.gain else ""
        return f"{self.do} [{gain}]" if gain else self.do

    @pydantic.model_serializer
    def __str__(self) -> str:
        return f"{self.text} ({self.source if self.shown_for is None else f'as for {self.shown_for}'})"


class Rule(CatalogueModel):
    """One way in which a subsystem holds a kernel back. Expressions are SQL over names of metrics and signals.

    ``when`` decides whether the rule holds; unknown (NULL) means that counters are missing. ``severity`` (0-100) ranks
    rules of one kind; ``most`` is the highest severity that kernels reach, which makes limits of units comparable.
    ``supports`` and ``against`` raise and lower the confidence. ``lifts`` lists the pipes and levels of the mixed-pipe
    view whose load a perfect fix would remove; ``dense`` means that the fix reduces the load of the others to the bytes
    that threads requested; ``bound`` is an additional bound of the speed-up. A verdict does not stay open because of
    ``optional`` rules with missing counters, as no profiler is asked to collect those. ``change`` is the kind of change
    that advice without its own one is.
    """

    id: str
    subsystem: str
    kind: RuleKind
    gpus: list[str] | None = None
    when: str
    severity: str
    most: float = pydantic.Field(default=100.0, gt=0, le=100)
    claim: str
    supports: list[str] = []
    against: list[str] = []
    lifts: list[str] = []
    dense: bool = False
    optional: bool = False
    bound: str | None = None
    change: str | None = None
    advice: list[Advice]
    falsify: str

    @property
    def expressions(self) -> list[str]:
        """All expressions that are evaluated for the rule."""
        return [self.when, self.severity, *self.supports, *self.against, *([self.bound] if self.bound else [])]

    @property
    def claim_names(self) -> list[str]:
        """The metrics and signals whose values the claim shows."""
        return [name for _, name, _, _ in Formatter().parse(self.claim) if name]


class LibraryKernel(CatalogueModel):
    """Kernels of a library, by a pattern of their names, and what to change in the program that calls them."""

    kernel: str
    advice: list[Advice]


class Signal(CatalogueModel):
    """A quantity that the rules share; ``on.<family>`` lists the expressions that compute it, best first.

    ``label`` names the unit if the signal is a load; ``whole`` marks a share of a whole, which cannot exceed 100 %.
    ``deduced.<family>`` lists further expressions for a load whose own counters are missing, each after the words that
    say how near its value is ("at most", "at least").
    """

    name: str
    label: str = ""
    unit: str
    title: str
    whole: bool = False
    on: dict[str, list[str]]
    deduced: dict[str, list[tuple[str, str]]] = {}


class Part(CatalogueModel):
    """A part of an account; the parts of a family and view add up to 100 %, with what was not counted.

    ``on.<family>`` lists the expressions of its share in percent, best first. A part that ``stands_for`` others is used
    if one of those that the family has was not counted.
    """

    name: str
    view: Literal["device", "waves"] = "waves"
    title: str
    stands_for: list[str] = []
    on: dict[str, list[str]]


class Change(CatalogueModel):
    """A kind of change of a program, and what decides its gain; expressions are SQL as those of rules.

    ``when`` decides whether it applies, ``part`` is the share of the time that it addresses in percent, ``lifts`` and
    ``dense`` are those of rules, ``bound`` is the most that the change itself allows.
    """

    name: str
    title: str
    gpus: list[str] | None = None
    when: str
    part: str
    lifts: list[str] = []
    dense: bool = False
    bound: str | None = None

    @property
    def expressions(self) -> list[str]:
        """All expressions that are evaluated for the change."""
        return [self.when, self.part, *([self.bound] if self.bound else [])]


@cache
def changes(target: str) -> tuple[Change, ...]:
    """The changes whose effect a target's metrics can show, without bounds that the target cannot evaluate."""
    stated = files.rule_entries("change", Change)
    here = [entry_in_vendor_terms(change, target) for change in stated if targets.holds(change.gpus, target)]
    trees([e for change in here for e in change.expressions])
    known = [change for change in here if usable(target, change.when) and usable(target, change.part)]
    return tuple(
        change if change.bound is None or usable(target, change.bound) else change.model_copy(update={"bound": None})
        for change in known
    )


@cache
def parts(target: str) -> dict[str, tuple[Part, tuple[str, ...]]]:
    """The parts of the accounts that a target's metrics can show, each with its expressions, by name."""
    family = targets.gpu(target).family
    stated = files.rule_entries("part", Part)
    names = {part.name for part in stated if family in part.on}
    here = {
        part.name: (part.model_copy(update={"stands_for": [n for n in part.stands_for if n in names]}), part.on[family])
        for part in (entry_in_vendor_terms(part, target) for part in stated)
        if part.name in names
    }
    trees([expression for _, every in here.values() for expression in every])
    known = {name: (part, tuple(e for e in every if usable(target, e))) for name, (part, every) in here.items()}
    return {name: each for name, each in known.items() if each[1]}


@cache
def signals_and_rules() -> tuple[tuple[Signal, ...], tuple[Rule, ...]]:
    """All signals and rules in rules/*.toml. Raises BadInput for an invalid entry."""
    signals, rules = files.rule_entries("signal", Signal), files.rule_entries("rule", Rule, "id")
    for rule in rules:
        if compares_quantities(rule.when):
            raise BadInput(
                f"The rule {rule.id} compares two quantities with >= or <=",
                "0 >= 0 would hold although nothing was counted",
                "Use >",
            )
    return tuple(signals), tuple(rules)


@cache
def signals(target: str) -> dict[str, tuple[str, ...]]:
    """Signal -> its expressions on a target, best first; expressions with a metric that the target lacks are
    omitted."""
    family = targets.gpu(target).family
    stated_here = {
        s.name: [*s.on.get(family, []), *(sql for _, sql in s.deduced.get(family, []))] for s in signals_and_rules()[0]
    }
    trees([e for expressions in stated_here.values() for e in expressions])
    known = {name: tuple(e for e in every if _are_known(target, paths(e))) for name, every in stated_here.items()}
    return {name: expressions for name, expressions in known.items() if expressions}


@cache
def signal_sql(target: str) -> dict[str, str]:
    """Signal -> SQL for its value on a target: the first of its expressions whose metrics are available."""
    return {name: f"coalesce({', '.join(f'({e})' for e in every)})" for name, every in signals(target).items()}


@cache
def deduced_expressions(target: str) -> dict[str, dict[str, str]]:
    """Signal -> its expressions on a target that only deduce a value, each with the words for how near it is."""
    family, known = targets.gpu(target).family, signals(target)
    every = {s.name: {sql: how for how, sql in s.deduced.get(family, [])} for s in signals_and_rules()[0]}
    return {name: {sql: stated[sql] for sql in known.get(name, ()) if sql in stated} for name, stated in every.items()}


@cache
def share_sql(target: str) -> dict[str, str]:
    """The same as ``signal_sql``, only for the signals that are shares of a whole."""
    wholes = {s.name for s in signals_and_rules()[0] if s.whole}
    return {name: sql for name, sql in signal_sql(target).items() if name in wholes}


@cache
def _libraries() -> list[LibraryKernel]:
    stated = [e for document in files.documents("rules").values() for e in document.get("library", [])]
    return [files.validate_entry(LibraryKernel, e, "A library") for e in stated]


def library_kernel(kernel: str) -> LibraryKernel | None:
    """The library that a kernel belongs to by its name, or None."""
    return next((one for one in _libraries() if re.search(one.kernel, kernel)), None)


def title(signal: str, target: str) -> str:
    """The title of a signal."""
    return in_vendor_terms(next(s.title for s in signals_and_rules()[0] if s.name == signal), target)


@cache
def rules(target: str) -> tuple[Rule, ...]:
    """The rules that a target's metrics can decide, without supports and againsts that the target cannot evaluate."""
    here = [entry_in_vendor_terms(r, target) for r in signals_and_rules()[1] if targets.holds(r.gpus, target)]
    trees([e for r in here for e in r.expressions])
    decidable = []
    for rule in here:
        if usable(target, rule.when) and usable(target, rule.severity):
            conditions = {k: [e for e in getattr(rule, k) if usable(target, e)] for k in ("supports", "against")}
            decidable.append(rule.model_copy(update=conditions))
    return tuple(decidable)


def usable(target: str, expression: str) -> bool:
    """Whether every name in an expression is known on a target."""
    known = signals(target)
    return all(name in known or _are_known(target, [name]) for name in paths(expression))


def metrics_of(target: str, expression: str) -> list[str]:
    """The metrics that an expression is computed from, in order, using the first expression of each signal."""
    names = (name for name in _inputs_of(target, expression) if not name.startswith(FACT))
    return list(dict.fromkeys(name.removeprefix(PEAK) for name in names))


def facts_of(target: str, expression: str) -> list[str]:
    """The facts of the device that an expression is computed from, likewise."""
    return list(dict.fromkeys(name for name in _inputs_of(target, expression) if name.startswith(FACT)))


def _inputs_of(target: str, expression: str) -> list[str]:
    known = signals(target)
    return [inner for name in paths(expression) for inner in (paths(known[name][0]) if name in known else [name])]


def all_metrics(target: str) -> list[str]:
    """Every metric that the rules of a target can read."""
    every = [e for stated in signals(target).values() for e in stated]
    every += [e for rule in rules(target) for e in (*rule.expressions, *rule.claim_names)]
    every += [e for _, stated in parts(target).values() for e in stated]
    every += [e for change in changes(target) for e in change.expressions]
    return _metrics_in(target, every)


def _metrics_in(target: str, expressions: list[str]) -> list[str]:
    trees(expressions)
    here = metrics.by_name(target)
    return [m for m in dict.fromkeys(n.removeprefix(PEAK) for e in expressions for n in paths(e)) if m in here]


@cache
def metrics_of_limits(target: str) -> list[str]:
    """Every metric that the loads of units, and the rules that decide which unit is the limit, can read."""
    every = [e for name, given in signals(target).items() if name.startswith("load.") for e in given]
    every += [e for rule in rules(target) if rule.kind == "limit" for e in (rule.when, rule.severity)]
    return _metrics_in(target, every)


def _are_known(target: str, names: list[str]) -> bool:
    here = metrics.by_name(target)
    for name in names:
        if name.startswith(PEAK):
            metric = here.get(name.removeprefix(PEAK))
            if metric is None or not metric.peak:
                return False
        elif not name.startswith(FACT) and name not in here:
            return False
    return True
