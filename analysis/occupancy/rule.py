"""The rule that computes resident waves from registers, LDS and work-group size, using the facts of a target.

All limits are in waves per CU. A CU here is the unit that shares one LDS: a compute unit on gfx9, a work-group
processor with two compute units on gfx10 and later (unless the code was built with cumode), an SM on NVIDIA.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Literal

from ..base.problems import BadArgument
from ..catalogue import targets
from ..catalogue.vocabulary import in_vendor_terms

Mode = Literal["hardware", "compiler"]
_ARCH_ALIGNMENT = 4
"""In a unified register file AGPRs start at a multiple of this (LLVM AMDGPU backend, getTotalNumVGPRs)."""


@dataclass(frozen=True, slots=True)
class OccupancyRule:
    """The limits of one target as integers; their units and sources are in gpus/<target>.toml, [occupancy]."""

    target: str
    unit: str
    simds: int
    waves: int
    wave_size: int
    workgroup_size: int
    groups: int
    single_wave_groups_take_slots: bool
    lane_vgprs: int
    granule: int
    max_vgprs: int
    agprs: Literal["none", "separate", "unified"]
    sgpr_waves: tuple[tuple[int, int], ...]
    lds: int
    lds_per_group: int
    lds_block: int
    lds_reserved: int
    compiler_differs: bool

    @property
    def slots(self) -> int:
        """The most waves that one CU can hold."""
        return self.simds * self.waves


@dataclass(frozen=True, slots=True)
class LaunchResources:
    """The resources of one launch: registers per work-item, SGPRs per wave, LDS bytes and work-items per work-group."""

    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    dynamic_lds_bytes: int
    workgroup_size: int

    @property
    def lds(self) -> int:
        return self.lds_bytes + self.dynamic_lds_bytes


@cache
def rule_of(target: str, wave_size: int | None = None, cu_mode: bool = False) -> OccupancyRule:
    """The rule of a target. Raises NotFound with similar targets, or BadArgument for an unsupported wave size or mode.

    ``wave_size`` and ``cu_mode`` matter on gfx10 and later: code for waves of 64 has half as many registers per lane,
    and code built with cumode runs on one of the two compute units, with half of the SIMDs and LDS.
    """
    facts = targets.gpu(target).occupancy
    if facts is None:
        raise BadArgument(
            f"No occupancy rule is known for {target}", fix=f"Use one of {', '.join(targets_with_occupancy())}"
        )
    native = int(facts.wave_size.value)
    sizes = (native, 64) if facts.cu_mode_workgroup_slots else (native,)
    if wave_size is not None and wave_size not in sizes:
        raise BadArgument(f"{target} has no waves of {wave_size}", f"allowed: {' or '.join(map(str, sizes))}")
    if cu_mode and facts.cu_mode_workgroup_slots is None:
        raise BadArgument(f"{target} has no choice between CU and WGP mode", fix="Omit cu_mode")
    wide = (wave_size or native) // native
    halves, slots = (2, facts.cu_mode_workgroup_slots) if cu_mode else (1, None)
    reserved = facts.lds_reserved_bytes
    return OccupancyRule(
        target=target,
        unit="compute unit (cumode)" if cu_mode else facts.unit,
        simds=int(facts.simds.value) // halves,
        waves=int(facts.max_waves_per_simd.value),
        wave_size=native * wide,
        workgroup_size=int(facts.max_workgroup_size.value),
        groups=int((slots or facts.workgroup_slots).value),
        single_wave_groups_take_slots=facts.single_wave_groups_take_slots,
        lane_vgprs=int(facts.vgprs_per_lane.value) // wide,
        granule=int(facts.vgpr_granule.value) // wide,
        max_vgprs=int(facts.max_vgprs.value),
        agprs=facts.agprs.value,
        sgpr_waves=tuple(facts.sgpr_waves.value) if facts.sgpr_waves else (),
        lds=int(facts.lds_bytes.value) // halves,
        lds_per_group=int(facts.max_lds_bytes_per_workgroup.value),
        lds_block=int(facts.lds_block_bytes.value),
        lds_reserved=int(reserved.value) if reserved else 0,
        compiler_differs=targets.gpu(target).vendor == "amd",
    )


def targets_with_occupancy() -> list[str]:
    """The targets with an occupancy rule."""
    return [t for t in targets.targets() if targets.gpu(t).occupancy]


def check_launch(rule: OccupancyRule, launch: LaunchResources) -> LaunchResources:
    """The launch with checked integers. Raises BadArgument with the impossible number and the allowed range."""
    target, most = rule.target, rule.sgpr_waves[-1][0] if rule.sgpr_waves else 0
    every, accumulation = range(rule.max_vgprs + 1), range(1 if rule.agprs == "none" else rule.max_vgprs + 1)
    vgprs = _check_range(target, "vgprs", launch.vgprs, every, "registers per work-item")
    agprs = _check_range(target, "agprs", launch.agprs, accumulation, "accumulation registers")
    sgprs = _check_range(target, "sgprs", launch.sgprs, range(most + 1), "scalar registers per wave")
    static = _check_range(target, "lds_bytes", launch.lds_bytes, range(rule.lds_per_group + 1), "bytes per work-group")
    left = range(rule.lds_per_group - static + 1)
    dynamic = _check_range(
        target, "dynamic_lds_bytes", launch.dynamic_lds_bytes, left, "bytes in addition to the static ones"
    )
    sizes = range(1, rule.workgroup_size + 1)
    size = _check_range(target, "workgroup_size", launch.workgroup_size, sizes, "work-items")
    done = LaunchResources(vgprs, agprs, sgprs, static, dynamic, size)
    if registers(rule, done) > rule.max_vgprs:
        raise BadArgument(
            f"vgprs={vgprs} and agprs={agprs} do not fit {rule.target}",
            f"its unified file has {rule.max_vgprs} registers per work-item; "
            f"VGPRs are rounded up to {_ARCH_ALIGNMENT} before AGPRs are added",
            "If vgprs is .vgpr_count of a code object, it already includes the AGPRs",
        )
    return done


def registers(rule: OccupancyRule, launch: LaunchResources) -> int:
    """The vector registers of one work-item by the target's AGPR rule, before rounding up to the allocation granule."""
    if rule.agprs == "unified":
        return _round_up(launch.vgprs, _ARCH_ALIGNMENT) + launch.agprs
    return max(launch.vgprs, launch.agprs)


def allocated_vgprs(rule: OccupancyRule, launch: LaunchResources) -> int:
    """The vector registers that the hardware allocates for one work-item."""
    return _round_up(registers(rule, launch), rule.granule)


def allocated_lds(rule: OccupancyRule, launch: LaunchResources) -> int:
    """The bytes of LDS that the hardware allocates for one work-group."""
    return _round_up(launch.lds + rule.lds_reserved, rule.lds_block)


def limits(rule: OccupancyRule, launch: LaunchResources, mode: Mode) -> dict[str, int]:
    """The waves per CU that each resource alone would allow; the minimum is the occupancy.

    "hardware" places whole work-groups and allocates LDS in blocks. "compiler" computes the figure of clang's remark
    kernel-resource-usage, each limit per SIMD and LDS to the byte (LLVM AMDGPU backend, computeOccupancy).
    """
    n = -(-launch.workgroup_size // rule.wave_size)
    vgprs = allocated_vgprs(rule, launch)
    scalar = next((waves for most, waves in rule.sgpr_waves if launch.sgprs <= most), rule.waves)
    compiler = mode == "compiler" and rule.compiler_differs
    # The compiler fills every SIMD like the fullest one, and divides the registers of a SIMD among waves, not groups.
    step, whole = (rule.simds, 1) if compiler else (1, n)
    waves_by_resource = {"wave_slots": _round_up(rule.slots // n * n, step)}
    if n > 1 or rule.single_wave_groups_take_slots:
        waves_by_resource["workgroup_slots"] = _round_up(rule.groups * n, step)
    if vgprs:
        waves_by_resource["vgprs"] = rule.simds * max(rule.lane_vgprs // vgprs, int(compiler)) // whole * whole
    if scalar < rule.waves:
        waves_by_resource["sgprs"] = rule.simds * scalar // whole * whole
    if launch.lds:
        allocated = launch.lds if compiler else allocated_lds(rule, launch)
        waves_by_resource["lds"] = _round_up(rule.lds // allocated * n, step)
    return waves_by_resource


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _check_range(target: str, name: str, value: int, possible: range, meaning: str) -> int:
    low, high = possible[0], possible[-1]
    meaning = in_vendor_terms(meaning, target)
    try:
        whole = index(value)
    except TypeError:
        raise BadArgument(f"{name}={value!r} is not an integer", fix=f"Give {low} to {high} ({meaning})") from None
    if whole not in possible:
        allowed = f"{low} to {high} are allowed" if high else "it has none, so only 0 is allowed"
        raise BadArgument(f"{name}={whole} is not possible on {target}", f"{allowed} ({meaning})")
    return whole
