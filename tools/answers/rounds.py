"""One round of optimising a program: whether its results are right, what changed, where its time goes, what to try."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any, Literal

import pydantic

from ...analysis.base.problems import Problem
from ...analysis.base.text import figure, short_time
from ...analysis.catalogue.rules import library_kernel
from ...analysis.catalogue.thresholds import threshold
from ...analysis.comparison import experiment_log
from ...analysis.comparison.claims import contradicted_claims, judge_claims, verdict_with_claims
from ...analysis.comparison.compare import compare
from ...analysis.comparison.experiment_log import EarlierExperiment, ExperimentEntry, earlier_experiments
from ...analysis.comparison.sentences import summary
from ...analysis.diagnosis.findings import Diagnosis, diagnose
from ...analysis.diagnosis.gains import program_bound
from ...analysis.hotspots.kernels import has_code, sampled_kernels
from ...analysis.hotspots.ranking import quotes
from ...analysis.rooflines.limits import roof_shares
from ...analysis.store.store import Store
from ...analysis.timeline.busy import ProgramCeiling
from ...analysis.timeline.heights import Attempt, Heights, attempt_texts, best_attempts, device_span_ns
from ...analysis.timeline.timeline import device_timeline
from ...analysis.timeline.timeline import summary as timeline_summary
from ...analysis.timeline.verdict import AdviceGain
from ...analysis.workload import Workload
from ..base.results import TextBlock
from ..running import saving
from ..running.run_state import ProfileRun, read_record, read_state
from ..running.worker import CallProgress
from .program_time import kernel_name, time_lines
from .sentences import optional_sentence, present, sentence
from .verdict_text import diagnosis_answer, program_ceiling_text

_KERNELS, _ATTEMPTS, _LINES, _EARLIER = 3, 3, 3, 3
"""How many kernels are diagnosed, and how many attempts, lines and earlier experiments are shown."""
_ROOFS_KNOWN_PCT = threshold("timeline.roofs_for_a_round_pct")


class RoundAttempt(pydantic.BaseModel):
    """Something to try, and how many times as fast the program becomes if it alone is done."""

    text: str
    expected: float | None = None
    at_most: float | None = None


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
    program_speedup: float | None = None
    """The ratio of the times between the first and the last device work; of one run each, so without an interval."""
    changed: str | None = None
    contradicted: list[str] = []
    """What the profile contradicts of what the change claims: same work, same types, output written, ..."""
    limited_by: str | None = None
    """What limits the program, or else its longest kernel."""
    confidence: float | None = None
    time: list[str] = []
    """Where the program's time goes: devices, code of the host, copies and waits."""
    attempts: list[RoundAttempt] = []
    """What to try, the largest expected gain of the program first."""
    together: RoundAttempt | None = None
    """What all attempts give together."""
    not_counted: str | None = None
    """Why no counters were collected, and how to collect them anyway."""
    lines: list[str] = []
    """The hottest lines of the longest kernel, with the reasons for their stalls."""
    tried: list[str] = []
    """Earlier changes of the longest kernel and their results, newest first."""
    program: ProgramCeiling | None = None
    """How close the whole program is to its ceiling: when to stop."""
    stages: dict[str, float] = {}
    """The stages of the run, with their durations in seconds."""
    problems: list[str] = []
    """Why a part of the round is missing."""

    def block(self) -> TextBlock:
        """Return the round in lines, without the sentences of the answer."""
        program = self.program if self.program and self.program.known_pct >= _ROOFS_KNOWN_PCT else None
        parts: list[tuple[str, Sequence[str | None]]] = [
            ("check: ", [self.check]),
            ("", self.time),
            ("try: ", [attempt.text for attempt in self.attempts]),
            ("together: ", [self.together.text] if self.together and len(self.attempts) > 1 else []),
            ("hot line: ", self.lines),
            ("tried before: ", self.tried),
            ("", [program_ceiling_text(program)] if program else []),
            ("counters: ", [self.not_counted]),
            ("not known: ", self.problems),
        ]
        return TextBlock("round", [f"{label}{text}" for label, texts in parts for text in texts if text])

    def sentences(self) -> str:
        """Return what changed and what limits the program now."""
        check = optional_sentence("round.passed", passed=self.check == "passed")
        return " ".join(present(check, *self.contradicted, self.changed or "", self.limited_by or ""))


def save_round(store: Store, progress: CallProgress, run_id: str) -> dict[str, Any]:
    """Import the results of a run as ``saving.save`` does, and add the round as ``round``.

    A comparison with the baseline is recorded in the experiment log, with the hypothesis and the change of the run.
    """
    began = time.monotonic()
    saved = saving.save(store, progress, run_id)
    imported = time.monotonic()
    progress(0.8, "diagnosing")
    result = round_of_run(store, run_id, saved["workload"])
    stages = read_state(store.run_folder(run_id)).took_s | {"import": imported - began}
    stages["analysis"] = time.monotonic() - imported
    result.stages = {name: round(seconds, 1) for name, seconds in stages.items()}
    return {**saved, "round": result.model_dump(exclude_none=True)}


def round_of_run(store: Store, run_id: str, workload: str) -> OptimisationRound:
    """Judge the workload of a run against its baseline, and diagnose it; parts that fail are named in ``problems``."""
    folder = store.run_folder(run_id)
    run = read_record(folder)
    assert isinstance(run, ProfileRun)
    result = OptimisationRound(check=read_state(folder).check, baseline=run.baseline)
    earlier = experiment_log.entries(store)
    for part in (_add_change, _add_diagnosis):
        try:
            part(result, store, run, workload)
        except Problem as problem:
            result.problems.append(problem.what)
    with Workload.open(store, workload) as opened:
        longest = next(iter(opened.kernels), None)
    tried = earlier_experiments(earlier, longest)[:_EARLIER] if longest else []
    result.tried = [*map(_tried_text, tried)]
    return result


def _add_change(result: OptimisationRound, store: Store, run: ProfileRun, workload: str) -> None:
    """Compare with the baseline and record the comparison in the log."""
    if run.baseline is None:
        return
    with Workload.open(store, run.baseline) as before, Workload.open(store, workload) as after:
        comparison = compare(before, after, checked=None if result.check is None else result.check == "passed")
        against = contradicted_claims(judge_claims(comparison)) if comparison.other_gpu is None else []
        about = ExperimentEntry(
            kind="comparison", workload=workload, hypothesis=run.hypothesis, change=run.change, binary=run.binary
        )
        experiment_log.record_comparison(store, comparison, against, about)
        result.verdict, result.same_work, result.changed = "inconclusive", "unknown", summary(comparison, against)
        if main := comparison.main:
            result.verdict, result.same_work = verdict_with_claims(main, against), main.work.answer
            result.contradicted = [sentence("compare.contradicted", claim=c.claim, why=c.why).strip() for c in against]
            if main.effect and comparison.other_gpu is None:
                effect = main.effect
                result.speedup, result.low, result.high = effect.speedup, effect.low, effect.high
        first, now = device_span_ns(before), device_span_ns(after)
        if first and now:
            result.program_speedup = float(f"{first / now:.4g}")
            times = {"before": short_time(first), "after": short_time(now)}
            span = sentence("round.span", factor=result.program_speedup, **times)
            result.changed = f"{span} {result.changed}"


def _add_diagnosis(result: OptimisationRound, store: Store, run: ProfileRun, workload: str) -> None:
    """Say where the program's time goes, what to try at which height, and how far the program is from its ceiling."""
    with Workload.open(store, workload) as opened:
        kernels, total = diagnose(opened, limit=_KERNELS) if opened.manifest.counters else ([], 0)
        result.lines = _hot_lines(opened, kernels[0])[:_LINES] if kernels else []
        made, roofs = device_timeline(opened), roof_shares(opened)
        whole = timeline_summary(made, roofs) if made else None
        heights = Heights(made.trace, made.windows, made.host, made.findings) if made else None
        of_program = heights.attempts() if heights else []
        attempts = best_attempts([*of_program, *_kernel_attempts(kernels, heights)], _ATTEMPTS)
        result.limited_by = diagnosis_answer(whole, kernels, total, opened.manifest.arch)
        result.confidence = kernels[0].verdict.confidence if kernels else whole.confidence if whole else None
        gains = [one.gain for one in attempts]
        result.attempts = [*map(_attempt, attempt_texts(attempts), gains)]
        if made and heights:
            result.time = time_lines(made, heights)
            result.program = whole.ceiling if whole else None
            if attempts:
                together = heights.together(attempts)
                result.together = _attempt(together.text.strip(" ()"), together)
                if whole and result.together.text and (whole.kernels_come_second or not kernels):
                    gain = result.together.text
                    result.limited_by = sentence("round.program", claim=made.own_claim, gain=gain)
            if run.request.passes and run.usual and not kernels and not heights.kernels_matter:
                result.not_counted = sentence("round.not_counted", bound=heights.without_kernels)


def _kernel_attempts(kernels: Sequence[Diagnosis], heights: Heights | None) -> list[Attempt]:
    """Return for each kernel the change that is expected to gain most, with what it gives the program.

    Kernels of a library that the same change addresses are one attempt, whether they were counted or not.
    """
    attempts, addressed = list[Attempt](), set[str]()
    for one in kernels:
        advice = [advice for finding in one.findings for advice in finding.advice]
        if not advice or one.kernel in addressed:
            continue
        first = max(advice, key=lambda a: (a.gain[0] or 0.0) if a.gain else 0.0)
        expected, at_most = first.gain or (None, one.verdict.speedup_bound)
        library = library_kernel(one.kernel)
        alike = [k for k in heights.kernels if library and library_kernel(k) is library] if heights else []
        addressed.update(alike)
        name = kernel_name(one.kernel) + optional_sentence("round.alike", n=max(len(alike) - 1, 0))
        if heights is None:
            gain = AdviceGain(program_bound(one.share_pct, at_most or inf), program_bound(one.share_pct, expected))
            attempts.append(Attempt(name, first.do, gain))
        elif attempt := heights.kernel_attempt(alike or [one.kernel], name, first.do, expected, at_most):
            attempts.append(attempt)
    return attempts


def _attempt(text: str, gain: AdviceGain) -> RoundAttempt:
    expected, most = (None if factor is None else float(f"{factor:.3g}") for factor in (gain.expected, gain.upper))
    return RoundAttempt(text=text, expected=expected, at_most=most)


def _hot_lines(opened: Workload, diagnosis: Diagnosis) -> list[str]:
    known = sampled_kernels(opened) if has_code(opened) else []
    one = next((kernel for kernel in known if kernel.number == diagnosis.number), None)
    return quotes(opened, one, diagnosis.verdict.subsystem) if one else []


def _tried_text(one: EarlierExperiment) -> str:
    gain = "" if one.outcome.speedup is None else f", {figure(one.outcome.speedup, 3)} times as fast"
    return f"{one.entry.change or one.entry.hypothesis or 'a change'}: {one.outcome.verdict}{gain}"
