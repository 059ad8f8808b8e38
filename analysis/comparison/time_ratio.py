"""The times of two versions: samples per kernel, speed-up, interval and verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..base.database import sql_literal
from ..catalogue.thresholds import count_threshold, threshold
from ..workload import Workload
from .wording import sentence

if TYPE_CHECKING:
    import numpy as np

SAMPLES = 500
"""The number of sampled launches of a kernel, spread evenly over all of them and over its configurations."""
ENOUGH = count_threshold("comparison.time.enough_launches")
"""The minimum number of launches for which the bootstrap interval of a ratio of medians covers at least 95 %; measured
for 4 to 40 launches."""
_SHAPES = 20


class LaunchShape(NamedTuple):
    """The shape of a launch: its configuration as text, its work-items, and those of a work-group."""

    configuration: str
    grid: int | None
    workgroup_size: int | None


@dataclass(frozen=True)
class ShapeTimes:
    """Launches of one kernel and shape: sampled run times in ns in launch order, and the number of launches."""

    times: tuple[float, ...]
    launches: int


ShapeParts = dict[LaunchShape, ShapeTimes]
"""The launches of one kernel by their shape."""


@dataclass(frozen=True)
class KernelTotals:
    """One kernel of a workload: the numbers of launches and of those with a usable time, and their total time in ns.

    ``threads`` is the median number of work-items of a launch; None if the profile does not contain it.
    """

    name: str
    launches: int
    timed: int
    total_ns: float
    threads: float | None = None


def kernels(workload: Workload) -> list[KernelTotals]:
    """The kernels of a workload, longest total time first. Raises BadInput if it has no dispatches."""
    rows = workload.rows(
        "SELECT kernel, count(*), count(*) FILTER (duration_ns > 0), "
        "coalesce(sum(duration_ns) FILTER (duration_ns > 0), 0)::DOUBLE AS total, median(grid) "
        f"FROM {workload.relation('dispatches')} GROUP BY kernel ORDER BY total DESC, min(dispatch_id)"
    )
    return [KernelTotals(str(name), int(n), int(timed), float(total), size) for name, n, timed, total, size in rows]


def parts(workload: Workload, names: Sequence[str]) -> dict[str, ShapeParts]:
    """The timed launches of these kernels by kernel and launch configuration."""
    wanted = ", ".join(map(sql_literal, names)) or "NULL"
    timed = (
        "SELECT kernel, configuration, grid, workgroup_size, dispatch_id, duration_ns "
        f"FROM {workload.relation('dispatches')} WHERE duration_ns > 0 AND kernel IN ({wanted})"
    )
    shape = "kernel, configuration, grid, workgroup_size"
    rows = workload.rows(
        f"WITH t AS ({timed}), r AS (SELECT *, row_number() OVER (PARTITION BY {shape} ORDER BY dispatch_id) AS i, "
        f"count(*) OVER (PARTITION BY {shape}) AS launches, count(*) OVER (PARTITION BY kernel) AS n FROM t), "
        f"w AS (SELECT *, least(launches, greatest({ENOUGH}, ceil({SAMPLES} * launches / n))) AS wanted FROM r) "
        f"SELECT {shape}, launches, list(duration_ns::DOUBLE ORDER BY dispatch_id) FROM w "
        "WHERE floor(i * wanted / launches) > floor((i - 1) * wanted / launches) GROUP BY ALL ORDER BY ALL"
    )
    by_kernel: dict[str, ShapeParts] = {}
    for kernel, configuration, grid, size, launches, times in rows:
        by_kernel.setdefault(str(kernel), {})[LaunchShape(configuration, grid, size)] = ShapeTimes(
            tuple(times), int(launches)
        )
    return by_kernel


def pool_kernels(runs: Sequence[Sequence[KernelTotals]]) -> dict[str, KernelTotals]:
    """The kernels of several runs of one program by name, each with the launches and times of all runs."""
    by_name: dict[str, KernelTotals] = {}
    for kernel in (kernel for run in runs for kernel in run):
        known = by_name.get(kernel.name, KernelTotals(kernel.name, 0, 0, 0.0))
        by_name[kernel.name] = KernelTotals(
            kernel.name,
            known.launches + kernel.launches,
            known.timed + kernel.timed,
            known.total_ns + kernel.total_ns,
            kernel.threads,
        )
    return dict(sorted(by_name.items(), key=lambda item: -item[1].total_ns))


def join_parts(runs: Sequence[dict[str, ShapeParts]]) -> dict[str, ShapeParts]:
    """The launches of several runs of one program by kernel and launch configuration."""
    by_kernel: dict[str, ShapeParts] = {}
    for run in runs:
        for kernel, shapes in run.items():
            for shape, part in shapes.items():
                known = by_kernel.setdefault(kernel, {}).get(shape, ShapeTimes((), 0))
                by_kernel[kernel][shape] = ShapeTimes(known.times + part.times, known.launches + part.launches)
    return by_kernel


def comparable_parts(one: ShapeParts, other: ShapeParts) -> tuple[list[ShapeTimes], list[ShapeTimes]]:
    """The parts of a kernel in two workloads that are compared with each other.

    Parts are launch configurations, or else sizes, if both sides launched the same ones equally often. Otherwise each
    side has its own parts, whose sums are compared, if all significant ones were launched often enough. Otherwise all
    launches of a side are one part.

    A kernel that is launched with several sizes has one median for each, and a change of shape is part of the change.
    """
    if max(len(one), len(other)) > 1:
        for key in (attrgetter("configuration"), attrgetter("grid", "workgroup_size")):
            left, right = _merge_shapes(one, key), _merge_shapes(other, key)
            if _launches(left) == _launches(right) and len(left) <= _SHAPES:
                return [left[shape] for shape in left], [right[shape] for shape in left]
        if max(len(one), len(other)) <= _SHAPES and min(_fewest(p.values(), 1) for p in (one, other)) >= ENOUGH:
            return list(one.values()), list(other.values())
    return [whole(one.values())], [whole(other.values())]


def _merge_shapes(parts: ShapeParts, key: Callable[[LaunchShape], Hashable]) -> dict[Hashable, ShapeTimes]:
    """The parts by a key, which several shapes may share."""
    shapes: dict[Hashable, list[ShapeTimes]] = {}
    for shape, part in parts.items():
        shapes.setdefault(key(shape), []).append(part)
    return {name: whole(of_key) for name, of_key in shapes.items()}


def _launches(parts: dict[Hashable, ShapeTimes]) -> dict[Hashable, int]:
    return {name: part.launches for name, part in parts.items()}


def whole(parts: Collection[ShapeTimes]) -> ShapeTimes:
    """All launches of a kernel as one part, in whose samples every shape has the weight of its launches.

    Rare shapes are sampled more densely than frequent ones, so that each has enough samples.
    """
    launches = sum(part.launches for part in parts)
    if len(parts) <= 1 or all(len(part.times) == part.launches for part in parts):
        return ShapeTimes(tuple(t for part in parts for t in part.times), launches)
    density = min(len(part.times) / part.launches for part in parts)
    return ShapeTimes(tuple(_evenly(parts, launches, math.ceil(density * launches))), launches)


def _evenly(parts: Iterable[ShapeTimes], launches: int, wanted: int) -> Iterator[float]:
    """``wanted`` samples, spread evenly over all launches, whose order the samples preserve."""
    first, number = 0, 0
    for part in parts:
        while number < wanted and (place := (number + 0.5) * launches / wanted - first) < part.launches:
            yield part.times[int(place * len(part.times) / part.launches)]
            number += 1
        first += part.launches


TimeVerdict = Literal["improved", "regressed", "inconclusive"]
RUNS_DIFFER = threshold("comparison.time.runs_differ")
"""Medians of 30 launches of one build differed by up to 2.4 % between ten runs (17 kernels of examples/kernels on an
H200); launches of one run share its clock and placement, so their variation does not include this."""
LAUNCHES_DIFFER = threshold("comparison.time.launches_differ")
"""Single launches of one build differed by up to 5 %, and for two kernels by 15 and 20 % (the same kernels)."""
JITTER_NS = threshold("comparison.time.jitter_ns")
"""The jitter of the start and end of a launch in ns, which makes kernels of a few microseconds differ by tens of
percent."""
_LARGEST_FLOOR = threshold("comparison.time.largest_floor")
_RESAMPLES = 2000
_RESAMPLED = 30_000
"""The maximum number of resampled times of all parts of both sides; with more, each part is sampled less densely, and
intervals become wider."""
_DRAWN = 20_000_000
"""The number of times that are drawn at once; more would need gigabytes."""
_LEVEL = threshold("comparison.time.level")
_WEIGHS = threshold("comparison.time.part_weighs")


@dataclass(frozen=True)
class Effect:
    """The time of one round of launches before and after, in ns, and ``speedup`` = before / after.

    ``low`` and ``high`` are the 95 % confidence interval of the speed-up; None with fewer than ENOUGH launches.
    ``floor`` is the relative difference that is always treated as noise. ``p`` is the p-value of the rank test.
    """

    baseline_ns: float
    candidate_ns: float
    speedup: float
    low: float | None
    high: float | None
    floor: float
    n: tuple[int, int]
    verdict: TimeVerdict
    why: str
    p: float | None = None
    at_most: float | None = None
    """If nothing changed: the largest relative difference in the interval, if it is below the noise floor."""


def effect(
    before: Sequence[ShapeTimes],
    after: Sequence[ShapeTimes],
    rounds: tuple[int, int],
    *,
    short: int = 1,
    runs: tuple[int, int] = (1, 1),
) -> Effect:
    """Compare run times as samples.

    The time of a round is the sum over parts of launches / rounds x median. Its ratio has a bootstrap interval
    (scipy.stats.bootstrap, percentiles, parts resampled separately). If both sides are one part that is launched
    equally often in a round, the Mann-Whitney test must agree. A difference counts only beyond the noise floor:
    RUNS_DIFFER with repeated launches, LAUNCHES_DIFFER with few, and never less than JITTER_NS for each of ``short``
    launches in a round. Where each side is pooled from several ``runs`` of the program, by which runs differ falls as
    the error of a mean does. Beyond a floor that is too high (``comparison.time.largest_floor``) nothing counts.
    """
    times = [
        sum(part.launches / n * median(part.times) for part in side)
        for side, n in zip((before, after), rounds, strict=True)
    ]
    n = (_fewest(before, rounds[0]), _fewest(after, rounds[1]))
    speedup, few = times[0] / times[1], min(n) < ENOUGH
    runs_differ = RUNS_DIFFER * math.sqrt(sum(1 / n for n in runs) / 2)
    floor = max(LAUNCHES_DIFFER if few else runs_differ, short * JITTER_NS / min(times))
    beyond = abs(math.log(speedup)) > math.log1p(floor)
    low = high = p = at_most = None
    if few:
        first, second = before[0].times, after[0].times
        # Whether all launches of one side took longer than all launches of the other.
        apart = max(first) < min(second) or max(second) < min(first) or not _one_by_one(before, after, rounds)
        counted = sentence("one_launch" if n == (1, 1) else "only_launches", n=n)
        code = "few_beyond" if beyond else "few_within"
        certain, why = beyond and apart, sentence(code, counted=counted, floor=floor)
    else:
        low, high = _interval(before, after, rounds)
        if _one_by_one(before, after, rounds):
            from scipy.stats import mannwhitneyu

            p = float(mannwhitneyu(before[0].times, after[0].times).pvalue)
        excluded = not low <= 1 <= high and (p is None or p < 1 - _LEVEL)
        code = "many_uncertain" if not excluded else "many_beyond" if beyond else "many_within"
        certain, why = beyond and excluded, sentence(code, floor=floor)
        left = max(high, 1 / low) - 1
        if not certain and left <= floor:
            at_most, why = left, sentence("no_difference", left=left, why=why)
    if floor > _LARGEST_FLOOR:
        certain, why = False, sentence("scattered_times", floor=floor)
    verdict: TimeVerdict = "inconclusive" if not certain else "improved" if speedup > 1 else "regressed"
    return Effect(times[0], times[1], speedup, low, high, floor, n, verdict, why, p, at_most)


def _fewest(side: Collection[ShapeTimes], rounds: int) -> int:
    """The minimum number of launches of the significant parts; launches of one part cannot replace those of another."""
    spent = [part.launches / rounds * median(part.times) for part in side]
    return min(p.launches for p, time in zip(side, spent, strict=True) if time >= _WEIGHS * sum(spent) / len(spent))


def _one_by_one(before: Sequence[ShapeTimes], after: Sequence[ShapeTimes], rounds: tuple[int, int]) -> bool:
    """Whether each side is one part with equally many launches in a round, so launches can be compared directly."""
    return len(before) == len(after) == 1 and before[0].launches / rounds[0] == after[0].launches / rounds[1]


def _interval(
    before: Sequence[ShapeTimes], after: Sequence[ShapeTimes], rounds: tuple[int, int]
) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    weights = [part.launches / rounds[0] for part in before] + [part.launches / rounds[1] for part in after]

    def logarithm(*parts: np.ndarray[Any, Any], axis: int) -> Any:
        spent = [w * np.median(p, axis=axis) for w, p in zip(weights, parts, strict=True)]
        return np.log(sum(spent[: len(before)])) - np.log(sum(spent[len(before) :]))

    most = max(ENOUGH, _RESAMPLED // (len(before) + len(after)))
    # A limited number of times of each part, spread evenly.
    data = tuple(
        np.asarray(part.times)[np.arange(n) * len(part.times) // n]
        for part in (*before, *after)
        for n in [min(most, len(part.times))]
    )
    at_once = max(1, min(_RESAMPLES, _DRAWN // sum(map(len, data))))
    # A fixed seed, so that the same samples give the same interval.
    interval = bootstrap(
        data, logarithm, n_resamples=_RESAMPLES, method="percentile", confidence_level=_LEVEL, vectorized=True, rng=0,
        batch=at_once,
    ).confidence_interval  # fmt: skip
    return math.exp(interval.low), math.exp(interval.high)
