"""A diagnosis or a timeline in words: the sentence that answers, then findings with evidence and advice."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.base.kernel_names import short
from ...analysis.base.text import MOST_OF_TIME, count_text, figure
from ...analysis.catalogue.thresholds import threshold
from ...analysis.catalogue.vocabulary import in_vendor_terms, limit_words
from ...analysis.diagnosis.account import AccountPart
from ...analysis.diagnosis.evidence import CONFIDENT, Evidence
from ...analysis.diagnosis.findings import Diagnosis, Finding
from ...analysis.diagnosis.gains import ChangeGain
from ...analysis.timeline.busy import ProgramCeiling
from ...analysis.timeline.timeline import Application
from ...analysis.timeline.verdict import ApplicationFinding, ApplicationVerdict
from ..base.results import TextBlock
from .sentences import sentence
from .tables import table_from

_LEAST_PART_PCT, _SMALLEST_REST_PCT = 1.0, 0.05
_MOST_CHANGES = 4
_LEAST_SURE = threshold("diagnosis.application_first")
_NO_GAIN = 1.05
"""A kernel that can become at most this many times as fast is at its limit."""


def diagnosis_answer(
    whole: Application | None, kernels: Sequence[Diagnosis], total: int, target: str | None
) -> str | None:
    """Return the sentence that answers: about the application if its device is mostly idle, else the first kernel."""
    if whole is not None and (not kernels or (whole.kernels_come_second and whole.confidence >= _LEAST_SURE)):
        return sentence(
            "diagnosis.application",
            claim=whole.claim,
            bound=_bound_sentence("diagnosis.application_bound", whole.speedup_bound),
            confidence=whole.confidence,
            idle=whole.gpu_idle_pct,
            kernels="" if kernels else sentence("diagnosis.no_counters"),
        )
    if not kernels:
        return None
    text = kernel_sentence(kernels[0], target)
    return text + (sentence("diagnosis.others", shown=len(kernels), total=total) if total > len(kernels) else "")


def program_ceiling_text(ceiling: ProgramCeiling) -> str:
    """Say how close the program is to its ceiling, and how much of its kernels' time that rests on; or why it is
    unknown."""
    if ceiling.pct is None:
        return sentence("diagnosis.program_unknown", reason=ceiling.reason or "")
    path, wall = (figure((ns or 0.0) / 1e6, 3) for ns in (ceiling.path_ns, ceiling.wall_ns))
    return sentence(
        "diagnosis.program", pct=figure(ceiling.pct, 3), status=ceiling.status, path=path, wall=wall,
        known=figure(ceiling.known_pct, 3),
    )  # fmt: skip


def kernel_sentence(first: Diagnosis, target: str | None) -> str:
    """Say what limits a kernel, how much faster it could be, and how certain that is."""
    verdict = first.verdict
    named = {
        "kernel": short(first.kernel),
        "share": "" if first.share_pct is None else sentence("diagnosis.share", share=first.share_pct),
        "launches": count_text(first.launches, "launch"),
    }
    missing = [metric for request in first.next_counters for metric in request.metrics][:2]
    if verdict.subsystem == "unknown" or not first.findings:
        why = sentence("diagnosis.unknown_missing", metrics=", ".join(missing)) if missing else ""
        return sentence("diagnosis.unknown", why=why, **named)
    bound = _bound_sentence("diagnosis.kernel_bound", verdict.speedup_bound)
    if verdict.speedup_bound is not None and verdict.speedup_bound < _NO_GAIN:
        bound = sentence("diagnosis.kernel_no_gain")
    doubt = sentence("diagnosis.doubted") if verdict.doubt else ""
    if verdict.confidence < CONFIDENT and missing:
        doubt = sentence("diagnosis.missing")
    claim = first.findings[0].claim
    limit = limit_words(verdict.subsystem, verdict.beside, target=target)
    return sentence(
        "diagnosis.kernel", limit=limit, claim=claim, bound=bound, confidence=verdict.confidence, doubt=doubt, **named
    )


def bound_text(bound: float) -> str:
    """Return how many times as fast something becomes at most, or that it loses most of its time."""
    return "up to most of its time" if bound > MOST_OF_TIME else f"at most {figure(bound, 3)} times as fast"


def _bound_sentence(code: str, bound: float | None) -> str:
    """Return the sentence of a code on what something would be without its limit; empty if no bound is known."""
    if bound is None:
        return ""
    return sentence("diagnosis.most_of_time" if bound > MOST_OF_TIME else code, bound=float(f"{bound:.3g}"))


def diagnosis_blocks(kernels: Sequence[Diagnosis], target: str | None) -> list[TextBlock]:
    """Return the table of the kernels, and a block for each."""
    if not kernels:
        return []
    rows = []
    for d in kernels:
        limit = limit_words(d.verdict.subsystem, d.verdict.beside, target=target)
        rows.append({**vars(d), "number": f"#{d.number}", "limited_by": limit})
    return [TextBlock("kernels", table_from("diagnoses", rows)), *(_kernel_block(d, target) for d in kernels)]


def _kernel_block(one: Diagnosis, target: str | None) -> TextBlock:
    """What limits one kernel and why, what to try, and what is not known."""
    lines = [line for finding in one.findings for line in _finding_lines(finding)]
    lines += [f"hot line: {line}" for line in one.lines]
    if one.verdict.own_traffic:
        lines.append(f"traffic: {one.verdict.own_traffic}")
    if one.loads:
        lines.append(f"loads: {one.loads}")
    accounts = {"device time": one.device_time, in_vendor_terms("wave time", target): one.wave_time}
    lines += [f"{view}: {_account_text(account)}" for view, account in accounts.items() if account]
    if one.changes:
        lines.append(f"could gain (at most; expected): {', '.join(map(_change_text, one.changes[:_MOST_CHANGES]))}")
    for request in one.next_counters:
        decided = ", ".join(limit_words(name, target=target) for name in request.decides)
        passes = count_text(request.passes, "pass", "passes")
        lines.append(f"not known: {decided}; {', '.join(request.metrics)} would decide ({passes})")
    lines += [f"open: {text}" for text in one.undecided]
    return TextBlock(f"#{one.number} {short(one.kernel)}", lines)


def _change_text(gain: ChangeGain) -> str:
    most = "?" if gain.at_most is None else figure(gain.at_most, 2)
    return f"{gain.title} ({most}; {figure(gain.expected, 2)})"


def _account_text(account: Sequence[AccountPart]) -> str:
    """The parts of an account from 1 % on, and how much the others are together."""
    shown = [part for part in account if part.pct is None or part.pct >= _LEAST_PART_PCT]
    texts = [f"{part.title} {'contradictory' if part.pct is None else f'{part.pct:.3g} %'}" for part in shown]
    rest = sum(part.pct or 0.0 for part in account) - sum(part.pct or 0.0 for part in shown)
    return ", ".join([*texts, *([f"everything else {rest:.2g} %"] if rest >= _SMALLEST_REST_PCT else [])])


def _finding_lines(finding: Finding) -> list[str]:
    """One finding: the claim with its evidence, then what speaks against it, what to try, and what would refute it."""
    bound = "" if finding.speedup_bound is None else f" ({bound_text(finding.speedup_bound)})"
    evidence = "; ".join(map(_evidence_text, finding.evidence))
    lines = [f"- {finding.claim}{bound}{f' Evidence: {evidence}.' if evidence else ''}"]
    if finding.contradicting:
        lines.append(f"  against it: {'; '.join(map(_evidence_text, finding.contradicting))}")
    lines += [f"  try: {advice.text if advice.shown_for is None else advice}" for advice in finding.advice]
    if finding.then:
        lines.append(f"  then: {finding.then}")
    if finding.falsify:
        lines.append(f"  refuted if: {finding.falsify}")
    return [*lines, *(f"  {text}" for text in finding.tried)]


def _evidence_text(one: Evidence) -> str:
    """One figure with its unit and the threshold that it meets; a figure that is not certain says so."""
    if one.value is None:
        return f"{one.metric} unknown ({one.reason.text if one.reason else one.status})"
    unit = f" {one.unit}" if one.unit else ""
    missed = ", not met" if one.met is False else ""
    limit = f" ({one.threshold}{missed})" if one.threshold else ""
    doubt = "" if one.status == "ok" else f" [{one.status}]"
    return f"{one.metric} {figure(one.value)}{unit}{limit}{doubt}"


def timeline_answer(verdict: ApplicationVerdict, findings: Sequence[ApplicationFinding]) -> str:
    """Return the claim of the verdict with its bound and confidence; that it is unknown, if no finding decides."""
    if verdict.height == "unknown":
        return findings[0].claim if findings and findings[0].height == "unknown" else sentence("timeline.unknown")
    return sentence(
        "timeline.verdict",
        claim=findings[0].claim,
        bound=_bound_sentence("timeline.bound", verdict.speedup_bound),
        confidence=verdict.confidence,
    )


def finding_blocks(findings: Sequence[ApplicationFinding]) -> list[TextBlock]:
    """Return what takes the time with its evidence, and what to try; the answer already has the first claim."""
    lines: list[str] = []
    for finding in findings:
        bound = finding.speedup_bound
        gain = "" if bound is None else f"; {bound_text(bound)} without it"
        lines.append(f"- {finding.height} {figure(finding.share_pct, 3)} % of the wall time{gain}")
        lines += [f"  {text}" for text in finding.evidence]
        lines += [f"  try: {text}" for text in finding.advice]
        lines += [f"  refuted if: {finding.falsify}"] if finding.falsify else []
    return [TextBlock("findings", lines)]
