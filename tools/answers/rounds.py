"""One round of optimising a program: whether its results are right, what changed, what limits it now, what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pydantic

from ...analysis.base.problems import Problem
from ...analysis.base.text import figure
from ...analysis.comparison import experiment_log
from ...analysis.comparison.claims import ResultClaim, contradicted_claims, judge_claims, verdict_with_claims
from ...analysis.comparison.compare import Comparison, compare
from ...analysis.comparison.experiment_log import EarlierExperiment, ExperimentEntry, earlier_experiments
from ...analysis.comparison.sentences import summary
from ...analysis.diagnosis.findings import Diagnosis, diagnose
from ...analysis.hotspots.kernels import has_code, sampled_kernels
from ...analysis.hotspots.ranking import quotes
from ...analysis.rooflines.limits import roof_shares
from ...analysis.store.store import Store
from ...analysis.timeline.busy import ProgramCeiling
from ...analysis.timeline.timeline import application
from ...analysis.workload import Workload
from ..base.results import TextBlock
from ..running import saving
from ..running.run_state import ProfileRun, read_record, read_state
from ..running.worker import CallProgress
from .sentences import sentence
from .verdict_text import diagnosis_answer, program_ceiling_text, rounded_ceiling

_KERNELS, _ADVICE, _LINES, _EARLIER = 2, 3, 3, 3
"""How many kernels are diagnosed, and how much advice, how many lines and earlier experiments are shown."""


class CeilingDistance(pydantic.BaseModel):
    """How close a kernel is to the least time that its own work and traffic need at the ceilings of the device."""

    kernel: str
    share_pct: float | None = None
    ceiling_pct: float | None = None
    """Least time divided by measured time, in %; None if the counters do not determine it."""
    reason: str | None = None


class OptimisationRound(pydantic.BaseModel):
    """What one profile says about the last change and about the next one."""

    check: Literal["passed", "failed"] | None = None
    """The result of the check; None if no check was given."""
    baseline: str | None = None
    verdict: str | None = None
    """improved, regressed or inconclusive, of the kernel (pair) that takes the most time of the baseline."""
    same_work: str | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    """The 95 % interval of the speed-up."""
    changed: str | None = None
    contradicted: list[str] = []
    """What the profile contradicts of what the change claims: same work, same types, output written, ..."""
    limited_by: str | None = None
    """What limits the program, or else its longest kernel."""
    confidence: float | None = None
    speedup_bound: float | None = None
    advice: list[str] = []
    lines: list[str] = []
    """The hottest lines of the longest kernel, with the reasons for their stalls."""
    tried: list[str] = []
    """Earlier changes of the longest kernel and their results, newest first."""
    ceilings: list[CeilingDistance] = []
    program: ProgramCeiling | None = None
    """How close the whole program is to its ceiling: when to stop."""
    problems: list[str] = []
    """Why a part of the round is missing."""

    def block(self) -> TextBlock:
        """Return the round in lines, without the sentences of the answer."""
        lines = [f"check: {self.check}"] if self.check else []
        lines += [f"try: {text}" for text in self.advice]
        lines += [f"hot line: {text}" for text in self.lines]
        lines += [f"tried before: {text}" for text in self.tried]
        lines += [
            sentence("round.unknown_distance", kernel=one.kernel, reason=one.reason or "")
            if one.ceiling_pct is None
            else sentence("round.distance", kernel=one.kernel, ceiling=one.ceiling_pct)
            for one in self.ceilings
        ]
        lines += [program_ceiling_text(self.program)] if self.program else []
        return TextBlock("round", lines + [f"not known: {text}" for text in self.problems])

    def sentences(self) -> str:
        """Return what changed and what limits the program now."""
        check = sentence("round.passed") if self.check == "passed" else ""
        return " ".join(text for text in (check, *self.contradicted, self.changed, self.limited_by) if text)


def save_round(store: Store, progress: CallProgress, run_id: str) -> dict[str, Any]:
    """Import the results of a run as ``saving.save`` does, and add the round as ``round``.

    A comparison with the baseline is recorded in the experiment log, with the hypothesis and the change of the run.
    """
    saved = saving.save(store, progress, run_id)
    progress(0.8, "diagnosing")
    return {**saved, "round": round_of_run(store, run_id, saved["workload"]).model_dump(exclude_none=True)}


def round_of_run(store: Store, run_id: str, workload: str) -> OptimisationRound:
    """Judge the workload of a run against its baseline, and diagnose it; parts that fail are named in ``problems``."""
    folder = store.run_folder(run_id)
    run = read_record(folder)
    assert isinstance(run, ProfileRun)
    result = OptimisationRound(check=read_state(folder).check, baseline=run.baseline)
    earlier = experiment_log.entries(store)
    for part in (_add_change, _add_diagnosis):
        try:
            result = part(result, store, run, workload)
        except Problem as problem:
            result = result.model_copy(update={"problems": [*result.problems, problem.what]})
    kernel = result.ceilings[0].kernel if result.ceilings else None
    tried = [_tried_text(one) for one in earlier_experiments(earlier, kernel)[:_EARLIER]] if kernel else []
    return result.model_copy(update={"tried": tried})


def _add_change(result: OptimisationRound, store: Store, run: ProfileRun, workload: str) -> OptimisationRound:
    """Compare with the baseline and record the comparison in the log."""
    if run.baseline is None:
        return result
    with Workload.open(store, run.baseline) as before, Workload.open(store, workload) as after:
        comparison = compare(before, after, checked=None if result.check is None else result.check == "passed")
        against = contradicted_claims(judge_claims(comparison)) if comparison.other_gpu is None else []
        outcomes = [
            experiment_log.outcome_of(
                pair, comparison.other_gpu, "; ".join(claim.why for claim in against) if pair is comparison.main else ""
            )
            for pair in comparison.pairs
        ]
        entry = ExperimentEntry(
            kind="comparison", workload=workload, baseline=before.id, hypothesis=run.hypothesis, change=run.change,
            binary=run.binary, outcomes=outcomes,
        )  # fmt: skip
        experiment_log.record(store, entry)
        return result.model_copy(update=_change(comparison, against))


def _change(comparison: Comparison, against: Sequence[ResultClaim]) -> dict[str, Any]:
    main = comparison.main
    if main is None:
        return {"verdict": "inconclusive", "same_work": "unknown", "changed": summary(comparison)}
    effect = main.effect if comparison.other_gpu is None else None
    ratio = {name: getattr(effect, name) for name in ("speedup", "low", "high")} if effect else {}
    return {
        "verdict": verdict_with_claims(main, against),
        "same_work": main.work.answer,
        "changed": summary(comparison, against),
        **ratio,
        "contradicted": [sentence("compare.contradicted", claim=c.claim, why=c.why).strip() for c in against],
    }


def _add_diagnosis(result: OptimisationRound, store: Store, run: ProfileRun, workload: str) -> OptimisationRound:
    """Diagnose the program and its longest kernels."""
    with Workload.open(store, workload) as opened:
        whole = application(opened, roof_shares(opened))
        missing = ProgramCeiling("unknown", 0.0, reason=sentence("round.no_timeline"))
        ceiling = rounded_ceiling(whole.ceiling if whole and whole.ceiling else missing)
        result = result.model_copy(update={"program": ceiling, "advice": list(whole.advice) if whole else []})
        if not opened.manifest.counters:
            return result.model_copy(update={"limited_by": diagnosis_answer(whole, [], 0)})
        kernels, total = diagnose(opened, limit=_KERNELS)
        lines = _hot_lines(opened, kernels[0]) if kernels else []
    if not kernels:
        return result
    verdict, findings = kernels[0].verdict, kernels[0].findings
    first = whole.advice if whole and whole.kernels_come_second else ()
    advice = []
    for finding in findings:
        bound = finding.speedup_bound
        at_most = "" if bound is None else f" (at most {figure(bound, 3)} times as fast)"
        advice += [one.text if one.gain else f"{one.text}{at_most}" for one in finding.advice]
    update = {
        "limited_by": diagnosis_answer(whole, kernels, total),
        "confidence": verdict.confidence,
        "speedup_bound": verdict.speedup_bound,
        "advice": list(dict.fromkeys([*first, *advice]))[:_ADVICE],
        "lines": lines[:_LINES],
        "ceilings": [_distance(one) for one in kernels],
    }
    return result.model_copy(update=update)


def _hot_lines(opened: Workload, diagnosis: Diagnosis) -> list[str]:
    if not has_code(opened):
        return []
    known = sampled_kernels(opened)
    one = next((kernel for kernel in known if kernel.number == diagnosis.number), None)
    return quotes(opened, one, diagnosis.verdict.subsystem) if one else []


def _distance(one: Diagnosis) -> CeilingDistance:
    bound = one.verdict.speedup_bound
    reason = None if bound else sentence("round.no_ceiling")
    return CeilingDistance(
        kernel=one.kernel, share_pct=one.share_pct, ceiling_pct=100 / bound if bound else None, reason=reason
    )


def _tried_text(one: EarlierExperiment) -> str:
    gain = "" if one.outcome.speedup is None else f", {figure(one.outcome.speedup, 3)} times as fast"
    return f"{one.entry.change or one.entry.hypothesis or 'a change'}: {one.outcome.verdict}{gain}"
