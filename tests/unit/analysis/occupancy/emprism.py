"""The simplified occupancy formula of the EmPRiSM sprint report, for comparison with its published values only.

Source: W. Kamleh, D. Deeptimahanti, J. Schoonover, EmPRiSM sprint report (Pawsey Centre and Fluid Numerics), section
"Occupancy": W = floor(min(1, available / used) * 40) for VGPRs and SGPRs, floor(LDS_CU / LDS_group * waves) for LDS.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.occupancy import occupancy
from rooflens.analysis.occupancy.rule import LaunchResources, check_launch, rule_of, targets_with_occupancy

SLOTS = 40
"""Waves per CU in the report, for both of its GPUs; MI250X has 32."""
_SIMDS = 4
_VGPRS = Fraction(128_000, SLOTS * 64)
"""VGPRs per work-item at full occupancy: 50, from 128,000 registers per CU (131,072 with MI100's accumulation file)."""
_SGPRS = Fraction(3_200, SLOTS)
"""SGPRs per wave at full occupancy: 80."""


@dataclass(frozen=True)
class Simplified:
    """What the formula gives. ``shares`` are percentages of 40 waves, not rounded down, as the report prints them."""

    waves_per_cu: int
    occupancy_pct: float
    limits: dict[str, int]
    """Waves per CU by resource."""
    shares: dict[str, float]
    max_waves_per_cu: int = SLOTS

    @property
    def waves_per_simd(self) -> float:
        return self.waves_per_cu / _SIMDS

    @property
    def limiters(self) -> tuple[str, ...]:
        full = self.waves_per_cu == SLOTS
        return ("wave_slots",) if full else tuple(n for n, w in self.limits.items() if w == self.waves_per_cu)


@dataclass(frozen=True)
class Error:
    """How the formula's VGPR waves per CU differ from the hardware rule, over 1 to 256 VGPRs in groups of one wave."""

    wrong: int
    lowest: float
    highest: float
    """Ratios formula / hardware."""
    worst_vgprs: int

    def text(self, target: str) -> str:
        """The error in one sentence."""
        return (
            f"On {target} the formula misses the hardware rule for {self.wrong} of 256 VGPR counts, by factors of "
            f"{self.lowest:.2f} to {self.highest:.2f} (most at {self.worst_vgprs} VGPRs): it takes 40 wave slots and "
            "128,000 registers per CU for every GPU, splits waves and work-groups, and ignores allocation granules."
        )


def targets() -> list[str]:
    """The targets that the formula can be compared on: AMD's with waves of 64."""
    return [t for t in targets_with_occupancy() if rule_of(t).wave_size == 64]


def simplified(gpu: str, *, vgprs: int, sgprs: int = 0, lds_bytes: int = 0, workgroup_size: int) -> Simplified:
    """The report's waves per CU and occupancy. BadArgument for numbers that the target cannot have."""
    if gpu not in targets() and gpu in targets_with_occupancy():
        raise BadArgument(
            f"The simplified formula does not cover {gpu}", "it was made for MI100 and MI250X",
            f"It covers {', '.join(targets())}",
        )  # fmt: skip
    rule = rule_of(gpu)
    check_launch(rule, LaunchResources(vgprs, 0, sgprs, lds_bytes, 0, workgroup_size))
    shares = {"vgprs": min(Fraction(1), _VGPRS / max(vgprs, 1)), "sgprs": min(Fraction(1), _SGPRS / max(sgprs, 1))}
    limits = {name: int(share * SLOTS) for name, share in shares.items()}
    if lds_bytes:
        waves = min(SLOTS, int(Fraction(rule.lds, lds_bytes) * -(-workgroup_size // rule.wave_size)))
        limits["lds"], shares["lds"] = waves, Fraction(waves, SLOTS)
    return Simplified(
        waves_per_cu=min(limits.values()),
        occupancy_pct=float(100 * min(shares.values())),
        limits=limits,
        shares={name: float(100 * share) for name, share in shares.items()},
    )


@cache
def error(gpu: str) -> Error:
    """The formula's error on one target."""
    ratios = {}
    for vgprs in range(1, 257):
        hardware = occupancy(gpu, vgprs=vgprs, workgroup_size=rule_of(gpu).wave_size).waves_per_cu
        ratios[vgprs] = simplified(gpu, vgprs=vgprs, workgroup_size=64).limits["vgprs"] / hardware
    worst = max(ratios, key=lambda v: max(ratios[v], 1 / ratios[v]))
    return Error(sum(r != 1 for r in ratios.values()), min(ratios.values()), max(ratios.values()), worst)
