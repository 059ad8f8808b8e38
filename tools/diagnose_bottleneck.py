"""diagnose_bottleneck: what holds each kernel back, the figures that say so, and what to try."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
from pydantic import Field

from ..analysis import experiments
from ..analysis.catalogue import targets
from ..analysis.diagnosis import findings, score
from ..analysis.diagnosis.evidence import Evidence
from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .results import NextCall, Result

_ADVICE = 2
"""Actions named for the first finding of a kernel; detail="full" has all of all."""
_NAME = 120
"""Characters of a kernel's name in a summary, where its rank names it: templates fill pages."""
_CHANGE = 100
"""Characters of an earlier change that are repeated."""


class Figure(pydantic.BaseModel):
    """One figure behind a finding; ``sql`` reproduces it with query_counters (detail="full" has it everywhere)."""

    metric: str
    value: float | None
    unit: str
    threshold: str | None
    status: str
    reason: str | None = None
    sql: str | None = None


class Finding(pydantic.BaseModel):
    """What speaks for one subsystem; severity is 0 to 100."""

    subsystem: str
    severity: float
    claim: str
    speedup_bound: float | None
    evidence: list[Figure] = []
    contradicting: list[Figure] = []
    advice: list[str] = []
    falsify: str | None = None
    tried: list[str] = []


class Verdict(pydantic.BaseModel):
    """What holds the kernel back first. Below a confidence of 0.5, missing counters may overturn it."""

    subsystem: str
    bound: str
    confidence: float
    speedup_bound: float | None


class Request(pydantic.BaseModel):
    """Metrics that would decide between subsystems, and the runs of the program that it takes."""

    metrics: list[str]
    decides: list[str]
    passes: int


class KernelDiagnosis(pydantic.BaseModel):
    """One kernel: its share of the time, the verdict, and the findings, the weightiest first."""

    rank: int
    kernel: str
    share_pct: float | None
    launches: int
    verdict: Verdict
    findings: list[Finding]
    next_counters: list[Request] = []
    undecided: list[str] = []


class DiagnosisResult(Result):
    """The kernels diagnosed, longest total time first."""

    workload: str
    name: str
    arch: str | None
    total_kernels: int
    kernels: list[KernelDiagnosis]


def diagnose_bottleneck(
    store: Store,
    workload: str = "latest",
    kernel: str | None = None,
    top_n: Annotated[int, Field(ge=1, le=50, description="kernels, and findings of each")] = 3,
    detail: Literal["summary", "full"] = "summary",
) -> DiagnosisResult:
    """What holds each kernel back: subsystem, confidence, evidence with SQL, contradictions, advice, an upper bound
    of the speed-up, and the counters that would decide what is open."""
    with Workload.open(store, workload) as opened:
        found, total = findings.diagnose(opened, kernel=kernel, limit=top_n)
    manifest = opened.manifest
    shown = [_kernel(store, one, top_n, detail == "full", first=not i) for i, one in enumerate(found)]
    return DiagnosisResult(
        workload=manifest.id,
        name=manifest.name,
        arch=manifest.arch,
        total_kernels=total,
        kernels=shown,
        notes=_notes(manifest, found, total),
        next=_next(manifest, found),
    )


def _kernel(store: Store, one: findings.Diagnosis, top_n: int, full: bool, first: bool) -> KernelDiagnosis:
    """One kernel; evidence and advice of its verdict, of the first kernel's other findings the evidence too."""
    share = None if one.share_pct is None else round(one.share_pct, 2)
    return KernelDiagnosis(
        rank=one.rank,
        kernel=one.kernel if full or len(one.kernel) <= _NAME else one.kernel[:_NAME] + "...",
        share_pct=share,
        launches=one.launches,
        verdict=Verdict(
            subsystem=one.verdict.subsystem,
            bound=one.verdict.bound,
            confidence=one.verdict.confidence,
            speedup_bound=_rounded(one.verdict.speedup_bound),
        ),
        findings=[
            _finding(store, one.kernel, found, full, leading=not place, first=first)
            for place, found in enumerate(one.findings[:top_n])
        ],
        next_counters=[
            Request(metrics=list(r.metrics), decides=list(r.decides), passes=r.passes) for r in one.next_counters
        ],
        undecided=one.undecided,
    )


def _finding(store: Store, kernel: str, found: findings.Finding, full: bool, leading: bool, first: bool) -> Finding:
    advice = found.advice if full else found.advice[:_ADVICE] if leading else found.advice[:1]
    return Finding(
        subsystem=found.subsystem,
        severity=round(found.severity, 1),
        claim=found.claim,
        speedup_bound=_rounded(found.speedup_bound),
        evidence=[
            _figure(e, full or leading) for e in found.evidence if full or ((leading or first) and e.met is not False)
        ],
        contradicting=[_figure(e, full or leading) for e in found.contradicting],
        advice=[f"{a.do} ({a.source})" for a in advice],
        falsify=found.falsify if full or leading else None,
        tried=[line for a in advice for line in _tried(store, kernel, a.do)],
    )


def _figure(found: Evidence, with_sql: bool) -> Figure:
    return Figure(
        metric=found.metric,
        value=found.value,
        unit=found.unit,
        threshold=found.threshold,
        status=found.status,
        reason=found.reason,
        sql=found.sql if with_sql else None,
    )


def _tried(store: Store, kernel: str, idea: str) -> list[str]:
    """What came of the same idea on this kernel before, in words."""
    lines = []
    for earlier in experiments.already_tried(store, kernel, idea)[:1]:
        gain = "" if earlier.outcome.speedup is None else f", {earlier.outcome.speedup:.3g} times as fast"
        lines.append(f"tried before: {earlier.entry.change[:_CHANGE]!r}: {earlier.outcome.verdict}{gain}")
    return lines


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


def _notes(manifest: Manifest, found: list[findings.Diagnosis], total: int) -> list[str]:
    notes = [
        "speedup_bound is an upper bound for the same work: pipes and memory levels overlap perfectly and run at their "
        "ceilings. 1 means at the ceiling: only less work helps. evidence.sql runs in query_counters."
    ]
    if unsure := [f"#{d.rank}" for d in found if d.verdict.confidence < score.CONFIDENT]:
        notes.append(
            f"Not certain for {', '.join(unsure)}: counters that would decide are missing; do not act on it yet."
        )
    if total > len(found):
        notes.append(f"{total - len(found)} shorter kernels are not shown; kernel= or top_n= shows them.")
    if not targets.gpu(manifest.arch or "").validated_on_hardware:
        notes.append(f"The rules for {manifest.arch} are checked against recorded profiles, not yet on hardware.")
    return notes


def _next(manifest: Manifest, found: list[findings.Diagnosis]) -> list[NextCall]:
    """Built from ids, metric names and ranks only."""
    calls = []
    open_ones = [d for d in found if d.next_counters]
    if open_ones:
        metrics = list(dict.fromkeys(m for r in open_ones[0].next_counters for m in r.metrics))
        calls.append(
            NextCall(
                tool="plan_profile",
                arguments={"gpu": manifest.arch, "metrics": metrics},
                why=f"the counters that would decide for #{open_ones[0].rank}",
            )
        )
    first = found[0]
    arguments = {"workload": manifest.id, "kernel": f"#{first.rank}"}
    if first.verdict.subsystem == "occupancy":
        calls.append(NextCall(tool="compute_occupancy", arguments=arguments, why="the smallest change for more waves"))
    else:
        calls.append(
            NextCall(tool="compute_roofline", arguments=arguments, why="how far each pipe is from its ceiling")
        )
    return calls
