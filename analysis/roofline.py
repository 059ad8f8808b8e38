"""The roofline of floating-point and integer work: one point per kernel (or dispatch), memory level and data type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from . import mixed
from .ceilings import Ceilings
from .collect import TIME, Collected, Done
from .plausible import Tally, judge
from .problems import BadArgument, near
from .scene import Scene
from .status import Status
from .work import Level, Operation


@dataclass(frozen=True)
class Point:
    """One point under one roof: sums over ``n`` dispatches, all of which have every quantity in it.

    ``performance`` = operations / time and ``bandwidth`` = bytes / time, so neither grows with the number of
    dispatches. ``attainable`` = operations / max(least compute time, bytes / bandwidth ceiling): the classical
    min(peak, intensity x bandwidth), also for mixed data types. ``bound`` and ``limiter`` are those of the whole
    kernel (see mixed.py), as a kernel has one limit and not one per level.
    """

    rank: int
    kernel: str
    dispatch: int | None
    level: str
    datatype: str
    intensity: float | None
    performance: float | None
    unit: str
    bytes: float | None
    operations: float | None
    time_ns: float | None
    attainable: float | None
    pct_of_attainable: float | None
    bandwidth: float | None
    pct_of_bandwidth: float | None
    bound: mixed.Verdict
    limiter: str | None
    status: Status
    reason: str | None
    n: int


@dataclass(frozen=True)
class Rate:
    """One kind of operation of one kernel: how much, how fast, against its own ceiling."""

    rank: int
    name: str
    operations: float
    unit: str
    rate: float | None
    ceiling: float | None
    pct_of_ceiling: float | None
    n: int


@dataclass(frozen=True)
class Roofline:
    """Points, the mixed-pipe view of every kernel, the work by data type, and the ceilings they are held against."""

    points: list[Point]
    views: list[mixed.View]
    rates: list[Rate]
    ceilings: Ceilings
    theory: Ceilings
    collected: Collected
    not_counted: dict[str, str]
    """Kinds of operation that no kernel's counters tell, and why: FLOP are at least the figures shown."""
    notes: list[str] = field(default_factory=list)


def flop(found: Scene, levels: Sequence[str], datatype: str | None) -> Roofline:
    """The points of a scene at the levels asked for.

    ``datatype``: None is all floating point together (and integers, where a kernel has no floating point), "iop" all
    integers together, a type (f32) or a pipe's type (matrix.f32) that alone, "all" every one that occurs.
    """
    known = found.formulas.operations(found.target, "flop", "iop")
    kinds = _kinds(known, datatype)
    result = Roofline([], [], [], found.ceilings, found.theory, found.collected, {}, [])
    for rank, done in enumerate(found.collected.groups, 1):
        view = mixed.view(found.formulas, found.target, done, found.collected, found.ceilings, found.theory)
        result.views.append(view)
        result.rates.extend(_rates(rank, done, known, found.ceilings))
        _, missing = mixed.countable(known, done, found.collected)
        result.not_counted.update(missing)
        shown = kinds if datatype else _with_integers(kinds, known, done)
        for label, operations in shown.items():
            if datatype == "all" and "." in label and not _amount(done, operations):
                continue
            for level in found.formulas.level:
                if level.name in levels:
                    result.points.append(_point(rank, done, level, label, operations, view, found))
    return result


def _kinds(known: list[Operation], datatype: str | None) -> dict[str, list[Operation]]:
    """Labels of points -> the operations they add up. Raises BadArgument for a type that the GPU does not count."""
    floats, integers = [o for o in known if o.kind == "flop"], [o for o in known if o.kind == "iop"]
    single = {o.name: [o] for o in known}
    typed: dict[str, list[Operation]] = {}
    for operation in known:
        typed.setdefault(operation.datatype, []).append(operation)
    if datatype is None or not known:
        return {"flop": floats}
    word = datatype.lower()
    word = {"int": "iop", "total": "flop"}.get(word, word.replace("fp", "f").replace("int", "i"))
    if word == "all":
        return {"flop": floats, "iop": integers, **single}
    everything = {"flop": floats, "iop": integers, **typed, **single}
    if word not in everything:
        raise BadArgument(
            f"No operations of data type {datatype!r} are counted on this GPU",
            near(word, everything),
            f"Known: all, {', '.join(everything)}",
        )
    return {word: everything[word]}


def _with_integers(kinds: dict[str, list[Operation]], known: list[Operation], done: Done) -> dict[str, list[Operation]]:
    """A kernel without floating point is shown by its integer operations too, if it has any."""
    integers = [o for o in known if o.kind == "iop"]
    if _amount(done, kinds["flop"]) == 0 and _amount(done, integers):
        return {**kinds, "iop": integers}
    return kinds


def _amount(done: Done, operations: list[Operation]) -> float | None:
    """How many of these operations a kernel did, as far as counted; None where nothing was counted."""
    counted = [o.name for o in operations if done.has(o.name)]
    return sum(done.over([name])[1][name] for name in counted) if counted else None


def _point(
    rank: int, done: Done, level: Level, label: str, operations: list[Operation], view: mixed.View, found: Scene
) -> Point:
    counted, missing = mixed.countable(operations, done, found.collected)
    names = [o.name for o in counted]
    moved = level.name if done.has(level.name) else None
    needed = [*names, *([moved] if moved else [])]
    n, sums = done.over([*needed, TIME])
    if not n:
        n, sums = done.over(needed)
    time_ns = sums.get(TIME)
    amount = sum(sums[name] for name in names) if n and (counted or (operations and not missing)) else None
    traffic = sums[moved] if n and moved else None
    peak = found.ceilings.value(level.key)
    wait = traffic / peak if traffic is not None and peak else None
    roof = mixed.roof_ns(counted, sums, found.ceilings) if n else 0.0
    least = max(roof, wait) if wait is not None and amount is not None and not isinstance(roof, str) else None
    tally = Tally(operations, counted, missing, n, amount, traffic, time_ns, roof, wait)
    status, reason = judge(done, level, tally, found)
    return Point(
        rank=rank,
        kernel=done.kernel,
        dispatch=done.dispatch,
        level=level.name,
        datatype=label,
        intensity=amount / traffic if amount is not None and traffic else None,
        performance=amount / time_ns if amount is not None and time_ns else None,
        unit="GIOP/s" if operations and all(o.kind == "iop" for o in operations) else "GFLOP/s",
        bytes=traffic,
        operations=amount,
        time_ns=time_ns,
        attainable=amount / least if amount and least else None,
        pct_of_attainable=100 * least / time_ns if least is not None and time_ns else None,
        bandwidth=traffic / time_ns if traffic is not None and time_ns else None,
        pct_of_bandwidth=100 * wait / time_ns if wait is not None and time_ns else None,
        bound=view.bound,
        limiter=view.limiter,
        status=status,
        reason=reason,
        n=n,
    )


def _rates(rank: int, done: Done, known: list[Operation], ceilings: Ceilings) -> list[Rate]:
    """The kinds of operation that a kernel did, each with its own ceiling."""
    rates = []
    for operation in known:
        n, sums = done.over([operation.name, TIME])
        if not n or not sums[operation.name]:
            continue
        rate, peak = sums[operation.name] / sums[TIME], ceilings.value(operation.key)
        share = 100 * rate / peak if peak else None
        rates.append(Rate(rank, operation.name, sums[operation.name], operation.unit, rate, peak, share, n))
    return rates
