"""Determine whether performance counters can be read here and, if not, why and how to change that."""

from __future__ import annotations

import grp
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ....analysis.base.problems import command_advice
from .model import Roots
from .sysfs import listing, path_exists, read, whole_number

SYS_PTRACE = 19
_SYS_ADMIN, _PERFMON = 21, 38
_PERFMON_DRIVER = 565
"""First NVIDIA driver that accepts CAP_PERFMON."""
_LOWER_LEVEL = "sudo sysctl kernel.perf_event_paranoid=2"
_CPU_PMU = re.compile(r"cpu(_core|_atom)?|cpum_cf|armv\d\w*|apple_\w+")


@dataclass(frozen=True)
class CounterPermission:
    """Yes, no, or None if only a run can show it; with the reason and the remedy."""

    usable: bool | None
    why: str | None = None
    fix: str | None = None


def amd(roots: Roots, render_minors: list[int]) -> CounterPermission:
    """Check the counters of AMD GPUs, which need read and write access to /dev/kfd and a render node."""
    nodes = [roots.at(f"dev/dri/renderD{minor}") for minor in render_minors]
    if not nodes:
        nodes = [p for p in listing(roots.at("dev/dri")) if p.name.startswith("renderD")]
    kfd = roots.at("dev/kfd")
    if not path_exists(kfd):
        return CounterPermission(
            False,
            "/dev/kfd is missing, for example in a container started without it, so no program can use an AMD GPU",
            "In a container: --device /dev/kfd --device /dev/dri --group-add video --group-add render. "
            "On the machine itself: load the amdgpu driver",
        )
    if not _open_to_us(kfd):
        return _closed_to_us(kfd, "/dev/kfd")
    if not any(_open_to_us(node) for node in nodes):
        present = [node for node in nodes if path_exists(node)]
        if present:
            return _closed_to_us(present[0], f"/dev/dri/{present[0].name}")
        return CounterPermission(False, "there is no /dev/dri/renderD* of a GPU", "In a container: --device /dev/dri")
    level = _paranoid(roots)
    if level is not None and level > 2 and not has_capability(roots, _PERFMON, _SYS_ADMIN):
        return CounterPermission(
            True,
            f"kernel.perf_event_paranoid is {level} (above 2) without CAP_PERFMON: some counters may silently stay 0",
            command_advice("Give the profiler CAP_PERFMON, or lower the level", _LOWER_LEVEL),
        )
    return CounterPermission(True)


def nvidia(roots: Roots, driver: str | None) -> CounterPermission:
    """Check the counters of NVIDIA GPUs, which are restricted to administrators by default (ERR_NVGPUCTRPERM)."""
    sandbox = (read(roots.at("proc/cmdline")) or "") + (read(roots.at("proc/version")) or "")
    if "gvisor" in sandbox.lower():
        return CounterPermission(
            False,
            "this is a gVisor sandbox, in which Nsight Compute is known to fail (LibraryNotLoaded)",
            "Run in a container with the runc runtime, in a virtual machine with the GPU passed through, or on the "
            "machine itself",
        )
    params = read(roots.at("proc/driver/nvidia/params"))
    hit = re.search(r"^(?:RmProfilingAdminOnly|RestrictProfilingToAdminUsers):\s*(\d+)", params or "", re.MULTILINE)
    version = whole_number((driver or "").partition(".")[0]) or 0
    enough = (_SYS_ADMIN, _PERFMON) if version >= _PERFMON_DRIVER else (_SYS_ADMIN,)
    if has_capability(roots, *enough) or (hit and hit[1] == "0"):
        return CounterPermission(True)
    if not hit:
        return CounterPermission(
            None,
            "the driver does not report whether counters are restricted to administrators (/proc/driver/nvidia/params)",
            "If ncu ends with ERR_NVGPUCTRPERM: run it as root, or start the container with --cap-add SYS_ADMIN",
        )
    return CounterPermission(
        False,
        "the driver restricts counters to administrators (RmProfilingAdminOnly is 1): ncu would end with "
        "ERR_NVGPUCTRPERM",
        "Run as root or with CAP_SYS_ADMIN (container: --cap-add SYS_ADMIN; from driver R565 CAP_PERFMON suffices). "
        "For everyone: add 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into a file in /etc/modprobe.d, "
        "rebuild the initramfs if it contains the driver, and reboot",
    )


def cpu(roots: Roots) -> CounterPermission:
    """Check hardware events for perf: the machine must have them, and the kernel must permit their use."""
    sources = [p.name for p in listing(roots.at("sys/bus/event_source/devices"))]
    if not any(_CPU_PMU.fullmatch(name) for name in sources):
        return CounterPermission(
            False,
            "the kernel provides no hardware counters of the processor, as in most virtual machines",
            "Run on the machine itself, or give the virtual machine a virtual PMU; software events (task-clock, "
            "page-faults) work",
        )
    if has_capability(roots, _PERFMON, _SYS_ADMIN):
        return CounterPermission(True)
    level = _paranoid(roots)
    if level is not None and level > 2:
        return CounterPermission(
            False,
            f"kernel.perf_event_paranoid is {level}: ordinary users cannot count events",
            command_advice("Give perf CAP_PERFMON, or lower the level (1 counts the kernel's share too)", _LOWER_LEVEL),
        )
    if process_status(roots, "Seccomp") == "2":
        return CounterPermission(
            None,
            "a system call filter is active; in most containers it forbids perf_event_open",
            "If perf is refused: start the container with --cap-add PERFMON",
        )
    if level == 2:
        return CounterPermission(True, "kernel.perf_event_paranoid is 2: own programs only, in user space", None)
    return CounterPermission(True)


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
    return CounterPermission(
        False,
        f"this user cannot read and write {shown}",
        command_advice(
            f"In a container: --group-add with the host's number of group {group}. Elsewhere, join it and log in again",
            f"sudo usermod -aG {group},video $USER",
        ),
    )


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
    lines = (line.partition(":") for line in (read(roots.at("proc/self/status")) or "").splitlines())
    return next((value.strip() for key, _, value in lines if key == name), "")
