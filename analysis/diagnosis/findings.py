"""What holds each kernel back: rules decided, ranked, worded and bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter

from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import paths
from ..catalogue.rules import Advice, Rule
from ..notes import Reason
from ..planning.plan import plan
from ..rooflines import limits
from ..rooflines.inputs import Asked, prepare
from ..workload import Workload
from . import score
from .evidence import Evidence, gather
from .figures import Case, Subject, Values, evaluate, subjects, void
from .score import Weighed

BOUNDS = {
    **dict.fromkeys(("hbm", "l2", "vl1d", "lds", "fabric", "scratch", "atomics"), "memory"),
    **dict.fromkeys(("valu", "sfu", "matrix", "salu", "divergence"), "compute"),
    **dict.fromkeys(("dispatch", "occupancy", "latency", "barrier", "instruction_fetch"), "latency"),
    "unknown": "unknown",
}
"""What kind of limit each subsystem is."""
_MOST = 8
"""Metrics named in one request: more belongs into a preset."""
_FLAT = 10_000


@dataclass(frozen=True)
class Verdict:
    """What holds the kernel back first. Below a confidence of 0.5, missing counters may overturn it.

    ``doubt`` is why the figures that decide it are not to be trusted, where a check doubts them.
    """

    subsystem: str
    bound: str
    confidence: float
    speedup_bound: float | None
    doubt: Reason | None = None


@dataclass(frozen=True)
class Finding:
    """What speaks for one subsystem; severity is 0 to 100. ``tried`` is what came of earlier changes of the kernel."""

    subsystem: str
    severity: float
    claim: str
    speedup_bound: float | None
    evidence: list[Evidence]
    contradicting: list[Evidence]
    advice: list[Advice]
    falsify: str | None
    tried: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Request:
    """Metrics that would decide between subsystems, and the runs of the program that it takes to collect them."""

    metrics: list[str]
    decides: list[str]
    passes: int


@dataclass(frozen=True)
class Diagnosis:
    """One kernel: its rank and share of the time, the verdict, findings by weight, and what would decide.

    ``number`` is what it can be asked for by, after a #: of a launch configuration the rank of its kernel and its own.
    """

    rank: int
    number: str
    kernel: str
    share_pct: float | None
    launches: int
    verdict: Verdict
    findings: list[Finding]
    next_counters: list[Request]
    undecided: list[str]
    """What stays open and why, where collecting counters would not help."""


def diagnose(workload: Workload, *, kernel: str | None = None, limit: int | None = None) -> tuple[list[Diagnosis], int]:
    """The diagnoses of the kernels asked for, longest total time first, at most ``limit``, and how many there are.

    Raises BadInput for a device without rules or a profile without counters, NotFound where no kernel fits.
    """
    target = workload.arch
    kernels, total = subjects(workload, kernel, limit)
    stated = rules.rules(target)
    # A name alone is an expression, so that claims and evidence get the values of signals too.
    expressions = [n for rule in stated for e in rule.expressions for n in [*paths(e), e]]
    values = evaluate(workload.cursor, target, kernels, [*expressions, *(n for rule in stated for n in rule.claimed)])
    views, voids = _views(workload, kernels), void(workload.cursor, target, kernels, values)
    cases = [
        Case(workload.id, target, subject, of_kernel, empty, views.get(subject.kernel))
        for subject, of_kernel, empty in zip(kernels, values, voids, strict=True)
    ]
    return [_diagnosis(case, stated) for case in cases], total


def _views(workload: Workload, subjects: list[Subject]) -> dict[str, limits.KernelLimits]:
    """The mixed-pipe view of each kernel."""
    if not subjects:
        return {}
    prepared = prepare(workload, Asked(kernel=[s.kernel for s in subjects]))
    return {work.kernel: limits.of_kernel(prepared, work) for work in prepared.collected.groups}


def _diagnosis(case: Case, stated: tuple[Rule, ...]) -> Diagnosis:
    weighed = score.behind_the_gate([score.weigh(rule, case.values, case.void) for rule in stated])
    chosen = score.best(weighed)
    doubt = _doubt(case, chosen.rule) if chosen else None
    by_subsystem: dict[str, list[Weighed]] = {}
    for one in sorted((w for w in weighed if w.state == "holds"), key=lambda w: w.order):
        by_subsystem.setdefault(one.rule.subsystem, []).append(one)
    open_rules = [w.rule for w in score.doubts(weighed, chosen)]
    subsystem = chosen.rule.subsystem if chosen else "unknown"
    bound = speedup_bound(chosen.rule, case) if chosen else None
    return Diagnosis(
        rank=case.subject.rank,
        number=case.subject.number,
        kernel=case.subject.kernel,
        share_pct=case.subject.share_pct,
        launches=case.subject.launches,
        verdict=Verdict(
            subsystem, BOUNDS[subsystem], round(score.confidence(weighed, chosen, doubt is not None), 3), bound, doubt
        ),
        findings=[_finding(case, holding) for holding in by_subsystem.values()],
        next_counters=requests(case, open_rules),
        undecided=undecided(case, open_rules),
    )


def _doubt(case: Case, rule: Rule) -> Reason | None:
    """Why a figure that decides a rule is not to be trusted."""
    read = dict.fromkeys(m for e in (rule.when, rule.severity) for m in rules.metrics_of(case.target, e))
    reasons = (f.reason for name in read if (f := case.subject.figures.get(name)) is not None)
    return next((reason for reason in reasons if reason and reason.code == "doubted"), None)


def _finding(case: Case, holding: list[Weighed]) -> Finding:
    """All rules of one subsystem as one finding; the first gives severity, bound and what would falsify it."""
    first = holding[0]
    if first.rule.kind == "cause":
        holding = [w for w in holding if w.rule.kind == "cause"]  # it says already what limits and signs would repeat
    supports = [e for e, true in first.supports.items() if true]
    opposed = [e for e, true in first.against.items() if true]
    decided = list(dict.fromkeys(w.rule.when for w in holding))
    # Signs are more specific than what they belong to: what they advise goes first.
    advice = {a.do: a for w in sorted(holding, key=lambda w: w.rule.kind != "sign") for a in w.rule.advice}
    return Finding(
        subsystem=first.rule.subsystem,
        severity=first.severity,
        claim=" ".join(claim(w.rule, case.values) for w in holding),
        speedup_bound=speedup_bound(first.rule, case),
        evidence=gather(case, [*decided, *supports]),
        contradicting=gather(case, opposed),
        advice=list(advice.values()),
        falsify=first.rule.falsify,
    )


def speedup_bound(rule: Rule, case: Case) -> float | None:
    """Run time over the greatest least time of the pipes and levels that the fix leaves loaded, at least 1.

    Everything is taken to overlap perfectly and to run at its ceiling, so the figure is an upper bound; pipes that
    were not counted could only lower it. None where nothing is known that bounds it.
    """
    if rule.kind == "gate":
        return None
    loads = {name: s for name, s in case.view.shares.items() if s.value is not None} if case.view else {}
    left = [(s.value or 0.0, s.spare if rule.dense else 0.0) for name, s in loads.items() if name not in rule.lifts]
    shares = [value - spare for value, spare in left if spare is not None and value > spare]
    own_load = rule.kind == "limit" and rule.subsystem not in {*loads, *rule.lifts}
    if own_load and (load := case.values.get(rule.severity)):
        shares.append(load / 100)
    bounds = [1 / max(shares)] if shares else []
    own = case.values.get(rule.bound) if rule.bound else None
    if own is not None:
        bounds.append(own)
    return max(1.0, min(bounds)) if bounds else None


def claim(rule: Rule, values: Values) -> str:
    """The rule's sentence with its figures; what is unknown is called so."""
    parts = []
    for text, name, _, _ in Formatter().parse(rule.claim):
        parts += [text, number(values.get(name)) if name else ""]
    return "".join(parts)


def number(value: float | None) -> str:
    """Three digits, without exponents where people do not write them."""
    if value is None:
        return "an unknown number of"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < _FLAT else f"{value:.3g}"


def requests(case: Case, open_rules: list[Rule]) -> list[Request]:
    """One request per kind of rule, those first that go before the others."""
    wanted = []
    for kind in rules.KINDS:
        here = [rule for rule in open_rules if rule.kind == kind]
        metrics = list(dict.fromkeys(m for r in here for e in (r.when, r.severity) for m in lacking(case, e)))[:_MOST]
        if metrics:
            subsystems = list(dict.fromkeys(rule.subsystem for rule in here))
            wanted.append(Request(metrics, subsystems, len(plan(case.target, metrics).passes)))
    return wanted


def undecided(case: Case, open_rules: list[Rule]) -> list[str]:
    """Why rules stay open whose counters are all there: figures that cannot be, or facts that the profile lacks."""
    sentences = []
    for rule in open_rules:
        decisive = (rule.when, rule.severity)
        if any(lacking(case, e) for e in decisive):
            continue
        for name in dict.fromkeys(m for e in decisive for m in rules.metrics_of(case.target, e)):
            figure = case.subject.figures.get(name)
            if figure is not None and figure.reason and case.subject.inputs.get(name) is None:
                sentences.append(f"{rule.subsystem}: {name}: {figure.reason}")
    return list(dict.fromkeys(sentences))


def lacking(case: Case, expression: str) -> list[str]:
    """The metrics an expression needs whose counters were not collected and can be; what is 0/0 was collected."""
    known = catalog.by_name(case.target)
    names = [m for n in paths(expression) if case.values.get(n) is None for m in rules.metrics_of(case.target, n)]
    unknown = [n for n in dict.fromkeys(names) if case.subject.inputs.get(n) is None and n in known]
    missing = [n for n in unknown if n not in case.subject.undefined]
    return [n for n in missing if not known[n].imported_only and catalog.counters(case.target, known[n])]
