"""The hierarchical roofline: one point per kernel and memory level, with its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..catalogue.work import Level, Operation
from ..engine.evaluation import Status
from ..engine.sums import TIME, Collected, KernelWork
from ..problems import BadArgument, near
from . import limits as mixed
from .ceilings import Ceilings
from .inputs import RooflineInputs

_SUSPECT, _IMPOSSIBLE = 1.0, 1.05
_TRIFLE, _MUCH = 0.01, 0.1
_CAUSES = "replays were mixed, a clock is wrong, or units are miscounted"
_CACHED = "the Infinity Cache answers faster than HBM"
_DUAL = "instructions were issued in pairs, or the clock was above the one quoted"


@dataclass(frozen=True)
class Tally:
    """What a point adds up to, over ``n`` dispatches: operations, bytes, run time and the least times they need."""

    operations: list[Operation]
    counted: list[Operation]
    missing: dict[str, str]
    n: int
    amount: float | None
    traffic: float | None
    time_ns: float | None
    roof_ns: float | str
    """The least time of the operations, or the ceiling that is missing for it."""
    wait_ns: float | None
    """The least time of the bytes."""


def judge(done: KernelWork, level: Level, tally: Tally, found: RooflineInputs) -> tuple[Status, str | None]:
    """The status of a point and, where it is not plainly ok, the reason in words."""
    if not tally.operations:
        return "not_supported", f"{found.target} has no counters of floating-point operations; bandwidth only"
    if tally.amount is None and tally.missing:
        return "not_collected", f"operations: {next(iter(tally.missing.values()))}"
    if not tally.n:
        return "not_collected", "no dispatch has all of its counters"
    if tally.time_ns is None:
        return "not_collected", "time: the dispatches have no usable timing"
    if tally.traffic is None:
        return "not_collected", f"bytes: {_why_no_bytes(level, done, found)}"
    if tally.traffic < 0:
        return "impossible", "negative bytes: counters of different replays do not fit together"
    nominal, at_best = _theory_shares(level, tally.counted, done, found)
    if at_best is not None and at_best > _SUSPECT:
        text = f"{at_best:.1%} of what theory allows: {_CAUSES}"
        return ("impossible" if at_best > _IMPOSSIBLE else "suspect"), text
    if nominal is not None and nominal > _SUSPECT:
        return "suspect", f"{nominal:.1%} of the theoretical ceiling: {_CACHED if level.cache else _DUAL}, or {_CAUSES}"
    reasons = [f"not counted: {', '.join(tally.missing)}"] if tally.missing else []
    doubts, doubtful = _doubts(tally, done)
    reasons += doubts
    roof = tally.roof_ns if isinstance(tally.roof_ns, float) else 0.0
    share = max(roof, tally.wait_ns or 0.0) / tally.time_ns
    if share > _SUSPECT:
        reasons.append(f"{share:.1%} of a recorded ceiling, which is a lower bound of what is possible")
    if isinstance(tally.roof_ns, str):
        reasons.append(tally.roof_ns)
    if tally.wait_ns is None:
        reasons.append(f"no {found.ceilings.kind} ceiling {level.key}")
    if not tally.amount:
        reasons.append("no such operations: judge by bandwidth")
    elif not tally.traffic:
        reasons.append("no traffic at this level")
    suspect = bool(tally.missing) or doubtful or (share > _SUSPECT and nominal is None)
    return ("suspect" if suspect else "ok"), "; ".join(reasons) or None


def _doubts(tally: Tally, done: KernelWork) -> tuple[list[str], bool]:
    """What may be no arithmetic at all, where it is more than a trifle of several kinds; whether it is much."""
    found, most = [], 0.0
    for operation in tally.counted if tally.amount and len(tally.counted) > 1 else []:
        share = done.over([operation.name])[1].get(operation.name, 0.0) / (tally.amount or 1.0)
        sure = operation.certain and done.over([operation.certain])[1].get(operation.certain)
        if operation.doubt and not sure and share > _TRIFLE:
            found.append(f"{share:.1%} of the operations are {operation.doubt}")
            most = max(most, share)
    return found, most > _MUCH


def _theory_shares(
    level: Level, counted: list[Operation], done: KernelWork, found: RooflineInputs
) -> tuple[float | None, float | None]:
    """The least time by theory as a share of the run time: at nominal ceilings, and at the most that is possible."""
    n, sums = done.over([*(o.name for o in counted), level.name, TIME])
    peak, most = found.theory.value(level.key), mixed.most_gbs(level, found.theory)
    if not n or peak is None or most is None:
        return None, None
    shares = []
    for width, at_best in ((peak, False), (most, True)):
        roof = mixed.roof_ns(counted, sums, found.theory, at_best=at_best)
        shares.append(None if isinstance(roof, str) else max(roof, sums[level.name] / width) / sums[TIME])
    return shares[0], shares[1]


def _why_no_bytes(level: Level, done: KernelWork, found: RooflineInputs) -> str:
    """Why a level has no bytes, with the range in which they lie where one is known."""
    reason = str(found.collected.missing.get(level.name, "no value for this kernel"))
    n, sums = done.over([f"{level.name}.least", f"{level.name}.most"])
    if not n:
        return reason
    return f"between {sums[f'{level.name}.least']:.6g} and {sums[f'{level.name}.most']:.6g}; {reason}"


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


def flop(found: RooflineInputs, levels: Sequence[str], datatype: str | None) -> Roofline:
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


def _with_integers(
    kinds: dict[str, list[Operation]], known: list[Operation], done: KernelWork
) -> dict[str, list[Operation]]:
    """A kernel without floating point is shown by its integer operations too, if it has any."""
    integers = [o for o in known if o.kind == "iop"]
    if _amount(done, kinds["flop"]) == 0 and _amount(done, integers):
        return {**kinds, "iop": integers}
    return kinds


def _amount(done: KernelWork, operations: list[Operation]) -> float | None:
    """How many of these operations a kernel did, as far as counted; None where nothing was counted."""
    counted = [o.name for o in operations if done.has(o.name)]
    return sum(done.over([name])[1][name] for name in counted) if counted else None


def _point(
    rank: int,
    done: KernelWork,
    level: Level,
    label: str,
    operations: list[Operation],
    view: mixed.View,
    found: RooflineInputs,
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


def _rates(rank: int, done: KernelWork, known: list[Operation], ceilings: Ceilings) -> list[Rate]:
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
