"""The results of device detection, and the folders that it reads."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pydantic

from ....analysis.store.manifest import PcieLink

Vendor = Literal["amd", "nvidia", "cpu"]


@dataclass(frozen=True)
class Roots:
    """The folders that detection reads: the machine's own, or a tree that replaces them in tests."""

    base: Path = Path("/")
    """Prefix of sys, proc, dev, opt and usr."""
    search: str | None = None
    """Folders to search for programs, as in PATH; None means the PATH of this process."""
    site: Path | None = field(default_factory=lambda: Path(sysconfig.get_path("purelib")))
    """Python packages of this environment: ROCm wheels install their own profiler there."""

    def at(self, *parts: str) -> Path:
        """Return a path below ``base``."""
        return self.base.joinpath(*parts)


class Device(pydantic.BaseModel):
    """One GPU, one partition of a GPU, or this machine's processors. Unknown values are null."""

    vendor: Vendor
    index: int
    """Index among the vendor's devices in the driver's order, from 0; visibility variables are not applied."""
    name: str | None = None
    arch: str | None = None
    """Architecture, such as gfx942, sm_90 or x86_64."""
    supported: bool = False
    """Whether the catalogue contains facts and metrics of this architecture."""
    uuid: str | None = None
    compute_units: int | None = None
    """AMD: CUs; NVIDIA: SMs; CPU: physical cores."""
    threads: int | None = None
    """CPU: hardware threads."""
    xccs: int | None = None
    """AMD: number of compute dies (XCC) of this device."""
    clock_max_mhz: int | None = None
    memory_bytes: int | None = None
    partition: str | None = None
    """AMD: compute/memory partition mode such as SPX/NPS1; NVIDIA: whether MIG is enabled."""
    driver: str | None = None
    pci: str | None = None
    numa_node: int | None = None
    link: PcieLink | None = None
    """The PCIe link of the device."""


class Check(pydantic.BaseModel):
    """One item that doctor checked: its state, what was found, and the remedy, if there is one."""

    name: str
    state: Literal["ok", "warning", "missing"]
    found: str
    fix: str = ""


class InstalledProfiler(pydantic.BaseModel):
    """A profiler: its location, its version, and whether it can read counters here."""

    name: str
    vendor: Vendor
    path: str | None = None
    """The copy that would be used; null if it is not installed."""
    version: str | None = None
    release: str | None = None
    """The ROCm release that it belongs to, if a file next to it states it."""
    usable: bool | None = None
    """Null if only a run can show it."""
    why: str | None = None
    fix: str | None = None
    others: list[str] = []
    """Other copies on this machine."""
