"""Determine whether performance counters can be read here and, if not, why and how to change that."""

from __future__ import annotations

import grp
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ....analysis.catalogue import files
from .model import Roots
from .sysfs import fields, listing, path_exists, read, whole_number

SYS_PTRACE = 19
_SYS_ADMIN, _PERFMON = 21, 38
_PERFMON_DRIVER = 565
"""First NVIDIA driver that accepts CAP_PERFMON."""
_CPU_PMU = re.compile(r"cpu(_core|_atom)?|cpum_cf|armv\d\w*|apple_\w+")


@dataclass(frozen=True)
class CounterPermission:
    """Yes, no, or None if only a run can show it; with the reason and the remedy."""

    usable: bool | None
    why: str | None = None
    fix: str | None = None


def _verdict(code: str, **found: object) -> CounterPermission:
    """The permission that permissions.toml states for what was found; unknown if it does not say."""
    stated = files.load(Path(__file__).with_suffix(".toml"))[code]
    why, fix = (stated[part].format(**found) if part in stated else None for part in ("why", "fix"))
    return CounterPermission(stated.get("usable"), why, fix)


def amd(roots: Roots, render_minors: list[int]) -> CounterPermission:
    """Check the counters of AMD GPUs, which need read and write access to /dev/kfd and a render node."""
    nodes = [roots.at(f"dev/dri/renderD{minor}") for minor in render_minors]
    if not nodes:
        nodes = [p for p in listing(roots.at("dev/dri")) if p.name.startswith("renderD")]
    kfd = roots.at("dev/kfd")
    if not path_exists(kfd):
        return _verdict("no_kfd")
    if not _open_to_us(kfd):
        return _closed_to_us(kfd, "/dev/kfd")
    if not any(_open_to_us(node) for node in nodes):
        closed = next(filter(path_exists, nodes), None)
        return _closed_to_us(closed, f"/dev/dri/{closed.name}") if closed else _verdict("no_render_node")
    level = _paranoid(roots)
    if level is not None and level > 2 and not has_capability(roots, _PERFMON, _SYS_ADMIN):
        return _verdict("amd_level", level=level)
    return CounterPermission(True)


def nvidia(roots: Roots, driver: str | None) -> CounterPermission:
    """Check the counters of NVIDIA GPUs, which are restricted to administrators by default (ERR_NVGPUCTRPERM)."""
    sandbox = (read(roots.at("proc/cmdline")) or "") + (read(roots.at("proc/version")) or "")
    if "gvisor" in sandbox.lower():
        return _verdict("gvisor")
    params = read(roots.at("proc/driver/nvidia/params"))
    hit = re.search(r"^(?:RmProfilingAdminOnly|RestrictProfilingToAdminUsers):\s*(\d+)", params or "", re.MULTILINE)
    version = whole_number((driver or "").partition(".")[0]) or 0
    enough = (_SYS_ADMIN, _PERFMON) if version >= _PERFMON_DRIVER else (_SYS_ADMIN,)
    if has_capability(roots, *enough) or (hit and hit[1] == "0"):
        return CounterPermission(True)
    return _verdict("administrators_only" if hit else "not_reported")


def cpu(roots: Roots) -> CounterPermission:
    """Check hardware events for perf: the machine must have them, and the kernel must permit their use."""
    sources = [p.name for p in listing(roots.at("sys/bus/event_source/devices"))]
    if not any(_CPU_PMU.fullmatch(name) for name in sources):
        return _verdict("no_cpu_counters")
    if has_capability(roots, _PERFMON, _SYS_ADMIN):
        return CounterPermission(True)
    level = _paranoid(roots)
    if level is not None and level > 2:
        return _verdict("cpu_level", level=level)
    if process_status(roots, "Seccomp") == "2":
        return _verdict("filtered")
    return _verdict("own_programs") if level == 2 else CounterPermission(True)


def _open_to_us(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _closed_to_us(path: Path, shown: str) -> CounterPermission:
    """Explain a device file that this user may not open, and name the group that may."""
    try:
        group = grp.getgrgid(path.stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "render"
    # Device files of group root should be opened up with a udev rule rather than by joining that group.
    group = "render" if group == "root" else group
    return _verdict("closed", file=shown, group=group)


def _paranoid(roots: Roots) -> int | None:
    text = read(roots.at("proc/sys/kernel/perf_event_paranoid"))
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def has_capability(roots: Roots, *capabilities: int) -> bool:
    """Whether this process has one of the capabilities on the machine itself, not only in a user namespace."""
    mapping = (read(roots.at("proc/self/uid_map")) or "0 0 4294967295").split()
    effective = process_status(roots, "CapEff")
    if mapping != ["0", "0", "4294967295"] or not re.fullmatch(r"[0-9a-fA-F]+", effective):
        return False
    return any(int(effective, 16) >> capability & 1 for capability in capabilities)


def process_status(roots: Roots, name: str) -> str:
    """Return one line of /proc/self/status."""
    return fields(roots.at("proc/self/status")).get(name, "")
