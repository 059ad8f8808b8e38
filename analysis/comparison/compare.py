"""Compare two workloads by kernels or groups of kernels: times, work, verdict, and the causes of a change in time."""

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
from .wording import sentence
from .work import DIFFERENT, SameWork, Side, judge, target_quantities

_UNITS = {
    "grid": "work-items", "workgroup_size": "work-items", "vgpr": "registers", "agpr": "registers",
    "sgpr": "registers", "lds_bytes": "B", "scratch_bytes": "B", "cluster": "work-groups",
}  # fmt: skip
_MOST_LISTED = 3
"""The maximum number of values of a kernel that are listed individually."""
Values = dict[str, list[int]]
"""Column of the table dispatches -> its distinct values for the launches of a kernel, in ascending order."""


class Difference(NamedTuple):
    """A quantity of the launches before and after: a number, or a text with several."""

    quantity: str
    before: int | str
    after: int | str
    unit: str | None


def launch_values(workload: Workload, names: Sequence[str]) -> dict[str, Values]:
    """The launch parameters of these kernels; a column that the profile does not contain has no values."""
    picks = ", ".join(f"coalesce(list_sort(list(DISTINCT {c}) FILTER ({c} IS NOT NULL)), [])" for c in COLUMNS)
    rows = workload.rows(
        f"SELECT kernel, count(DISTINCT launch), {picks} FROM {workload.relation('dispatches')} "
        f"WHERE kernel IN ({', '.join(map(sql_literal, names)) or 'NULL'}) GROUP BY kernel"
    )
    names = (*COLUMNS, "configurations")
    return {str(kernel): dict(zip(names, (*values, [n]), strict=True)) for kernel, n, *values in rows}


def differences(pair: Pair, before: dict[str, Values], after: dict[str, Values]) -> list[Difference]:
    """The differences between the launches of two kernels, if both profiles state them; none for groups of kernels."""
    if len(pair.before) != 1 or len(pair.after) != 1:
        return []
    one, other = before.get(pair.before[0], {}), after.get(pair.after[0], {})
    return [
        Difference(name, _values_text(one[name]), _values_text(other[name]), _UNITS.get(name))
        for name in one
        if one[name] and other.get(name) and one[name] != other[name]
    ]


def settings(target: str, before: Side, after: Side) -> list[Difference]:
    """Differences in the set-up of launches according to counters; none for groups of kernels."""
    if len(before.kernels) != 1 or len(after.kernels) != 1:
        return []
    roles = target_quantities(target).roles
    amounts = [(name, before.amount(name), after.amount(name)) for name, role in roles.items() if role == "setting"]
    return [Difference(n, round(a), round(b), "B") for n, a, b in amounts if a is not None and b is not None and a != b]


def clocks(before: Side, after: Side) -> list[Difference]:
    """The mean clock of both sides, even if it is equal, because it is part of any change in time."""
    one, other = before.ratio("clock"), after.ratio("clock")
    if one is None or other is None:
        return []
    return [Difference("clock", round(1000 * one), round(1000 * other), "MHz")]


def _values_text(values: list[Any]) -> int | str:
    """One value unchanged, a few as a list, more as their range."""
    if len(values) == 1:
        return int(values[0])
    if len(values) <= _MOST_LISTED:
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]} ({count_text(len(values), 'value')})"


_HARDWARE = ("cu_per_gpu", "num_xcd", "num_sm")


@dataclass(frozen=True)
class ComparedPair:
    """One pair: its times if both were measured, the work, the verdict, and the terms of the change in time.

    ``rounds`` are the numbers of launches (of a group: rounds of launches) by which times and amounts are divided. If
    whole profiles are compared, they are the numbers of runs of the program: (1, 1) unless several are pooled.
    ``per_unit`` is the speed-up per unit of a quantity, which is the ratio of times divided by the ratio of amounts,
    most significant first. ``share`` is the pair's fraction of the baseline's time, 0 to 1.
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
    """The differences between their launches (sizes, registers, LDS, carve-out), and both clocks."""
    several: bool
    """Whether a kernel of the pair has several launch configurations, which are added up."""
    in_total: bool
    """Whether whole profiles with several launches are compared, because the sides have no common round of launches."""
    doubts: dict[str, Reason]
    """The quantities, terms and TIME that depend on doubted counters or times, with the reason."""

    @property
    def doubt(self) -> Reason | None:
        """Why the times, or the quantities that decide whether the work was the same, are unreliable."""
        decisive = [DURATION, *(q.quantity for q in self.work.evidence[:1])]
        return next((self.doubts[name] for name in decisive if name in self.doubts), None)

    @property
    def telling_terms(self) -> list[Term]:
        """The terms, if the difference is larger than the noise and more than one term is known."""
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
    """One of the two workloads, with the data of its compared kernels.

    ``repeats`` are other runs of the same program. Their times are pooled with those of ``workload``; everything else
    is taken from ``workload`` alone.
    """

    workload: Workload
    repeats: tuple[Workload, ...]
    kernels: dict[str, time_ratio.KernelTotals]
    """All of its kernels by name, longest total time first."""
    ceilings: Ceilings | None
    """The theoretical ceilings, whose ratios relate bytes to operations; None for a target without any."""
    parts: dict[str, time_ratio.ShapeParts] = field(default_factory=dict)
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
        """The number of runs of the program that its times come from."""
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

    def share(self, names: Iterable[str]) -> float:
        """The fraction of all run times, 0 to 1, that these kernels take."""
        return sum(self.kernels[n].total_ns for n in names) / self.total_ns if self.total_ns else 0.0

    def find(self, pattern: str) -> list[str]:
        """The names of the selected kernels."""
        return self.workload.select(pattern).kernels

    def only(self, names: Iterable[str]) -> list[time_ratio.KernelTotals]:
        """Some of its kernels, longest first."""
        wanted = set(names)
        return [k for k in self.kernels.values() if k.name in wanted]

    def read(self, names: Iterable[str], formulas: Mapping[str, str]) -> None:
        """Read the times and the work of these kernels."""
        wanted = sorted(set(names))
        self.parts = time_ratio.join_parts([time_ratio.parts(w, wanted) for w in (self.workload, *self.repeats)])
        self.launched = launch_values(self.workload, wanted)
        self.collected = work.collect_work(self.workload, wanted, formulas)
        self.done = {done.kernel: done for done in self.collected.groups}

    def doubt(self, kernels: Sequence[str], quantity: str) -> Reason | None:
        """Why a quantity of these kernels, or their TIME, is unreliable."""
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
    """All pairs of two workloads, longest first, and the kernels without a counterpart.

    ``other_gpu`` is the reason why absolute times are not compared; None for the same kind of GPU.
    """

    before: ComparedVersion
    after: ComparedVersion
    pairs: list[ComparedPair]
    matching: KernelMatching
    other_gpu: Reason | None

    @property
    def main(self) -> ComparedPair | None:
        """The pair that takes the most time of the baseline."""
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
    """Compare the ``limit`` longest pairs of kernels (None: all), or the given groups.

    ``checked`` is the result of the program's own check of the candidate; None if there was none.

    ``kernel`` selects kernels of both sides; if it matches none of the candidate's, those most similar to the
    baseline's are used. Raises NotFound or BadArgument if nothing matches, and BadInput without dispatches.
    """
    first, second = ComparedVersion.of(before), ComparedVersion.of(after)
    matching = in_groups(first, second, groups) if groups else _match_kernels(first, second, kernel)
    return compare_pairs(first, second, matching, matching.pairs if groups else matching.pairs[:limit], checked)


def in_groups(before: ComparedVersion, after: ComparedVersion, groups: Mapping[str, Sequence[str]]) -> KernelMatching:
    """The given groups as pairs. Raises NotFound or BadArgument if a pattern matches nothing."""
    return pair_groups(before.kernels.values(), after.kernels.values(), groups, (before.find, after.find))


def compare_pairs(
    before: ComparedVersion,
    after: ComparedVersion,
    matching: KernelMatching,
    pairs: Sequence[Pair],
    checked: bool | None = None,
) -> Comparison:
    """Compare the kernels of these ``pairs``."""
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
        return match(before.kernels.values(), after.kernels.values())
    chosen = before.only(before.find(kernel))
    if before.workload.by == "launch" and (same := after.only(k.name for k in chosen)):
        # Configurations are numbered by time, so the numbers can differ; they correspond by their names.
        return match(chosen, same)
    try:
        return match(chosen, after.only(after.find(kernel)))
    except NotFound:
        # A renamed kernel: only candidates that are not paired with another kernel of the baseline are considered.
        renamed = match(chosen, after.only(after.kernels.keys() - before.kernels.keys()))
        if not renamed.pairs:
            raise
        return KernelMatching(renamed.pairs, renamed.only_before, [])


def _compare_pair(
    pair: Pair, first: ComparedVersion, second: ComparedVersion, other_gpu: Reason | None, checked: bool | None
) -> ComparedPair:
    def doubt(quantity: str) -> Reason | None:
        return first.doubt(pair.before, quantity) or second.doubt(pair.after, quantity)

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
    rounds = before.rounds, after.rounds
    effect = _effect(pair, first, second, rounds) if before.time_ns and after.time_ns else None
    terms = explain(before, after, target, first.ceilings) if other_gpu is None else []
    launch_differences = differences(pair, first.launched, second.launched) + settings(target, before, after)
    if other_gpu is None and not doubt("clock"):
        launch_differences += clocks(before, after)
    sides = ((pair.before, first), (pair.after, second))
    several = any(len(version.parts.get(name, {})) > 1 for names, version in sides for name in names)
    quantities = [DURATION, *(q.quantity for q in same.evidence), *(t.quantity for t in terms if t.quantity)]
    doubts = {name: reason for name in quantities if (reason := doubt(name))}
    verdict, why = _verdict(effect, same, other_gpu, doubts.get(DURATION))
    whole_runs = rounds == (first.runs, second.runs) and any(
        sum(k.timed for k in side.kernels) > version.runs for side, version in ((before, first), (after, second))
    )
    return ComparedPair(
        pair, before, after, effect, same, verdict, why, terms, first.share(pair.before), launch_differences, several,
        whole_runs, doubts,
    )  # fmt: skip


def _verdict(
    effect: Effect | None, same: SameWork, other_gpu: Reason | None, timing: Reason | None
) -> tuple[TimeVerdict, str]:
    """The verdict from time and work: a shorter time for different work, or a doubted time, is inconclusive."""
    if effect is None:
        return "inconclusive", sentence("no_times")
    if timing is not None:
        return "inconclusive", sentence("doubted_times", why=timing)
    if other_gpu is not None:
        return "inconclusive", sentence("not_in_absolute_times", gpu=other_gpu)
    if same.answer in DIFFERENT:
        return "inconclusive", sentence(f"like_for_like_{same.answer}", why=same.why)
    return effect.verdict, effect.why


def _rounds(pair: Pair, before: ComparedVersion, after: ComparedVersion) -> tuple[int, int]:
    """The numbers by which times are divided: launches of a kernel; for a group, rounds with all of its kernels.

    The number of rounds is the greatest common divisor of the numbers of launches. If the rounds of both sides differ,
    whole runs of the program are compared.
    """
    counts = [before.kernels[n].timed for n in pair.before], [after.kernels[n].timed for n in pair.after]
    rounds = math.gcd(*counts[0]), math.gcd(*counts[1])
    by_run = rounds[0] * after.runs == rounds[1] * before.runs
    if 0 in (*counts[0], *counts[1]) or (pair.of_several and not by_run):
        return before.runs, after.runs
    return rounds


def _effect(pair: Pair, before: ComparedVersion, after: ComparedVersion, rounds: tuple[int, int]) -> Effect:
    if len(pair.before) == len(pair.after) == 1:
        parts = time_ratio.comparable_parts(before.parts[pair.before[0]], after.parts[pair.after[0]])
    else:
        parts = (
            [time_ratio.whole(before.parts[name].values()) for name in pair.before],
            [time_ratio.whole(after.parts[name].values()) for name in pair.after],
        )
    short = max(sum(p.launches for p in side) // n for side, n in zip(parts, rounds, strict=True))
    return time_ratio.effect(*parts, rounds, short=max(1, short), runs=(before.runs, after.runs))


def _other_gpu(before: Manifest, after: Manifest) -> Reason | None:
    """The difference in hardware between two workloads; None if no difference is known."""
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
