"""The sentences about a comparison: the verdict, and notes on the pairs, the times and the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import kernel_names
from ..base.notes import Note
from ..base.text import count_text
from ..catalogue.thresholds import threshold
from ..launches import device_clocks
from ..store.doubts import DURATION
from ..store.schema import split_label
from .claims import ResultClaim
from .compare import ComparedPair, Comparison
from .explain import MetricChange
from .matching import Pair
from .time_ratio import ENOUGH, Effect
from .timeline_changes import SPAN, WallTimeChange, WallTimePart
from .work import DIFFERENT

_NAME = 90
"""The maximum number of characters of a kernel's name in a sentence or a table."""
_TRAFFIC = threshold("comparison.same_traffic")
_APART = threshold("comparison.traffic_apart")
_DRIFT_SHARE = threshold("comparison.drift_share")
_CLOCK = threshold("comparison.clock_change")
_HIT_RATE = "hit_rate_pct"
_UNITS = {"flop": "FLOP", "hbm_bytes": "byte of HBM traffic", "global_bytes_asked": "byte asked for"}
_CAUSES = 8
_HOW = {
    "same_name": "same name",
    "parameters": "same but for parameters",
    "only": "the only kernel",
    "similar": "similar name",
    "fused": "several against one, launched equally often",
    "group": "group",
}


_DIFFERENT_WORK = "Not to be published as a speed-up."
_AFTER_CHECK = "To be published only after a check that both do the same work."
_OTHER_LAUNCHES = "Their launches differ: these times are comparable only if both did the same work."
_MOST_OF_CHANGE = 0.5


def summary(comparison: Comparison, against: Sequence[ResultClaim] = (), wall: WallTimeChange | None = None) -> str:
    """Whether the result may be published, then the verdict of the pair that takes the most time.

    ``against`` are the claims of the candidate that its profile contradicts. If the ``wall`` time changed, that comes
    first, otherwise last. Kernels that take most of one side's time and have no counterpart come before any pair.
    """
    alone = _unpaired_text(comparison)
    verdict = _verdict_text(comparison)
    changed = "" if wall is None else _wall_text(wall)
    if wall is not None and wall.steps.beyond_noise and not against:
        told = [changed, _condition(comparison, wall), alone, verdict]
    else:
        told = [alone, _DIFFERENT_WORK if against else _publishable(comparison), verdict, changed]
    return " ".join(filter(None, told))


def _condition(comparison: Comparison, wall: WallTimeChange) -> str:
    """What a change of the wall time depends on; nothing if both did the same work."""
    before, after = ({k.name: k.launches for k in v.kernels.values()} for v in (comparison.before, comparison.after))
    if wall.steps.name == SPAN and before != after:
        return _OTHER_LAUNCHES
    return "" if comparison.main and comparison.main.work.answer in ("yes", "probably") else _AFTER_CHECK


def _wall_text(wall: WallTimeChange) -> str:
    """The wall time of a step, or the time from first to last work, if it changed, with what most of its change is."""
    changed = wall.steps
    if changed.name != SPAN:
        counted = f"{changed.effect.n[0]} and {count_text(changed.effect.n[1], 'step')}"
        return f"Wall time of a step: {changed.verdict}, {_times(changed.effect)}, medians of {counted}."
    if not changed.beyond_noise:
        return ""
    first = wall.parts[0]
    text = f"{_span_text(wall)}, x {changed.effect.speedup:.3g}, one run of each (no interval)"
    if first.delta / (wall.after - wall.before) >= _MOST_OF_CHANGE:
        text += f"; most of it: {first.name} {_span_text(first)}"
    return f"Time between first and last work of the device: {text}."


def _span_text(of: WallTimeChange | WallTimePart) -> str:
    """Two times with a common unit."""
    unit, size = ("s", 1e9) if max(of.before, of.after) >= 1e9 else ("ms", 1e6)
    return f"{of.before / size:.4g} -> {of.after / size:.4g} {unit}"


def _unpaired_text(comparison: Comparison) -> str:
    """The kernels that take most time of one side and have no counterpart."""
    found, told = comparison.matching, []
    for version, only in ((comparison.before, found.only_before), (comparison.after, found.only_after)):
        if (longest := next(iter(version.kernels), "")) in only:
            share = f"{100 * version.share([longest]):.3g} % of the kernels' time of {version.name}"
            told.append(f"{short(longest)} takes {share} and is only there.")
    return " ".join(told)


def _times(e: Effect) -> str:
    """The times before and after, and the speed-up with its interval, if there is one."""
    interval = f" (95 % interval {e.low:.3f} to {e.high:.3f})" if e.low is not None and e.high is not None else ""
    return f"{e.baseline_ns / 1e6:.4g} ms -> {e.candidate_ns / 1e6:.4g} ms, speed-up x {e.speedup:.3f}{interval}"


def _publishable(comparison: Comparison) -> str:
    """Whether the ratio of the main pair may be published as the effect of the change; nothing without times."""
    main = comparison.main
    if main is None or main.effect is None:
        return ""
    if comparison.other_gpu is not None or main.work.answer in DIFFERENT:
        return _DIFFERENT_WORK
    if main.verdict == "inconclusive":
        return "Not to be published as a difference."
    if main.work.answer == "unknown":
        return _AFTER_CHECK
    return "May be published." if main.work.answer == "yes" else "May be published once the results are checked."


def _verdict_text(comparison: Comparison) -> str:
    """The verdict of the pair that takes the most time, in one or two sentences."""
    main = comparison.main
    if main is None:
        return "No kernel of one workload has a counterpart in the other."
    name, e = short(main.pair.label), main.effect
    if e is None:
        return f"{name}: {main.verdict}, {main.why}."
    if comparison.other_gpu is not None:
        time = f"{e.baseline_ns / 1e6:.4g} ms and {e.candidate_ns / 1e6:.4g} ms"
        return (
            f"{name}: inconclusive, {comparison.other_gpu}. {time}; speedup x {e.speedup:.3f} is the ratio of "
            "the times of two GPUs, not the effect of a change. The table normalised relates each to its own ceilings."
        )
    time = _times(e)
    if main.work.answer in DIFFERENT:
        surely = "" if main.work.answer == "no" else "probably "
        return f"{name}: {surely}not like for like. {time} in time, but {main.work.why}. {_per_unit(main)}"
    if main.work.answer in ("yes", "probably"):
        said = "Same work" if main.work.answer == "yes" else "Probably the same work"
        return f"{name}: {main.verdict}, {time}; {main.why}. {said}: {main.work.why}."
    text = f"{name}: {main.verdict} by time alone, {time}; {main.why}. Whether both did the same work is unknown: "
    return f"{text}{main.work.why}. {_per_unit(main)}".rstrip()


def series_summary(steps: Sequence[Comparison]) -> str:
    """The speed-up of every step over the baseline, and the best significant one."""
    timed = [(c.after.name, p, p.effect.speedup, c.other_gpu is None) for c in steps for p in c.pairs if p.effect]
    if not timed:
        return "No kernel of the baseline has a timed counterpart."
    words = [
        f"{name} x {speedup:.3f} ({'not like for like' if p.work.answer in DIFFERENT else p.verdict})"
        for name, p, speedup, alike in timed
        if alike
    ]
    improved = [(name, speedup) for name, p, speedup, _ in timed if p.verdict == "improved"]
    best = max(improved, key=lambda step: step[1], default=None)
    lead = f"Best so far: {best[0]}. " if best else "No step is a significant improvement. "
    return f"{lead}Speed-up over {steps[0].before.name}: {', '.join(words)}."


def notes(comparison: Comparison) -> list[Note]:
    """Notes on the pairs, the times and the two workloads."""
    before, after, pairs = comparison.before, comparison.after, comparison.pairs
    notes: list[Note | None] = []
    if before.id == after.id and any(c.pair.before == c.pair.after for c in pairs):
        notes.append(Note("same_workload", "Baseline and candidate are the same workload."))
    for compared in pairs:
        pair = compared.pair
        if pair.how not in ("same_name", "group"):
            text = f"Treated as versions of each other, {pairing_words(pair)}: {short(pair.label)}."
            notes.append(Note("taken_for_versions", text))
        notes += [_traffic_note(compared), _launches(compared), _medians(compared)]
        notes.append(_doubt_note(compared))
    notes += [_few_launches(comparison), _whole(comparison)]
    if any(c.telling_terms for c in pairs):
        notes.append(
            Note(
                "terms_add_up",
                "explanation: the ms of the terms add up to the change in the mean time of a launch (total: of all), "
                "whereas speedup, baseline_ms and candidate_ms are medians. What lacks counters in one workload, "
                "and what causes lists, is part of the last term.",
            )
        )
    manifests = [before.workload.manifest, after.workload.manifest]
    if partial := [m.name for m in manifests if "partial" in m.tags]:
        notes.append(Note("partial_profiles", f"Partial profiles: {', '.join(partial)}."))
    notes += _clocks(comparison)
    if len({m.host for m in manifests if m.host}) > 1:
        text = "The workloads were measured on different machines, whose clocks and cooling may differ."
        notes.append(Note("other_machine", text))
    return list(dict.fromkeys(note for note in notes if note))


def _clocks(comparison: Comparison) -> list[Note]:
    """How far the sampled clocks explain the ratio of times of the longest pair; only for the same kind of GPU."""
    main = comparison.main
    if comparison.other_gpu:
        return []
    ratio = main.effect.candidate_ns / main.effect.baseline_ns if main and main.effect else None
    return device_clocks.clock_difference_notes(comparison.before.workload, comparison.after.workload, ratio)


def series_notes(steps: Sequence[Comparison]) -> list[Note]:
    """Notes on the steps of a series, and on their differences."""
    notes = []
    for c in steps:
        name = c.after.name
        if c.other_gpu:
            notes.append(Note("other_gpu", f"{name}: {c.other_gpu}; its times cannot be compared."))
        for pair in c.pairs:
            if pair.work.answer in DIFFERENT:
                text = f"{name}: not like for like, {pair.work.why}. {_per_unit(pair)}"
                notes.append(Note("not_like_for_like", text))
            if risen := _traffic_note(pair):
                notes.append(Note(risen.code, f"{name}: {risen}"))
        notes += [Note(note.code, f"{name}: {note.text}") for note in _clocks(c)]
        if not c.pairs:
            notes.append(Note("no_counterpart", f"{name}: no kernel has a counterpart in the baseline."))
    if few := [p.effect for c in steps for p in c.pairs if p.effect and min(p.effect.n) < ENOUGH]:
        notes.append(
            Note(
                "few_launches",
                f"Fewer than {ENOUGH} timed launches in {len(few)} of {count_text(len(steps), 'step')}: no "
                "interval, and a noise "
                f"floor of {max(e.floor for e in few):.0%}.",
            )
        )
    return list(dict.fromkeys(notes))


def _per_unit(compared: ComparedPair) -> str:
    """The speed-up per unit of work."""
    ratios = [
        f"x {ratio:.3f} per {_UNITS.get(name, name.replace('_', ' ').removesuffix('s'))}"
        for name, ratio in compared.per_unit.items()
    ]
    if not ratios:
        return ""
    more = f"; {', '.join(ratios[1:3])}" if len(ratios) > 1 else ""
    if compared.work.answer not in DIFFERENT:
        return f"By unit: {ratios[0]}{more}."
    judged = "slower" if next(iter(compared.per_unit.values())) < 1 else "faster"
    return f"Per unit of work the candidate is {judged}: {ratios[0]}{more}."


def _traffic_note(compared: ComparedPair) -> Note | None:
    """A note if bandwidth rose only because more bytes were moved."""
    amounts, before, after = traffic(compared), compared.before.time_ns, compared.after.time_ns
    if amounts is None or not before or not after:
        return None
    more, faster = amounts[1] / amounts[0], before / after
    if more < _TRAFFIC or compared.work.answer in DIFFERENT or more * faster <= 1:
        return None
    return Note(
        "traffic_rose",
        f"HBM bandwidth rose x {more * faster:.2f} but the speed-up is x {faster:.2f}: traffic rose by {more - 1:.0%}. "
        "A higher percentage of peak alone is not an improvement.",
    )


def _launches(compared: ComparedPair) -> Note | None:
    sides = compared.before, compared.after
    before, after = (sum(k.timed for k in side.kernels) for side in sides)
    lost = sum(k.launches - k.timed for side in sides for k in side.kernels)
    words = []
    if before != after and compared.effect is not None:
        words.append(f"launched {before} and {after} times; {_basis(compared)} compared")
    if lost:
        words.append(f"{count_text(lost, 'launch has', 'launches have')} no usable time and are ignored")
    return Note("launches", f"{short(compared.pair.label)}: {'; '.join(words)}.") if words else None


def _basis(compared: ComparedPair) -> str:
    if compared.in_total:
        return "whole profiles are"
    if not compared.pair.of_several:
        return "one launch is"
    return f"{compared.rounds[0]} and {compared.rounds[1]} rounds of all kernels of the group are"


def _doubt_note(compared: ComparedPair) -> Note | None:
    """A note on the quantities of a pair that depend on doubted counters or times."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in compared.doubts.items():
        by_reason.setdefault(reason.text, []).append("time" if name == DURATION else name.replace("_", " "))
    suspects = "; ".join(f"{', '.join(names)} ({text})" for text, names in by_reason.items())
    return Note("doubted", f"{short(compared.pair.label)}: suspect are {suspects}.") if suspects else None


def _medians(compared: ComparedPair) -> Note | None:
    """A note if sums and medians differ: outliers, warm-up, or launches of different sizes."""
    if compared.effect is None:
        return None
    mean, median = compared.before.time_ns / compared.after.time_ns, compared.effect.speedup
    if 1 / _APART < mean / median < _APART:
        return None
    return Note(
        "mean_and_median",
        f"{short(compared.pair.label)}: by total time the speed-up is x {mean:.3f}, by the median launch x "
        f"{median:.3f}: some launches are much longer than others (first ones, or other sizes).",
    )


def _few_launches(comparison: Comparison) -> Note | None:
    """One note for all pairs without an interval."""
    few = [c.effect for c in comparison.pairs if c.effect and min(c.effect.n) < ENOUGH]
    if not few or comparison.other_gpu is not None:
        return None
    which = (
        f" of {count_text(len(few), 'pair')}" if len(comparison.pairs) > 1 else f" ({few[0].n[0]} and {few[0].n[1]})"
    )
    return Note(
        "few_launches",
        f"Fewer than {ENOUGH} timed launches{which}: no interval, and differences below "
        f"{max(e.floor for e in few):.0%} are treated as noise. Profile at least {ENOUGH} launches of each version.",
    )


def _whole(comparison: Comparison) -> Note | None:
    """The overall effect, if the pairs are not everything."""
    before, after = comparison.before.total_ns, comparison.after.total_ns
    same_workload = comparison.before.id == comparison.after.id
    if not before or not after or comparison.other_gpu is not None or same_workload:
        return None
    if sum(c.share for c in comparison.pairs) > 1 - _DRIFT_SHARE and len(comparison.pairs) == 1:
        return None
    names = comparison.before.kernels, comparison.after.kernels
    matched = {name for pair in comparison.matching.pairs for name in pair.before} | {*comparison.matching.only_before}
    if names[0].keys() != names[1].keys() and not matched.issuperset(names[0]):
        return None  # if only some kernels were requested, the rest of each profile is not part of the sum
    counts = len(names[0]), len(names[1])
    what = "All kernels together" if counts[0] == counts[1] else f"All {counts[0]} -> {counts[1]} kernels"
    text = f"{what}, in sum: {before / 1e6:.4g} ms -> {after / 1e6:.4g} ms, x {before / after:.3f}."
    return Note("all_kernels", text)


def causes(compared: ComparedPair, changed: Sequence[MetricChange]) -> list[str]:
    """Sentences on other changes: the launch parameters, the carve-out, the clock, hit rates of caches."""
    sentences, moved = [], traffic(compared)
    saved_traffic = compared.verdict == "improved" and moved is not None and moved[1] <= moved[0] * _TRAFFIC
    for d in compared.launched:
        if d.quantity == "clock" and abs(int(d.after) / int(d.before) - 1) < _CLOCK:
            continue
        sentences.append(f"{d.quantity} {d.before} -> {d.after}" + (f" {d.unit}" if d.unit else ""))
    for change in (c for c in changed if c.before.name.endswith(_HIT_RATE)):
        before, after = change.before.value or 0.0, change.after.value or 0.0
        why = " (repeated reads went away: no more bytes of HBM traffic)" if after < before and saved_traffic else ""
        sentences.append(f"{change.before.name} {before:.3g} -> {after:.3g} %{why}")
    return sentences[:_CAUSES]


def traffic(compared: ComparedPair) -> tuple[float, float] | None:
    """The HBM bytes of a round before and after, if both are known and not 0."""
    before, after = compared.before.amount("hbm"), compared.after.amount("hbm")
    return (before, after) if before and after else None


def brief_label(pair: Pair) -> str:
    """The name of a pair without parameters, with its launch configuration if it has one."""
    if pair.of_several:
        return pair.label
    labels = (split_label(names[0]) for names in (pair.before, pair.after))
    return short(" -> ".join(dict.fromkeys(kernel_names.short(kernel) + one for kernel, one in labels)))


def pairing_words(pair: Pair) -> str:
    """Why the kernels of a pair were matched, in words."""
    return _HOW[pair.how] if pair.likeness is None else f"{_HOW[pair.how]} ({pair.likeness:.2f})"


def short(name: str) -> str:
    """The name of a kernel, shortened if it is too long for a table; its launch configuration is never shortened."""
    if len(name) > _NAME:
        name = kernel_names.short(name)
    kernel, configuration = split_label(name)
    if configuration and len(name) > _NAME:
        return short(kernel) + configuration
    return name if len(name) <= _NAME else f"{name[: _NAME - 20]}...{name[-17:]}"
