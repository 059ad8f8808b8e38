"""Diagnoses the kernels of a workload: one finding per subsystem, a verdict, and what to collect to be surer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import mixed, rules, scene
from ..database import connect
from ..formula import paths
from ..rules import Advice, Rule
from ..store import Manifest, Store
from . import score
from .bounds import BOUNDS, speedup_bound
from .claims import claim
from .conditions import evaluate
from .evidence import Evidence, gather
from .inputs import Subject, subjects
from .missing import Request, requests, undecided
from .score import Weighed

if TYPE_CHECKING:
    import duckdb


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


def diagnose(
    store: Store, manifest: Manifest, *, kernel: str | None = None, limit: int | None = None
) -> tuple[list[Diagnosis], int]:
    """The diagnoses of the kernels asked for, longest total time first, at most ``limit``, and how many there are.

    Raises BadInput for a device without rules or a profile without counters, NotFound where no kernel fits.
    """
    target = manifest.arch or ""
    with closing(connect()) as con:
        found, total = subjects(con, store, manifest, kernel, limit)
        known = rules.rules(target)
        # A name alone is an expression, so that claims and evidence get the values of signals too.
        names = [n for r in known for e in _expressions(r) for n in [*paths(e), e]]
        values = evaluate(con, target, found, [*names, *(n for r in known for n in r.claimed)])
        views = _views(con, store, manifest, found)
    return [
        _diagnosis(manifest, subject, known, figures, views.get(subject.kernel))
        for subject, figures in zip(found, values, strict=True)
    ], total


def _diagnosis(
    manifest: Manifest,
    subject: Subject,
    known: tuple[Rule, ...],
    values: dict[str, float | None],
    view: mixed.View | None,
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
    view: mixed.View | None,
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


def _views(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, found: list[Subject]
) -> dict[str, mixed.View]:
    """The mixed-pipe view of each kernel."""
    if not found:
        return {}
    wanted = ",".join(f"#{s.rank}" for s in found)
    prepared = scene.prepare(con, store, manifest, wanted, None, "kernel", "empirical", {}, len(found), 0)
    return {
        done.kernel: mixed.view(
            prepared.formulas, prepared.target, done, prepared.collected, prepared.ceilings, prepared.theory
        )
        for done in prepared.collected.groups
    }


def _expressions(rule: Rule) -> list[str]:
    return [rule.when, rule.severity, *rule.supports, *rule.against, *([rule.bound] if rule.bound else [])]
