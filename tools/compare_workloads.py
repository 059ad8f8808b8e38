"""The tool compare_workloads: did a change help, and was it the same work."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, NamedTuple

from pydantic import Field

from ..analysis import experiments
from ..analysis.comparison.compare import Compared, Comparison, Version, compare
from ..analysis.comparison.explain import Change, changes, least_times
from ..analysis.comparison.time import TimeVerdict
from ..analysis.comparison.words import brief, how, notes, series_notes, series_summary, short, summary, traffic
from ..analysis.comparison.work import Answer, Side
from ..analysis.doubts import TIME
from ..analysis.experiments import Entry, Outcome
from ..analysis.problems import BadArgument
from ..analysis.store import Store
from ..analysis.timeline.change import notes as wall_time
from ..analysis.workload import Workload
from .parameters import GROUPS, By, ChangeText, Detail, HypothesisText, KernelName, Patterns, Reference, Versions
from .profilers.tables.names import noted
from .results import NextCall, Result, Table, table_of

_ONLY = 8
_WORK = 6
_KERNELS = {"summary": 5, "full": 50}
_METRICS = {"summary": 6, "full": 20}
_SERIES = 20
_FIGURES = 6
_NORMALISED = 2
_KernelRow = namedtuple(
    "_KernelRow",
    "kernel match share_pct baseline_ms candidate_ms speedup low high noise_pct n verdict same_work per_work per "
    "status reason",
)
_WorkRow = namedtuple("_WorkRow", "kernel quantity baseline candidate ratio speedup_per_unit status")
_LaunchRow = namedtuple("_LaunchRow", "kernel quantity baseline candidate unit")
_TermRow = namedtuple("_TermRow", "kernel term baseline candidate unit time_factor delta_ms status")
_FigureRow = namedtuple("_FigureRow", "kernel figure baseline candidate unit")
_MetricRow = namedtuple("_MetricRow", "kernel metric baseline candidate unit better status reason")
"""The rows of the tables, by their columns."""


class _StepRow(NamedTuple):
    workload: str
    kernel: str
    ms: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = "baseline"
    same_work: str | None = None
    step_speedup: float | None = None
    hbm_bytes: float | None = None
    hbm_gbs: float | None = None
    pct_of_peak: float | None = None
    traffic_ratio: float | None = None
    bandwidth_ratio: float | None = None


class CompareResult(Result):
    """What changed between workloads; the verdict is that of the pair that takes most of the baseline's time.

    improved and regressed are said of the same work only; ``kernels`` has every pair with its own verdict.
    """

    baseline: str
    candidates: list[str]
    verdict: TimeVerdict
    same_work: Answer
    summary: str
    kernels: Table
    launch: Table | None = None
    """What differs between the launches of the pairs shown: sizes, registers, LDS, clusters."""
    work: Table | None = None
    explanation: Table | None = None
    metrics: Table | None = None
    normalised: Table | None = None
    only_in_baseline: list[str] = []
    only_in_candidate: list[str] = []
    logged: str | None = None


def compare_workloads(
    store: Store,
    baseline: Annotated[Reference, Field(description='before the change: id, unique id prefix, name or "latest"')],
    candidate: Annotated[
        Reference | Versions,
        Field(description="after it; a list: successive versions, each against the baseline"),
    ],
    kernel: KernelName = None,
    by: By = "kernel",
    group: Annotated[
        dict[Reference, Patterns] | None,
        Field(
            max_length=GROUPS,
            description='kernels that were split or fused, compared as one: {"name": ["regex before", "regex after"]}',
        ),
    ] = None,
    hypothesis: HypothesisText = None,
    change: ChangeText = None,
    detail: Detail = "summary",
) -> CompareResult:
    """Compare versions: times with 95 % interval and verdict, same work or not, what the change of time consists of,
    changed metrics. group: several kernels against one. hypothesis and change go to the log."""
    wanted = [candidate] if isinstance(candidate, str) else list(candidate)
    if not 1 <= len(wanted) <= _SERIES:
        raise BadArgument(f"candidate names {len(wanted)} workloads", fix=f"Name 1 to {_SERIES}")
    with ExitStack() as opened:
        before, *after = (opened.enter_context(Workload.open(store, word, kernel, by)) for word in (baseline, *wanted))
        limit = _KERNELS[detail] if len(after) == 1 else 1
        steps = [compare(before, w, kernel=kernel, groups=group, limit=limit) for w in after]
        result = _one(steps[0], detail) if len(steps) == 1 else _series(steps)
    if hypothesis or change:
        about = Entry(kind="comparison", workload="", hypothesis=noted(hypothesis), change=noted(change))
        _log(store, steps, about, result)
    return result


def _one(comparison: Comparison, detail: Detail) -> CompareResult:
    main = comparison.main
    top = comparison.pairs[: 1 if detail == "summary" else 5]
    alike = comparison.other_gpu is None
    return CompareResult(
        baseline=comparison.before.id,
        candidates=[comparison.after.id],
        verdict=main.verdict if main else "inconclusive",
        same_work=main.work.answer if main else "unknown",
        summary=summary(comparison),
        kernels=_kernels(comparison),
        launch=_launch(top),
        work=_work(top, detail) if alike else None,
        explanation=_explanation(top) if alike else None,
        normalised=None if alike else _normalised(comparison),
        metrics=_metrics(comparison, top, detail),
        only_in_baseline=_few_names(comparison.matching.only_before),
        only_in_candidate=_few_names(comparison.matching.only_after),
        notes=[
            note.text
            for note in (*notes(comparison), *wall_time(comparison.before.workload, comparison.after.workload))
        ],
        next=_next(comparison),
    )


def _series(steps: list[Comparison]) -> CompareResult:
    last = steps[-1].main
    return CompareResult(
        baseline=steps[0].before.id,
        candidates=[c.after.id for c in steps],
        verdict=last.verdict if last else "inconclusive",
        same_work=last.work.answer if last else "unknown",
        summary=series_summary(steps),
        kernels=_steps(steps),
        notes=[note.text for note in series_notes(steps)],
        next=_next(steps[-1]),
    )


def _log(store: Store, steps: list[Comparison], about: Entry, result: CompareResult) -> None:
    """Note what was tried and what came of it; where the store may only be read, say that it was not noted."""
    if store.read_only:
        result.notes.append("Not noted in the experiment log: the store is open for reading only.")
        return
    for c in steps:
        outcomes = [_outcome(pair, c.other_gpu is not None) for pair in c.pairs]
        entry = about.model_copy(update={"workload": c.after.id, "baseline": c.before.id, "outcomes": outcomes})
        result.logged = experiments.record(store, entry).id


def _outcome(compared: Compared, other_gpu: bool) -> Outcome:
    effect = None if other_gpu else compared.effect
    return Outcome(
        kernel=compared.pair.label,
        kernels=list(dict.fromkeys((*compared.pair.before, *compared.pair.after))),
        verdict=compared.verdict,
        why=compared.why,
        speedup=effect.speedup if effect else None,
        low=effect.low if effect else None,
        high=effect.high if effect else None,
        same_work=compared.work.answer,
    )


def _kernels(comparison: Comparison) -> Table:
    """One row a pair: time of a launch (of a group: of a round), speed-up with interval, verdict."""
    rows = [_kernel(pair, comparison.other_gpu is not None) for pair in comparison.pairs]
    units = {"share_pct": "%", "baseline_ms": "ms", "candidate_ms": "ms", "noise_pct": "%"}
    total = len(comparison.matching.pairs)
    return table_of(_KernelRow, rows, units).model_copy(update={"total_rows": total, "truncated": total > len(rows)})


def _kernel(compared: Compared, other_gpu: bool) -> _KernelRow:
    """The row of a pair; between different GPUs without the ratio of times."""
    effect = compared.effect
    judged = None if other_gpu else effect
    per = next(iter(compared.per_unit), None) if compared.work.answer != "yes" else None
    return _KernelRow(
        kernel=short(compared.pair.label),
        match=how(compared.pair),
        share_pct=_rounded(100 * compared.share),
        baseline_ms=effect and effect.baseline_ns / 1e6,
        candidate_ms=effect.candidate_ns / 1e6 if effect else None,
        speedup=judged and _rounded(judged.speedup),
        low=judged and _rounded(judged.low),
        high=judged and _rounded(judged.high),
        noise_pct=judged and _rounded(100 * judged.floor),
        n=effect and ", ".join(map(str, dict.fromkeys(effect.n))),
        verdict=compared.verdict,
        same_work=compared.work.answer,
        per_work=_rounded(compared.per_unit[per]) if per else None,
        per=per,
        status=_status(compared.doubt is not None),
        reason=compared.doubt and compared.doubt.text,
    )


def _work(pairs: Sequence[Compared], detail: Detail) -> Table | None:
    """The quantities that tell whether the work was the same, in one round of launches, the most telling first."""
    rows = [
        _WorkRow(
            kernel=brief(compared.pair),
            quantity=q.quantity,
            baseline=_rounded(q.before),
            candidate=_rounded(q.after),
            ratio=_rounded(q.ratio),
            speedup_per_unit=_rounded(compared.per_unit.get(q.quantity)),
            status=_status(q.quantity in compared.doubts),
        )
        for compared in pairs
        for q in compared.work.evidence[: None if detail == "full" else _WORK]
    ]
    return table_of(_WorkRow, rows) if rows else None


def _launch(pairs: Sequence[Compared]) -> Table | None:
    """How the launches differ."""
    rows = [
        _LaunchRow(brief(compared.pair), d.quantity, d.before, d.after, d.unit)
        for compared in pairs
        for d in compared.launched
    ]
    return table_of(_LaunchRow, rows) if rows else None


def _explanation(pairs: Sequence[Compared]) -> Table | None:
    """Terms whose ms add up to the change of the total time, and the factor that each puts on it."""
    rows = []
    for compared in (c for c in pairs if c.terms):
        name = brief(compared.pair)
        for t in compared.terms:
            values = _rounded_pair(t.before, t.after)
            status = _status(t.quantity in compared.doubts if t.quantity else bool(compared.doubts))
            rows.append(_TermRow(name, t.name, *values, t.unit or None, _rounded(t.factor), t.delta_ns / 1e6, status))
        total, before = sum(t.delta_ns for t in compared.terms), compared.before.time_ns * compared.before.rounds
        status = _status(TIME in compared.doubts)
        rows.append(_TermRow(name, "sum", None, None, None, _rounded(1 + total / before), total / 1e6, status))
    return table_of(_TermRow, rows, {"delta_ms": "ms"}) if rows else None


def _normalised(comparison: Comparison) -> Table:
    """Different GPUs: the least time on each one's own theoretical ceilings as a share of its time, and CU-cycles."""
    rows = []
    for compared in comparison.pairs[:_NORMALISED]:
        name = brief(compared.pair)
        first, second = _own_shares(compared.before, comparison.before), _own_shares(compared.after, comparison.after)
        for resource in (r for r in first if r in second and max(first[r], second[r]) > 0):
            values = _rounded_pair(first[resource], second[resource])
            rows.append(_FigureRow(name, resource, *values, "% of own ceiling"))
        cycles = _all_cycles(compared.before, comparison.before), _all_cycles(compared.after, comparison.after)
        if None not in cycles:
            rows.append(_FigureRow(name, "cycles of all units", *_rounded_pair(*cycles), "CU x cycles"))
    return table_of(_FigureRow, rows)


def _own_shares(side: Side, version: Version) -> dict[str, float]:
    """Resource -> its least time in percent of the time taken."""
    if version.ceilings is None or not side.time_ns:
        return {}
    least = least_times(side, version.workload.arch, version.ceilings)
    return {name: 100 * t.time_ns / side.time_ns for name, t in least.items()}


def _all_cycles(side: Side, version: Version) -> float | None:
    """The cycles of a round on all units."""
    cycles = side.amount("clock.of")
    units = version.workload.facts.get("cu_per_gpu") if version.workload.arch else None
    return cycles * units if cycles and units else None


def _metrics(comparison: Comparison, pairs: Sequence[Compared], detail: Detail) -> Table | None:
    """The metrics that changed most, of pairs of single kernels."""
    before, after, other_gpu = comparison.before.workload, comparison.after.workload, comparison.other_gpu is not None
    rows = []
    for pair in (c.pair for c in pairs if len(c.pair.before) == len(c.pair.after) == 1):
        changed = changes(before, pair.before[0], after, pair.after[0], other_gpu)
        rows += [_metric(brief(pair), change, other_gpu) for change in changed[: _METRICS[detail]]]
    return table_of(_MetricRow, rows) if rows else None


def _metric(kernel: str, change: Change, other_gpu: bool) -> _MetricRow:
    before, after = change.before, change.after
    values = before.value, after.value
    unit = before.unit if before.unit == after.unit else f"{before.unit} / {after.unit}"
    if other_gpu and before.pct_of_peak is not None and unit != "%":
        values, unit = (before.pct_of_peak, after.pct_of_peak), "% of own peak"
    better = "" if change.better is None else "yes" if change.better else "no"
    doubt = change.doubt
    status, reason = _status(doubt is not None), doubt and doubt.text
    return _MetricRow(kernel, before.name, *_rounded_pair(*values), unit, better, status, reason)


def _status(doubted: bool) -> str:
    return "suspect" if doubted else "ok"


def _few_names(names: Sequence[str]) -> list[str]:
    """The first names of a list, and how many follow."""
    more = [f"and {len(names) - _ONLY} more"] if len(names) > _ONLY else []
    return [short(n) for n in names[:_ONLY]] + more


def _rounded(value: float | None) -> float | None:
    """A value with the digits that an answer needs."""
    return None if value is None else float(f"{value:.{_FIGURES}g}")


def _rounded_pair(before: float | None, after: float | None) -> tuple[float | None, float | None]:
    return _rounded(before), _rounded(after)


def _next(comparison: Comparison) -> list[NextCall]:
    """Calls worth making next, from ids and closed sets only."""
    main, before, after = comparison.main, comparison.before, comparison.after
    calls = []
    arch = after.workload.arch
    if main is not None and main.work.answer == "unknown" and comparison.other_gpu is None and arch:
        arguments = {"gpu": arch, "metrics": ["roofline", "overview"]}
        why = "the counters that tell whether both did the same work"
        calls.append(NextCall(tool="plan_profile", arguments=arguments, why=why))
    grouped = any(c.pair.how == "group" for c in comparison.pairs)
    if comparison.matching.only_before and comparison.matching.only_after and not grouped:
        why = "kernels without a counterpart: fused or split ones are compared with group"
        calls.append(NextCall(tool="list_workloads", arguments={"workload": after.id}, why=why))
    if main is not None and main.verdict != "improved":
        arguments = {"workload": after.id}
        calls.append(NextCall(tool="diagnose_bottleneck", arguments=arguments, why="what limits it now"))
    if main is not None and main.several and before.workload.by == "kernel" and main.pair.how != "group":
        arguments = {"baseline": before.id, "candidate": after.id, "by": "launch"}
        why = "its launch configurations one by one, those of one name against each other"
        calls.append(NextCall(tool="compare_workloads", arguments=arguments, why=why))
    if before.id != after.id:
        arguments = {"kind": "compare", "workload": before.id, "candidate": after.id}
        calls.append(NextCall(tool="plot", arguments=arguments, why="both side by side"))
    return calls


def _steps(steps: Sequence[Comparison]) -> Table:
    """One row a step and pair: against the baseline and against the step before, with HBM traffic and bandwidth."""
    rows: list[_StepRow] = []
    last: dict[str, float] = {}
    for place, comparison in enumerate(steps):
        for compared in comparison.pairs:
            label = compared.pair.label if compared.pair.how == "group" else compared.pair.before[0]
            effect = compared.effect
            if place == 0:
                rows.append(_first_step(comparison, compared, label))
                last[label] = effect.baseline_ns if effect else 0.0
            rows.append(_step(comparison, compared, label, last.get(label)))
            last[label] = effect.candidate_ns if effect else 0.0
    units = {"ms": "ms", "hbm_bytes": "bytes", "hbm_gbs": "GB/s", "pct_of_peak": "%"}
    return table_of(_StepRow, rows, units)


def _first_step(comparison: Comparison, compared: Compared, label: str) -> _StepRow:
    row = _StepRow(comparison.before.name, short(label))
    if effect := compared.effect:
        row = row._replace(ms=effect.baseline_ns / 1e6, speedup=1.0)
    amounts = traffic(compared)
    return _with_bandwidth(row, comparison.before, compared.before, amounts and amounts[0])


def _step(comparison: Comparison, compared: Compared, label: str, last: float | None) -> _StepRow:
    effect, pair = compared.effect, compared.pair
    row = _StepRow(
        comparison.after.name,
        short(label if pair.how in ("group", "same_name") else pair.after[0]),
        ms=effect.candidate_ns / 1e6 if effect else None,
        verdict=compared.verdict,
        same_work=compared.work.answer,
    )
    if effect and comparison.other_gpu is None:
        row = row._replace(
            speedup=_rounded(effect.speedup),
            low=_rounded(effect.low),
            high=_rounded(effect.high),
            step_speedup=_rounded(last / effect.candidate_ns) if last else None,
        )
    amounts = traffic(compared)
    if amounts and compared.after.time_ns:
        more = amounts[1] / amounts[0]
        bandwidth = more * compared.before.time_ns / compared.after.time_ns
        row = row._replace(traffic_ratio=_rounded(more), bandwidth_ratio=_rounded(bandwidth))
    return _with_bandwidth(row, comparison.after, compared.after, amounts and amounts[1])


def _with_bandwidth(row: _StepRow, version: Version, side: Side, amount: float | None) -> _StepRow:
    if not amount or not side.time_ns:
        return row
    peak, rate = version.ceilings.value("hbm.bw") if version.ceilings else None, amount / side.time_ns
    share = _rounded(100 * rate / peak) if peak else None
    return row._replace(hbm_bytes=_rounded(amount), hbm_gbs=_rounded(rate), pct_of_peak=share)
