"""The sentences about a comparison: the verdict, and notes on the pairs, the times and the workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..base import kernel_names
from ..base.notes import Note
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
from .wording import entries, note, sentence
from .work import DIFFERENT

_NAME = 90
"""The maximum number of characters of a kernel's name in a sentence or a table."""
_TRAFFIC = threshold("comparison.same_traffic")
_APART = threshold("comparison.traffic_apart")
_DRIFT_SHARE = threshold("comparison.drift_share")
_CLOCK = threshold("comparison.clock_change")
_HIT_RATE = "hit_rate_pct"
_CAUSES = 8
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
        told = [alone, sentence("publish_no") if against else _publishable(comparison), verdict, changed]
    return " ".join(filter(None, told))


def _condition(comparison: Comparison, wall: WallTimeChange) -> str:
    """What a change of the wall time depends on; nothing if both did the same work."""
    before, after = ({k.name: k.launches for k in v.kernels.values()} for v in (comparison.before, comparison.after))
    if wall.steps.name == SPAN and before != after:
        return sentence("other_launches")
    return "" if comparison.main and comparison.main.work.answer in ("yes", "probably") else sentence("publish_unknown")


def _wall_text(wall: WallTimeChange) -> str:
    """The wall time of a step, or the time from first to last work, if it changed, with what most of its change is."""
    changed = wall.steps
    if changed.name != SPAN:
        return sentence("step_time", step=changed, times=_times(changed.effect))
    if not changed.beyond_noise:
        return ""
    first = wall.parts[0]
    most = first.delta / (wall.after - wall.before) >= _MOST_OF_CHANGE
    part = sentence("most_of_span", name=first.name, times=_span_text(first)) if most else ""
    return sentence("span", times=_span_text(wall), e=changed.effect, part=part)


def _span_text(of: WallTimeChange | WallTimePart) -> str:
    """Two times with a common unit."""
    unit, size = ("s", 1e9) if max(of.before, of.after) >= 1e9 else ("ms", 1e6)
    return f"{of.before / size:.4g} -> {of.after / size:.4g} {unit}"


def _unpaired_text(comparison: Comparison) -> str:
    """The kernels that take most time of one side and have no counterpart."""
    found, told = comparison.matching, []
    for version, only in ((comparison.before, found.only_before), (comparison.after, found.only_after)):
        if (longest := next(iter(version.kernels), "")) in only:
            told.append(sentence("unpaired", kernel=short(longest), share=version.share([longest]), name=version.name))
    return " ".join(told)


def _times(e: Effect) -> str:
    """The times before and after, and the speed-up with its interval, if there is one."""
    return sentence("times", e=e) + ("" if e.low is None else sentence("interval", e=e))


def _publishable(comparison: Comparison) -> str:
    """Whether the ratio of the main pair may be published as the effect of the change; nothing without times."""
    main = comparison.main
    if main is None or main.effect is None:
        return ""
    answer: str = "no" if comparison.other_gpu is not None else main.work.answer
    if main.verdict == "inconclusive" and answer not in DIFFERENT:
        answer = "inconclusive"
    return sentence(f"publish_{answer}")


def _verdict_text(comparison: Comparison) -> str:
    """The verdict of the pair that takes the most time, in one or two sentences."""
    main, gpu = comparison.main, comparison.other_gpu
    if main is None:
        return sentence("no_pair")
    name, e = short(main.pair.label), main.effect
    if e is None:
        return sentence("untimed", name=name, main=main)
    code = f"work_{main.work.answer}" if gpu is None else "two_gpus"
    return sentence(code, name=name, main=main, e=e, gpu=gpu, times=_times(e), per_unit=_per_unit(main)).rstrip()


def series_summary(steps: Sequence[Comparison]) -> str:
    """The speed-up of every step over the baseline, and the best significant one."""
    timed = [(c.after.name, p, p.effect.speedup, c.other_gpu is None) for c in steps for p in c.pairs if p.effect]
    if not timed:
        return sentence("nothing_timed")
    words = [
        f"{name} x {speedup:.3f} ({'not like for like' if p.work.answer in DIFFERENT else p.verdict})"
        for name, p, speedup, alike in timed
        if alike
    ]
    improved = [(name, speedup) for name, p, speedup, _ in timed if p.verdict == "improved"]
    best = max(improved, key=lambda step: step[1], default=("",))
    lead = sentence("best_step", name=best[0]) if improved else sentence("no_better_step")
    return lead + sentence("speed_ups", name=steps[0].before.name, steps=words)


def notes(comparison: Comparison) -> list[Note]:
    """Notes on the pairs, the times and the two workloads."""
    return list(dict.fromkeys(_notes(comparison)))


def _notes(comparison: Comparison) -> Iterator[Note]:
    before, after, pairs = comparison.before, comparison.after, comparison.pairs
    if before.id == after.id and any(c.pair.before == c.pair.after for c in pairs):
        yield note("same_workload")
    for compared in pairs:
        yield from _pair_notes(compared)
    few = [c.effect for c in pairs if c.effect and min(c.effect.n) < ENOUGH]
    if few and comparison.other_gpu is None:
        which = sentence("of_pairs" if len(pairs) > 1 else "of_one_pair", n=len(few), counts=few[0].n)
        floor = sentence("treated_as_noise", floor=max(e.floor for e in few), enough=ENOUGH)
        yield note("few_launches", enough=ENOUGH, which=which, floor=floor)
    yield from _whole(comparison)
    if any(c.telling_terms for c in pairs):
        yield note("terms_add_up")
    manifests = [before.workload.manifest, after.workload.manifest]
    if partial := [m.name for m in manifests if "partial" in m.tags]:
        yield note("partial_profiles", names=partial)
    yield from _clocks(comparison)
    if len({m.host for m in manifests if m.host}) > 1:
        yield note("other_machine")


def _pair_notes(compared: ComparedPair) -> Iterator[Note]:
    """Notes on how a pair was found, on its traffic and launches, and on what makes its times or counters doubtful."""
    pair, sides, label = compared.pair, (compared.before, compared.after), short(compared.pair.label)
    if pair.how not in ("same_name", "group"):
        yield note("taken_for_versions", how=pairing_words(pair), pair=label)
    if risen := _traffic_note(compared):
        yield risen
    before, after = (sum(k.timed for k in side.kernels) for side in sides)
    words = []
    if before != after and compared.effect is not None:
        words.append(sentence("launched", before=before, after=after, basis=_basis(compared)))
    if lost := sum(k.launches - k.timed for side in sides for k in side.kernels):
        words.append(sentence("lost_launches", n=lost))
    if words:
        yield note("launches", pair=label, what="; ".join(words))
    if compared.effect is not None:
        # Sums and medians differ by outliers, warm-up, or launches of different sizes.
        mean, median = compared.before.time_ns / compared.after.time_ns, compared.effect.speedup
        if not 1 / _APART < mean / median < _APART:
            yield note("mean_and_median", pair=label, mean=mean, median=median)
    by_reason: dict[str, list[str]] = {}
    for name, reason in compared.doubts.items():
        by_reason.setdefault(reason.text, []).append("time" if name == DURATION else name.replace("_", " "))
    if by_reason:
        suspects = "; ".join(f"{', '.join(names)} ({text})" for text, names in by_reason.items())
        yield note("doubted", pair=label, suspects=suspects)


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
            notes.append(note("other_gpu", name=name, gpu=c.other_gpu))
        for pair in c.pairs:
            if pair.work.answer in DIFFERENT:
                notes.append(note("not_like_for_like", name=name, pair=pair, per_unit=_per_unit(pair)))
            if risen := _traffic_note(pair):
                notes.append(Note(risen.code, f"{name}: {risen}"))
        notes += [Note(clock.code, f"{name}: {clock}") for clock in _clocks(c)]
        if not c.pairs:
            notes.append(note("no_counterpart", name=name))
    if few := [p.effect for c in steps for p in c.pairs if p.effect and min(p.effect.n) < ENOUGH]:
        which, floor = sentence("of_steps", n=len(few), steps=len(steps)), max(e.floor for e in few)
        notes.append(note("few_launches", enough=ENOUGH, which=which, floor=sentence("noise_floor", floor=floor)))
    return list(dict.fromkeys(notes))


def _per_unit(compared: ComparedPair) -> str:
    """The speed-up per unit of work."""
    units, ratios = entries("sentences")["units"], compared.per_unit
    texts = [f"x {x:.3f} per {units.get(n, n.replace('_', ' ').removesuffix('s'))}" for n, x in ratios.items()]
    if not texts:
        return ""
    listed = "; ".join([texts[0], *([", ".join(texts[1:3])] if len(texts) > 1 else [])])
    if compared.work.answer not in DIFFERENT:
        return sentence("by_unit", ratios=listed)
    return sentence("slower_by_unit" if next(iter(ratios.values())) < 1 else "faster_by_unit", ratios=listed)


def _traffic_note(compared: ComparedPair) -> Note | None:
    """A note if bandwidth rose only because more bytes were moved."""
    amounts, before, after = traffic(compared), compared.before.time_ns, compared.after.time_ns
    if amounts is None or not before or not after:
        return None
    more, faster = amounts[1] / amounts[0], before / after
    if more < _TRAFFIC or compared.work.answer in DIFFERENT or more * faster <= 1:
        return None
    return note("traffic_rose", bandwidth=more * faster, faster=faster, more=more - 1)


def _basis(compared: ComparedPair) -> str:
    if compared.in_total:
        return sentence("basis_whole")
    return sentence("basis_group" if compared.pair.of_several else "basis_launch", rounds=compared.rounds)


def _whole(comparison: Comparison) -> Iterator[Note]:
    """The overall effect, if the pairs are not everything."""
    before, after = comparison.before.total_ns, comparison.after.total_ns
    same_workload = comparison.before.id == comparison.after.id
    if not before or not after or comparison.other_gpu is not None or same_workload:
        return
    if sum(c.share for c in comparison.pairs) > 1 - _DRIFT_SHARE and len(comparison.pairs) == 1:
        return
    names = comparison.before.kernels, comparison.after.kernels
    matched = {name for pair in comparison.matching.pairs for name in pair.before} | {*comparison.matching.only_before}
    # If only some kernels were requested, the rest of each profile is not part of the sum.
    if names[0].keys() == names[1].keys() or matched.issuperset(names[0]):
        counts = len(names[0]), len(names[1])
        what = sentence("all" if counts[0] == counts[1] else "all_of_both", counts=counts)
        yield note("all_kernels", what=what, before=before, after=after, ratio=before / after)


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
        code = "saved_hit_rate" if after < before and saved_traffic else "hit_rate"
        sentences.append(sentence(code, name=change.before.name, before=before, after=after))
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
    how: str = entries("sentences")["how"][pair.how]
    return how if pair.likeness is None else f"{how} ({pair.likeness:.2f})"


def short(name: str) -> str:
    """The name of a kernel, shortened if it is too long for a table; its launch configuration is never shortened."""
    if len(name) > _NAME:
        name = kernel_names.short(name)
    kernel, configuration = split_label(name)
    if configuration and len(name) > _NAME:
        return short(kernel) + configuration
    return name if len(name) <= _NAME else f"{name[: _NAME - 20]}...{name[-17:]}"
