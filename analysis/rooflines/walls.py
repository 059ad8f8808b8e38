"""The walls of an instruction roofline (Ding and Williams, PMBS 2019): how far accesses are from the ideal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..catalogue.work_formulas import VendorWords
from ..engine.work_sums import KernelWork
from .inputs import RooflineInputs

_NEAR = 1e-3
"""The tolerance for a value to be on a wall: counters of different replays differ by about this much."""


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


def read_walls(rank: int, work: KernelWork, inputs: RooflineInputs) -> list[Wall]:
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
