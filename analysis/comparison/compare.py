"""Two workloads compared kernel by kernel, or group by group: times, work, verdict, and what changed the time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.database import sql_literal
from ..base.notes import Reason
from ..base.problems import NotFound
from ..base.text import count_text
from ..engine.work_sums import KernelWork, WorkSums
from ..rooflines import ceilings
from ..rooflines.ceilings import Ceilings
from ..store.doubts import DURATION
from ..store.schema import COLUMNS
from ..store.store import Manifest
from ..workload import Workload
from . import time_ratio, work
from .explain import Term, explain
from .matching import KernelMatching, Pair, match, pair_groups
from .time_ratio import Effect, TimeVerdict
from .work import DIFFERENT, SameWork, Side, judge, target_quantities

_UNITS = {
    "grid": "work-items", "workgroup_size": "work-items", "vgpr": "registers", "agpr": "registers",
    "sgpr": "registers", "lds_bytes": "B", "scratch_bytes": "B", "cluster": "work-groups",
}  # fmt: skip
_MOST_LISTED = 3
"""Values of one kernel that are told one by one."""
Values = dict[str, list[int]]
"""Column of dispatches -> its values over the launches of a kernel, ascending."""


class Difference(NamedTuple):
    """One quantity of the launches before and after: a number, or a text of several."""

    quantity: str
    before: int | str
    after: int | str
    unit: str | None


def launch_values(workload: Workload, names: Sequence[str]) -> dict[str, Values]:
    """How each of these kernels was launched; a column that the profile does not state has no values."""
    picks = ", ".join(f"coalesce(list_sort(list(DISTINCT {c}) FILTER ({c} IS NOT NULL)), [])" for c in COLUMNS)
    rows = workload.rows(
        f"SELECT kernel, count(DISTINCT launch), {picks} FROM {workload.relation('dispatches')} "
        f"WHERE kernel IN ({', '.join(map(sql_literal, names)) or 'NULL'}) GROUP BY kernel"
    )
    return {str(kernel): dict(zip(COLUMNS, values, strict=True)) | _count(n) for kernel, n, *values in rows}


def _count(configurations: int) -> Values:
    return {"configurations": [configurations]}


def differences(pair: Pair, before: dict[str, Values], after: dict[str, Values]) -> list[Difference]:
    """What differs between the launches of two kernels that both profiles state; nothing for groups of kernels."""
    if len(pair.before) != 1 or len(pair.after) != 1:
        return []
    one, other = before.get(pair.before[0], {}), after.get(pair.after[0], {})
    return [
        Difference(name, _values_text(one[name]), _values_text(other[name]), _UNITS.get(name))
        for name in one
        if one[name] and other.get(name) and one[name] != other[name]
    ]


def settings(target: str, before: Side, after: Side) -> list[Difference]:
    """What counters tell of the set-up of both sides' launches, where it differs; nothing for groups of kernels."""
    if len(before.kernels) != 1 or len(after.kernels) != 1:
        return []
    named = [name for name, role in target_quantities(target).roles.items() if role == "setting"]
    amounts = [(name, before.amount(name), after.amount(name)) for name in named]
    return [Difference(n, round(a), round(b), "B") for n, a, b in amounts if a is not None and b is not None and a != b]


def clocks(before: Side, after: Side) -> list[Difference]:
    """The mean clock of both sides, whether it differs or not: a part of any change of time."""
    rates = before.ratio("clock"), after.ratio("clock")
    if rates[0] is None or rates[1] is None:
        return []
    return [Difference("clock", round(1000 * rates[0]), round(1000 * rates[1]), "MHz")]


def _values_text(values: list[Any]) -> int | str:
    """One value as it is, a few as a list, more as their range."""
    if len(values) == 1:
        return int(values[0])
    if len(values) <= _MOST_LISTED:
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]} ({count_text(len(values), 'value')})"


_HARDWARE = ("cu_per_gpu", "num_xcd", "num_sm")


@dataclass(frozen=True)
class ComparedPair:
    """One pair: its times where both were measured, the work, the verdict over both, and the terms of the change.

    ``rounds`` are the launches (of a group: rounds of launches) that times and amounts are divided by; where whole
    profiles are compared, the runs of the program: (1, 1) unless several are pooled. ``per_unit`` is the speed-up per
    unit of a quantity: the ratio of times divided by the ratio of amounts, the most telling first. ``share`` is the
    pair's part of the baseline's time, 0 to 1.
    """

    pair: Pair
    before: Side
    after: Side
    effect: Effect | None
    work: SameWork
    verdict: TimeVerdict
    why: str
    terms: list[Term]
    share: float
    launched: list[Difference]
    """What differs between their launches (sizes, registers, LDS, carve-out), and the clocks of both."""
    several: bool
    """Whether a kernel of the pair has several launch configurations, which are summed."""
    in_total: bool
    """Whether whole profiles of several launches are compared, as no round of launches is common to both."""
    doubts: dict[str, Reason]
    """Quantities, terms and TIME that are built on doubted counters or times, and why."""

    @property
    def doubt(self) -> Reason | None:
        """Why the times, or what decides whether the work was the same, are not to be trusted."""
        decisive = [DURATION, *(q.quantity for q in self.work.evidence[:1])]
        return next((self.doubts[name] for name in decisive if name in self.doubts), None)

    @property
    def telling_terms(self) -> list[Term]:
        """The terms where they say something: of a difference beyond noise, and where more than one is known."""
        within_noise = self.effect is None or self.effect.verdict == "inconclusive"
        return [] if within_noise or len(self.terms) < 2 else self.terms

    @property
    def rounds(self) -> tuple[int, int]:
        return self.before.rounds, self.after.rounds

    @property
    def per_unit(self) -> dict[str, float]:
        if self.effect is None:
            return {}
        return {q.quantity: self.effect.speedup * q.after / q.before for q in self.work.units()}


@dataclass
class ComparedVersion:
    """One of the two workloads, and what was read of its kernels that are compared.

    ``repeats`` are further runs of the same program: their times are pooled with those of ``workload``, which alone
    tells everything else.
    """

    workload: Workload
    repeats: tuple[Workload, ...]
    kernels: dict[str, time_ratio.KernelTotals]
    """All of its kernels by name, longest total time first."""
    ceilings: Ceilings | None
    """Theoretical ones: their ratios weigh bytes against operations; None for a target without any."""
    parts: dict[str, dict[time_ratio.LaunchShape, time_ratio.ShapeTimes]] = field(default_factory=dict)
    collected: WorkSums = field(default_factory=lambda: WorkSums([], {}, 0, {}))
    done: dict[str, KernelWork] = field(default_factory=dict)
    launched: dict[str, Values] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload, repeats: Sequence[Workload] = ()) -> ComparedVersion:
        limits = None if work.family(workload.arch) is None else ceilings.theoretical_ceilings(workload)
        return cls(
            workload,
            tuple(repeats),
            time_ratio.pool_kernels([time_ratio.kernels(w) for w in (workload, *repeats)]),
            limits,
        )

    @property
    def runs(self) -> int:
        """How many runs of the program its times come from."""
        return 1 + len(self.repeats)

    @property
    def id(self) -> str:
        return self.workload.id

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def total_ns(self) -> float:
        """The sum of all run times."""
        return sum(k.total_ns for k in self.kernels.values())

    def find(self, pattern: str) -> list[str]:
        """The names of the kernels meant."""
        return self.workload.select(pattern).kernels

    def only(self, names: Iterable[str]) -> list[time_ratio.KernelTotals]:
        """Some of its kernels, longest first."""
        wanted = set(names)
        return [k for k in self.kernels.values() if k.name in wanted]

    def read(self, names: Iterable[str], formulas: Mapping[str, str]) -> None:
        """Read the times of these kernels, and what they did."""
        wanted = sorted(set(names))
        self.parts = time_ratio.join_parts([time_ratio.parts(w, wanted) for w in (self.workload, *self.repeats)])
        self.launched = launch_values(self.workload, wanted)
        self.collected = work.collect_work(self.workload, wanted, formulas)
        self.done = {done.kernel: done for done in self.collected.groups}

    def doubt(self, kernels: Sequence[str], quantity: str) -> Reason | None:
        """Why a quantity of these kernels, or their TIME, is not to be trusted."""
        if quantity == DURATION:
            return self.workload.doubts.about(frozenset({DURATION}), kernels)
        return self.workload.doubts.about(
            self.collected.columns_behind(work.behind(self.workload.arch, quantity)), kernels
        )

    def side(self, names: Sequence[str], rounds: int) -> Side:
        """These kernels as one side of a pair."""
        return Side(tuple(self.kernels[n] for n in names), tuple(self.done.get(n) for n in names), rounds)


@dataclass(frozen=True)
class Comparison:
    """All pairs of two workloads, longest first, and what has no counterpart.

    ``other_gpu`` says why absolute times are not compared; None on the same kind of GPU.
    """

    before: ComparedVersion
    after: ComparedVersion
    pairs: list[ComparedPair]
    matching: KernelMatching
    other_gpu: Reason | None

    @property
    def main(self) -> ComparedPair | None:
        """The pair that takes most of the baseline's time."""
        return max(self.pairs, key=lambda p: p.share, default=None)


def compare(
    before: Workload,
    after: Workload,
    *,
    kernel: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    limit: int | None = 5,
    checked: bool | None = None,
) -> Comparison:
    """Compare the ``limit`` longest pairs of kernels (None: all), or the groups given.

    ``checked`` is what the program's own check of the candidate's result said; None where there was none.

    ``kernel`` chooses kernels of both sides, as everywhere; where it fits none of the candidate's, those most like the
    baseline's count. Raises NotFound or BadArgument for what fits nothing, BadInput without dispatches.
    """
    first, second = ComparedVersion.of(before), ComparedVersion.of(after)
    matching = in_groups(first, second, groups) if groups else _match_kernels(first, second, kernel)
    return compare_pairs(first, second, matching, matching.pairs if groups else matching.pairs[:limit], checked)


def in_groups(before: ComparedVersion, after: ComparedVersion, groups: Mapping[str, Sequence[str]]) -> KernelMatching:
    """The groups given as pairs. Raises NotFound or BadArgument for what fits nothing."""
    kernels = list(before.kernels.values()), list(after.kernels.values())
    return pair_groups(*kernels, groups, (before.find, after.find))


def compare_pairs(
    before: ComparedVersion,
    after: ComparedVersion,
    matching: KernelMatching,
    pairs: Sequence[Pair],
    checked: bool | None = None,
) -> Comparison:
    """The comparison of these ``pairs``."""
    one, other = before.workload, after.workload
    other_gpu = _other_gpu(one.manifest, other.manifest)
    alike = one.arch == other.arch
    for version, names in zip((before, after), ([p.before for p in pairs], [p.after for p in pairs]), strict=True):
        formulas = work.expressions([one, other] if alike else [version.workload])
        version.read((name for of_pair in names for name in of_pair), formulas)
    compared = [_compare_pair(pair, before, after, other_gpu, checked) for pair in pairs]
    return Comparison(before, after, compared, matching, other_gpu)


def _match_kernels(before: ComparedVersion, after: ComparedVersion, kernel: str | None) -> KernelMatching:
    if kernel is None:
        return match(list(before.kernels.values()), list(after.kernels.values()))
    chosen = before.only(before.find(kernel))
    if before.workload.by == "launch" and (same := after.only(k.name for k in chosen)):
        # Their numbers follow the time that they take; the configurations of one kernel are the same by name.
        return match(chosen, same)
    try:
        return match(chosen, after.only(after.find(kernel)))
    except NotFound:
        # Renamed: only those that are not the same kernel as another one of the baseline can be meant.
        renamed = match(chosen, after.only(after.kernels.keys() - before.kernels.keys()))
        if not renamed.pairs:
            raise
        return KernelMatching(renamed.pairs, renamed.only_before, [])


def _compare_pair(
    pair: Pair, first: ComparedVersion, second: ComparedVersion, other_gpu: Reason | None, checked: bool | None
) -> ComparedPair:
    target = first.workload.arch
    rounds = _rounds(pair, first, second)
    before, after = first.side(pair.before, rounds[0]), second.side(pair.after, rounds[1])
    if other_gpu is not None:
        same = SameWork("unknown", other_gpu.text, [])
    else:
        same = judge(target, before, after, checked)
        if rounds[0] != rounds[1] and same.answer != "yes":
            whole = first.side(pair.before, first.runs), second.side(pair.after, second.runs)
            in_total = judge(target, *whole, checked)
            if in_total.answer == "yes":
                (before, after), same = whole, in_total
    effect = _effect(pair, first, second, (before.rounds, after.rounds)) if before.time_ns and after.time_ns else None
    timing = first.doubt(pair.before, DURATION) or second.doubt(pair.after, DURATION)
    verdict, why = _verdict(effect, same, other_gpu, timing)
    terms = explain(before, after, target, first.ceilings) if other_gpu is None else []
    spent = sum(k.total_ns for k in before.kernels)
    share = spent / first.total_ns if first.total_ns else 0.0
    launch_differences = differences(pair, first.launched, second.launched) + settings(target, before, after)
    if other_gpu is None and not (first.doubt(pair.before, "clock") or second.doubt(pair.after, "clock")):
        launch_differences += clocks(before, after)
    sides = ((pair.before, first), (pair.after, second))
    several = any(len(version.parts.get(name, {})) > 1 for names, version in sides for name in names)
    quantities = dict.fromkeys(
        [DURATION, *(q.quantity for q in same.evidence), *(t.quantity for t in terms if t.quantity)]
    )
    reasons = {n: first.doubt(pair.before, n) or second.doubt(pair.after, n) for n in quantities}
    doubts = {name: reason for name, reason in reasons.items() if reason}
    rounds = before.rounds, after.rounds
    whole_runs = rounds == (first.runs, second.runs) and any(
        sum(k.timed for k in side.kernels) > version.runs for side, version in ((before, first), (after, second))
    )
    return ComparedPair(
        pair, before, after, effect, same, verdict, why, terms, share, launch_differences, several, whole_runs, doubts
    )


def _verdict(
    effect: Effect | None, same: SameWork, other_gpu: Reason | None, timing: Reason | None
) -> tuple[TimeVerdict, str]:
    """The verdict over time and work: less time for other work is neither better nor worse, nor is a doubted time."""
    if effect is None:
        return "inconclusive", "no usable timing on both sides"
    if timing is not None:
        return "inconclusive", f"the times are suspect: {timing}"
    if other_gpu is not None:
        return "inconclusive", f"{other_gpu}: absolute times are not compared"
    if same.answer in DIFFERENT:
        surely = "" if same.answer == "no" else "probably "
        return "inconclusive", f"{surely}not like for like: {same.why}"
    return effect.verdict, effect.why


def _rounds(pair: Pair, before: ComparedVersion, after: ComparedVersion) -> tuple[int, int]:
    """What times are divided by: the launches of a kernel; of a group, the rounds in which all of it was launched.

    The number of rounds is the greatest common divisor of the launches. Where both sides do not have it in common,
    whole runs of the program are compared.
    """
    counts = [before.kernels[n].timed for n in pair.before], [after.kernels[n].timed for n in pair.after]
    rounds = math.gcd(*counts[0]), math.gcd(*counts[1])
    by_run = rounds[0] * after.runs == rounds[1] * before.runs
    if 0 in (*counts[0], *counts[1]) or (pair.how == "group" and not by_run):
        return before.runs, after.runs
    return rounds


def _effect(pair: Pair, before: ComparedVersion, after: ComparedVersion, rounds: tuple[int, int]) -> Effect:
    if len(pair.before) == len(pair.after) == 1:
        parts = time_ratio.comparable_parts(before.parts[pair.before[0]], after.parts[pair.after[0]])
    else:
        parts = (
            [time_ratio.whole(before.parts[name]) for name in pair.before],
            [time_ratio.whole(after.parts[name]) for name in pair.after],
        )
    short = max(sum(p.launches for p in side) // n for side, n in zip(parts, rounds, strict=True))
    return time_ratio.effect(*parts, rounds, short=max(1, short), runs=(before.runs, after.runs))


def _other_gpu(before: Manifest, after: Manifest) -> Reason | None:
    """How two workloads differ in hardware; None where nothing says that they do."""
    if before.arch != after.arch:
        return _differ(f"{before.arch or 'unknown'} and {after.arch or 'unknown'}")
    stated = [(f, before.facts[f], after.facts[f]) for f in _HARDWARE if f in before.facts and f in after.facts]
    for fact, one, other in stated:
        if one != other:
            return _differ(f"{fact} {one:g} and {other:g}")
    if not stated and before.device and after.device and before.device != after.device:
        return _differ(f"{before.device} and {after.device}")
    return None


def _differ(how: str) -> Reason:
    return Reason("other_gpu", f"different GPUs ({how})")
