"""What limits a kernel: the least time that it needs on each pipe and memory level, and the loads of its units.

A roofline point is compared with one bandwidth slope per memory level and one ceiling per compute pipe (log-log axes)::

    GFLOP/s
      ^               LDS  L2  HBM        slope of a memory level: bandwidth [GB/s] x intensity
      |               /   /   /
      |==============/===/===/=========   ceiling of the matrix pipe [GFLOP/s]
      |             /   /   /
      |------------/---/---x-----------   ceiling of the vector pipe; x: ridge point = ceiling / bandwidth
      |           /   /   /
      |          /   /   a                a: attainable, the lowest limit at this intensity (here the HBM slope)
      |         /   /   /|
      |        /   /   / |                distance to the lowest limit: a / o = 1 / (greatest share)
      |       /   /   /  |
      |      /   /   /   o                o: the point at (operations / bytes of HBM, operations / time)
      |     /   /   /
      +---------------------------------> arithmetic intensity [operations/B]

The distance is computed from times, so that a kernel with one point per level still has a single limit::

    least time of a level = bytes / bandwidth             share = least time / run time
    least time of a pipe  = sum of operations / ceiling    (data types on the same unit add up)
    attainable time       = greatest least time            (levels and pipes are assumed to overlap)

    hbm        ##################............ 60 %   greatest share, so HBM is the lowest limit: 1 / 0.6 = 1.67 times
    the point l2         ########...................... 27 %
    valu       #####......................... 17 %
               0 %                      100 % of the run time

The load of a unit is the larger of its share and of what its own counters report (``loads.Load``); a unit whose load
is 60 % or more is the limit (``limits_of_kernels``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..base.notes import Reason
from ..base.problems import Problem
from ..catalogue.rules import BOUNDS, Bound
from ..catalogue.thresholds import threshold
from ..catalogue.work_formulas import Level, WorkOperation
from ..engine.evaluation import Status
from ..engine.expressions import Values
from ..engine.work_sums import TIME, KernelWork, WorkSums
from ..launches.coverage import NOT_COUNTED
from ..workload import Workload
from . import loads as loads_of
from .ceilings import Ceilings, quotient
from .inputs import RooflineInputs, RooflineRequest, prepare_inputs
from .loads import OF_THEORY, REACHED, Limit, Load, Share

PointStatus = Status | Literal["bypassed"]
"""The status of a point. "bypassed" (see ``why_bypassed``): most bytes of the kernel do not pass through this level."""
_SATURATED = {"empirical": REACHED / 100, "theoretical": OF_THEORY / 100}
"""From this share of the run time on, a lower bound of the share is enough to identify a limit."""
_TOO_MUCH = threshold("figures.impossible_pct") / 100
_LEAST_BYPASS_RATIO = threshold("roofline.bypass_ratio")
_LAUNCH_NS = threshold("diagnosis.shortest_launch_ns")
_FAR = threshold("diagnosis.uncounted_unit_factor")
USED_BY_ALL = (("hbm",), ("valu", "valu.issue"))
"""Units that every kernel uses, by the names of their shares; one known share is enough for a unit."""
NO_VALUE = Reason("no_value", "no value for this kernel")


@dataclass(frozen=True)
class Traffic:
    """Device memory traffic of one launch in bytes: what memory transferred, and what threads requested (if known)."""

    carried: float
    asked: float | None


@dataclass(frozen=True)
class KernelLimits:
    """What bounds one kernel or dispatch, with the reason in words: shares of pipes and levels, busy cycles and loads.

    ``shares`` are relative to the requested ceilings, ``loads`` relative to what the units can sustain."""

    kernel: str
    dispatch: int | None
    n: int
    time_ns: float | None
    shares: dict[str, Share]
    busy: dict[str, Share]
    """By the names of columns: valu_busy."""
    loads: list[Load]
    reached: list[Limit]
    bound: Bound
    limiter: str | None
    why: str
    traffic: Traffic | None


def least_time_ns(
    operations: Iterable[WorkOperation], sums: dict[str, float], ceilings: Ceilings, *, at_best: bool = False
) -> float | Reason:
    """The least time in ns for these operations: data types that share a unit add up, units and pipes run in parallel.

    Returns a Reason if a ceiling is missing for work that was done. ``at_best`` assumes dual issue.
    """
    units: dict[str, float] = {}
    for operation in operations:
        amount, ceiling = sums[operation.name], ceilings.value(operation.key)
        if amount and ceiling is None:
            return no_ceiling(ceilings, operation.key)
        if amount and ceiling is not None:
            rate = ceiling * operation.dual if at_best else ceiling
            unit = f"{operation.pipe}.{operation.engine}"
            units[unit] = units.get(unit, 0.0) + amount / rate
    return max(units.values(), default=0.0)


def no_ceiling(ceilings: Ceilings, name: str) -> Reason:
    """The reason for a missing ceiling."""
    return Reason("no_ceiling", f"no {ceilings.kind} ceiling {name}")


def most_gbs(level: Level, theory: Ceilings) -> float | None:
    """The theoretical maximum bandwidth of a level in GB/s; a cache in front of it can deliver more than the level."""
    ceiling = theory.value(level.key)
    if ceiling is None or not level.cache:
        return ceiling
    return max(ceiling, theory.value(level.cache) or math.inf)


def why_bypassed(level: Level, work: KernelWork) -> Reason | None:
    """The reason why a level has no point for a kernel: most bytes bypass the level. None if they do not."""
    n, sums = work.sums_over([level.name, f"{level.name}.past"])
    past, through = sums.get(f"{level.name}.past", 0.0), sums.get(level.name, 0.0)
    if not n or past <= _LEAST_BYPASS_RATIO * through:
        return None
    return Reason("bypassed", f"{past / (past + through):.1%} of the bytes bypass this level through {level.past_by}")


def no_bytes(level: Level, work: KernelWork, collected: WorkSums) -> Reason:
    """The reason why a level has no bytes for a kernel: its counters do not see all bytes, or were not collected."""
    unseen = f"{level.name}.unseen"
    if work.sums_over([unseen])[1].get(unseen):
        return Reason("unseen", level.unseen_why)
    return collected.missing.get(level.name, NO_VALUE)


def countable(
    operations: list[WorkOperation], work: KernelWork, collected: WorkSums, *, every: bool = False
) -> tuple[list[WorkOperation], dict[str, Reason]]:
    """The operations that were counted for a kernel, and those that were not, with the reason.

    Optional operations are reported as missing only with ``every``, for points that are made of them. If no matrix
    instruction was issued, matrix data types without a counter did no work and are not missing.
    """
    n, sums = work.sums_over(["mfma_instructions"])
    counted = [o for o in operations if work.has(o.name)]
    idle = all(work.sums_over([o.name])[1][o.name] == 0 for o in counted if o.pipe == "matrix")
    no_matrix = idle and n == work.dispatches and sums["mfma_instructions"] == 0
    lacking = [o for o in operations if not work.has(o.name)]
    missing = {
        o.name: collected.missing.get(o.name, NO_VALUE)
        for o in lacking
        if not ((o.optional and not every) or (no_matrix and o.pipe == "matrix"))
    }
    return counted, missing


def limits_of_kernels(inputs: RooflineInputs) -> list[KernelLimits]:
    """The shares, the loads and the limit of every kernel, in the order of the inputs.

    A unit with a load of 60 % or more of what it can sustain is the limit. If there is none, the kernel is bound by
    latency, unless the load of a unit is unknown. The attainable time is the longest of the shares' least times.
    Figures that are theoretically impossible are not used for the decision.
    """
    groups = inputs.collected.groups
    if not groups:
        return []
    figures = [inputs.figures.get(work.kernel, {}) for work in groups]
    measured = loads_of.measured_loads(inputs.target, figures) if inputs.figures else [{} for _ in groups]
    deduced = loads_of.deductions(inputs.target, figures) if inputs.figures else [{} for _ in groups]
    issue = [o for o in inputs.formulas.operation if o.name == "valu.issue"]
    pipes: dict[str, list[WorkOperation]] = {"valu": [], "matrix": [], "valu.issue": issue}
    for operation in inputs.formulas.operations("flop", "iop"):
        pipes[operation.pipe].append(operation)
    kernels = [
        _measure_kernel(inputs, work, pipes, signals, bounds)
        for work, signals, bounds in zip(groups, measured, deduced, strict=True)
    ]
    reached = loads_of.units_at_limit(inputs.target, figures, [one.loads for one in kernels])
    operations = [o for of_pipe in pipes.values() for o in of_pipe]
    return [
        _decide_limit(inputs, work, operations, replace(one, reached=at_limit))
        for work, one, at_limit in zip(groups, kernels, reached, strict=True)
    ]


def roof_shares(workload: Workload) -> dict[str, float]:
    """The least time of each kernel's own work and traffic as a share of its run time, 0 to 1, by the kernel's name.

    A kernel is missing if it has no counters, if its counters contradict one another, or if a unit that every kernel
    uses was not counted and could need much more time than the others.
    """
    if not workload.manifest.counters:
        return {}
    try:
        views = limits_of_kernels(prepare_inputs(workload, RooflineRequest()))
    except Problem:  # a device without formulas or without rooflines, such as a CPU
        return {}
    return {view.kernel: share for view in views if (share := _roof_share(view)) is not None}


def _roof_share(view: KernelLimits) -> float | None:
    known = {name: share.value for name, share in view.shares.items() if share.value is not None}
    if not known or not view.time_ns or any(load.status == "impossible" for load in view.loads):
        return None
    greatest = max(known.values())
    uncounted = any(view.shares.keys() & set(unit) and not known.keys() & set(unit) for unit in USED_BY_ALL)
    if greatest > _TOO_MUCH or (uncounted and greatest * _FAR < 1):
        return None
    return min(max(greatest, _LAUNCH_NS * view.n / view.time_ns), 1.0)


def _measure_kernel(
    inputs: RooflineInputs,
    work: KernelWork,
    pipes: Mapping[str, list[WorkOperation]],
    measured: Values,
    deduced: Mapping[str, str],
) -> KernelLimits:
    """The shares and loads of a kernel, whose limit is not decided yet."""
    shares = _shares(inputs, work, pipes)
    parts = ((unit.name, _busy_share(unit.name, work, inputs)) for unit in inputs.formulas.busy)
    busy = {f"{name}_busy": part for name, part in parts if part}
    sustained = shares
    if inputs.ceilings is not inputs.sustained:
        sustained = _shares(replace(inputs, ceilings=inputs.sustained), work, pipes)
    loads = loads_of.loads_of_units(inputs.target, measured, sustained, busy, deduced)
    n, sums = work.sums_over([TIME])
    return KernelLimits(
        work.kernel, work.dispatch, n, sums.get(TIME), shares, busy, loads, [], "unknown", None, "",
        _traffic(work),
    )  # fmt: skip


def _shares(inputs: RooflineInputs, work: KernelWork, pipes: Mapping[str, list[WorkOperation]]) -> dict[str, Share]:
    shares = {level.name: _level_share(level, work, inputs) for level in inputs.formulas.level}
    shares |= {pipe: _pipe_share(operations, work, inputs) for pipe, operations in pipes.items()}
    if not pipes["valu"] and shares["valu.issue"].value is not None:
        del shares["valu"]  # instruction issue is used instead of operations that cannot be counted
    cached = {level.name for level in inputs.formulas.level if level.cache}
    theory, made_of = inputs.ceilings.kind == "theoretical", {n: [o.name for o in pipes.get(n, [])] for n in shares}
    return {
        name: replace(
            share,
            doubt=None if share.value is None else inputs.doubt(work.kernel, made_of[name] or [name]),
            cached=name in cached,
            of_theory=theory,
        )
        for name, share in shares.items()
    }


def _decide_limit(
    inputs: RooflineInputs, work: KernelWork, operations: list[WorkOperation], kernel: KernelLimits
) -> KernelLimits:
    bound, limiter, why = decide_bound(kernel.loads, kernel.reached)
    if excess := _excess(inputs.formulas.level, operations, work, inputs.theory):
        bound, limiter, why = "unknown", None, excess
    if kernel.time_ns is None:
        bound, limiter, why = "unknown", None, "the dispatches have no usable timing"
    if work.kernel in inputs.uncounted:
        bound, limiter, why = "unknown", None, NOT_COUNTED.text
    return replace(kernel, bound=bound, limiter=limiter, why=why)


def _traffic(work: KernelWork) -> Traffic | None:
    n, sums = work.sums_over(["hbm"])
    if not n or sums["hbm"] < 0:
        return None
    of_asked, asked = work.sums_over(["hbm.asked"])
    return Traffic(sums["hbm"] / n, asked["hbm.asked"] / of_asked if of_asked else None)


def decide_bound(loads: Sequence[Load], reached: Sequence[Limit]) -> tuple[Bound, str | None, str]:
    """The bound, the limiter and the reason in words, from the loads of units and from the units at their limit."""
    if reached:
        first = reached[0]
        here = next((load for load in loads if load.signal == first.severity), None)
        whole = "its theoretical peak" if here and here.of_theory else "what it sustains"
        why = f"unit nearest to its limit: {first.words} of {whole}"
        at_limit = {one.severity for one in reached}
        fuller = [o for o in loads if o.is_at_limit and o.status != "impossible" and (o.pct or 0.0) > first.pct]
        if serving := [load.words for load in fuller if load.signal not in at_limit]:
            why += f"; {', '.join(serving)} serves the requests of another unit"
        return BOUNDS[first.subsystem], first.subsystem, why
    known = [load for load in loads if load.pct is not None]
    busy = [load for load in known if load.is_at_limit and load.status != "impossible"]
    top = max((load for load in known if load not in busy), key=lambda load: load.pct or 0.0, default=None)
    unknown = [load for load in loads if load.decides and (load.pct is None or load.status == "impossible")]
    if unknown or not top:
        listed = ", ".join(_name_unknown_load(load) for load in unknown)
        return "unknown", None, f"no unit with a known load is near its limit; unknown: {listed}"
    why = f"no unit is at its limit, which starts at {REACHED:.0f} %; the nearest is {top.words}"
    if busy:
        why += f"; {', '.join(load.words for load in busy)} serves the requests of another unit"
    return "latency", "latency", why


def _name_unknown_load(load: Load) -> str:
    """The label of a unit with an unknown load, with the reason; missing counters are listed by the points in full."""
    says_why = load.reason is not None and load.reason.code not in ("no_counter", "not_countable", "partly_counted")
    return f"{load.label} ({load.reason})" if says_why else load.label


def _pct(share: float) -> str:
    return f"{100 * share:.3g} %"


def _level_share(level: Level, work: KernelWork, inputs: RooflineInputs) -> Share:
    name, ceilings = level.name, inputs.ceilings
    bandwidth = ceilings.value(level.key)
    if bandwidth is None:
        return Share(None, no_ceiling(ceilings, level.key))
    if not work.has(name):
        n, sums = work.sums_over([f"{name}.least", TIME])
        least = sums[f"{name}.least"] / bandwidth / sums[TIME] if n else 0.0
        if least >= _SATURATED[ceilings.kind]:
            return Share(least)
        return Share(None, no_bytes(level, work, inputs.collected))
    n, sums = work.sums_over([name, TIME])
    if not n:
        return Share(None, Reason("no_dispatch", "no dispatch has both its counters and a time"))
    if sums[name] < 0:
        text = "negative traffic: the counters come from different replays that do not agree"
        return Share(None, Reason("negative", text))
    share = sums[name] / bandwidth / sums[TIME]
    if share > 1 and level.cache and ceilings.value(level.cache) is None:
        text = f"{_pct(share)} of its bandwidth: the cache in front of it, whose bandwidth is unknown, answered a part"
        return Share(None, Reason("no_ceiling", text))
    return Share(share, spare=_spare(level, work, bandwidth, share))


def _spare(level: Level, work: KernelWork, bandwidth: float, share: float) -> float | None:
    """The share minus that of the bytes that threads requested; 0 if the target does not count those bytes."""
    if not level.asked:
        return 0.0
    n, sums = work.sums_over([f"{level.name}.asked", TIME])
    return max(0.0, share - sums[f"{level.name}.asked"] / bandwidth / sums[TIME]) if n else None


def _pipe_share(operations: list[WorkOperation], work: KernelWork, inputs: RooflineInputs) -> Share:
    if not operations:
        return Share(None, Reason("not_countable", "this GPU has no counters for it"))
    counted, missing = countable(operations, work, inputs.collected)
    if not counted:
        return Share(None, not_counted(missing)) if missing else Share(0.0)
    n, sums = work.sums_over([*(o.name for o in counted), TIME])
    if not n:
        return Share(None, Reason("no_dispatch", "no dispatch has all of its counters and a time"))
    least = least_time_ns(counted, sums, inputs.ceilings)
    if isinstance(least, Reason):
        return Share(None, least)
    share = least / sums[TIME]
    if share < 0:
        return Share(
            None, Reason("negative", "negative count: the counters come from different replays that do not agree")
        )
    if missing and share < _SATURATED[inputs.ceilings.kind]:
        return Share(None, not_counted(missing))
    return Share(share)


def not_counted(missing: Iterable[str]) -> Reason:
    """The reason for operations that were not counted."""
    return Reason("partly_counted", f"not counted: {', '.join(missing)}")


def _excess(levels: list[Level], operations: list[WorkOperation], work: KernelWork, theory: Ceilings) -> str | None:
    """A sentence naming the first pipe or level whose work would in theory take longer than the kernel ran, or None."""
    for level in levels:
        n, sums = work.sums_over([level.name, TIME])
        most = most_gbs(level, theory)
        if n and most and sums[level.name] / most > _TOO_MUCH * sums[TIME]:
            return _contradiction(level.name, sums[level.name] / most / sums[TIME])
    for operation in operations:
        n, sums = work.sums_over([operation.name, TIME])
        least = least_time_ns([operation], sums, theory, at_best=True) if n else 0.0
        if isinstance(least, float) and n and least > _TOO_MUCH * sums[TIME]:
            return _contradiction(operation.name, least / sums[TIME])
    return None


def _contradiction(name: str, share: float) -> str:
    return f"{name} would need {_pct(share)} of the run time in theory, which is impossible"


def _busy_share(name: str, work: KernelWork, inputs: RooflineInputs) -> Share | None:
    read = [f"{name}.busy", f"{name}.cycles"]
    _, sums = work.sums_over(read)
    share = quotient(*map(sums.get, read))
    if share is None:
        return None
    return Share(share, doubt=inputs.doubts.about(inputs.collected.columns_behind(read), [work.kernel]))
