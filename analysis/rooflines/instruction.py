"""The instruction roofline of Leinhauser et al. (ACM TOPC 9(1), 2022): GIPS over instructions per byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Reason
from ..catalogue.rules import Bound
from ..catalogue.work_formulas import Level, VendorWords
from ..engine.evaluation import with_doubt
from ..engine.work_sums import TIME, KernelWork
from ..launches.coverage import NOT_COUNTED
from . import limits
from .ceilings import percentage, quotient
from .flop import NEGATIVE_BYTES, NO_TIME, NO_TRAFFIC
from .inputs import RooflineInputs
from .limits import KernelLimits, PointStatus

_ALL, _VALU = "issue", "valu_instructions"
_NEAR = 1e-3
"""The tolerance for a value to be on a wall: counters of different replays differ by about this much."""


@dataclass(frozen=True)
class InstructionPoint:
    """One kernel at one memory level: wave (warp) instructions relative to bytes and transactions.

    On CDNA the VALU and SALU instructions are counted, on NVIDIA all instructions; each counts once, however many lanes
    are active. Performance is in GIPS.
    """

    rank: int
    kernel: str
    dispatch: int | None
    level: str
    intensity: float | None
    per_transaction: float | None
    performance: float | None
    unit: str
    bytes: float | None
    operations: float | None
    """The number of wave instructions."""
    transactions: float | None
    gtxn: float | None
    time_ns: float | None
    attainable: float | None
    pct_of_attainable: float | None
    pct_of_peak: float | None
    bound: Bound
    limiter: str | None
    status: PointStatus
    reason: Reason | None
    n: int


@dataclass(frozen=True)
class Wall:
    """Where a kernel's accesses are between the walls of an instruction roofline (Ding and Williams, PMBS 2019).

    ``value`` is in transactions per memory instruction; ``walls`` are the named walls around it, in the same unit.
    """

    rank: int
    kernel: str
    kind: str
    value: float | None
    walls: dict[str, float]
    reading: str


@dataclass(frozen=True)
class InstructionRoofline:
    """The points, the limits of every kernel, and the readings of the walls, longest kernel first."""

    inputs: RooflineInputs
    points: list[InstructionPoint]
    limits: list[KernelLimits]
    walls: list[Wall]


def instruction_roofline(inputs: RooflineInputs, levels: Sequence[str]) -> InstructionRoofline:
    """The points of the kernels at the requested memory levels, and where their accesses are between the walls."""
    roofline = InstructionRoofline(inputs, [], limits.limits_of_kernels(inputs), [])
    for rank, (work, limit) in enumerate(zip(inputs.collected.groups, roofline.limits, strict=True), 1):
        for level in inputs.formulas.level:
            if level.name in levels:
                roofline.points.append(_point(rank, work, level, limit, inputs))
        roofline.walls.extend(_walls(rank, work, inputs))
    return roofline


def _point(rank: int, work: KernelWork, level: Level, limit: KernelLimits, inputs: RooflineInputs) -> InstructionPoint:
    counted = [_ALL] if work.has(_ALL) else []
    moved = [name for name in (level.name, f"{level.name}.transactions") if work.has(name)]
    _, sums = work.sums_over([*counted, *moved, TIME])
    time_ns, waves = sums.get(TIME), sums.get(_ALL)
    traffic, transactions = sums.get(level.name), sums.get(f"{level.name}.transactions")
    issue, bandwidth = inputs.ceilings.value(_ALL), inputs.ceilings.value(level.key)
    issue_ns = quotient(waves, issue)
    wait_ns = quotient(traffic, bandwidth)
    least = max(issue_ns, wait_ns) if issue_ns is not None and wait_ns is not None else None
    doubt = inputs.doubt(work.kernel, [_ALL, level.name, f"{level.name}.transactions"])
    status, reason = with_doubt(*_judge(work, level, sums, least, inputs), doubt)
    passed = status != "bypassed"
    return InstructionPoint(
        rank=rank,
        kernel=work.kernel,
        dispatch=work.dispatch,
        level=level.name,
        intensity=quotient(waves, traffic) if passed else None,
        per_transaction=quotient(waves, transactions) if passed else None,
        performance=quotient(waves, time_ns),
        unit="GIPS",
        bytes=traffic,
        operations=waves,
        transactions=transactions,
        gtxn=quotient(transactions, time_ns),
        time_ns=time_ns,
        attainable=waves / least if waves and least and passed else None,
        pct_of_attainable=percentage(least, time_ns) if passed else None,
        pct_of_peak=percentage(issue_ns, time_ns),
        bound=limit.bound,
        limiter=limit.limiter,
        status=status,
        reason=reason,
        n=work.contributing_dispatches([*counted, *moved, TIME]),
    )


def _judge(
    work: KernelWork, level: Level, sums: Mapping[str, float], least: float | None, inputs: RooflineInputs
) -> tuple[PointStatus, Reason | None]:
    """The status of a point and, unless it is simply ok, the reason; ``least`` is the least time of the model in ns."""
    missing, ceilings = inputs.collected.missing, inputs.ceilings
    time_ns, traffic = sums.get(TIME), sums.get(level.name)
    if work.kernel in inputs.uncounted:
        return "not_collected", NOT_COUNTED
    if sums.get(_ALL) is None:
        return "not_collected", missing.get(_ALL, Reason("no_dispatch", "no dispatch has all the necessary counters"))
    if not time_ns:
        return "not_collected", NO_TIME
    if traffic is None:
        why = limits.no_bytes(level, work, inputs.collected)
        return ("not_supported" if why.code == "unseen" else "not_collected"), Reason(why.code, f"bytes: {why.text}")
    if traffic < 0:
        return "impossible", NEGATIVE_BYTES
    if past := limits.why_bypassed(level, work):
        return "bypassed", past
    if least is None:
        return "ok", limits.no_ceiling(ceilings, f"issue or {level.key}")
    if least > time_ns:
        vector = work.sums_over([_VALU, TIME])[1].get(_VALU)
        waiting = traffic / (ceilings.value(level.key) or 1.0)
        if vector is not None and max(vector / (ceilings.value(_ALL) or 1.0), waiting) <= time_ns:
            text = "above the model's peak of one instruction per cycle, as scalar and vector ones issue in parallel"
            return "ok", Reason("above_ceiling", text)
        share = f"{least / time_ns:.1%}"
        text = f"{share} of its ceiling: recorded ceilings are lower bounds, or replays were mixed"
        return "suspect", Reason("above_ceiling", text)
    return "ok", None if traffic else NO_TRAFFIC


def _walls(rank: int, work: KernelWork, inputs: RooflineInputs) -> list[Wall]:
    """The memory wall (lookups per vector memory instruction) and the bank-conflict wall (LDS)."""
    readings = []
    words = inputs.formulas.words
    line = inputs.facts.get("vl1d_transaction_bytes", inputs.facts["vl1d_line_bytes"])
    lanes = inputs.facts["wave_size"]
    looked_up = "vmem_transactions" if work.has("vmem_transactions") else "vl1d.transactions"
    n, sums = work.sums_over(["vmem_instructions", looked_up])
    if n and sums["vmem_instructions"] > 0:
        walls = {
            f"all lanes on one {words.piece}": 1.0,
            "unit stride, 4 B": lanes * 4 / line,
            "unit stride, 8 B": lanes * 8 / line,
            **inputs.formulas.marks,
            f"a {words.piece} for each lane": lanes,
        }
        value = sums[looked_up] / sums["vmem_instructions"]
        readings.append(Wall(rank, work.kernel, "memory", value, walls, _memory_reading(value, walls, words)))
    n, sums = work.sums_over(["lds_instructions", "lds.transactions", "lds_access_cycles"])
    if n and sums["lds_instructions"] > 0 and sums["lds_access_cycles"] > 0:
        banks = inputs.facts["lds_conflict_banks"]
        value = sums["lds.transactions"] / sums["lds_access_cycles"]
        walls = {"no conflict": 1.0, "every access on one bank": banks}
        readings.append(Wall(rank, work.kernel, "bank conflict", value, walls, _bank_reading(value)))
    return readings


def _memory_reading(value: float, walls: Mapping[str, float], words: VendorWords) -> str:
    reached = value * (1 + _NEAR)
    below = [name for name, mark in walls.items() if mark <= reached]
    above = [name for name, mark in walls.items() if mark > reached]
    place = f"{value:.3g} {words.lookup}s per {words.vector_memory}"
    if not below:
        return f"{place}: fewer than one, so the counters come from different replays that do not agree"
    if not above:
        return f"{place}: at or beyond the wall of scattered accesses ({below[-1]})"
    return f"{place}: between {below[-1]} ({walls[below[-1]]:g}) and {above[0]} ({walls[above[0]]:g})"


def _bank_reading(value: float) -> str:
    if value < 1.05:
        return f"{value:.3g} cycles per conflict-free cycle: on the wall without bank conflicts"
    return (
        f"{value:.3g} cycles per conflict-free cycle: bank conflicts cost {100 * (1 - 1 / value):.0f} % of LDS cycles"
    )
