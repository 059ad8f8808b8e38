"""The hierarchical roofline of operations or of instructions: a point per kernel and memory level, with its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..base.notes import Reason
from ..base.problems import BadArgument, near
from ..catalogue.rules import Bound
from ..catalogue.thresholds import threshold
from ..catalogue.work_formulas import Level, WorkOperation
from ..engine.evaluation import with_doubt
from ..engine.work_sums import TIME, KernelWork
from ..launches.coverage import NOT_COUNTED
from . import limits
from .ceilings import Ceilings, percentage, quotient
from .inputs import RooflineInputs
from .limits import KernelLimits, PointStatus
from .walls import Wall, read_walls

_SUSPECT = threshold("figures.suspect_pct") / 100
_IMPOSSIBLE = threshold("figures.impossible_pct") / 100
_TRIFLE = threshold("roofline.negligible_operations")
_MUCH = threshold("roofline.missing_operations")
_CAUSES = "replays were mixed, a clock is wrong, or units were miscounted"
_CACHED = "the Infinity Cache delivers faster than HBM"
_DUAL = "instructions were issued in pairs, or the clock was above the nominal one"
_ISSUE, _VECTOR, _INSTRUCTIONS = "issue", "valu_instructions", "inst"
"""The operation that the instruction roofline counts, those of its instructions that are vector ones, and its label."""
_NO_TIME = Reason("no_timing", "time: the dispatches have no usable timing")
_NO_TRAFFIC = Reason("no_bytes", "no traffic at this level")
_NEGATIVE_BYTES = Reason("negative", "negative bytes: the counters come from different replays that do not agree")


RooflineKind = Literal["flop", "instruction"]


@dataclass(frozen=True)
class PointTally:
    """The sums behind a point over ``n`` dispatches: operations, bytes and transactions at ``level``, run time, and the
    least times for the operations and the bytes."""

    level: Level
    operations: list[WorkOperation]
    counted: list[WorkOperation]
    missing: dict[str, Reason]
    quantities: list[str]
    n: int
    amount: float | None
    traffic: float | None
    transactions: float | None
    time_ns: float | None
    roof_ns: float | Reason
    """The least time of the operations in ns, or the reason for a missing ceiling."""
    wait_ns: float | None
    """The least time of the bytes in ns."""

    @property
    def least_ns(self) -> float | None:
        """The least time of the model in ns; None if the operations, the bytes or a ceiling are unknown."""
        if self.amount is None or self.wait_ns is None or isinstance(self.roof_ns, Reason):
            return None
        return max(self.roof_ns, self.wait_ns)


def judge(work: KernelWork, tally: PointTally, inputs: RooflineInputs) -> tuple[PointStatus, Reason | None]:
    """The status of a point and, unless it is simply ok, the reason."""
    level = tally.level
    if not tally.operations:
        text = f"{inputs.target} has no counters of floating-point operations; only the bandwidth is known"
        return "not_supported", Reason("no_counter", text)
    if work.kernel in inputs.uncounted:
        return "not_collected", NOT_COUNTED
    if tally.amount is None and tally.missing:
        why = next(iter(tally.missing.values()))
        text = f"operations: {why.text}"
        if not work.has(level.name):
            text += f"; {_why_no_bytes(level, work, inputs).text}"
        return "not_collected", Reason(why.code, text)
    if not tally.n:
        return "not_collected", Reason("no_dispatch", "no dispatch has all the necessary counters")
    if tally.time_ns is None:
        return "not_collected", _NO_TIME
    if tally.traffic is None:
        reason = _why_no_bytes(level, work, inputs)
        return ("not_supported" if reason.code == "unseen" else "not_collected"), reason
    if tally.traffic < 0:
        return "impossible", _NEGATIVE_BYTES
    if past := limits.why_bypassed(level, work):
        return "bypassed", past
    if tally.operations[0].kind == "inst":
        return _judge_instructions(work, tally, tally.time_ns, inputs)
    return _judge_operations(work, tally, tally.time_ns, inputs)


def _judge_instructions(
    work: KernelWork, tally: PointTally, time_ns: float, inputs: RooflineInputs
) -> tuple[PointStatus, Reason | None]:
    least = tally.least_ns
    if least is None:
        return "ok", limits.no_ceiling(inputs.ceilings, f"{_ISSUE} or {tally.level.key}")
    if least <= time_ns:
        return "ok", None if tally.traffic else _NO_TRAFFIC
    vector = work.sums_over([_VECTOR, TIME])[1].get(_VECTOR)
    if vector is not None and max(vector / (inputs.ceilings.value(_ISSUE) or 1.0), tally.wait_ns or 0.0) <= time_ns:
        text = "above the model's peak of one instruction per cycle, as scalar and vector ones issue in parallel"
        return "ok", Reason("above_ceiling", text)
    text = f"{least / time_ns:.1%} of its ceiling: recorded ceilings are lower bounds, or replays were mixed"
    return "suspect", Reason("above_ceiling", text)


def _judge_operations(
    work: KernelWork, tally: PointTally, time_ns: float, inputs: RooflineInputs
) -> tuple[PointStatus, Reason | None]:
    level = tally.level
    nominal, at_best = _theory_shares(level, tally.counted, work, inputs)
    if at_best is not None and at_best > _SUSPECT:
        reason = Reason("above_limit", f"{at_best:.1%} of the theoretical maximum: {_CAUSES}")
        return ("impossible" if at_best > _IMPOSSIBLE else "suspect"), reason
    if nominal is not None and nominal > _SUSPECT:
        text = f"{nominal:.1%} of the theoretical ceiling: {_CACHED if level.cache else _DUAL}, or {_CAUSES}"
        return "suspect", Reason("above_ceiling", text)
    reasons = [limits.not_counted(tally.missing)] if tally.missing else []
    doubts, doubtful = _doubts(tally, work)
    reasons += doubts
    roof = tally.roof_ns if isinstance(tally.roof_ns, float) else 0.0
    share = max(roof, tally.wait_ns or 0.0) / time_ns
    if share > _SUSPECT:
        text = f"{share:.1%} of a recorded ceiling, which is a lower bound of the possible rate"
        reasons.append(Reason("above_ceiling", text))
    if isinstance(tally.roof_ns, Reason):
        reasons.append(tally.roof_ns)
    if tally.wait_ns is None:
        reasons.append(limits.no_ceiling(inputs.ceilings, level.key))
    if not tally.amount:
        reasons.append(Reason("no_operations", "no operations of this type: judge by bandwidth"))
    elif not tally.traffic:
        reasons.append(_NO_TRAFFIC)
    if doubtful:
        reasons.append(Reason("doubtful", "bytes and bandwidth are not affected"))
    suspect = bool(tally.missing) or doubtful or (share > _SUSPECT and nominal is None)
    joined = Reason(reasons[0].code, "; ".join(r.text for r in reasons)) if reasons else None
    return ("suspect" if suspect else "ok"), joined


def _doubts(tally: PointTally, work: KernelWork) -> tuple[list[Reason], bool]:
    """The operations that may not be arithmetic, if their share matters, and whether that share is large."""
    doubts, most = [], 0.0
    for operation in tally.counted if tally.amount and len(tally.counted) > 1 else []:
        share = work.sums_over([operation.name])[1].get(operation.name, 0.0) / (tally.amount or 1.0)
        sure = operation.certain and work.sums_over([operation.certain])[1].get(operation.certain)
        if operation.doubt and not sure and share > _TRIFLE:
            doubts.append(Reason("doubtful", f"{share:.1%} of the operations are {operation.doubt}"))
            most = max(most, share)
    return doubts, most > _MUCH


def _theory_shares(
    level: Level, counted: list[WorkOperation], work: KernelWork, inputs: RooflineInputs
) -> tuple[float | None, float | None]:
    """The theoretical least time as a share of the run time: at the nominal ceilings, and at the highest possible
    ones."""
    n, sums = work.sums_over([*(o.name for o in counted), level.name, TIME])
    nominal, most = inputs.theory.value(level.key), limits.most_gbs(level, inputs.theory)
    if not n or nominal is None or most is None:
        return None, None
    shares = []
    for bandwidth, at_best in ((nominal, False), (most, True)):
        roof = limits.least_time_ns(counted, sums, inputs.theory, at_best=at_best)
        shares.append(None if isinstance(roof, Reason) else max(roof, sums[level.name] / bandwidth) / sums[TIME])
    return shares[0], shares[1]


def _why_no_bytes(level: Level, work: KernelWork, inputs: RooflineInputs) -> Reason:
    """The reason why a level has no bytes, with their range if it is known."""
    reason = limits.no_bytes(level, work, inputs.collected)
    n, sums = work.sums_over([f"{level.name}.least", f"{level.name}.most"])
    between = f"between {sums[f'{level.name}.least']:.6g} and {sums[f'{level.name}.most']:.6g}; " if n else ""
    return Reason(reason.code, f"bytes: {between}{reason.text}")


@dataclass(frozen=True)
class RooflinePoint:
    """One point under one roof: sums over ``n`` dispatches, all of which have every quantity of the point.

    ``performance`` = operations / time and ``bandwidth`` = bytes / time, so neither grows with the number of
    dispatches; a level that most bytes bypass has no intensity. ``attainable`` = operations / max(least compute time,
    bytes / bandwidth ceiling): the classical min(peak, intensity x bandwidth), generalised to mixed data types.
    ``bound`` and ``limiter`` are those of the whole kernel (see limits.py), which has one limit, not one per level.

    In an instruction roofline (Leinhauser et al., ACM TOPC 9(1), 2022), the operations are wave (warp) instructions,
    also relative to transactions. On CDNA the VALU and SALU instructions are counted, on NVIDIA all instructions; each
    counts once, however many lanes are active.
    """

    rank: int
    kernel: str
    dispatch: int | None
    level: str
    datatype: str
    intensity: float | None
    per_transaction: float | None
    performance: float | None
    unit: str
    bytes: float | None
    operations: float | None
    transactions: float | None
    gtxn: float | None
    time_ns: float | None
    attainable: float | None
    pct_of_attainable: float | None
    pct_of_peak: float | None
    """The least time of the operations alone as a share of the run time."""
    bandwidth: float | None
    pct_of_bandwidth: float | None
    bound: Bound
    limiter: str | None
    status: PointStatus
    reason: Reason | None
    n: int

    @property
    def of_instructions(self) -> bool:
        """Whether its operations are instructions."""
        return self.datatype == _INSTRUCTIONS


@dataclass(frozen=True)
class OperationRate:
    """One type of operation of one kernel: its amount and rate, and the share of its own ceiling."""

    rank: int
    operation: str
    operations: float
    rate: float | None
    unit: str
    ceiling: float | None
    pct_of_ceiling: float | None
    n: int


@dataclass(frozen=True)
class Roofline:
    """The points, the limits of every kernel, and the work by data type, longest kernel first."""

    kind: RooflineKind
    inputs: RooflineInputs
    points: list[RooflinePoint]
    limits: list[KernelLimits]
    rates: list[OperationRate]
    not_counted: dict[str, Reason]
    """Types of operation that were not counted for any kernel, and why; the FLOP shown are lower bounds then."""
    walls: list[Wall]
    """Of an instruction roofline: where the accesses of the kernels are between its walls."""


def build_roofline(
    inputs: RooflineInputs, levels: Sequence[str], datatype: str | None = None, kind: RooflineKind = "flop"
) -> Roofline:
    """The points of the kernels at the requested memory levels.

    ``datatype``: None adds up all floating-point types (and integers, if a kernel has no floating point), "iop" adds up
    all integer types, a type (f32) or the type of a pipe (matrix.f32) selects that one, "all" shows each separately.
    An instruction roofline has no data types.
    """
    known, kinds = list[WorkOperation](), {}
    if kind == "instruction":
        issued = inputs.formulas.operations("inst")
        kinds[_INSTRUCTIONS] = [o for o in issued if o.name == _ISSUE]
    else:
        known = inputs.formulas.operations("flop", "iop")
        kinds = _kinds(known, datatype)
    roofline = Roofline(kind, inputs, [], limits.limits_of_kernels(inputs), [], {}, [])
    for rank, (work, limit) in enumerate(zip(inputs.collected.groups, roofline.limits, strict=True), 1):
        roofline.rates.extend(_rates(rank, work, known, inputs.ceilings))
        _, missing = limits.countable(known, work, inputs.collected)
        roofline.not_counted.update(missing)
        shown = kinds if datatype or not known else _with_integers(kinds, known, work)
        for label, operations in shown.items():
            if datatype == "all" and "." in label and not _amount(work, operations):
                continue
            for level in inputs.formulas.level:
                if level.name in levels:
                    tally = _tally(work, level, operations, inputs)
                    doubt = inputs.doubt(work.kernel, tally.quantities)
                    judged = with_doubt(*judge(work, tally, inputs), doubt)
                    roofline.points.append(_point(rank, label, tally, limit, judged))
        roofline.walls.extend(read_walls(rank, work, inputs) if kind == "instruction" else [])
    return roofline


def _kinds(known: list[WorkOperation], datatype: str | None) -> dict[str, list[WorkOperation]]:
    """Labels of points -> the operations that they add up. Raises BadArgument for a type that the GPU does not
    count."""
    floats, integers = [o for o in known if o.kind == "flop"], [o for o in known if o.kind == "iop"]
    single = {o.name: [o] for o in known}
    typed: dict[str, list[WorkOperation]] = {}
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
    kinds: dict[str, list[WorkOperation]], known: list[WorkOperation], work: KernelWork
) -> dict[str, list[WorkOperation]]:
    """Add the integer operations of a kernel without floating point, if it has any."""
    integers = [o for o in known if o.kind == "iop"]
    if _amount(work, kinds["flop"]) == 0 and _amount(work, integers):
        return {**kinds, "iop": integers}
    return kinds


def _amount(work: KernelWork, operations: list[WorkOperation]) -> float | None:
    """How many of these operations a kernel executed, as far as they were counted; None if nothing was counted."""
    counted = [o.name for o in operations if work.has(o.name)]
    return sum(work.sums_over([name])[1][name] for name in counted) if counted else None


def _tally(work: KernelWork, level: Level, operations: list[WorkOperation], inputs: RooflineInputs) -> PointTally:
    counted, missing = limits.countable(operations, work, inputs.collected, every=True)
    names, transactions = [o.name for o in counted], f"{level.name}.transactions"
    moved = [level.name, *([transactions] if any(o.kind == "inst" for o in operations) else [])]
    needed = [*names, *filter(work.has, moved)]
    behind = [*needed, TIME]
    n, sums = work.sums_over(behind)
    if not n:
        behind = needed
        n, sums = work.sums_over(needed)
    amount = sum(sums[name] for name in names) if n and (counted or (operations and not missing)) else None
    traffic = sums.get(level.name)
    wait = quotient(traffic, inputs.ceilings.value(level.key))
    roof = limits.least_time_ns(counted, sums, inputs.ceilings) if n else 0.0
    n = work.contributing_dispatches(behind)
    return PointTally(
        level, operations, counted, missing, needed, n, amount, traffic, sums.get(transactions), sums.get(TIME), roof,
        wait,
    )  # fmt: skip


def _point(
    rank: int, label: str, tally: PointTally, limit: KernelLimits, judged: tuple[PointStatus, Reason | None]
) -> RooflinePoint:
    amount, traffic, time_ns, least = tally.amount, tally.traffic, tally.time_ns, tally.least_ns
    passed = judged[0] != "bypassed"
    roof = None if amount is None or isinstance(tally.roof_ns, Reason) else tally.roof_ns
    return RooflinePoint(
        rank=rank,
        kernel=limit.kernel,
        dispatch=limit.dispatch,
        level=tally.level.name,
        datatype=label,
        intensity=quotient(amount, traffic) if passed else None,
        per_transaction=quotient(amount, tally.transactions) if passed else None,
        performance=quotient(amount, time_ns),
        unit=next((o.unit for o in tally.operations), "GFLOP/s"),
        bytes=traffic,
        operations=amount,
        transactions=tally.transactions,
        gtxn=quotient(tally.transactions, time_ns),
        time_ns=time_ns,
        attainable=amount / least if amount and least and passed else None,
        pct_of_attainable=percentage(least, time_ns) if passed else None,
        pct_of_peak=percentage(roof, time_ns),
        bandwidth=quotient(traffic, time_ns),
        pct_of_bandwidth=percentage(tally.wait_ns, time_ns),
        bound=limit.bound,
        limiter=limit.limiter,
        status=judged[0],
        reason=judged[1],
        n=tally.n,
    )


def _rates(rank: int, work: KernelWork, known: list[WorkOperation], ceilings: Ceilings) -> list[OperationRate]:
    """The types of operation that a kernel executed, each with its own ceiling."""
    rates = []
    for operation in known:
        n, sums = work.sums_over([operation.name, TIME])
        if not n or not sums[operation.name]:
            continue
        rate, ceiling = sums[operation.name] / sums[TIME], ceilings.value(operation.key)
        share = percentage(rate, ceiling)
        behind = work.contributing_dispatches([operation.name, TIME])
        rates.append(
            OperationRate(rank, operation.name, sums[operation.name], rate, operation.unit, ceiling, share, behind)
        )
    return rates
