"""The instruction roofline of Leinhauser et al. (ACM TOPC 9(1), 2022): GIPS over instructions per byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..catalogue.work import Level, Words
from ..engine.evaluation import Status
from ..engine.sums import TIME, KernelWork
from . import limits as mixed
from .ceilings import Ceilings
from .inputs import RooflineInputs

_ALL, _VALU, _SALU = "issue", "valu_instructions", "salu_instructions"
_NEAR = 1e-3
"""How far below a wall a value may be and still lie on it: counters of different replays differ by as much."""
_SIMDS = 4
"""Vector units of a compute unit, by which the paper multiplies SQ_INSTS_VALU."""


def peak_gips(units: float, schedulers: float, ipc: float, ghz: float) -> float:
    """Peak of instruction issue in GIPS: compute units x schedulers x instructions per cycle x clock (equation 3)."""
    return units * schedulers * ipc * ghz


def achieved_gips(instructions: float, seconds: float, lanes: int = 1) -> float:
    """Instructions (divided by ``lanes``, where they are counted per lane) in billions per second (equation 4)."""
    return instructions / lanes / 1e9 / seconds


def paper_instructions(valu: float, salu: float) -> float:
    """The paper's count: 4 x SQ_INSTS_VALU + SQ_INSTS_SALU (equation 1), to be divided by 64 as it does.

    Recorded counters contradict it: SQ_INSTS_VALU is already summed over the SIMDs and counts once per wavefront.
    """
    return _SIMDS * valu + salu


@dataclass(frozen=True)
class InstructionPoint:
    """One kernel at one memory level: instructions of waves (warps) against bytes and transactions.

    On CDNA they are those of VALU and SALU, on NVIDIA all. ``gips_paper`` and ``intensity_paper`` follow the paper's
    scaling for AMD, (4 VALU + SALU) / 64, for comparison with published figures only; its "intensity performance" is
    intensity_paper / seconds.
    """

    rank: int
    kernel: str
    dispatch: int | None
    level: str
    intensity: float | None
    per_transaction: float | None
    gips: float | None
    gtxn: float | None
    instructions: float | None
    bytes: float | None
    transactions: float | None
    time_ns: float | None
    attainable: float | None
    pct_of_attainable: float | None
    pct_of_peak: float | None
    gips_paper: float | None
    intensity_paper: float | None
    bound: mixed.Verdict
    limiter: str | None
    status: Status
    reason: str | None
    n: int


@dataclass(frozen=True)
class Wall:
    """Where a kernel's accesses lie between the walls of an instruction roofline (Ding and Williams, PMBS 2019).

    ``value`` is transactions per memory instruction; ``walls`` names the marks it lies between, in the same unit.
    """

    rank: int
    kernel: str
    kind: str
    value: float | None
    walls: dict[str, float]
    reading: str


def points(found: RooflineInputs, levels: Sequence[str]) -> tuple[list[InstructionPoint], list[mixed.View], list[Wall]]:
    """Points, the mixed-pipe view and the wall readings of a scene, longest kernel first."""
    made: list[InstructionPoint] = []
    views: list[mixed.View] = []
    walls: list[Wall] = []
    for rank, done in enumerate(found.collected.groups, 1):
        view = mixed.view(found.formulas, found.target, done, found.collected, found.ceilings, found.theory)
        views.append(view)
        made += [_point(rank, done, level, view, found) for level in found.formulas.level if level.name in levels]
        walls += _walls(rank, done, found)
    return made, views, walls


def _point(rank: int, done: KernelWork, level: Level, view: mixed.View, found: RooflineInputs) -> InstructionPoint:
    counted = [_ALL] if done.has(_ALL) else []
    split = [_VALU, _SALU] if counted and done.has(_VALU) and done.has(_SALU) else []
    moved = [name for name in (level.name, f"{level.name}.transactions") if done.has(name)]
    n, sums = done.over([*counted, *split, *moved, TIME])
    time_ns = sums.get(TIME)
    waves = sums[_ALL] if n and counted else None
    paper = paper_instructions(sums[_VALU], sums[_SALU]) / found.facts["wave_size"] if n and split else None
    traffic, transactions = sums.get(level.name), sums.get(f"{level.name}.transactions")
    peak, bandwidth = found.ceilings.value(_ALL), found.ceilings.value(level.key)
    issue_ns = waves / peak if waves is not None and peak else None
    wait_ns = traffic / bandwidth if traffic is not None and bandwidth else None
    least = max(issue_ns, wait_ns) if issue_ns is not None and wait_ns is not None else None
    status, reason = _judge(done, level, found, waves, traffic, time_ns, least, found.ceilings)
    return InstructionPoint(
        rank=rank,
        kernel=done.kernel,
        dispatch=done.dispatch,
        level=level.name,
        intensity=waves / traffic if waves is not None and traffic else None,
        per_transaction=waves / transactions if waves is not None and transactions else None,
        gips=achieved_gips(waves, time_ns / 1e9) if waves is not None and time_ns else None,
        gtxn=transactions / time_ns if transactions is not None and time_ns else None,
        instructions=waves,
        bytes=traffic,
        transactions=transactions,
        time_ns=time_ns,
        attainable=waves / least if waves and least else None,
        pct_of_attainable=100 * least / time_ns if least is not None and time_ns else None,
        pct_of_peak=100 * issue_ns / time_ns if issue_ns is not None and time_ns else None,
        gips_paper=achieved_gips(paper, time_ns / 1e9) if paper is not None and time_ns else None,
        intensity_paper=paper / traffic if paper is not None and traffic else None,
        bound=view.bound,
        limiter=view.limiter,
        status=status,
        reason=reason,
        n=n,
    )


def _judge(
    done: KernelWork,
    level: Level,
    found: RooflineInputs,
    waves: float | None,
    traffic: float | None,
    time_ns: float | None,
    least: float | None,
    ceilings: Ceilings,
) -> tuple[Status, str | None]:
    missing = found.collected.missing
    if waves is None:
        return "not_collected", str(missing.get(_ALL, "no dispatch has all of its counters"))
    if not time_ns:
        return "not_collected", "time: the dispatches have no usable timing"
    if traffic is None:
        return "not_collected", f"bytes: {missing.get(level.name, 'no value for this kernel')}"
    if traffic < 0:
        return "impossible", "negative bytes: counters of different replays do not fit together"
    if least is None:
        return "ok", f"no {ceilings.kind} ceiling issue or {level.key}"
    if least > time_ns:
        vector = done.over([_VALU, TIME])[1].get(_VALU)
        waiting = traffic / (ceilings.value(level.key) or 1.0)
        if vector is not None and max(vector / (ceilings.value(_ALL) or 1.0), waiting) <= time_ns:
            return "ok", "above the model's peak of one instruction per cycle, as scalar ones issue beside vector ones"
        return "suspect", (
            f"{least / time_ns:.1%} of its ceiling: recorded ceilings are lower bounds, or replays were mixed"
        )
    return "ok", None if traffic else "no traffic at this level"


def _walls(rank: int, done: KernelWork, found: RooflineInputs) -> list[Wall]:
    """The memory wall (lookups per vector memory instruction) and the bank-conflict wall (LDS)."""
    made = []
    words = found.formulas.words
    line = found.facts.get("vl1d_transaction_bytes", found.facts["vl1d_line_bytes"])
    lanes = found.facts["wave_size"]
    looked_up = "vmem_transactions" if done.has("vmem_transactions") else "vl1d.transactions"
    n, sums = done.over(["vmem_instructions", looked_up])
    if n and sums["vmem_instructions"] > 0:
        walls = {
            f"all lanes on one {words.piece}": 1.0,
            "unit stride, 4 B": lanes * 4 / line,
            "unit stride, 8 B": lanes * 8 / line,
            **found.formulas.marks,
            f"a {words.piece} for each lane": lanes,
        }
        value = sums[looked_up] / sums["vmem_instructions"]
        made.append(Wall(rank, done.kernel, "memory", value, walls, _memory_reading(value, walls, words)))
    n, sums = done.over(["lds_instructions", "lds.transactions", "lds_access_cycles"])
    if n and sums["lds_instructions"] > 0 and sums["lds_access_cycles"] > 0:
        banks = found.facts["lds_conflict_banks"]
        value = sums["lds.transactions"] / sums["lds_access_cycles"]
        walls = {"no conflict": 1.0, "every access on one bank": banks}
        made.append(Wall(rank, done.kernel, "bank conflict", value, walls, _bank_reading(value)))
    return made


def _memory_reading(value: float, walls: Mapping[str, float], words: Words) -> str:
    reached = value * (1 + _NEAR)
    below = [name for name, mark in walls.items() if mark <= reached]
    above = [name for name, mark in walls.items() if mark > reached]
    place = f"{value:.3g} {words.lookup}s per {words.vector_memory}"
    if not below:
        return f"{place}: fewer than one, so counters of different replays do not fit together"
    if not above:
        return f"{place}: at or beyond the wall of scattered accesses ({below[-1]})"
    return f"{place}: between {below[-1]} ({walls[below[-1]]:g}) and {above[0]} ({walls[above[0]]:g})"


def _bank_reading(value: float) -> str:
    if value < 1.05:
        return f"{value:.3g} cycles per conflict-free cycle: on the wall without bank conflicts"
    return (
        f"{value:.3g} cycles per conflict-free cycle: bank conflicts take {100 * (1 - 1 / value):.0f} % of LDS cycles"
    )
