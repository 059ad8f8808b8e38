"""What detection answers, and the places where it looks."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pydantic

from ....analysis.base.host_link import PcieLink

Vendor = Literal["amd", "nvidia", "cpu"]


@dataclass(frozen=True)
class Roots:
    """Where detection looks: the machine's own folders, or a tree that stands in for them."""

    base: Path = Path("/")
    """Stands before sys, proc, dev, opt and usr."""
    search: str | None = None
    """Folders for programs, as in PATH; None means the PATH of this process."""
    site: Path | None = field(default_factory=lambda: Path(sysconfig.get_path("purelib")))
    """Python packages of this environment: ROCm wheels bring their own profiler there."""

    def at(self, *parts: str) -> Path:
        """A path below ``base``."""
        return self.base.joinpath(*parts)


class Device(pydantic.BaseModel):
    """One GPU, one partition of a GPU, or this machine's processors. A figure that is not known is null."""

    vendor: Vendor
    index: int
    """Counts the vendor's visible devices from 0 in the order of its driver; visibility variables are not applied."""
    name: str | None = None
    arch: str | None = None
    """gfx942, sm_90, x86_64."""
    supported: bool = False
    """Whether rooflens has the facts and metrics of this arch."""
    uuid: str | None = None
    compute_units: int | None = None
    """AMD: CUs; NVIDIA: SMs; CPU: physical cores."""
    threads: int | None = None
    """CPU: hardware threads."""
    xccs: int | None = None
    """AMD: compute dies (XCC) of this device."""
    clock_max_mhz: int | None = None
    memory_bytes: int | None = None
    partition: str | None = None
    """AMD: compute/memory partition mode such as SPX/NPS1; NVIDIA: whether MIG is on."""
    driver: str | None = None
    pci: str | None = None
    numa_node: int | None = None
    link: PcieLink | None = None
    """Its PCIe link."""


class Check(pydantic.BaseModel):
    """One thing that doctor looked at: how it stands, what was found, and the remedy where there is one."""

    name: str
    state: Literal["ok", "warning", "missing"]
    found: str
    fix: str = ""


class InstalledProfiler(pydantic.BaseModel):
    """One profiler: where it is, its version, and whether it may read counters here."""

    name: str
    vendor: Vendor
    path: str | None = None
    """The one that would be used; null when it is not installed."""
    version: str | None = None
    release: str | None = None
    """The ROCm release that it belongs to, where that is written beside it."""
    usable: bool | None = None
    """Null where only a run can tell."""
    why: str | None = None
    fix: str | None = None
    others: list[str] = []
    """Further copies on this machine."""
