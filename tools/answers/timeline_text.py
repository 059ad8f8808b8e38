"""A timeline in words: the sentence that answers, where the time goes, what to try, then the details."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.base.text import figure
from ...analysis.timeline.verdict import ApplicationFinding, ApplicationVerdict
from ..base.results import Block
from .sentences import sentence


def timeline_answer(verdict: ApplicationVerdict, findings: Sequence[ApplicationFinding]) -> str:
    """Return the claim of the verdict with its bound and confidence; that it is unknown, if no finding decides."""
    if verdict.height == "unknown" or not findings:
        return sentence("timeline.unknown")
    bound = verdict.speedup_bound
    return sentence(
        "timeline.verdict",
        claim=findings[0].claim,
        bound="" if bound is None else sentence("timeline.bound", bound=float(f"{bound:.3g}")),
        confidence=verdict.confidence,
    )


def finding_blocks(findings: Sequence[ApplicationFinding]) -> list[Block]:
    """Return what takes the time with its evidence, and what to try; the answer already has the first claim."""
    lines: list[str] = []
    for finding in findings:
        bound = finding.speedup_bound
        gain = "" if bound is None else f"; at most {figure(bound, 3)} times as fast without it"
        lines.append(f"- {finding.height} {figure(finding.share_pct, 3)} % of the wall time{gain}")
        lines += [f"  {text}" for text in finding.evidence]
        lines += [f"  try: {text}" for text in finding.advice]
        lines += [f"  refuted if: {finding.falsify}"] if finding.falsify else []
    return [Block("findings", lines)]
