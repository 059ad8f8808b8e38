"""The processors of this machine, read from /sys and /proc/cpuinfo."""

from __future__ import annotations

import platform
from pathlib import Path

from .model import Device, Roots
from .sysfs import clean, listing, read, whole_number

_ARM_CORES = {
    (0x41, 0xD0C): "Neoverse N1", (0x41, 0xD49): "Neoverse N2", (0x41, 0xD8E): "Neoverse N3",
    (0x41, 0xD40): "Neoverse V1", (0x41, 0xD4F): "Neoverse V2", (0x41, 0xD84): "Neoverse V3",
}  # fmt: skip
"""Arm's (implementer, part) numbers; /proc/cpuinfo names no model there."""


def device(roots: Roots) -> Device:
    """All processors of the machine as one device: physical cores, threads, clock and memory."""
    records = _records(read(roots.at("proc/cpuinfo")) or "")
    folders = [p for p in listing(roots.at("sys/devices/system/cpu")) if p.name[:3] == "cpu" and p.name[3:].isdecimal()]
    return Device(
        vendor="cpu",
        index=0,
        name=_name(records),
        arch=platform.machine() or None,
        compute_units=_cores(folders, records),
        threads=len(records) or len(folders) or None,
        clock_max_mhz=_clock_mhz(folders),
        memory_bytes=_memory(roots),
    )


def _records(cpuinfo: str) -> list[dict[str, str]]:
    """One dictionary per hardware thread."""
    blocks = (block.splitlines() for block in cpuinfo.split("\n\n"))
    parsed = [{k.strip(): v.strip() for k, _, v in (line.partition(":") for line in block)} for block in blocks]
    return [record for record in parsed if "processor" in record]


def _name(records: list[dict[str, str]]) -> str | None:
    first = records[0] if records else {}
    if model := first.get("model name"):
        return clean(model)
    try:
        number = int(first["CPU implementer"], 16), int(first["CPU part"], 16)
    except (KeyError, ValueError):
        return None
    return _ARM_CORES.get(number, f"Arm implementer {number[0]:#x}, part {number[1]:#x}")


def _cores(folders: list[Path], records: list[dict[str, str]]) -> int | None:
    """Physical cores: distinct (package, core) pairs, from /sys, else from /proc/cpuinfo."""
    pairs = {(read(f / "topology/physical_package_id"), read(f / "topology/core_id")) for f in folders}
    pairs = {pair for pair in pairs if None not in pair}
    if not pairs:
        pairs = {(r["physical id"], r["core id"]) for r in records if "physical id" in r and "core id" in r}
    return len(pairs) or None


def _clock_mhz(folders: list[Path]) -> int | None:
    """The highest clock of any core (cpuinfo_max_freq is in kHz); the MHz of /proc/cpuinfo is only the present one."""
    clocks = [whole_number(read(folder / "cpufreq/cpuinfo_max_freq")) or 0 for folder in folders]
    return max(clocks, default=0) // 1000 or None


def _memory(roots: Roots) -> int | None:
    for line in (read(roots.at("proc/meminfo")) or "").splitlines():
        if line.startswith("MemTotal:"):
            kib = whole_number(line.split()[1])
            return kib * 1024 if kib else None
    return None
