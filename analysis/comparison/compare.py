"""Two workloads compared kernel by kernel, or group by group: times, work, verdict, and what changed the time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..engine.sums import KernelWork
from ..problems import NotFound
from ..rooflines import ceilings as known_ceilings
from ..rooflines.ceilings import Ceilings
from ..store import Manifest
from ..workload import Workload
from . import explain
from . import time as samples
from . import work as quantities
from . import work as same_work
from .explain import Term
from .matching import Matching, Pair, grouped, match
from .time import Effect, Verdict, effect
from .work import Side, Work

_HARDWARE = ("cu_per_gpu", "num_xcd", "num_sm")


@dataclass(frozen=True)
class Compared:
    """One pair: its times where both were measured, the work, the verdict over both, and the terms of the change.

    ``rounds`` are the launches (of a group: rounds of launches) that times and amounts are divided by; (1, 1) where
    whole profiles are compared. ``per_unit`` is the speed-up per unit of a quantity: the ratio of times divided by the
    ratio of amounts, the most telling first.
    """

    pair: Pair
    before: Side
    after: Side
    effect: Effect | None
    work: Work
    verdict: Verdict
    why: str
    per_unit: dict[str, float]
    terms: list[Term]
    share: float

    @property
    def rounds(self) -> tuple[int, int]:
        return self.before.rounds, self.after.rounds


@dataclass(frozen=True)
class _Data:
    """What was read of one workload, by kernel."""

    kernels: dict[str, samples.Kernel]
    parts: dict[str, dict[samples.Shape, samples.Part]]
    done: dict[str, KernelWork]


@dataclass(frozen=True)
class Comparison:
    """All pairs of two workloads, longest first, and what has no counterpart.

    ``other_gpu`` says why absolute times are not compared; None on the same kind of GPU. ``total_ns`` are the sums of
    all run times of both workloads.
    """

    before: Workload
    after: Workload
    pairs: list[Compared]
    matching: Matching
    other_gpu: str | None
    total_ns: tuple[float, float]
    ceilings: tuple[Ceilings | None, Ceilings | None]


def compare(
    before: Workload,
    after: Workload,
    *,
    kernel: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    limit: int = 5,
) -> Comparison:
    """Compare the ``limit`` longest pairs of kernels, or the groups given.

    ``kernel`` chooses kernels of both sides, as everywhere; where it fits none of the candidate's, those most like the
    baseline's count. Raises NotFound or BadArgument for what fits nothing, BadInput without dispatches.
    """
    sides = [samples.kernels(workload) for workload in (before, after)]
    other_gpu = _other_gpu(before.manifest, after.manifest)
    found = _matched(before, after, sides, kernel, groups)
    pairs = found.pairs if groups else found.pairs[:limit]
    alike = before.arch == after.arch
    formulas = [quantities.expressions([before, after] if alike else [w]) for w in (before, after)]
    limits = (_ceilings(before), _ceilings(after))
    data = (
        _read(before, sides[0], {n for p in pairs for n in p.before}, formulas[0]),
        _read(after, sides[1], {n for p in pairs for n in p.after}, formulas[1]),
    )
    totals = (sum(k.total_ns for k in sides[0]), sum(k.total_ns for k in sides[1]))
    compared = [_compared(pair, before.arch, data, other_gpu, limits[0], totals[0]) for pair in pairs]
    return Comparison(before, after, compared, found, other_gpu, totals, limits)


def _read(workload: Workload, known: list[samples.Kernel], names: set[str], formulas: Mapping[str, str]) -> _Data:
    wanted = sorted(names)
    timed = samples.parts(workload, wanted)
    done = quantities.collected(workload, wanted, formulas)
    return _Data({k.name: k for k in known if k.name in names}, timed, done)


def _matched(
    before: Workload,
    after: Workload,
    sides: list[list[samples.Kernel]],
    kernel: str | None,
    groups: Mapping[str, Sequence[str]] | None,
) -> Matching:
    find = (
        lambda pattern: before.select(pattern).kernels,
        lambda pattern: after.select(pattern).kernels,
    )
    if groups:
        return grouped(sides[0], sides[1], groups, find)
    if kernel is None:
        return match(sides[0], sides[1])
    chosen = [k for k in sides[0] if k.name in set(find[0](kernel))]
    try:
        wanted = set(find[1](kernel))
    except NotFound:
        # Renamed: only those that are not the same kernel as another one of the baseline can be meant.
        wanted = {k.name for k in sides[1]} - {k.name for k in sides[0]}
        found = match(chosen, [k for k in sides[1] if k.name in wanted])
        if not found.pairs:
            raise
        return Matching(found.pairs, found.only_before, [])
    return match(chosen, [k for k in sides[1] if k.name in wanted])


def _compared(
    pair: Pair, target: str, data: tuple[_Data, _Data], other_gpu: str | None, limits: Ceilings | None, total_ns: float
) -> Compared:
    rounds = _rounds(pair, data)
    before, after = _side(pair.before, data[0], rounds[0]), _side(pair.after, data[1], rounds[1])
    work = same_work.judge(target, before, after) if other_gpu is None else same_work.Work("unknown", other_gpu, [])
    if rounds != (1, 1) and rounds[0] != rounds[1] and work.answer != "yes":
        whole = _side(pair.before, data[0], 1), _side(pair.after, data[1], 1)
        in_total = same_work.judge(target, *whole)
        if other_gpu is None and in_total.answer == "yes":
            rounds, (before, after), work = (1, 1), whole, in_total
    found = _effect(pair, data, rounds) if before.time_ns and after.time_ns else None
    verdict, why = _verdict(found, work, other_gpu)
    per_unit = {}
    if found is not None:
        per_unit = {e.quantity: found.speedup * e.after / e.before for e in work.units()}
    terms = explain.explain(before, after, target, limits) if other_gpu is None else []
    spent = sum(k.total_ns for k in before.kernels)
    share = spent / total_ns if total_ns else 0.0
    return Compared(pair, before, after, found, work, verdict, why, per_unit, terms, share)


def _verdict(found: Effect | None, work: Work, other_gpu: str | None) -> tuple[Verdict, str]:
    """The verdict over time and work: less time for other work is neither better nor worse."""
    if found is None:
        return "inconclusive", "no usable timing on both sides"
    if other_gpu is not None:
        return "inconclusive", f"{other_gpu}: absolute times are not compared"
    if work.answer == "no":
        return "inconclusive", f"not like for like: {work.why}"
    return found.verdict, found.why


def _rounds(pair: Pair, data: tuple[_Data, _Data]) -> tuple[int, int]:
    """What times are divided by: the launches of a kernel; of a group, the rounds in which all of it was launched.

    The number of rounds is the greatest common divisor of the launches. Where both sides do not have it in common,
    whole profiles are compared.
    """
    counts = [
        [side.kernels[name].timed for name in names]
        for names, side in zip((pair.before, pair.after), data, strict=True)
    ]
    found = math.gcd(*counts[0]), math.gcd(*counts[1])
    if 0 in (*counts[0], *counts[1]) or (pair.how == "group" and found[0] != found[1]):
        return 1, 1
    return found


def _side(names: Sequence[str], data: _Data, rounds: int) -> Side:
    return Side(tuple(data.kernels[n] for n in names), tuple(data.done.get(n) for n in names), rounds)


def _effect(pair: Pair, data: tuple[_Data, _Data], rounds: tuple[int, int]) -> Effect:
    if len(pair.before) == len(pair.after) == 1:
        parts = samples.alike(data[0].parts[pair.before[0]], data[1].parts[pair.after[0]])
    else:
        parts = (
            [samples.whole(data[0].parts[name]) for name in pair.before],
            [samples.whole(data[1].parts[name]) for name in pair.after],
        )
    short = max(sum(p.launches for p in side) // n for side, n in zip(parts, rounds, strict=True))
    return effect(*parts, rounds, short=max(1, short))


def _ceilings(workload: Workload) -> Ceilings | None:
    """Theoretical ceilings: their ratios weigh bytes against operations; None for a target without any."""
    if quantities.family(workload.arch or None) is None:
        return None
    return known_ceilings.theoretical(workload)


def _other_gpu(before: Manifest, after: Manifest) -> str | None:
    """How two workloads differ in hardware, in words; None where nothing says that they do."""
    if before.arch != after.arch:
        return f"different GPUs ({before.arch or 'unknown'} and {after.arch or 'unknown'})"
    stated = [(f, before.facts[f], after.facts[f]) for f in _HARDWARE if f in before.facts and f in after.facts]
    for fact, one, other in stated:
        if one != other:
            return f"different GPUs ({fact} {one:g} and {other:g})"
    if not stated and before.device and after.device and before.device != after.device:
        return f"different GPUs ({before.device} and {after.device})"
    return None
