"""The diagnosis rules from rules/*.toml: conditions over metrics, claims, advice, and what would falsify a claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from string import Formatter
from typing import Literal, TypeVar

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


class _Conditional(CatalogueModel):
    """What applies to a kernel if ``when`` holds, on the targets ``gpus``; unknown (NULL) means that counters are
    missing.

    ``lifts`` lists the pipes and levels of the mixed-pipe view whose load a perfect change would remove; ``dense``
    means that it reduces the load of the others to the bytes that threads requested; ``bound`` is an additional bound
    of the speed-up.
    """

    gpus: list[str] | None = None
    when: str
    lifts: list[str] = []
    dense: bool = False
    bound: str | None = None

    @property
    def decisive(self) -> tuple[str, ...]:
        """The expressions without which nothing is known."""
        return (self.when,)

    @property
    def expressions(self) -> list[str]:
        """All expressions that are evaluated."""
        return [*self.decisive, *([self.bound] if self.bound else [])]


class Rule(_Conditional):
    """One way in which a subsystem holds a kernel back. Expressions are SQL over names of metrics and signals.

    ``severity`` (0-100) ranks rules of one kind; ``most`` is the highest severity that kernels reach, which makes
    limits of units comparable. ``supports`` and ``against`` raise and lower the confidence. A verdict does not stay
    open because of ``optional`` rules with missing counters, as no profiler is asked to collect those. ``change`` is
    the kind of change that advice without its own one is.
    """

    id: str
    subsystem: str
    kind: RuleKind
    severity: str
    most: float = pydantic.Field(default=100.0, gt=0, le=100)
    claim: str
    supports: list[str] = []
    against: list[str] = []
    optional: bool = False
    change: str | None = None
    advice: list[Advice]
    falsify: str

    @property
    def decisive(self) -> tuple[str, ...]:
        """The condition and the severity."""
        return self.when, self.severity

    @property
    def expressions(self) -> list[str]:
        """All expressions that are evaluated for the rule."""
        return [*super().expressions, *self.supports, *self.against]

    @property
    def claim_names(self) -> list[str]:
        """The metrics and signals whose values the claim shows."""
        return [name for _, name, _, _ in Formatter().parse(self.claim) if name]


class LibraryKernel(CatalogueModel):
    """Kernels of a library, by a pattern of their names, and what to change in the program that calls them."""

    kernel: str
    advice: list[Advice]


class _FamilyExpressions(CatalogueModel):
    """A figure that is computed from metrics; ``on.<family>`` lists the expressions that compute it, best first."""

    name: str
    title: str
    on: dict[str, list[str]]
    expressions: tuple[str, ...] = ()
    """Those of a target that it can evaluate; the data files do not state them."""

    def of_family(self, family: str) -> list[str]:
        """Every expression for a family."""
        return self.on.get(family, [])


class Signal(_FamilyExpressions):
    """A quantity that the rules share.

    ``label`` names the unit if the signal is a load; ``whole`` marks a share of a whole, which cannot exceed 100 %.
    ``deduced.<family>`` lists further expressions for a load whose own counters are missing, each after the words that
    say how near its value is ("at most", "at least").
    """

    label: str = ""
    unit: str
    whole: bool = False
    deduced: dict[str, list[tuple[str, str]]] = {}

    def of_family(self, family: str) -> list[str]:
        """Every expression for a family, those that only deduce the value last."""
        return [*super().of_family(family), *(sql for _, sql in self.deduced.get(family, []))]

    @property
    def sql(self) -> str:
        """SQL for its value on a target: the first of its expressions whose metrics are available."""
        return f"coalesce({', '.join(f'({e})' for e in self.expressions)})"

    @property
    def deductions(self) -> dict[str, str]:
        """Its expressions that only deduce a value, each with the words for how near it is."""
        stated = {sql: how for ways in self.deduced.values() for how, sql in ways}
        return {sql: stated[sql] for sql in self.expressions if sql in stated}


class Part(_FamilyExpressions):
    """A part of an account in percent; the parts of a family and view add up to 100 %, with what was not counted.

    A part that ``stands_for`` others is used if one of those that the family has was not counted.
    """

    view: Literal["device", "waves"] = "waves"
    stands_for: list[str] = []


class Change(_Conditional):
    """A kind of change of a program, and what decides its gain; expressions are SQL as those of rules.

    ``part`` is the share of the time that it addresses in percent.
    """

    name: str
    title: str
    part: str

    @property
    def decisive(self) -> tuple[str, ...]:
        """The condition and the share."""
        return self.when, self.part


_Judged = TypeVar("_Judged", bound=_Conditional)
_Computed = TypeVar("_Computed", bound=_FamilyExpressions)


def _decidable(stated: Iterable[_Judged], target: str) -> list[_Judged]:
    """The entries that a target's metrics can decide, without bounds that the target cannot evaluate."""
    here = [entry_in_vendor_terms(one, target) for one in stated if targets.holds(one.gpus, target)]
    trees([e for one in here for e in one.expressions])
    decidable = [one for one in here if all(usable(target, e) for e in one.decisive)]
    return [
        one if one.bound is None or usable(target, one.bound) else one.model_copy(update={"bound": None})
        for one in decidable
    ]


def _computable(
    stated: Iterable[_Computed], target: str, is_usable: Callable[[str, str], bool]
) -> dict[str, _Computed]:
    """The entries of which a target can evaluate an expression, by name, with those expressions."""
    family = targets.gpu(target).family
    every = [(one, one.of_family(family)) for one in stated]
    trees([e for _, expressions in every for e in expressions])
    usable_here = ((one, tuple(e for e in expressions if is_usable(target, e))) for one, expressions in every)
    return {one.name: one.model_copy(update={"expressions": kept}) for one, kept in usable_here if kept}


@cache
def changes(target: str) -> tuple[Change, ...]:
    """The changes whose effect a target's metrics can show."""
    return tuple(_decidable(files.rule_entries("change", Change), target))


@cache
def parts(target: str) -> dict[str, Part]:
    """The parts of the accounts that a target's metrics can show, by name."""
    stated = [part for part in files.rule_entries("part", Part) if part.of_family(targets.gpu(target).family)]
    names = {part.name for part in stated}
    known = _computable((entry_in_vendor_terms(part, target) for part in stated), target, usable)
    return {
        name: part.model_copy(update={"stands_for": [n for n in part.stands_for if n in names]})
        for name, part in known.items()
    }


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
def signals(target: str) -> dict[str, Signal]:
    """The signals of a target by name; expressions with a metric that the target lacks are omitted."""
    known = _computable(signals_and_rules()[0], target, _reads_known_metrics)
    return {n: s.model_copy(update={"title": in_vendor_terms(s.title, target)}) for n, s in known.items()}


@cache
def _libraries() -> list[LibraryKernel]:
    return files.rule_entries("library", LibraryKernel, "kernel")


def library_kernel(kernel: str) -> LibraryKernel | None:
    """The library that a kernel belongs to by its name, or None."""
    return next((one for one in _libraries() if re.search(one.kernel, kernel)), None)


@cache
def rules(target: str) -> tuple[Rule, ...]:
    """The rules that a target's metrics can decide, without supports and againsts that the target cannot evaluate."""
    return tuple(
        rule.model_copy(update={k: [e for e in getattr(rule, k) if usable(target, e)] for k in ("supports", "against")})
        for rule in _decidable(signals_and_rules()[1], target)
    )


def usable(target: str, expression: str) -> bool:
    """Whether every name in an expression is known on a target."""
    known = signals(target)
    return all(name in known or _is_known(target, name) for name in paths(expression))


def _reads_known_metrics(target: str, expression: str) -> bool:
    return all(_is_known(target, name) for name in paths(expression))


def _is_known(target: str, name: str) -> bool:
    """Whether a target has a metric, a peak of a metric, or may have a fact."""
    here = metrics.by_name(target)
    if name.startswith(PEAK):
        metric = here.get(name.removeprefix(PEAK))
        return metric is not None and bool(metric.peak)
    return name.startswith(FACT) or name in here


def metrics_of(target: str, expression: str) -> list[str]:
    """The metrics that an expression is computed from, in order, using the first expression of each signal."""
    names = (name for name in _inputs_of(target, expression) if not name.startswith(FACT))
    return list(dict.fromkeys(name.removeprefix(PEAK) for name in names))


def facts_of(target: str, expression: str) -> list[str]:
    """The facts of the device that an expression is computed from, likewise."""
    return list(dict.fromkeys(name for name in _inputs_of(target, expression) if name.startswith(FACT)))


def _inputs_of(target: str, expression: str) -> list[str]:
    known = signals(target)
    return [
        inner
        for name in paths(expression)
        for inner in (paths(known[name].expressions[0]) if name in known else [name])
    ]


def all_metrics(target: str) -> list[str]:
    """Every metric that the rules of a target can read."""
    every = [e for one in (*signals(target).values(), *parts(target).values()) for e in one.expressions]
    every += [e for rule in rules(target) for e in (*rule.expressions, *rule.claim_names)]
    every += [e for change in changes(target) for e in change.expressions]
    return _metrics_in(target, every)


def _metrics_in(target: str, expressions: list[str]) -> list[str]:
    trees(expressions)
    here = metrics.by_name(target)
    return [m for m in dict.fromkeys(n.removeprefix(PEAK) for e in expressions for n in paths(e)) if m in here]


@cache
def metrics_of_limits(target: str) -> list[str]:
    """Every metric that the loads of units, and the rules that decide which unit is the limit, can read."""
    every = [e for name, one in signals(target).items() if name.startswith("load.") for e in one.expressions]
    every += [e for rule in rules(target) if rule.kind == "limit" for e in rule.decisive]
    return _metrics_in(target, every)
