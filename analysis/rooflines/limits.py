"""What limits a kernel: the least time that it needs on each pipe and memory level as a share of its run time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..catalogue.work import Level, Operation
from ..coverage import NOT_COUNTED
from ..engine.evaluation import Status
from ..engine.sums import TIME, Collected, KernelWork
from ..notes import Reason
from .ceilings import Ceilings
from .inputs import RooflineInputs

Bound = Literal["memory", "compute", "latency", "unknown"]
"""What kind of limit a kernel has."""
PointStatus = Status | Literal["bypassed"]
"""Of a point; ``bypassed`` where most of a kernel's bytes do not pass the level, so that it has no place there."""
SATURATED = {"empirical": 0.6, "theoretical": 0.5}
"""Share of the run time from which on a pipe or level counts as the limit; kernels reach less of theory."""
BUSY = 0.8
"""Share of busy cycles from which on a unit counts as the limit, whatever its counted work says."""
_TOO_MUCH = 1.05
_PAST = 2
"""How many times the bytes through a level must go past it."""
NO_VALUE = Reason("no_value", "no value for this kernel")


@dataclass(frozen=True)
class Share:
    """The least time that one pipe or level needs for the work of a kernel, as a share of its run time.

    Without a value, ``reason`` says why.
    """

    name: str
    value: float | None
    reason: Reason | None = None
    spare: float | None = 0.0
    """The part of it that dense accesses would save, None where that is not known."""


@dataclass(frozen=True)
class KernelLimits:
    """Shares of pipes and levels, busy cycles of units, and what bounds one kernel or dispatch, with a sentence why."""

    kernel: str
    dispatch: int | None
    n: int
    time_ns: float | None
    shares: dict[str, Share]
    busy: dict[str, float]
    bound: Bound
    limiter: str | None
    why: str
    doubted: dict[str, Reason]
    """Shares and units whose figures are built on counters or times that are doubted, and why."""


def roof_ns(
    operations: Iterable[Operation], sums: dict[str, float], ceilings: Ceilings, *, at_best: bool = False
) -> float | Reason:
    """The least time for these operations: types that share a unit add up, units and pipes run side by side.

    A Reason instead names the ceiling that is missing for work that was done. ``at_best`` allows for dual issue.
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
    """The reason where a ceiling is missing."""
    return Reason("no_ceiling", f"no {ceilings.kind} ceiling {name}")


def most_gbs(level: Level, theory: Ceilings) -> float | None:
    """The bandwidth that a level cannot exceed by theory; a cache in front of it may answer faster than it could."""
    ceiling = theory.value(level.key)
    if ceiling is None or not level.cache:
        return ceiling
    return max(ceiling, theory.value(level.cache) or math.inf)


def bypassed(level: Level, work: KernelWork) -> Reason | None:
    """Why a level says nothing of a kernel: most of its bytes go past the level instead of through it."""
    n, sums = work.over([level.name, f"{level.name}.past"])
    past, through = sums.get(f"{level.name}.past", 0.0), sums.get(level.name, 0.0)
    if not n or past <= _PAST * through:
        return None
    return Reason("bypassed", f"{past / (past + through):.1%} of the bytes go past this level, by {level.past_by}")


def no_bytes(level: Level, work: KernelWork, collected: Collected) -> Reason:
    """Why a level has no bytes of a kernel: its counters do not see them all, or were not collected."""
    unseen = f"{level.name}.unseen"
    if work.over([unseen])[1].get(unseen):
        return Reason("unseen", level.unseen_why)
    return collected.missing.get(level.name, NO_VALUE)


def countable(
    operations: list[Operation], work: KernelWork, collected: Collected, *, every: bool = False
) -> tuple[list[Operation], dict[str, Reason]]:
    """The operations that a kernel's counters tell, and those that they do not, with the reason.

    Optional ones are missed only where ``every`` is asked for: a point that is made of them. Where no matrix
    instruction was issued, a matrix type without a counter has done nothing and is not missed.
    """
    n, sums = work.over(["mfma_instructions"])
    counted = [o for o in operations if work.has(o.name)]
    idle = all(work.over([o.name])[1][o.name] == 0 for o in counted if o.pipe == "matrix")
    no_matrix = idle and n == work.dispatches and sums["mfma_instructions"] == 0
    lacking = [o for o in operations if not work.has(o.name)]
    missing = {
        o.name: collected.missing.get(o.name, NO_VALUE)
        for o in lacking
        if not ((o.optional and not every) or (no_matrix and o.pipe == "matrix"))
    }
    return counted, missing


def of_kernel(inputs: RooflineInputs, work: KernelWork) -> KernelLimits:
    """The shares of one kernel and what limits it.

    A pipe or level that alone needs most of the run time is the limit; where none does, the kernel waits (latency),
    unless a pipe is unknown. Attainable time is the greatest of the shares' times. What theory rules out decides
    nothing.
    """
    formulas = inputs.formulas
    n, sums = work.over([TIME])
    time_ns = sums.get(TIME)
    shares = {level.name: _level(level, work, inputs) for level in formulas.level}
    issue = [o for o in formulas.operation if o.name == "valu.issue"]
    pipes: dict[str, list[Operation]] = {"valu": [], "matrix": [], "valu.issue": issue}
    for operation in formulas.operations(inputs.target, "flop", "iop"):
        pipes[operation.pipe].append(operation)
    for pipe, operations in pipes.items():
        shares[pipe] = _pipe(pipe, operations, work, inputs)
    if not pipes["valu"] and shares["valu.issue"].value is not None:
        del shares["valu"]  # instructions stand for operations that are not counted
    busy = {unit.name: part for unit in formulas.busy if (part := _busy(unit.name, work)) is not None}
    bound, limiter, why = bound_by(shares, busy, inputs.ceilings)
    if excess := _excess(formulas.level, [o for of_pipe in pipes.values() for o in of_pipe], work, inputs.theory):
        bound, limiter, why = "unknown", None, excess
    if time_ns is None:
        bound, limiter, why = "unknown", None, "the dispatches have no usable timing"
    if work.kernel in inputs.uncounted:
        bound, limiter, why = "unknown", None, NOT_COUNTED.text
    doubted = _doubted(shares, busy, pipes, work, inputs)
    return KernelLimits(work.kernel, work.dispatch, n, time_ns, shares, busy, bound, limiter, why, doubted)


def _doubted(
    shares: Mapping[str, Share],
    busy: Iterable[str],
    pipes: Mapping[str, list[Operation]],
    work: KernelWork,
    inputs: RooflineInputs,
) -> dict[str, Reason]:
    """The shares that are known and the units, by their names in answers, of which something is doubted."""
    made_of = {
        name: [o.name for o in pipes.get(name, [])] or [name] for name, s in shares.items() if s.value is not None
    }
    found = {name: inputs.doubt(work.kernel, quantities) for name, quantities in made_of.items()}
    for unit in busy:
        read = inputs.collected.behind([f"{unit}.busy", f"{unit}.cycles"])
        found[f"{unit}_busy"] = inputs.doubts.about(read, [work.kernel])
    return {name: reason for name, reason in found.items() if reason}


def bound_by(shares: dict[str, Share], busy: dict[str, float], ceilings: Ceilings) -> tuple[Bound, str | None, str]:
    """Bound, limiter and a sentence why, from the shares of time and of busy cycles."""
    threshold = SATURATED[ceilings.kind]
    known = {name: s.value for name, s in shares.items() if s.value is not None}
    top = max(known, key=lambda name: known[name]) if known else None
    if top and known[top] >= threshold:
        return _kind(top), top.split(".")[0], f"{top} alone needs at least {_pct(known[top])} of the run time"
    active = max(busy, key=lambda name: busy[name]) if busy else None
    if active and busy[active] >= BUSY:
        return (
            _kind(active),
            active,
            f"{active} was busy in {_pct(busy[active])} of the cycles, with slow or stalled work",
        )
    unknown = [s for s in shares.values() if s.value is None]
    if unknown or not top:
        reasons = "; ".join(f"{s.name}: {s.reason}" for s in unknown[:4])
        return "unknown", None, f"nothing known is near its limit, and these are not known: {reasons}"
    return (
        "latency",
        "latency",
        f"every pipe and level is below {threshold:.0%} of its limit; the nearest is {top} with {_pct(known[top])}",
    )


def _pct(share: float) -> str:
    return f"{100 * share:.3g} %"


def _kind(name: str) -> Bound:
    return "compute" if name.split(".")[0] in ("valu", "matrix") else "memory"


def _level(level: Level, work: KernelWork, inputs: RooflineInputs) -> Share:
    name, ceilings = level.name, inputs.ceilings
    bandwidth = ceilings.value(level.key)
    if bandwidth is None:
        return Share(name, None, no_ceiling(ceilings, level.key))
    if not work.has(name):
        n, sums = work.over([f"{name}.least", TIME])
        least = sums[f"{name}.least"] / bandwidth / sums[TIME] if n else 0.0
        if least >= SATURATED[ceilings.kind]:
            return Share(name, least)
        return Share(name, None, no_bytes(level, work, inputs.collected))
    n, sums = work.over([name, TIME])
    if not n:
        return Share(name, None, Reason("no_dispatch", "no dispatch has its counters and a time"))
    if sums[name] < 0:
        text = "negative traffic: counters of different replays do not fit together"
        return Share(name, None, Reason("negative", text))
    share = sums[name] / bandwidth / sums[TIME]
    if share > 1 and level.cache and ceilings.value(level.cache) is None:
        text = f"{_pct(share)} of its bandwidth: the cache before it, whose bandwidth is not known, answered a part"
        return Share(name, None, Reason("no_ceiling", text))
    return Share(name, share, spare=_spare(level, work, bandwidth, share))


def _spare(level: Level, work: KernelWork, bandwidth: float, share: float) -> float | None:
    """What the share is above that of the bytes which threads asked for; 0 where a target tells no such bytes."""
    if not level.asked:
        return 0.0
    n, sums = work.over([f"{level.name}.asked", TIME])
    return max(0.0, share - sums[f"{level.name}.asked"] / bandwidth / sums[TIME]) if n else None


def _pipe(name: str, operations: list[Operation], work: KernelWork, inputs: RooflineInputs) -> Share:
    if not operations:
        return Share(name, None, Reason("no_counter", "this GPU has no counters for it"))
    counted, missing = countable(operations, work, inputs.collected)
    if not counted:
        return Share(name, None, not_counted(missing)) if missing else Share(name, 0.0)
    n, sums = work.over([*(o.name for o in counted), TIME])
    if not n:
        return Share(name, None, Reason("no_dispatch", "no dispatch has all of its counters and a time"))
    least = roof_ns(counted, sums, inputs.ceilings)
    if isinstance(least, Reason):
        return Share(name, None, least)
    share = least / sums[TIME]
    if share < 0:
        return Share(
            name, None, Reason("negative", "negative count: counters of different replays do not fit together")
        )
    if missing and share < SATURATED[inputs.ceilings.kind]:
        return Share(name, None, not_counted(missing))
    return Share(name, share)


def not_counted(missing: Iterable[str]) -> Reason:
    """The reason where some operations have no counters."""
    return Reason("partly_counted", f"not counted: {', '.join(missing)}")


def _excess(levels: list[Level], operations: list[Operation], work: KernelWork, theory: Ceilings) -> str | None:
    """A sentence naming the first pipe or level whose work would take longer by theory than the kernel ran."""
    for level in levels:
        n, sums = work.over([level.name, TIME])
        most = most_gbs(level, theory)
        if n and most and sums[level.name] / most > _TOO_MUCH * sums[TIME]:
            return _contradiction(level.name, sums[level.name] / most / sums[TIME])
    for operation in operations:
        n, sums = work.over([operation.name, TIME])
        least = roof_ns([operation], sums, theory, at_best=True) if n else 0.0
        if isinstance(least, float) and n and least > _TOO_MUCH * sums[TIME]:
            return _contradiction(operation.name, least / sums[TIME])
    return None


def _contradiction(name: str, share: float) -> str:
    return f"{name} would need {_pct(share)} of the run time by theory, which cannot be"


def _busy(name: str, work: KernelWork) -> float | None:
    _, sums = work.over([f"{name}.busy", f"{name}.cycles"])
    return sums[f"{name}.busy"] / sums[f"{name}.cycles"] if sums and sums[f"{name}.cycles"] else None
