"""The caches and the memory of this machine that the host's micro-benchmarks size their buffers by."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from ..machine.files import listing, read

_CPUS = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """One level of data cache: its name (l1d, l2, l3) and the bytes that our threads have of it, each and together."""

    name: str
    per_thread: int
    total: int


def cpus() -> list[int]:
    """The processors that this process may use: its affinity, cut to the quota of its control group."""
    allowed = sorted(os.sched_getaffinity(0))
    quota, _, period = (read(_CGROUP / "cpu.max") or "").partition(" ")
    if quota.isdecimal() and period.strip().isdecimal():
        allowed = allowed[: max(1, math.ceil(int(quota) / int(period)))]
    return allowed


def caches(used: list[int], root: Path = _CPUS) -> list[Cache]:
    """The data caches of the processors in ``used``, smallest first; empty where the system does not tell."""
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for cpu in used:
        for index in listing(root / f"cpu{cpu}" / "cache"):
            level, size = read(index / "level"), _bytes(read(index / "size") or "")
            if level is None or not level.strip().isdecimal() or not size or _instructions(index):
                continue
            sharers = (read(index / "shared_cpu_list") or str(cpu)).strip()
            known, threads = found.setdefault(int(level), {}).get(sharers, (size, 0))
            found[int(level)][sharers] = (known, threads + 1)
    return [
        Cache(
            "l1d" if level == 1 else f"l{level}",
            min(size // threads for size, threads in instances.values()),
            sum(size for size, _ in instances.values()),
        )
        for level, instances in sorted(found.items())
    ]


def free_bytes() -> int:
    """Memory that may be taken without swapping: what the system has available, within the control group's limit."""
    lines = (read(Path("/proc/meminfo")) or "").splitlines()
    available = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 1 << 30)
    most, used = (read(_CGROUP / name) or "" for name in ("memory.max", "memory.current"))
    if most.strip().isdecimal() and used.strip().isdecimal():
        available = min(available, int(most) - int(used))
    return max(available, 0)


def _instructions(index: Path) -> bool:
    return (read(index / "type") or "").strip() == "Instruction"


def _bytes(text: str) -> int:
    """``48K`` in bytes; 0 for anything else."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    return int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else 0
