"""The tables of compare_workloads: pairs, groups, work, launches, terms of the change of time, series of versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.base.notes import Note
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue.search import select_metrics
from ...analysis.comparison.claims import ResultClaim
from ...analysis.comparison.compare import ComparedPair, ComparedVersion, Comparison
from ...analysis.comparison.explain import MetricChange, MetricChanges, MetricSelection, changes, least_times
from ...analysis.comparison.matching import Pair
from ...analysis.comparison.sentences import brief_label, pairing_words, short, traffic
from ...analysis.comparison.timeline_changes import SPAN, StepChange
from ...analysis.comparison.work import Side
from ...analysis.hotspots import profile_changes as hotspots
from ...analysis.store.doubts import DURATION
from ..base.results import Table
from .sentences import note, sentence
from .tables import Row, table_from

_MEMBERS = 20
_LEAST_POINTS = 0.5
_MATCHED = {"text": "lines.by_text", "line": "lines.by_line", "instruction": "lines.by_instruction"}
_NORMALISED = 2
_STEP_VALUES = (
    "ns", "speedup", "judged", "same_work", "step_speedup", "bytes", "rate", "of_peak", "more", "more_bandwidth"
)  # fmt: skip


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


def pair_table(comparison: Comparison, extent: Extent) -> Table:
    """Return one row per pair: time per launch (of a group: per round) and of all, speed-up with interval, verdict."""
    rows = [_kernel(pair, comparison.other_gpu is not None, extent) for pair in comparison.pairs]
    return table_from("pairs", rows, len(comparison.matching.pairs))


def step_table(changed: StepChange) -> Table:
    """Return the median wall time of a step before and after, its ratio with interval, and the verdict.

    The time from first to last work has no interval, and says why.
    """
    reason = changed.doubt or ("no interval: one run of each side" if changed.name == SPAN else None)
    n, status = "{}, {}".format(*changed.effect.n), _status(changed.doubt is not None)
    return table_from("compared_steps", [{"step": changed, "n": n, "status": status, "reason": reason}])


def _kernel(compared: ComparedPair, other_gpu: bool, extent: Extent) -> Row:
    """Return the row of a pair; between different GPUs only the ratio of times, without a judgement."""
    effect = compared.effect
    per = next(iter(compared.per_unit), None) if compared.work.answer != "yes" else None
    return {
        "pair": compared,
        "kernel": extent.kernel_name(compared.pair.label),
        "match": pairing_words(compared.pair),
        "effect": effect,
        "judged": None if other_gpu else effect,
        "each": None if compared.in_total else effect,
        "baseline_ns": compared.before.time_ns * compared.before.rounds or None,
        "candidate_ns": compared.after.time_ns * compared.after.rounds or None,
        "n": ", ".join(map(str, dict.fromkeys(effect.n))) if effect else None,
        "per_work": compared.per_unit.get(per or ""),
        "per": per,
        "status": _status(compared.doubt is not None),
    }


def claim_table(claims: Sequence[ResultClaim], extent: Extent) -> Table | None:
    """Return the claims of the candidate and the verdicts on them; the SQL is part of the full extent."""
    rows = [claim._asdict() for claim in claims]
    return table_from("claims", rows, full=extent is not SUMMARY) if rows else None


def group_table(comparison: Comparison, extent: Extent) -> Table | None:
    """Return the kernels that a group matched on each side, their launches in total and per round, and the sums."""
    rows = []
    for compared in (c for c in comparison.pairs if c.pair.of_several):
        for word, side in (("baseline", compared.before), ("candidate", compared.after)):
            members = sorted(side.kernels, key=lambda k: -k.total_ns)
            shown = members if extent.whole_names else members[:_MEMBERS]
            told = [(extent.kernel_name(k.name), k.timed, k.total_ns) for k in shown]
            told.append((f"sum of {len(members)}", sum(k.timed for k in members), sum(k.total_ns for k in members)))
            for name, launches, ns in told:
                per_round = {"per_round": launches / side.rounds, "round_ns": ns / side.rounds}
                row = {"group": compared.pair.label, "side": word, "kernel": name, "launches": launches, "ns": ns}
                rows.append(row | per_round)
    return table_from("members", rows) if rows else None


def work_table(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return the quantities that show whether the work was the same, per round of launches, most significant first."""
    rows = [
        {
            "kernel": extent.pair(compared.pair),
            "of": q,
            "per_unit": compared.per_unit.get(q.quantity),
            "status": _status(q.quantity in compared.doubts),
        }
        for compared in pairs
        for q in compared.work.evidence[: extent.work]
    ]
    return table_from("work", rows) if rows else None


def launch_table(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return how the launches differ, and their clocks."""
    rows = [{"kernel": extent.pair(compared.pair), "of": d} for compared in pairs for d in compared.launched]
    return table_from("launches", rows) if rows else None


def term_table(pairs: Sequence[ComparedPair], extent: Extent) -> Table | None:
    """Return terms whose ms add up to the change of the time per launch and of all launches, with their factors.

    None if no pair changed beyond noise, or if the change cannot be split.
    """
    rows = []
    for compared in (c for c in pairs if c.telling_terms):
        name, rounds = extent.pair(compared.pair), compared.rounds
        # A change per launch needs the same number of launches on both sides.
        each = rounds[0] if rounds[0] == rounds[1] else None
        total, before = sum(t.delta_ns for t in compared.terms), compared.before.time_ns * compared.before.rounds
        terms = [(t, t.name, t.delta_ns, t.factor, t.quantity) for t in compared.terms]
        for t, term, delta_ns, factor, quantity in [*terms, (None, "sum", total, 1 + total / before, DURATION)]:
            status = _status(quantity in compared.doubts if quantity else bool(compared.doubts))
            row = {"kernel": name, "name": term, "of": t, "unit": (t and t.unit) or None, "factor": factor}
            rows.append(row | {"each_ns": delta_ns / each if each else None, "total_ns": delta_ns, "status": status})
    return table_from("terms", rows) if rows else None


def share_table(comparison: Comparison) -> Table:
    """For different GPUs: return the least time at each GPU's theoretical ceilings as a share of its time."""
    versions, rows = (comparison.before, comparison.after), []
    for compared in comparison.pairs[:_NORMALISED]:
        sides = zip((compared.before, compared.after), versions, strict=True)
        (first, cycles), (second, other_cycles) = ((_own_shares(*of), _all_cycles(*of)) for of in sides)
        figures = [(r, first[r], second[r], "% of own ceiling") for r in first if r in second]
        if cycles is not None and other_cycles is not None:
            figures.append(("cycles of all units", cycles, other_cycles, "CU x cycles"))
        rows += [
            {"kernel": brief_label(compared.pair), "figure": figure, "before": before, "after": after, "unit": unit}
            for figure, before, after, unit in figures
            if max(before, after) > 0
        ]
    return table_from("shares", rows)


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
        select_metrics(before.arch, words)  # an unknown word is an error although no pair has metrics to show
    asked = MetricSelection(words, other_gpu)
    return [(c, changes(before, c.pair.before[0], after, c.pair.after[0], asked)) for c in single]


def metric_table(
    changes: Sequence[tuple[ComparedPair, MetricChanges]], other_gpu: bool, extent: Extent, most: int | None = None
) -> Table | None:
    """Return the metrics that changed most (at most ``most``), rated only if the change of time agrees."""
    rows = [
        _metric(extent.pair(compared.pair), compared, change, other_gpu)
        for compared, told in changes
        for change in told.changed[: most or extent.metrics]
    ]
    return table_from("compared_metrics", rows) if rows else None


def _metric(kernel: str, compared: ComparedPair, change: MetricChange, other_gpu: bool) -> Row:
    before, after = change.before, change.after
    values = before.value, after.value
    unit = before.unit if before.unit == after.unit else f"{before.unit} / {after.unit}"
    if other_gpu and before.pct_of_peak is not None and unit != "%":
        values, unit = (before.pct_of_peak, after.pct_of_peak), "% of own peak"
    good = change.better(compared.verdict)
    return {
        "kernel": kernel,
        "metric": before.name,
        "baseline": values[0],
        "candidate": values[1],
        "unit": unit,
        "better": None if good is None else "yes" if good else "no",
        "status": _status(change.doubt is not None),
        "doubt": change.doubt,
    }


def series_table(steps: Sequence[Comparison], extent: Extent) -> Table:
    """Return one row per version and pair: compared with the baseline and the previous version, with HBM traffic."""
    rows: list[Row] = []
    last: dict[str, float] = {}
    for place, comparison in enumerate(steps):
        for compared in comparison.pairs:
            label = compared.pair.label if compared.pair.of_several else compared.pair.before[0]
            effect = compared.effect
            if place == 0:
                rows.append(_first_step(comparison, compared, extent.kernel_name(label)))
                last[label] = effect.baseline_ns if effect else 0.0
            after = label if compared.pair.how in ("group", "fused", "same_name") else compared.pair.after[0]
            rows.append(_step(comparison, compared, extent.kernel_name(after), last.get(label)))
            last[label] = effect.candidate_ns if effect else 0.0
    return table_from("series", rows)


def _first_step(comparison: Comparison, compared: ComparedPair, kernel: str) -> Row:
    effect, amounts = compared.effect, traffic(compared)
    row = _bandwidth(comparison.before, compared.before, amounts and amounts[0])
    times = {"ns": effect.baseline_ns, "speedup": 1.0} if effect else {}
    return row | times | {"kernel": kernel, "verdict": "baseline"}


def _step(comparison: Comparison, compared: ComparedPair, kernel: str, last: float | None) -> Row:
    effect, amounts = compared.effect, traffic(compared)
    row = _bandwidth(comparison.after, compared.after, amounts and amounts[1])
    row |= {"kernel": kernel, "verdict": compared.verdict, "same_work": compared.work.answer}
    if effect:
        row["ns"] = effect.candidate_ns
    if effect and comparison.other_gpu is None:
        row |= {"judged": effect, "speedup": effect.speedup}
        row["step_speedup"] = last / effect.candidate_ns if last else None
    if amounts and compared.after.time_ns:
        row["more"] = amounts[1] / amounts[0]
        row["more_bandwidth"] = row["more"] * compared.before.time_ns / compared.after.time_ns
    return row


def _bandwidth(version: ComparedVersion, side: Side, amount: float | None) -> Row:
    """Return the row of a version with its HBM traffic; all else is unknown."""
    row = dict.fromkeys(_STEP_VALUES) | {"workload": version.name}
    if amount and side.time_ns:
        peak, rate = version.ceilings.value("hbm.bw") if version.ceilings else None, amount / side.time_ns
        row |= {"bytes": amount, "rate": rate, "of_peak": 100 * rate / peak if peak else None}
    return row


def kernel_names(kernels: Sequence[str], extent: Extent) -> list[str]:
    """Return the first names of a list, and how many follow."""
    return first_names([extent.kernel_name(n) for n in kernels], extent.kernels_of_one)


def first_names(listed: list[str], most: int | None) -> list[str]:
    """Return the first entries of a list, and how many follow."""
    more = [f"and {len(listed) - most} more"] if most is not None and len(listed) > most else []
    return listed[:most] + more


def _status(doubted: bool) -> str:
    return "suspect" if doubted else "ok"


def changed_lines(comparison: Comparison) -> hotspots.LineChanges | None:
    """Return the changed lines of the most important pair; None unless it is a pair of two sampled kernels."""
    main = comparison.main
    if main is None or not len(main.pair.before) == len(main.pair.after) == 1:
        return None
    before, after = comparison.before.workload, comparison.after.workload
    return hotspots.changes(before, main.pair.before[0], after, main.pair.after[0])


def line_table(changes: hotspots.LineChanges, extent: Extent) -> Table:
    """Return the lines whose share of the samples, or of the cycles of thread traces, changed most."""
    changed = [row for row in changes.lines if abs(row.difference) >= _LEAST_POINTS]
    rows = [
        {"line": row, "interval": f"{row.interval.low:.1f} to {row.interval.high:.1f}" if row.interval else None}
        for row in changed[: extent.lines]
    ]
    return table_from("lines", rows, len(changed))


def line_notes(changes: hotspots.LineChanges | None) -> list[Note]:
    """Return notes on how lines were matched, and on whether there are enough samples."""
    if changes is None:
        return []
    told = [note("lines.lines_matched", how=sentence(_MATCHED[changes.how]), unit=changes.unit)]
    if changes.unit == "cycles":
        hidden = sentence("lines.hidden", pct=changes.hidden_pct) if changes.hidden_pct else ""
        told.append(note("lines.traced_waves", hidden=hidden))
    if changes.few:
        told.append(note("lines.few_samples", samples=min(changes.totals)))
    return told
