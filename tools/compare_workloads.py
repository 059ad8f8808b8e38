"""The tool compare_workloads: whether a change helped, and whether the work is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from ..analysis.base.kernel_names import short
from ..analysis.base.problems import BadArgument, BadInput
from ..analysis.base.text import count_text
from ..analysis.comparison import experiment_log
from ..analysis.comparison.claims import ResultClaim, contradicted_claims, judge_claims, verdict_with_claims
from ..analysis.comparison.compare import Comparison, compare
from ..analysis.comparison.experiment_log import ExperimentEntry
from ..analysis.comparison.sentences import causes, notes, series_notes, series_summary, summary
from ..analysis.comparison.time_ratio import TimeVerdict
from ..analysis.comparison.timeline_changes import change as wall_time_change
from ..analysis.comparison.timeline_changes import notes as wall_time_notes
from ..analysis.comparison.work import Answer
from ..analysis.hotspots.kernels import has_code, sampled_kernels, select_kernels
from ..analysis.hotspots.profile_changes import changes
from ..analysis.rooflines.limits import roof_shares
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from .answers import comparison_tables as tables
from .answers.comparison_tables import Extent
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .answers.tables import table_from
from .base.parameters import (
    By,
    Detail,
    Pattern,
    Patterns,
    Reference,
    Sentence,
    SomeMetrics,
    Versions,
)
from .base.results import NextCall, Result, Table
from .base.untrusted_text import plain_log_text

_MOST_METRICS = 100
"""Named metrics that an answer shows for each pair of kernels."""
_EXTENTS = {"summary": tables.SUMMARY, "full": tables.FULL, "everything": tables.EVERYTHING}
_SERIES = 20


class CompareResult(Result):
    """The differences between workloads; the verdict is that of the pair that takes the most time of the baseline.

    If the timelines certainly contain the same steps, no kernel was asked for, and the wall time of a step changed, the
    verdict is that of the steps. improved and regressed require the same work, and that the profile contradicts no
    claim; ``kernels`` contains every pair with its own verdict. ``causes`` lists other changes of that pair: its launch
    parameters, its carve-out, hit rates.
    """

    baseline: str
    candidates: list[str]
    verdict: TimeVerdict
    same_work: Answer
    kernels: Table
    steps: Table | None = None
    """The wall time of a step in the two timelines, if both certainly have the same steps; otherwise the time from the
    first to the last work of the device, which is one run of each, without interval and verdict."""
    causes: list[str] = []
    claims: Table | None = None
    """What a faster version claims (same work, same types, output written, ...): holds, not_shown or contradicted; with
    detail="full", the SQL that shows it."""
    groups: Table | None = None
    """The kernels of each group, with their launches per round and both sums."""
    launch: Table | None = None
    """Differences between the launches of the pairs shown: sizes, registers, LDS, clusters, carve-out; and clocks."""
    work: Table | None = None
    explanation: Table | None = None
    metrics: Table | None = None
    lines: Table | None = None
    """Source lines or instructions of the first pair that lost or gained samples, if both versions were sampled."""
    normalised: Table | None = None
    program: Table | None = None
    """How close both programs are to their ceilings: the critical path with every kernel at its roof, as a share of the
    wall time; only if both have a timeline."""
    only_in_baseline: list[str] = []
    only_in_candidate: list[str] = []
    metrics_only_in_baseline: list[str] = []
    metrics_only_in_candidate: list[str] = []
    logged: str | None = None


def compare_workloads(
    store: Store,
    baseline: Reference,
    candidate: Reference | Versions,
    kernel: Pattern | None = None,
    by: By = "kernel",
    group: dict[Reference, Patterns] | None = None,
    checked: bool | None = None,
    metrics: SomeMetrics | None = None,
    hypothesis: Sentence | None = None,
    change: Sentence | None = None,
    detail: Detail = "summary",
) -> CompareResult:
    """Compare versions: times with interval and verdict, whether the work is the same, the parts of the change in
    time, its causes, changed metrics."""
    wanted = [candidate] if isinstance(candidate, str) else list(candidate)
    asked = ComparisonRequest(
        baseline, wanted, kernel, by, group, checked, plain_log_text(hypothesis), plain_log_text(change), metrics or ()
    )
    return comparison_result(store, asked, _EXTENTS[detail])


@dataclass(frozen=True)
class ComparisonRequest:
    """The request, as in the parameters of compare_workloads; the two texts are for the log."""

    baseline: str
    candidates: Sequence[str]
    kernel: str | None
    by: Literal["kernel", "launch"]
    group: Mapping[str, Sequence[str]] | None
    checked: bool | None
    hypothesis: str
    change: str
    metrics: Sequence[str]


def comparison_result(store: Store, asked: ComparisonRequest, extent: Extent) -> CompareResult:
    """The answer of compare_workloads with tables of a given extent."""
    if not 1 <= len(asked.candidates) <= _SERIES:
        raise BadArgument(f"candidate has {count_text(len(asked.candidates), 'workload')}", fix=f"Give 1 to {_SERIES}")
    kernel, words = asked.kernel, (asked.baseline, *asked.candidates)
    with ExitStack() as opened:
        before, *after = (opened.enter_context(Workload.open(store, word, kernel, asked.by)) for word in words)
        both = (before, *after)
        if len(both) == 2 and all(map(has_code, both)) and not all(w.has("dispatches") for w in both):
            return _lines_alone(before, after[0], asked, extent)
        limit = extent.pairs if len(after) == 1 else 1
        steps = [
            compare(before, w, kernel=kernel, groups=asked.group, limit=limit, checked=asked.checked) for w in after
        ]
        judged = judge_claims(steps[0]) if len(steps) == 1 and steps[0].other_gpu is None else []
        result = _one(steps[0], extent, asked, judged) if len(steps) == 1 else _series(steps, extent)
    if asked.hypothesis or asked.change:
        about = ExperimentEntry(kind="comparison", workload="", hypothesis=asked.hypothesis, change=asked.change)
        _log(store, steps, about, result, contradicted_claims(judged))
    return result


def _lines_alone(before: Workload, after: Workload, asked: ComparisonRequest, extent: Extent) -> CompareResult:
    """The changes in the samples or traced cycles of a kernel between profiles without launches: shares, no times."""
    one = select_kernels(sampled_kernels(before), asked.kernel, before.name)[0]
    changed = changes(before, one.kernel, after, one.kernel)
    if changed is None:
        raise BadInput(
            f"Kernel #{one.number} has neither samples nor a thread trace in both workloads",
            "without launches there is nothing else to compare",
            "Take samples, or profile with --kernel-trace or counters",
        )
    lost, gained = (sum(line.verdict == verdict for line in changed.lines) for verdict in ("lost", "gained"))
    code = "lines.largest" if changed.unit == "cycles" else "lines.places"
    told = sentence(code, lost=lost, gained=gained, most=changed.lines[0])
    row = dict(zip(("kernel", "baseline", "candidate"), (one.kernel, *changed.totals), strict=True))
    notes = [note.text for note in tables.line_notes(changed)]
    if asked.hypothesis or asked.change:
        notes.append(sentence("lines.not_recorded"))
    return CompareResult(
        baseline=before.id,
        candidates=[after.id],
        verdict="inconclusive",
        same_work="unknown",
        answer=sentence("lines.alone", kernel=short(one.kernel), told=told),
        kernels=table_from(f"compared_{changed.unit}", [row]),
        lines=tables.line_table(changed, extent),
        notes=notes,
        next=[
            next_call("find_hotspots", f"the lines of the {which}", workload=w.id)
            for which, w in (("baseline", before), ("candidate", after))
        ],
    )


def _one(comparison: Comparison, extent: Extent, asked: ComparisonRequest, claims: list[ResultClaim]) -> CompareResult:
    main, metrics = comparison.main, asked.metrics
    versions = [version.workload for version in (comparison.before, comparison.after)]
    wall = wall_time_change(versions[0], versions[1], [roof_shares(version) for version in versions])
    steps = wall.steps if wall and comparison.other_gpu is None else None
    leading = None if asked.kernel or asked.group or not steps else wall
    top = comparison.pairs[: extent.explained]
    alike = comparison.other_gpu is None
    ceilings = zip(("baseline", "candidate"), wall.ceilings, strict=True) if wall else ()
    programs = [{"version": version, "ceiling": one} for version, one in ceilings]
    sampled = tables.changed_lines(comparison)
    changed = tables.changed_metrics(comparison, top[: extent.measured], metrics)
    against = contradicted_claims(claims)
    first = next((told for compared, told in changed if compared is main), None)
    return CompareResult(
        baseline=comparison.before.id,
        candidates=[comparison.after.id],
        verdict=(
            verdict_with_claims(main, against)
            if leading is None or against or leading.steps.verdict == "inconclusive"
            else leading.steps.verdict
        ),
        same_work=main.work.answer if main else "unknown",
        answer="".join(sentence("compare.contradicted", claim=c.claim, why=c.why) for c in against)
        + summary(comparison, against, leading),
        claims=tables.claim_table(claims, extent),
        causes=causes(main, first.changed if first else []) if main and alike else [],
        kernels=tables.pair_table(comparison, extent),
        steps=tables.step_table(steps) if steps else None,
        groups=tables.group_table(comparison, extent),
        launch=tables.launch_table(top, extent),
        work=tables.work_table(top, extent) if alike else None,
        explanation=tables.term_table(top, extent) if alike else None,
        normalised=None if alike else tables.share_table(comparison),
        program=table_from("programs", programs) if wall else None,
        metrics=tables.metric_table(changed, not alike, extent, _MOST_METRICS if metrics else None),
        lines=tables.line_table(sampled, extent) if sampled else None,
        only_in_baseline=tables.kernel_names(comparison.matching.only_before, extent),
        only_in_candidate=tables.kernel_names(comparison.matching.only_after, extent),
        metrics_only_in_baseline=tables.first_names(first.only_before, extent.metrics_of_one) if first else [],
        metrics_only_in_candidate=tables.first_names(first.only_after, extent.metrics_of_one) if first else [],
        notes=[n.text for n in (*notes(comparison), *wall_time_notes(wall), *tables.line_notes(sampled))],
        next=_next(comparison),
    )


def _series(steps: list[Comparison], extent: Extent) -> CompareResult:
    last = steps[-1].main
    return CompareResult(
        baseline=steps[0].before.id,
        candidates=[c.after.id for c in steps],
        verdict=last.verdict if last else "inconclusive",
        same_work=last.work.answer if last else "unknown",
        answer=series_summary(steps),
        kernels=tables.series_table(steps, extent),
        notes=[note.text for note in series_notes(steps)],
        next=_next(steps[-1]),
    )


def _log(
    store: Store,
    steps: list[Comparison],
    about: ExperimentEntry,
    result: CompareResult,
    against: Sequence[ResultClaim],
) -> None:
    """Record the experiment and its result; if the store is read-only, return a note that it was not recorded."""
    if store.read_only:
        result.notes.append("Not recorded in the experiment log: the store is open for reading only.")
        return
    for step in steps:
        result.logged = experiment_log.record_comparison(store, step, against, about).id


def _next(comparison: Comparison) -> list[NextCall]:
    """Suggest the next calls, built from ids and closed sets only."""
    main, before, after = comparison.main, comparison.before, comparison.after
    calls = []
    arch = after.workload.arch
    if main is not None and main.work.answer == "unknown" and comparison.other_gpu is None and arch:
        why = "the counters that show whether both did the same work"
        calls.append(next_call("plan_profile", why, gpu=arch, metrics=["roofline", "overview"]))
    grouped = any(c.pair.of_several for c in comparison.pairs)
    if comparison.matching.only_before and comparison.matching.only_after and not grouped:
        why = "kernels without a counterpart; use group for fused or split ones"
        calls.append(next_call("list_workloads", why, workload=after.id))
    if main is not None and main.verdict != "improved":
        calls.append(next_call("diagnose_bottleneck", "what limits it now", workload=after.id))
    if main is not None and main.several and before.workload.by == "kernel" and not main.pair.of_several:
        why = "its launch configurations separately, matched by name"
        calls.append(next_call("compare_workloads", why, baseline=before.id, candidate=after.id, by="launch"))
    if before.id != after.id:
        why = "both versions side by side"
        calls.append(next_call("plot", why, kind="compare", workload=before.id, candidate=after.id))
    return calls
