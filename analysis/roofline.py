"""The roofline of floating-point and integer work: one point per kernel (or dispatch), memory level and data type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import catalog, mixed
from .ceilings import Ceilings, Source
from .ceilings import choose as choose_ceilings
from .problems import BadArgument, BadInput, near
from .scope import facts_of
from .selection import choose
from .status import Status
from .store import Manifest, Store
from .work import TIME, By, Collected, Done, Family, Level, Operation, collect, family, formulas

if TYPE_CHECKING:
    import duckdb

_SUSPECT, _IMPOSSIBLE = 1.0, 1.05
_CAUSES = "replays were mixed, a clock is wrong, or units are miscounted"


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


@dataclass(frozen=True)
class Scene:
    """What both kinds of roofline start from: the work done, the ceilings, the formulas and the device's facts."""

    target: str
    formulas: Family
    facts: Mapping[str, float]
    collected: Collected
    ceilings: Ceilings
    theory: Ceilings


def scene(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    kernel: str | None,
    dispatches: str | Sequence[int] | None,
    by: By,
    source: Source,
    by_hand: Mapping[str, float] | None,
    limit: int,
    offset: int,
) -> Scene:
    """Collect the work of the kernels asked for and choose the ceilings. Raises BadInput for an unknown target."""
    target = manifest.arch or ""
    if target not in catalog.with_metrics():
        raise BadInput(
            f"No roofline formulas are known for workload {manifest.name!r}",
            f"its GPU target is {manifest.arch or 'not stated in the profile'}",
            f"Import it again with gpu= one of {', '.join(catalog.with_metrics())}",
        )
    selection = choose(con, store, manifest, kernel, dispatches)
    collected = collect(con, store, manifest, selection, formulas(target), by, limit, offset)
    chosen, theory = choose_ceilings(con, store, manifest, source, by_hand)
    known = family(catalog.gpu(target).family, target)
    return Scene(target, known, facts_of(manifest), collected, chosen, theory)


def flop(found: Scene, levels: Sequence[str], datatype: str | None) -> Roofline:
    """The points of a scene at the levels asked for.

    ``datatype``: None is all floating point together (and integers, where a kernel has no floating point), "iop" all
    integers together, a type (f32) or a pipe's type (matrix.f32) that alone, "all" every one that occurs.
    """
    known = found.formulas.operations(found.target, "flop", "iop")
    kinds = _kinds(known, datatype)
    result = Roofline([], [], [], found.ceilings, found.theory, found.collected, {}, [])
    for rank, done in enumerate(found.collected.groups, 1):
        view = mixed.view(found.formulas, found.target, done, found.collected, found.ceilings)
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
    status, reason = _judge(done, level, operations, counted, missing, n, amount, traffic, roof, wait, time_ns, found)
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


def _judge(
    done: Done,
    level: Level,
    operations: list[Operation],
    counted: list[Operation],
    missing: dict[str, str],
    n: int,
    amount: float | None,
    traffic: float | None,
    roof: float | str,
    wait: float | None,
    time_ns: float | None,
    found: Scene,
) -> tuple[Status, str | None]:
    """The status of a point and, where it is not plainly ok, the reason in words."""
    if not operations:
        return "not_supported", f"{found.target} has no counters of floating-point operations; bandwidth only"
    if amount is None and missing:
        return "not_collected", f"operations: {next(iter(missing.values()))}"
    if not n:
        return "not_collected", "no dispatch has all of its counters"
    if time_ns is None:
        return "not_collected", "time: the dispatches have no usable timing"
    if traffic is None:
        return "not_collected", f"bytes: {_why_no_bytes(level, done, found)}"
    if traffic < 0:
        return "impossible", "negative bytes: counters of different replays do not fit together"
    theory = _theory_share(level, counted, traffic, done, found)
    if theory is not None and theory > _SUSPECT:
        text = f"{theory:.1%} of what theory allows: {_CAUSES}"
        return ("impossible" if theory > _IMPOSSIBLE else "suspect"), text
    share = max(s for s in (roof if isinstance(roof, float) else 0.0, wait or 0.0)) / time_ns
    reasons = [f"not counted: {', '.join(missing)}"] if missing else []
    if share > _SUSPECT:
        reasons.append(f"{share:.1%} of a recorded ceiling, which is a lower bound of what is possible")
    suspect = bool(missing) or (share > _SUSPECT and theory is None)
    if isinstance(roof, str):
        reasons.append(roof)
    if wait is None:
        reasons.append(f"no {found.ceilings.kind} ceiling {level.key}")
    if not amount:
        reasons.append("no such operations: judge by bandwidth")
    elif not traffic:
        reasons.append("no traffic at this level")
    return ("suspect" if suspect else "ok"), "; ".join(reasons) or None


def _theory_share(level: Level, counted: list[Operation], traffic: float, done: Done, found: Scene) -> float | None:
    """The least time by theory as a share of the run time; None where a theoretical ceiling is unknown."""
    n, sums = done.over([*(o.name for o in counted), level.name, TIME])
    peak = found.theory.value(level.key)
    roof = mixed.roof_ns(counted, sums, found.theory) if n else "nothing"
    if not n or peak is None or isinstance(roof, str):
        return None
    return max(roof, traffic / peak) / sums[TIME]


def _why_no_bytes(level: Level, done: Done, found: Scene) -> str:
    """Why a level has no bytes, with the range in which they lie where one is known."""
    reason = found.collected.missing.get(level.name, "no value for this kernel")
    n, sums = done.over([f"{level.name}.least", f"{level.name}.most"])
    if not n:
        return reason
    return f"between {sums[f'{level.name}.least']:.6g} and {sums[f'{level.name}.most']:.6g}; {reason}"


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
