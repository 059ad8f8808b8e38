"""The mixed-pipe view: how much of its time a kernel needs at least on each pipe and memory level, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..catalogue.work import Family, Level, Operation
from ..engine.sums import TIME, Collected, KernelWork
from .ceilings import Ceilings

Verdict = Literal["memory", "compute", "latency", "unknown"]
SATURATED = {"empirical": 0.6, "theoretical": 0.5}
"""Share of the run time from which on a pipe or level counts as the limit; kernels reach less of theory."""
BUSY = 0.8
"""Share of busy cycles from which on a unit counts as the limit, whatever its counted work says."""
_TOO_MUCH = 1.05


@dataclass(frozen=True)
class Share:
    """The least time that one pipe or level needs for the work of a kernel, as a share of its run time.

    None where it cannot be said, with the reason.
    """

    name: str
    value: float | None
    reason: str | None = None


@dataclass(frozen=True)
class View:
    """Shares of pipes and levels, busy cycles of units, and the verdict for one kernel or dispatch."""

    kernel: str
    dispatch: int | None
    n: int
    time_ns: float | None
    shares: dict[str, Share]
    busy: dict[str, float]
    bound: Verdict
    limiter: str | None
    why: str


def roof_ns(
    operations: Iterable[Operation], sums: dict[str, float], ceilings: Ceilings, *, at_best: bool = False
) -> float | str:
    """The least time for these operations: types that share a unit add up, units and pipes run side by side.

    A text instead names the ceiling that is missing for work that was done. ``at_best`` allows for dual issue.
    """
    pipes: dict[str, float] = {}
    for operation in operations:
        done, peak = sums[operation.name], ceilings.value(operation.key)
        if done and peak is None:
            return f"no {ceilings.kind} ceiling {operation.key}"
        if done and peak is not None:
            best = peak * operation.dual if at_best else peak
            unit = f"{operation.pipe}.{operation.engine}"
            pipes[unit] = pipes.get(unit, 0.0) + done / best
    return max(pipes.values(), default=0.0)


def most_gbs(level: Level, theory: Ceilings) -> float | None:
    """The bandwidth that a level cannot exceed by theory; a cache in front of it may answer faster than it could."""
    peak = theory.value(level.key)
    if peak is None or not level.cache:
        return peak
    return max(peak, theory.value(level.cache) or math.inf)


def countable(
    operations: list[Operation], done: KernelWork, collected: Collected
) -> tuple[list[Operation], dict[str, str]]:
    """The operations that a kernel's counters tell, and those that they do not, with the reason.

    Where no matrix instruction was issued, a matrix type without a counter has done nothing and is not missed.
    """
    n, sums = done.over(["mfma_instructions"])
    known = [o for o in operations if done.has(o.name)]
    idle = all(done.over([o.name])[1][o.name] == 0 for o in known if o.pipe == "matrix")
    no_matrix = idle and n == done.dispatches and sums["mfma_instructions"] == 0
    lacking = [o for o in operations if not done.has(o.name)]
    missing = {
        o.name: str(collected.missing.get(o.name, "no value for this kernel"))
        for o in lacking
        if not (o.optional or (no_matrix and o.pipe == "matrix"))
    }
    return known, missing


def view(
    formulas: Family, target: str, done: KernelWork, collected: Collected, ceilings: Ceilings, theory: Ceilings
) -> View:
    """The shares of one kernel and what limits it.

    A pipe or level that alone needs most of the run time is the limit; where none does, the kernel waits (latency),
    unless a pipe is unknown. Attainable time is the greatest of the shares' times. What theory rules out decides
    nothing.
    """
    n, sums = done.over([TIME])
    time_ns = sums.get(TIME)
    shares = {level.name: _level(level, done, collected, ceilings) for level in formulas.level}
    issue = [o for o in formulas.operation if o.name == "valu.issue"]
    pipes: dict[str, list[Operation]] = {"valu": [], "matrix": [], "valu.issue": issue}
    for operation in formulas.operations(target, "flop", "iop"):
        pipes[operation.pipe].append(operation)
    for pipe, operations in pipes.items():
        shares[pipe] = _pipe(pipe, operations, done, collected, ceilings)
    if not pipes["valu"] and shares["valu.issue"].value is not None:
        del shares["valu"]  # instructions stand for operations that are not counted
    busy = {unit.name: part for unit in formulas.busy if (part := _busy(unit.name, done)) is not None}
    bound, limiter, why = verdict(shares, busy, ceilings)
    if excess := _excess(formulas.level, [o for of_pipe in pipes.values() for o in of_pipe], done, theory):
        bound, limiter, why = "unknown", None, excess
    if time_ns is None:
        bound, limiter, why = "unknown", None, "the dispatches have no usable timing"
    return View(done.kernel, done.dispatch, n, time_ns, shares, busy, bound, limiter, why)


def verdict(shares: dict[str, Share], busy: dict[str, float], ceilings: Ceilings) -> tuple[Verdict, str | None, str]:
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


def _kind(name: str) -> Verdict:
    return "compute" if name.split(".")[0] in ("valu", "matrix") else "memory"


def _level(level: Level, done: KernelWork, collected: Collected, ceilings: Ceilings) -> Share:
    name, peak = level.name, ceilings.value(level.key)
    if peak is None:
        return Share(name, None, f"no {ceilings.kind} ceiling {level.key}")
    if not done.has(name):
        n, sums = done.over([f"{name}.least", TIME])
        least = sums[f"{name}.least"] / peak / sums[TIME] if n else 0.0
        enough = least >= SATURATED[ceilings.kind]
        reason = None if enough else str(collected.missing.get(name, "no value for this kernel"))
        return Share(name, least if enough else None, reason)
    n, sums = done.over([name, TIME])
    if not n:
        return Share(name, None, "no dispatch has its counters and a time")
    if sums[name] < 0:
        return Share(name, None, "negative traffic: counters of different replays do not fit together")
    return Share(name, sums[name] / peak / sums[TIME])


def _pipe(name: str, operations: list[Operation], done: KernelWork, collected: Collected, ceilings: Ceilings) -> Share:
    if not operations:
        return Share(name, None, "this GPU has no counters for it")
    known, missing = countable(operations, done, collected)
    if not known:
        return Share(name, None, f"not counted: {', '.join(missing)}") if missing else Share(name, 0.0)
    n, sums = done.over([*(o.name for o in known), TIME])
    if not n:
        return Share(name, None, "no dispatch has all of its counters and a time")
    least = roof_ns(known, sums, ceilings)
    if isinstance(least, str):
        return Share(name, None, least)
    share = least / sums[TIME]
    if share < 0:
        return Share(name, None, "negative count: counters of different replays do not fit together")
    if missing and share < SATURATED[ceilings.kind]:
        return Share(name, None, f"not counted: {', '.join(missing)}")
    return Share(name, share)


def _excess(levels: list[Level], operations: list[Operation], done: KernelWork, theory: Ceilings) -> str | None:
    """A sentence naming the first pipe or level whose work would take longer by theory than the kernel ran."""
    for level in levels:
        n, sums = done.over([level.name, TIME])
        most = most_gbs(level, theory)
        if n and most and sums[level.name] / most > _TOO_MUCH * sums[TIME]:
            return _contradiction(level.name, sums[level.name] / most / sums[TIME])
    for operation in operations:
        n, sums = done.over([operation.name, TIME])
        least = roof_ns([operation], sums, theory, at_best=True) if n else 0.0
        if isinstance(least, float) and n and least > _TOO_MUCH * sums[TIME]:
            return _contradiction(operation.name, least / sums[TIME])
    return None


def _contradiction(name: str, share: float) -> str:
    return f"{name} would need {_pct(share)} of the run time by theory, which cannot be"


def _busy(name: str, done: KernelWork) -> float | None:
    _, sums = done.over([f"{name}.busy", f"{name}.cycles"])
    return sums[f"{name}.busy"] / sums[f"{name}.cycles"] if sums and sums[f"{name}.cycles"] else None
