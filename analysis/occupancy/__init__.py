"""Occupancy: how many waves of a kernel are resident on a compute unit, what limits them, and what would raise it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..base.problems import BadArgument
from .rule import (
    LaunchResources,
    Mode,
    OccupancyRule,
    allocated_lds,
    allocated_vgprs,
    check_launch,
    limits,
    rule_of,
    targets_with_occupancy,
)
from .whatif import ArgumentChange, WhatIf, per_simd, what_if

__all__ = ["ArgumentChange", "Mode", "Occupancy", "WhatIf", "occupancy", "targets_with_occupancy"]

RESOURCES = ("wave_slots", "workgroup_slots", "vgprs", "sgprs", "lds")


@dataclass(frozen=True)
class Occupancy:
    """The waves (warps) of one kernel that fit on one CU. ``unit`` says what a CU is on the target.

    ``limits`` contains the waves per CU that each relevant resource alone would allow: wave_slots, workgroup_slots
    (barriers or thread blocks), vgprs (registers on NVIDIA), sgprs, lds (shared memory). ``limiters`` are the resources
    that allow no more than the result; at full occupancy that is wave_slots alone. In hardware mode, 0 waves means that
    not even one work-group fits, so the launch fails.
    """

    gpu: str
    mode: Mode
    unit: str
    waves_per_simd: float
    """The mean over the SIMDs; an integer in compiler mode."""
    waves_per_cu: int
    max_waves_per_cu: int
    occupancy_pct: float
    limiters: tuple[str, ...]
    limits: dict[str, int]
    waves_per_workgroup: int
    workgroups_per_cu: int | None
    """The number of complete work-groups; None in compiler mode, which does not count them."""
    allocated_vgprs: int
    """The registers allocated for a work-item, after the AGPR rule and the granule."""
    allocated_lds_bytes: int
    """The bytes allocated for a work-group: static and dynamic LDS in whole blocks."""
    rule: OccupancyRule
    launch: LaunchResources

    @cached_property
    def what_if(self) -> tuple[WhatIf, ...]:
        """The smallest reductions of registers or LDS, or changes of the work-group size, that give more waves."""
        return what_if(self.rule, self.launch, self.mode)


def occupancy(
    gpu: str,
    *,
    vgprs: int,
    agprs: int = 0,
    sgprs: int = 0,
    lds_bytes: int = 0,
    dynamic_lds_bytes: int = 0,
    workgroup_size: int,
    mode: Mode = "hardware",
    wave_size: int | None = None,
    cu_mode: bool = False,
) -> Occupancy:
    """The occupancy of a kernel that uses these resources on a GPU target (gfx90a, sm_90, ...).

    ``vgprs`` are architectural VGPRs per work-item (registers per thread on NVIDIA), ``agprs`` accumulation VGPRs; the
    target defines how they add up. ``sgprs`` are per wave. ``lds_bytes`` is the static LDS, ``dynamic_lds_bytes`` what
    the launch adds, both per work-group. mode="hardware" places whole work-groups and allocates LDS in blocks;
    mode="compiler" gives the figure of clang's remark kernel-resource-usage, which is never lower. NVIDIA has one rule
    for both, that of the CUDA occupancy calculator. Raises NotFound for an unknown target, and BadArgument with the
    allowed values for impossible resources.
    """
    if mode not in ("hardware", "compiler"):
        raise BadArgument(f"Unknown mode {mode!r}", fix="Use hardware or compiler")
    rule = rule_of(gpu, wave_size, cu_mode)
    launch = check_launch(rule, LaunchResources(vgprs, agprs, sgprs, lds_bytes, dynamic_lds_bytes, workgroup_size))
    allowed = limits(rule, launch, mode)
    waves = min(allowed.values())
    full = waves == rule.slots
    n = -(-launch.workgroup_size // rule.wave_size)
    return Occupancy(
        gpu=gpu,
        mode=mode,
        unit=rule.unit,
        waves_per_simd=per_simd(rule, waves),
        waves_per_cu=waves,
        max_waves_per_cu=rule.slots,
        occupancy_pct=100 * waves / rule.slots,
        limiters=("wave_slots",) if full else tuple(name for name in RESOURCES if allowed.get(name) == waves),
        limits=allowed,
        waves_per_workgroup=n,
        workgroups_per_cu=waves // n if mode == "hardware" or not rule.compiler_differs else None,
        allocated_vgprs=allocated_vgprs(rule, launch),
        allocated_lds_bytes=allocated_lds(rule, launch) if launch.lds else 0,
        rule=rule,
        launch=launch,
    )
