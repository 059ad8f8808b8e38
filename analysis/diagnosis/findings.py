"""What holds each kernel back: rules decided, ranked, worded and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import paths
from ..catalogue.rules import Advice, Rule
from ..planning.plan import plan
from ..rooflines import limits
from ..rooflines.inputs import Asked, prepare
from ..rooflines.limits import KernelLimits
from ..store import Manifest
from ..workload import Workload
from . import score
from .evidence import Evidence, gather
from .figures import Subject, evaluate, subjects
from .score import Weighed

if TYPE_CHECKING:
    pass


BOUNDS = {
    **dict.fromkeys(("hbm", "l2", "vl1d", "lds", "fabric", "scratch", "atomics"), "memory"),
    **dict.fromkeys(("valu", "sfu", "matrix", "salu", "divergence"), "compute"),
    **dict.fromkeys(("dispatch", "occupancy", "latency", "barrier", "instruction_fetch"), "latency"),
    "unknown": "unknown",
}
"""What kind of limit each subsystem is."""


def speedup_bound(rule: Rule, view: KernelLimits | None, values: dict[str, float | None]) -> float | None:
    """Run time over the greatest least time of the pipes and levels that the fix leaves loaded, at least 1.

    Everything is taken to overlap perfectly and to run at its ceiling, so the figure is an upper bound; pipes that
    were not counted could only lower it. None where nothing is known that bounds it.
    """
    known = {name: s.value for name, s in view.shares.items() if s.value is not None} if view else {}
    shares = [share for name, share in known.items() if share and name not in rule.lifts]
    if rule.kind == "limit" and rule.subsystem not in known and (load := values.get(rule.severity)):
        shares.append(load / 100)
    bounds = [1 / max(shares)] if shares else []
    own = values.get(rule.bound) if rule.bound else None
    if own is not None:
        bounds.append(own)
    return max(1.0, min(bounds)) if bounds else None


_FLAT = 10_000


def claim(rule: Rule, figures: Mapping[str, float | None]) -> str:
    """The rule's sentence with its figures; what is unknown is called so."""
    parts = []
    for text, name, _, _ in Formatter().parse(rule.claim):
        parts += [text, number(figures.get(name)) if name else ""]
    return "".join(parts)


def number(value: float | None) -> str:
    """Three digits, without exponents where people do not write them."""
    if value is None:
        return "an unknown number of"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < _FLAT else f"{value:.3g}"


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


@dataclass(frozen=True)
class Finding:
    """What speaks for one subsystem. ``rules`` are those that hold, the weightiest first; severity is 0 to 100."""

    subsystem: str
    rules: tuple[str, ...]
    severity: float
    claim: str
    evidence: list[Evidence]
    contradicting: list[Evidence]
    advice: list[Advice]
    falsify: str
    speedup_bound: float | None


@dataclass(frozen=True)
class Verdict:
    """The subsystem that holds the kernel back first; below ``score.CONFIDENT`` missing counters may overturn it."""

    subsystem: str
    bound: str
    confidence: float
    speedup_bound: float | None


@dataclass(frozen=True)
class Diagnosis:
    """One kernel: its rank and share of the time, the verdict, findings by weight, and what would decide."""

    rank: int
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
    found, total = subjects(workload, kernel, limit)
    known = rules.rules(target)
    # A name alone is an expression, so that claims and evidence get the values of signals too.
    names = [n for r in known for e in _expressions(r) for n in [*paths(e), e]]
    values = evaluate(workload.cursor, target, found, [*names, *(n for r in known for n in r.claimed)])
    views = _views(workload, found)
    return [
        _diagnosis(workload.manifest, subject, known, figures, views.get(subject.kernel))
        for subject, figures in zip(found, values, strict=True)
    ], total


def _diagnosis(
    manifest: Manifest,
    subject: Subject,
    known: tuple[Rule, ...],
    values: dict[str, float | None],
    view: KernelLimits | None,
) -> Diagnosis:
    weighed = [score.weigh(rule, values) for rule in known]
    chosen = score.best(weighed)
    by_subsystem: dict[str, list[Weighed]] = {}
    for one in sorted((w for w in weighed if w.state == "holds"), key=lambda w: w.order):
        by_subsystem.setdefault(one.rule.subsystem, []).append(one)
    findings = [_finding(manifest, subject, held, values, view) for held in by_subsystem.values()]
    unsure = score.doubts(weighed, chosen)
    subsystem = chosen.rule.subsystem if chosen else "unknown"
    bound = speedup_bound(chosen.rule, view, values) if chosen else None
    return Diagnosis(
        rank=subject.rank,
        kernel=subject.kernel,
        share_pct=subject.share_pct,
        launches=subject.launches,
        verdict=Verdict(subsystem, BOUNDS[subsystem], round(score.confidence(weighed, chosen), 3), bound),
        findings=findings,
        next_counters=requests(manifest.arch or "", subject, unsure, values),
        undecided=undecided(manifest.arch or "", subject, unsure, values),
    )


def _finding(
    manifest: Manifest,
    subject: Subject,
    held: list[Weighed],
    values: dict[str, float | None],
    view: KernelLimits | None,
) -> Finding:
    """All rules of one subsystem as one finding; the first gives severity, bound and what would falsify it."""
    first, target = held[0], manifest.arch or ""
    if first.rule.kind == "cause":
        held = [w for w in held if w.rule.kind == "cause"]  # it says already what limits and signs would repeat
    supports = [e for e, true in first.supports.items() if true]
    opposed = [e for e, true in first.against.items() if true]
    decided = list(dict.fromkeys(w.rule.when for w in held))
    # Signs are more specific than what they belong to: what they advise goes first.
    advice = {a.do: a for w in sorted(held, key=lambda w: w.rule.kind != "sign") for a in w.rule.advice}
    return Finding(
        subsystem=first.rule.subsystem,
        rules=tuple(w.rule.id for w in held),
        severity=first.severity,
        claim=" ".join(claim(w.rule, values) for w in held),
        evidence=gather(target, manifest.id, subject, [*decided, *supports], values),
        contradicting=gather(target, manifest.id, subject, opposed, values) if opposed else [],
        advice=list(advice.values()),
        falsify=first.rule.falsify,
        speedup_bound=speedup_bound(first.rule, view, values),
    )


def _views(workload: Workload, found: list[Subject]) -> dict[str, KernelLimits]:
    """The mixed-pipe view of each kernel."""
    if not found:
        return {}
    prepared = prepare(workload, Asked(kernel=[s.kernel for s in found]))
    return {work.kernel: limits.of_kernel(prepared, work) for work in prepared.collected.groups}


def _expressions(rule: Rule) -> list[str]:
    return [rule.when, rule.severity, *rule.supports, *rule.against, *([rule.bound] if rule.bound else [])]
