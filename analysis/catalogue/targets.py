"""The GPU targets: what holds for every product with one instruction set, read from the TOML files in gpus/."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import pydantic

from ..problems import NotFound, near

_HERE = Path(__file__).parent


class Strict(pydantic.BaseModel):
    """A frozen model that refuses fields it does not know: a misspelt key in a data file is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Fact(Strict):
    """One number about a GPU target, with its unit and where it comes from."""

    value: float
    unit: str
    source: str


class AgprFile(Strict):
    """How accumulation registers count: not there, in a file of their own, or in one file with the VGPRs."""

    value: Literal["none", "separate", "unified"]
    source: str


class Steps(Strict):
    """Pairs (up to this many units, result), ascending; more than the last pair allows cannot be used."""

    value: list[tuple[int, int]]
    unit: str
    source: str


class OccupancyFacts(Strict):
    """What limits the waves (warps) that reside at once on one ``unit``, the block of SIMDs that share an LDS."""

    unit: str
    """What a CU means in the results: a compute unit, a work-group processor of two, an SM."""
    simds: Fact
    max_waves_per_simd: Fact
    wave_size: Fact
    max_workgroup_size: Fact
    workgroup_slots: Fact
    """Work-groups (thread blocks) that one unit holds, or barriers where only those are counted."""
    single_wave_groups_take_slots: bool
    vgprs_per_lane: Fact
    vgpr_granule: Fact
    max_vgprs: Fact
    """The most that one work-item can have; in a unified file AGPRs count among them."""
    agprs: AgprFile
    sgpr_waves: Steps | None = None
    """SGPRs of a wave -> waves per SIMD; absent where there are none to count."""
    lds_bytes: Fact
    max_lds_bytes_per_workgroup: Fact
    lds_block_bytes: Fact
    lds_reserved_bytes: Fact | None = None
    """Taken for every work-group besides what it asks for."""
    registers_halved_by: str | None = None
    """Profilers that state half of a kernel's VGPRs on this target."""
    cu_mode_workgroup_slots: Fact | None = None
    """There where code can also be built for one compute unit of the two (RDNA), or for waves of 64."""


class Gpu(Strict):
    """One GPU target: what holds for every product with this instruction set."""

    target: str
    vendor: Literal["amd", "nvidia", "cpu"]
    family: str
    title: str
    products: list[str]
    validated_on_hardware: bool
    facts: dict[str, Fact] = {}
    counter_limits: dict[str, int] = {}
    """Counters that one pass can hold, per hardware block."""
    occupancy: OccupancyFacts | None = None


def targets() -> list[str]:
    """The GPU targets with a file in gpus/."""
    return sorted(p.stem for p in (_HERE / "gpus").glob("*.toml"))


@cache
def gpu(target: str) -> Gpu:
    """The facts of one target; NotFound with near names for an unknown one."""
    path = _HERE / "gpus" / f"{target}.toml"
    if target not in targets():
        raise NotFound(f"Unknown GPU target {target!r}", near(target, targets()), f"Known: {', '.join(targets())}")
    return Gpu.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
