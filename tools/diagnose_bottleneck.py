"""diagnose_bottleneck: what limits the application and each kernel, with evidence and advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.rules import Advice
from ..analysis.catalogue.vocabulary import in_vendor_terms
from ..analysis.comparison import experiment_log
from ..analysis.diagnosis.evidence import CONFIDENT, Evidence
from ..analysis.diagnosis.findings import Diagnosis, diagnose_apart, diagnose_launches
from ..analysis.hotspots.kernels import HotKernel, has_code, sampled_kernels
from ..analysis.hotspots.ranking import quotes
from ..analysis.launches import outliers
from ..analysis.rooflines.limits import roof_shares
from ..analysis.store.schema import split_label
from ..analysis.store.store import Manifest, Store
from ..analysis.tables.derived import ceilings_digest, stored_value
from ..analysis.timeline.rules import rules as timeline_rules
from ..analysis.timeline.slow_rank import SlowRank, slow_rank
from ..analysis.timeline.timeline import Application, application
from ..analysis.timeline.trace import has_timeline
from ..analysis.workload import Workload
from .answers.launch_notes import about
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .answers.tables import declared_tables
from .answers.verdict_text import diagnosis_answer, diagnosis_blocks, program_ceiling_text
from .base.parameters import By, Detail, Pattern, Reference
from .base.results import NextCall, Result, TextBlock

_ADVICE = 2
"""How many actions the first finding of a kernel shows; detail="full" shows all actions of all findings."""
_LEADING_PCT = 50.0
"""Share of the kernel time from which a launch that shows what limits it answers for the program."""
_LARGER_GRID = "larger_grid"
"""The change that helps where resources do not limit the resident waves."""
_BEGINNING = 40
"""How many characters are shown of advice that was given before."""
_CHANGE = 100
"""How many characters are shown of the description of an earlier change."""


class DiagnosisResult(Result):
    """The diagnosed kernels, longest total time first, and the application if the workload has a timeline."""

    workload: str
    name: str
    arch: str | None
    total_kernels: int
    application: Application | None = None
    ranks: list[SlowRank] = []
    """Kernels that take longer on one rank than on the others, and why; empty if there are none."""
    kernels: list[Diagnosis]

    def blocks(self) -> list[TextBlock]:
        """Return a table of the kernels, and for each what limits it, what to try and what is not known."""
        about = f"workload: {self.workload} ({self.name}{f', {self.arch}' if self.arch else ''})"
        ranks = [line for one in self.ranks for line in (one.claim, *one.evidence, *one.advice)]
        ceiling = self.application.ceiling if self.application else None
        top = [about, *([program_ceiling_text(ceiling)] if ceiling else [])]
        whole = self.application
        program = [f"try: {text}" for text in whole.advice] + [whole.edges or ""] if whole else []
        return [
            TextBlock("", top),
            TextBlock("program", [line for line in program if line]),
            TextBlock("ranks", ranks),
            *diagnosis_blocks(self.kernels, self.arch),
            *(TextBlock(name, table) for name, table in self.tables.items() if table.rows),
        ]


def diagnose_bottleneck(
    store: Store,
    workload: Reference = "latest",
    kernel: Pattern | None = None,
    by: By = "kernel",
    top_n: int = 3,
    detail: Detail = "summary",
) -> DiagnosisResult:
    """What limits each kernel: subsystem, confidence, evidence, contradictions, advice, an upper bound of the
    speed-up, and counters that would decide."""
    with Workload.open(store, workload, kernel, by) as opened:
        whole = _application(opened) if has_timeline(opened) else None
        if not opened.manifest.counters and opened.manifest.dispatches + opened.manifest.events:
            names = opened.select(kernel).kernels if opened.manifest.dispatches else []
            uneven = _slow_ranks(opened, whole, names[:top_n])
            # Kernels of communication take few compute units on purpose.
            communication = re.compile(timeline_rules().communication)
            launches = [
                one
                for one in diagnose_launches(opened, kernel=kernel, limit=top_n)
                if not communication.search(one.kernel)
            ]
            if whole is not None or uneven or launches:
                return _of_times_alone(opened, whole, names, uneven, launches)
        diagnoses, total = diagnose_apart(opened, kernel=kernel, limit=top_n)
        diagnoses = _with_lines(opened, diagnoses)
        names = list(dict.fromkeys(split_label(d.kernel)[0] if opened.by == "kernel" else d.kernel for d in diagnoses))
        uneven = _slow_ranks(opened, whole, names)
        dragged = outliers.notes(opened, names)
        told = about(opened, "diagnose_bottleneck", opened.select(kernel), names)
        tables = declared_tables("diagnose_bottleneck", opened, top_n)
    manifest, log = opened.manifest, experiment_log.entries(store)
    kernels = [_with_tried(replace(d, findings=d.findings[:top_n]), log) for d in diagnoses]
    if detail == "summary":
        kernels = _said_once([_summarise(d, first=d is kernels[0]) for d in kernels])
    return DiagnosisResult(
        answer=diagnosis_answer(whole, kernels, total, opened.manifest.arch),
        workload=manifest.id,
        name=manifest.name,
        arch=manifest.arch,
        total_kernels=total,
        application=whole,
        ranks=uneven,
        kernels=kernels,
        tables=tables,
        notes=[
            *_notes(manifest, diagnoses, total, sql=detail == "full"),
            *(note.text for note in dragged),
            *told.notes,
        ],
        next=[*_first(manifest, whole), *_next(manifest, diagnoses), *told.next],
    )


def _application(opened: Workload) -> Application | None:
    """What takes the wall time, which needs the whole timeline but does not depend on the arguments."""
    name = f"application-{ceilings_digest(opened.store)}"
    return stored_value(opened, name, Application | None, lambda: application(opened, roof_shares(opened)))


def _slow_ranks(opened: Workload, whole: Application | None, kernels: Sequence[str]) -> list[SlowRank]:
    """The ranks that take longer than the others: for all kernels together, then for single kernels.

    If a timeline shows which rank the others wait for, only that one can be slow for all kernels together.
    """
    if opened.manifest.ranks < 2:
        return []
    late = whole.late_rank if whole else None
    slow_ranks = [slow_rank(opened, rank=late), *(slow_rank(opened, kernel) for kernel in kernels)]
    return [one for one in slow_ranks if one]


def _of_times_alone(
    opened: Workload,
    whole: Application | None,
    kernels: Sequence[str],
    uneven: list[SlowRank],
    launches: list[Diagnosis],
) -> DiagnosisResult:
    """The result for a workload with times but no counters: the application, its ranks, the kernels whose launches show
    what limits them, and which counters to collect."""
    manifest = opened.manifest
    leading = [one for one in launches if whole is None or (one.share_pct or 0.0) >= _LEADING_PCT]
    count = next_call(
        "plan_profile", "the counters that show what limits its kernels", gpu=manifest.arch, metrics=["diagnosis"]
    )
    return DiagnosisResult(
        answer=diagnosis_answer(whole, leading, len(leading), manifest.arch)
        or sentence("diagnosis.ranks", claim=uneven[0].claim),
        workload=manifest.id,
        name=manifest.name,
        arch=manifest.arch,
        total_kernels=len(kernels),
        application=whole,
        ranks=uneven,
        kernels=_said_once([_summarise(one, first=one is launches[0]) for one in launches]),
        next=[
            next_call("compute_timeline", "where the wall time goes", workload=manifest.id),
            *([count] if manifest.arch in catalog.targets_with_metrics() else []),
        ],
    )


def _first(manifest: Manifest, whole: Application | None) -> Iterator[NextCall]:
    if whole and whole.kernels_come_second:
        why = "where the wall time goes: the kernels are not the first concern"
        yield next_call("compute_timeline", why, workload=manifest.id)


def _with_lines(opened: Workload, diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    """Add the hottest lines of each kernel with samples."""
    if not has_code(opened):
        return diagnoses
    with Workload(opened.store, opened.manifest) as plain:
        known = sampled_kernels(plain)
        return [_quoting(plain, known, d) for d in diagnoses]


def _quoting(opened: Workload, known: Sequence[HotKernel], diagnosis: Diagnosis) -> Diagnosis:
    rank, _, launch = diagnosis.number.partition(".")
    one = next((k for k in known if k.number == rank), None)
    if one is None:
        return diagnosis
    launched = replace(one, launch=int(launch) if launch else None)
    return replace(diagnosis, lines=quotes(opened, launched, diagnosis.verdict.subsystem))


def _with_tried(diagnosis: Diagnosis, log: Sequence[experiment_log.ExperimentEntry]) -> Diagnosis:
    """Add the outcome of the last change of this kernel to its first finding."""
    earlier = experiment_log.earlier_experiments(log, diagnosis.kernel)
    if not earlier or not diagnosis.findings:
        return diagnosis
    entry, outcome = earlier[0]
    gain = "" if outcome.speedup is None else f", {outcome.speedup:.3g} times as fast"
    line = f"tried before: {(entry.change or entry.hypothesis)[:_CHANGE]!r}: {outcome.verdict}{gain}"
    return replace(diagnosis, findings=[replace(diagnosis.findings[0], tried=[line]), *diagnosis.findings[1:]])


def _summarise(diagnosis: Diagnosis, first: bool) -> Diagnosis:
    """A summary: evidence and advice of the verdict, and the evidence of the first kernel's other findings."""
    findings = [
        replace(
            f,
            evidence=_without_sql([e for e in f.evidence if e.met is not False]),
            contradicting=_without_sql(f.contradicting),
            advice=f.advice[:_ADVICE],
        )
        for f in diagnosis.findings
    ]
    findings[1:] = [
        replace(f, evidence=f.evidence if first else [], advice=f.advice[:1], falsify=None, then=None)
        for f in findings[1:]
    ]
    return replace(diagnosis, findings=findings)


def _said_once(diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    """Shorten advice that an earlier kernel already shows in full to its beginning."""
    said: dict[Advice, str] = {}
    short = []
    for d in diagnoses:
        findings = [replace(f, advice=[_shorten_if_said(a, said) for a in f.advice]) for f in d.findings]
        said = {a: f"#{d.number}" for f in d.findings for a in f.advice} | said
        short.append(replace(d, findings=findings))
    return short


def _shorten_if_said(advice: Advice, said: Mapping[Advice, str]) -> Advice:
    """Return the advice, shortened to its beginning if an earlier kernel shows it in full."""
    if advice not in said:
        return advice
    begun = advice.do if len(advice.do) <= _BEGINNING else f"{advice.do[:_BEGINNING].rsplit(' ', 1)[0]} ..."
    return advice.model_copy(update={"do": begun, "shown_for": said[advice]})


def _without_sql(evidence: list[Evidence]) -> list[Evidence]:
    """The evidence without SQL, rounded for reading; detail="full" includes the SQL."""
    values = [None if e.value is None else float(f"{e.value:.6g}") for e in evidence]
    return [replace(e, sql=None, value=value) for e, value in zip(evidence, values, strict=True)]


def _notes(manifest: Manifest, diagnoses: list[Diagnosis], total: int, *, sql: bool) -> Iterator[str]:
    if manifest.ranks > 1:
        yield sentence("diagnosed.ranks", ranks=manifest.ranks)
    yield sentence("diagnosed.bounds", more=sentence("diagnosed.sql") if sql else "")
    if unsure := [d for d in diagnoses if d.verdict.confidence < CONFIDENT]:
        code = "diagnosed.no_counters"
        if any(d.next_counters for d in unsure):
            code = "diagnosed.missing"
        elif any(map(_contradicts_itself, diagnoses)):
            code = "diagnosed.impossible"
        yield sentence("diagnosed.unsure", kernels=[f"#{d.number}" for d in unsure], why=sentence(code))
    for doubt in dict.fromkeys(d.verdict.doubt for d in diagnoses if d.verdict.doubt):
        doubted = [f"#{d.rank}" for d in diagnoses if d.verdict.doubt == doubt]
        yield sentence("diagnosed.doubted", kernels=doubted, why=doubt.text)
    if total > len(diagnoses):
        yield sentence("diagnosed.more", count=total - len(diagnoses))
    if not (gpu := targets.gpu(manifest.arch or "")).validated_on_hardware:
        yield sentence("diagnosed.not_on_hardware", arch=manifest.arch, checked_on=gpu.checked_on)


def _contradicts_itself(diagnosis: Diagnosis) -> bool:
    """Whether the load of a unit is impossible."""
    return any(load.status == "impossible" for load in diagnosis.units)


def _next(manifest: Manifest, diagnoses: list[Diagnosis]) -> Iterator[NextCall]:
    """The suggested calls, built only from ids, metric names and ranks."""
    open_ones = [d for d in diagnoses if d.next_counters]
    if open_ones:
        metrics = list(dict.fromkeys(m for r in open_ones[0].next_counters for m in r.metrics))
        why = f"the counters that would decide for #{open_ones[0].number}"
        yield next_call("plan_profile", why, gpu=manifest.arch, metrics=metrics)
    elif any(map(_contradicts_itself, diagnoses)):
        why = "the passes that collect the impossible figures again"
        yield next_call("plan_profile", why, gpu=manifest.arch, metrics=["diagnosis"])
    first = diagnoses[0]
    arguments = {"workload": manifest.id, "kernel": f"#{first.number}"}
    if first.lines:
        why = "the lines that cost the time, and what they wait for"
        yield next_call("find_hotspots", why, **arguments)
    grid = any(advice.change == _LARGER_GRID for one in first.findings[:1] for advice in one.advice)
    if first.verdict.subsystem == "occupancy" and not grid:
        why = in_vendor_terms("the smallest change that allows more waves", manifest.arch)
        yield next_call("compute_occupancy", why, **arguments)
    else:
        yield next_call("compute_roofline", "how far each pipe is from its ceiling", **arguments)
