"""The tables of compare_workloads: pairs, groups, work, launches, terms of the change of time, series of versions."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...analysis.base.notes import Note
from ...analysis.catalogue import metrics as catalog
from ...analysis.comparison.claims import ResultClaim
from ...analysis.comparison.compare import ComparedPair, ComparedVersion, Comparison
from ...analysis.comparison.explain import MetricChange, MetricChanges, MetricSelection, changes, least_times
from ...analysis.comparison.matching import Pair
from ...analysis.comparison.sentences import brief_label, pairing_words, short, traffic
from ...analysis.comparison.timeline_changes import SPAN, StepChange
from ...analysis.comparison.work import Side
from ...analysis.hotspots import profile_changes as hotspots
from ...analysis.store.doubts import DURATION
from ..base.results import Table, table, table_of

_MEMBERS = 20
_FIGURES = 6
_LEAST_POINTS = 0.5
_MATCHED = {
    "text": "by their text",
    "line": "by file and line number: an edit that moves lines pairs the wrong ones",
    "instruction": "as instructions, by text without registers and by loop: the profiles contain no lines",
}
_NORMALISED = 2
_WorkRow = namedtuple("_WorkRow", "kernel quantity baseline candidate ratio speedup_per_unit status")
_LaunchRow = namedtuple("_LaunchRow", "kernel quantity baseline candidate unit")
_TermRow = namedtuple("_TermRow", "kernel term baseline candidate unit time_factor delta_ms total_delta_ms status")
_FigureRow = namedtuple("_FigureRow", "kernel figure baseline candidate unit")
_MetricRow = namedtuple("_MetricRow", "kernel metric baseline candidate unit better status reason")
_LineRow = namedtuple("_LineRow", "line baseline_pct candidate_pct change_points interval verdict")
_WallStepRow = namedtuple(
    "_WallStepRow", "step baseline_ms candidate_ms speedup low high noise_pct n verdict status reason"
)
_MemberRow = namedtuple("_MemberRow", "group side kernel launches per_round round_ms total_ms")
"""The rows of the tables, by their columns."""


@dataclass(frozen=True)
class Extent:
    """Maximum number of rows that the tables show; None for all.

    ``explained`` limits the pairs whose change of time is split into terms, ``measured`` the pairs of which all metrics
    are compared, which takes longest; ``kernels_of_one`` and ``metrics_of_one`` limit the names that only one workload
    has. Names are shortened unless ``whole_names``.
    """

    pairs: int | None = None
    explained: int | None = None
    measured: int | None = None
    work: int | None = None
    metrics: int | None = None
    lines: int | None = None
    kernels_of_one: int | None = None
    metrics_of_one: int | None = None
    whole_names: bool = False

    def kernel_name(self, name: str) -> str:
        """Return the name of a kernel or pair as the tables show it."""
        return name if self.whole_names else short(name)

    def pair(self, pair: Pair) -> str:
        """Return the name of a pair for the tables of its launches and metrics."""
        return pair.label if self.whole_names else brief_label(pair)


SUMMARY = Extent(pairs=5, explained=1, measured=1, work=6, metrics=6, lines=5, kernels_of_one=8, metrics_of_one=8)
FULL = Extent(pairs=50, explained=5, measured=5, metrics=20, lines=50, kernels_of_one=8, metrics_of_one=200)
EVERYTHING = Extent(measured=20, whole_names=True)


class _PairRow(NamedTuple):
    """A pair; ``*_ms`` are times of one launch (of a group: one round), ``*_total_ms`` those of all launches."""

    kernel: str
    match: str
    share_pct: float | None
    baseline_ms: float | None
    candidate_ms: float | None
    baseline_total_ms: float | None
    candidate_total_ms: float | None
    speedup: float | None
    low: float | None
    high: float | None
    noise_pct: float | None
    at_most_pct: float | None
    n: str | None
    verdict: str
    same_work: str
    per_work: float | None
    per: str | None
    status: str
    reason: str | None


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


def of_kernels(comparison: Comparison, extent: Extent) -> Table:
    """Return one row per pair: time per launch (of a group: per round) and of all, speed-up with interval, verdict."""
    rows = [_kernel(pair, comparison.other_gpu is not None, extent) for pair in comparison.pairs]
    units = dict.fromkeys((n for n in _PairRow._fields if n.endswith("_ms")), "ms")
    units |= dict.fromkeys((n for n in _PairRow._fields if n.endswith("_pct")), "%")
    return table_of(_PairRow, rows, units, len(comparison.matching.pairs))


def of_steps(changed: StepChange) -> Table:
    """Return the median wall time of a step before and after, its ratio with interval, and the verdict.

    The time from first to last work has no interval, and says why.
    """
    e = changed.effect
    row = _WallStepRow(
        changed.name,
        _round_value(e.baseline_ns / 1e6),
        _round_value(e.candidate_ns / 1e6),
        _round_value(e.speedup),
        _round_value(e.low),
        _round_value(e.high),
        _round_value(100 * e.floor),
        f"{e.n[0]}, {e.n[1]}",
        changed.verdict,
        _status(changed.doubt is not None),
        changed.doubt or ("no interval: one run of each side" if changed.name == SPAN else None),
    )
    return table_of(_WallStepRow, [row], {"baseline_ms": "ms", "candidate_ms": "ms", "noise_pct": "%"})


def _kernel(compared: ComparedPair, other_gpu: bool, extent: Extent) -> _PairRow:
    """Return the row of a pair; between different GPUs only the ratio of times, without a judgement."""
    effect = compared.effect
    judged = None if other_gpu else effect
    per = next(iter(compared.per_unit), None) if compared.work.answer != "yes" else None
    each = effect if not compared.in_total else None
    return _PairRow(
        kernel=extent.kernel_name(compared.pair.label),
        match=pairing_words(compared.pair),
        share_pct=_round_value(100 * compared.share),
        baseline_ms=_round_value(each.baseline_ns / 1e6) if each else None,
        candidate_ms=_round_value(each.candidate_ns / 1e6) if each else None,
        baseline_total_ms=_total_ms(compared.before),
        candidate_total_ms=_total_ms(compared.after),
        speedup=_round_value(effect.speedup) if effect else None,
        low=_round_value(judged.low) if judged else None,
        high=_round_value(judged.high) if judged else None,
        noise_pct=_round_value(100 * judged.floor) if judged else None,
        at_most_pct=_round_value(100 * judged.at_most) if judged and judged.at_most is not None else None,
        n=", ".join(map(str, dict.fromkeys(effect.n))) if effect else None,
        verdict=compared.verdict,
        same_work=compared.work.answer,
        per_work=_round_value(compared.per_unit[per]) if per else None,
        per=per,
        status=_status(compared.doubt is not None),
        reason=compared.doubt.text if compared.doubt else None,
    )


def _total_ms(side: Side) -> float | None:
    return _round_value(side.time_ns * side.rounds / 1e6) if side.time_ns else None


def of_claims(claims: Sequence[ResultClaim], extent: Extent) -> Table | None:
    """Return the claims of the candidate and the verdicts on them; the SQL is part of the full extent."""
    whole = table_of(ResultClaim, claims) if claims else None
    if whole is None or extent is not SUMMARY:
        return whole
    return table({"claim": None, "verdict": None, "why": None}, [row[:3] for row in whole.rows])


def of_groups(comparison: Comparison, extent: Extent) -> Table | None:
    """Return the kernels that a group matched on each side, their launches in total and per round, and the sums."""
    rows: list[_MemberRow] = []
    for compared in (c for c in comparison.pairs if c.pair.of_several):
        for word, side in (("baseline", compared.before), ("candidate", compared.after)):
            members = sorted(side.kernels, key=lambda k: -k.total_ns)
            shown = members if extent.whole_names else members[:_MEMBERS]
            told = [(extent.kernel_name(k.name), k.timed, k.total_ns) for k in shown]
            told.append((f"sum of {len(members)}", sum(k.timed for k in members), sum(k.total_ns for k in members)))
            for name, launches, total_ns in told:
                times = _round_value(total_ns / side.rounds / 1e6), _round_value(total_ns / 1e6)
                rows.append(
                    _MemberRow(compared.pair.label, word, name, launches, _round_value(launches / side.rounds), *times)
                )
    return table_of(_MemberRow, rows, {"round_ms": "ms", "total_ms": "ms"}) if rows else None


def of_work(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return the quantities that show whether the work was the same, per round of launches, most significant first."""
    rows = [
        _WorkRow(
            kernel=extent.pair(compared.pair),
            quantity=q.quantity,
            baseline=_round_value(q.before),
            candidate=_round_value(q.after),
            ratio=_round_value(q.ratio),
            speedup_per_unit=_round_value(compared.per_unit.get(q.quantity)),
            status=_status(q.quantity in compared.doubts),
        )
        for compared in pairs
        for q in compared.work.evidence[: extent.work]
    ]
    return table_of(_WorkRow, rows) if rows else None


def of_launches(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return how the launches differ, and their clocks."""
    rows = [
        _LaunchRow(extent.pair(compared.pair), d.quantity, d.before, d.after, d.unit)
        for compared in pairs
        for d in compared.launched
    ]
    return table_of(_LaunchRow, rows) if rows else None


def of_terms(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return terms whose ms add up to the change of the time per launch and of all launches, with their factors.

    None if no pair changed beyond noise, or if the change cannot be split.
    """
    rows = []
    for compared in (c for c in pairs if c.telling_terms):
        name, rounds = extent.pair(compared.pair), compared.rounds
        each = rounds[0] if rounds[0] == rounds[1] else None
        for t in compared.terms:
            values = _rounded_pair(t.before, t.after)
            status = _status(t.quantity in compared.doubts if t.quantity else bool(compared.doubts))
            factor = _round_value(t.factor)
            rows.append(_TermRow(name, t.name, *values, t.unit or None, factor, *_delta_ms(t.delta_ns, each), status))
        total, before = sum(t.delta_ns for t in compared.terms), compared.before.time_ns * compared.before.rounds
        factor, status = _round_value(1 + total / before), _status(DURATION in compared.doubts)
        rows.append(_TermRow(name, "sum", None, None, None, factor, *_delta_ms(total, each), status))
    return table_of(_TermRow, rows, {"delta_ms": "ms", "total_delta_ms": "ms"}) if rows else None


def _delta_ms(total_ns: float, launches: int | None) -> tuple[float | None, float | None]:
    """Return a change of time per launch, if both sides have the same number of launches, and in total."""
    return _round_value(total_ns / launches / 1e6 if launches else None), _round_value(total_ns / 1e6)


def of_shares(comparison: Comparison) -> Table:
    """For different GPUs: return the least time at each GPU's theoretical ceilings as a share of its time."""
    rows = []
    for compared in comparison.pairs[:_NORMALISED]:
        name = brief_label(compared.pair)
        first, second = _own_shares(compared.before, comparison.before), _own_shares(compared.after, comparison.after)
        for resource in (r for r in first if r in second and max(first[r], second[r]) > 0):
            values = _rounded_pair(first[resource], second[resource])
            rows.append(_FigureRow(name, resource, *values, "% of own ceiling"))
        cycles = _all_cycles(compared.before, comparison.before), _all_cycles(compared.after, comparison.after)
        if None not in cycles:
            rows.append(_FigureRow(name, "cycles of all units", *_rounded_pair(*cycles), "CU x cycles"))
    return table_of(_FigureRow, rows)


def _own_shares(side: Side, version: ComparedVersion) -> dict[str, float]:
    """Return resource -> its least time in percent of the time taken."""
    if version.ceilings is None or not side.time_ns:
        return {}
    least = least_times(side, version.workload.arch, version.ceilings)
    return {name: 100 * t.time_ns / side.time_ns for name, t in least.items()}


def _all_cycles(side: Side, version: ComparedVersion) -> float | None:
    """Return the cycles of a round, added up over all compute units."""
    cycles = side.amount("clock.of")
    units = version.workload.facts.get("cu_per_gpu") if version.workload.arch else None
    return cycles * units if cycles and units else None


def changed_metrics(
    comparison: Comparison, pairs: Sequence[ComparedPair], words: Sequence[str] = ()
) -> list[tuple[ComparedPair, MetricChanges]]:
    """Return what changed in each pair of single kernels, or the named metrics."""
    before, after, other_gpu = comparison.before.workload, comparison.after.workload, comparison.other_gpu is not None
    single = [c for c in pairs if len(c.pair.before) == len(c.pair.after) == 1]
    if not single and before.arch in catalog.targets_with_metrics():
        catalog.select(before.arch, words)  # an unknown word is an error although no pair has metrics to show
    asked = MetricSelection(words, other_gpu)
    return [(c, changes(before, c.pair.before[0], after, c.pair.after[0], asked)) for c in single]


def of_metrics(
    changes: Sequence[tuple[ComparedPair, MetricChanges]], other_gpu: bool, extent: Extent, most: int | None = None
) -> Table | None:
    """Return the metrics that changed most (at most ``most``), rated only if the change of time agrees."""
    rows = [
        _metric(extent.pair(compared.pair), compared, change, other_gpu)
        for compared, told in changes
        for change in told.changed[: most or extent.metrics]
    ]
    return table_of(_MetricRow, rows) if rows else None


def _metric(kernel: str, compared: ComparedPair, change: MetricChange, other_gpu: bool) -> _MetricRow:
    before, after = change.before, change.after
    values = before.value, after.value
    unit = before.unit if before.unit == after.unit else f"{before.unit} / {after.unit}"
    if other_gpu and before.pct_of_peak is not None and unit != "%":
        values, unit = (before.pct_of_peak, after.pct_of_peak), "% of own peak"
    good = change.better(compared.verdict)
    better = None if good is None else "yes" if good else "no"
    doubt = change.doubt
    status, reason = _status(doubt is not None), doubt and doubt.text
    return _MetricRow(kernel, before.name, *_rounded_pair(*values), unit, better, status, reason)


def of_series(steps: Sequence[Comparison], extent: Extent) -> Table:
    """Return one row per version and pair: compared with the baseline and the previous version, with HBM traffic."""
    rows: list[_StepRow] = []
    last: dict[str, float] = {}
    for place, comparison in enumerate(steps):
        for compared in comparison.pairs:
            label = compared.pair.label if compared.pair.of_several else compared.pair.before[0]
            effect = compared.effect
            if place == 0:
                rows.append(_first_step(comparison, compared, label, extent))
                last[label] = effect.baseline_ns if effect else 0.0
            after = label if compared.pair.how in ("group", "fused", "same_name") else compared.pair.after[0]
            rows.append(_step(comparison, compared, extent.kernel_name(after), last.get(label)))
            last[label] = effect.candidate_ns if effect else 0.0
    units = {"ms": "ms", "hbm_bytes": "bytes", "hbm_gbs": "GB/s", "pct_of_peak": "%"}
    return table_of(_StepRow, rows, units)


def _first_step(comparison: Comparison, compared: ComparedPair, label: str, extent: Extent) -> _StepRow:
    row = _StepRow(comparison.before.name, extent.kernel_name(label))
    if effect := compared.effect:
        row = row._replace(ms=effect.baseline_ns / 1e6, speedup=1.0)
    amounts = traffic(compared)
    return _with_bandwidth(row, comparison.before, compared.before, amounts and amounts[0])


def _step(comparison: Comparison, compared: ComparedPair, kernel: str, last: float | None) -> _StepRow:
    effect = compared.effect
    row = _StepRow(
        comparison.after.name,
        kernel,
        ms=effect.candidate_ns / 1e6 if effect else None,
        verdict=compared.verdict,
        same_work=compared.work.answer,
    )
    if effect and comparison.other_gpu is None:
        row = row._replace(
            speedup=_round_value(effect.speedup),
            low=_round_value(effect.low),
            high=_round_value(effect.high),
            step_speedup=_round_value(last / effect.candidate_ns) if last else None,
        )
    amounts = traffic(compared)
    if amounts and compared.after.time_ns:
        more = amounts[1] / amounts[0]
        bandwidth = more * compared.before.time_ns / compared.after.time_ns
        row = row._replace(traffic_ratio=_round_value(more), bandwidth_ratio=_round_value(bandwidth))
    return _with_bandwidth(row, comparison.after, compared.after, amounts and amounts[1])


def _with_bandwidth(row: _StepRow, version: ComparedVersion, side: Side, amount: float | None) -> _StepRow:
    if not amount or not side.time_ns:
        return row
    peak, rate = version.ceilings.value("hbm.bw") if version.ceilings else None, amount / side.time_ns
    share = _round_value(100 * rate / peak) if peak else None
    return row._replace(hbm_bytes=_round_value(amount), hbm_gbs=_round_value(rate), pct_of_peak=share)


def names(kernels: Sequence[str], extent: Extent) -> list[str]:
    """Return the first names of a list, and how many follow."""
    return few([extent.kernel_name(n) for n in kernels], extent.kernels_of_one)


def few(listed: list[str], most: int | None) -> list[str]:
    """Return the first entries of a list, and how many follow."""
    more = [f"and {len(listed) - most} more"] if most is not None and len(listed) > most else []
    return listed[:most] + more


def _status(doubted: bool) -> str:
    return "suspect" if doubted else "ok"


def _round_value(value: float | None) -> float | None:
    """Round a value to the digits that an answer needs."""
    return None if value is None else float(f"{value:.{_FIGURES}g}")


def _rounded_pair(before: float | None, after: float | None) -> tuple[float | None, float | None]:
    return _round_value(before), _round_value(after)


def changed_lines(comparison: Comparison) -> hotspots.LineChanges | None:
    """Return the changed lines of the most important pair; None unless it is a pair of two sampled kernels."""
    main = comparison.main
    if main is None or not len(main.pair.before) == len(main.pair.after) == 1:
        return None
    before, after = comparison.before.workload, comparison.after.workload
    return hotspots.changes(before, main.pair.before[0], after, main.pair.after[0])


def of_lines(changes: hotspots.LineChanges, extent: Extent) -> Table:
    """Return the lines whose share of the samples, or of the cycles of thread traces, changed most."""
    changed = [row for row in changes.lines if abs(row.difference) >= _LEAST_POINTS]
    rows = [
        _LineRow(
            row.place,
            round(row.before_pct, 1),
            round(row.after_pct, 1),
            round(row.difference, 1),
            f"{row.interval.low:.1f} to {row.interval.high:.1f}" if row.interval else None,
            row.verdict,
        )
        for row in changed[: extent.lines]
    ]
    units = {"baseline_pct": "%", "candidate_pct": "%", "change_points": "points", "interval": "points"}
    return table_of(_LineRow, rows, units, len(changed))


def about_lines(changes: hotspots.LineChanges | None) -> list[Note]:
    """Return notes on how lines were matched, and on whether there are enough samples."""
    if changes is None:
        return []
    shares = f"shares are of each version's {changes.unit}"
    told = [Note("lines_matched", f"Lines were matched {_MATCHED[changes.how]}; {shares}.")]
    if changes.unit == "cycles":
        text = "Cycles of the traced waves have no interval: trace each version more than once to know what is chance."
        if changes.hidden_pct:
            before, after = changes.hidden_pct
            text += f" Other waves covered {before:.0f} % of them in the baseline and {after:.0f} % in the candidate."
        told.append(Note("traced_waves", text))
    if changes.few:
        text = f"{min(changes.totals)} samples in one version are too few to show a change of its lines."
        told.append(Note("few_samples", text))
    return told
