"""Check the settings of a host with AMD GPUs that silently change what profilers measure, each with its remedy.

Sources are in host_settings.toml, with the facts by target and release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import tomli

from ....analysis.base.problems import command_advice, join_sentences
from . import sysfs
from .model import Device, InstalledProfiler, Roots
from .permissions import SYS_PTRACE, has_capability, process_status
from .sysfs import clean, listing, path_exists, read, whole_number

Setting = Literal[
    "power_level", "partition", "numa_balancing", "governor", "iommu", "seccomp", "ptrace", "driver_release"
]
_BALANCING = "proc/sys/kernel/numa_balancing"
_PASS_THROUGH = (
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && sudo update-grub && sudo reboot"
)


@cache
def _facts() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class HostSetting:
    """One setting of the host: what it is, whether it is as profiling needs it, and the command that sets it."""

    code: Setting
    concerns: Literal["counters", "times", "attaching"]
    """What is wrong or impossible if the setting is not sound."""
    sound: bool
    text: str
    fix: str = ""
    device: int | None = None
    """Index of the AMD GPU that it belongs to; None for the whole host."""


def host_settings(roots: Roots, gpus: Sequence[Device], profilers: Iterable[InstalledProfiler]) -> list[HostSetting]:
    """Return the settings that are known of a host with AMD GPUs, those of each GPU first; none without an AMD GPU."""
    amd = [gpu for gpu in gpus if gpu.vendor == "amd"]
    if not amd:
        return []
    of_gpus = [one for gpu in amd for one in (_power_level(roots, gpu), _partition(gpu)) if one]
    release = next((p.release for p in profilers if p.vendor == "amd" and p.release), None)
    of_host = [
        _numa_balancing(roots),
        _governor(roots),
        _iommu(roots, amd),
        _seccomp(roots),
        _ptrace(roots),
        _driver_release(amd[0].driver, release),
    ]
    return [*of_gpus, *(one for one in of_host if one)]


def unsound(settings: Iterable[HostSetting], concerns: Iterable[str], device: int | None = None) -> list[str]:
    """Return sentences on the settings that are wrong for a run on a GPU (None: any) that ``concerns`` counters, times
    or attaching: each that forbids something with its remedy, and one for all that only change times."""
    wrong = [
        s
        for s in settings
        if not s.sound and s.concerns in concerns and (None in (device, s.device) or device == s.device)
    ]
    sentences = [join_sentences(s.text[:1].upper() + s.text[1:], s.fix) for s in wrong if s.concerns != "times"]
    if slower := list(dict.fromkeys(s.code for s in wrong if s.concerns == "times")):
        sentences.append(
            f"Settings of this host that change times: {', '.join(slower)}. rooflens doctor shows the command for each."
        )
    return sentences


def _power_level(roots: Roots, gpu: Device) -> HostSetting | None:
    """The performance level, which decides on RDNA 3 and 4 whether most counters count at all."""
    level = sysfs.attribute(roots, gpu.pci, "power_dpm_force_performance_level")
    if level is None:
        return None
    level = clean(level, 40)
    text = f"the performance level of GPU {gpu.index} ({gpu.arch}) is {level}"
    if level.startswith("profile_") or not re.fullmatch(_facts()["performance_level"]["targets"], gpu.arch or ""):
        return HostSetting("power_level", "counters", True, text, device=gpu.index)
    file = f"/sys/bus/pci/devices/{gpu.pci}/power_dpm_force_performance_level"
    return HostSetting(
        "power_level",
        "counters",
        False,
        f"{text}: counters such as GL2C_*, SQ_INSTS_* and GRBM_* stay 0, and thread trace stays empty, at every level "
        "but profile_*; times are right",
        command_advice("Set a profile level; auto restores the default", f"echo profile_standard | sudo tee {file}"),
        gpu.index,
    )


def _partition(gpu: Device) -> HostSetting | None:
    """The compute and memory partition of a card: a partition is a smaller device with ceilings of its own."""
    if gpu.partition is None:
        return None
    compute, _, memory = gpu.partition.partition("/")
    text = f"GPU {gpu.index} is in mode {gpu.partition}"
    wrong = [
        f"sudo amd-smi set --gpu all --{kind}-partition {mode}"
        for kind, stated, mode in (("compute", compute, "SPX"), ("memory", memory, "NPS1"))
        if stated not in ("", mode)
    ]
    if not wrong:
        return HostSetting("partition", "times", True, text, device=gpu.index)
    dies = f" with {gpu.compute_units} CUs" if gpu.compute_units else ""
    return HostSetting(
        "partition",
        "times",
        False,
        f"{text}: it is one part of its card{dies}, so counters, ceilings and times are not those of the whole card",
        command_advice("For the whole card", " && ".join(wrong)),
        gpu.index,
    )


def _numa_balancing(roots: Roots) -> HostSetting | None:
    """Automatic NUMA balancing, which unmaps pages to see who uses them; it has no effect with one NUMA node."""
    state = whole_number(read(roots.at(_BALANCING)))
    if state is None:
        return None
    nodes = [n for n in listing(roots.at("sys/devices/system/node")) if re.fullmatch(r"node\d+", n.name)]
    if state == 0 or len(nodes) == 1:
        return HostSetting("numa_balancing", "times", True, f"automatic NUMA balancing is {'on' if state else 'off'}")
    return HostSetting(
        "numa_balancing",
        "times",
        False,
        "automatic NUMA balancing is on: it moves pages while GPUs use them, which stops their queues and makes times "
        "vary, most of all on an APU such as MI300A",
        command_advice("Switch it off", f"echo 0 | sudo tee /{_BALANCING}"),
    )


def _governor(roots: Roots) -> HostSetting | None:
    """The governors of the processors' clocks; a driver that follows a preference counts by that."""
    cores = [p for p in listing(roots.at("sys/devices/system/cpu")) if re.fullmatch(r"cpu\d+", p.name)]
    stated = {
        governor
        for core in cores
        if (governor := read(core / "cpufreq/scaling_governor"))
        and read(core / "cpufreq/energy_performance_preference") != "performance"
    }
    if not any(path_exists(core / "cpufreq/scaling_governor") for core in cores):
        return None
    slow = sorted(clean(governor, 40) for governor in stated - {"performance"})
    if not slow:
        return HostSetting("governor", "times", True, "the processors' governor is performance")
    return HostSetting(
        "governor",
        "times",
        False,
        f"the processors' governor is {', '.join(slow)}: launches and copies from the host start later and vary",
        command_advice(
            "Change it", "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
        ),
    )


def _iommu(roots: Roots, gpus: Sequence[Device]) -> HostSetting | None:
    """The type of the IOMMU group of the GPUs: identity is pass-through (iommu=pt)."""
    types = {kind for gpu in gpus if (kind := sysfs.attribute(roots, gpu.pci, "iommu_group/type"))}
    if not types:
        return None
    if types == {"identity"}:
        return HostSetting("iommu", "times", True, "the IOMMU passes the GPUs' addresses through (iommu=pt)")
    return HostSetting(
        "iommu",
        "times",
        False,
        "the IOMMU translates every address of the GPUs' transfers: copies between host and GPUs are slower, and "
        "copies between GPUs can hang",
        command_advice("Pass them through, and reboot", _PASS_THROUGH),
    )


def _seccomp(roots: Roots) -> HostSetting | None:
    """The system call filter of a container, which refuses the calls that place memory on NUMA nodes."""
    mode = process_status(roots, "Seccomp")
    if not mode:
        return None
    if mode != "2":
        return HostSetting("seccomp", "times", True, "no system call filter is active")
    return HostSetting(
        "seccomp",
        "times",
        False,
        "a system call filter is active, as in most containers: it can refuse the calls that place memory near a GPU",
        "Start the container with --security-opt seccomp=unconfined",
    )


def _ptrace(roots: Roots) -> HostSetting | None:
    """Whether a profiler may attach to a running process of the same user."""
    scope = whole_number(read(roots.at("proc/sys/kernel/yama/ptrace_scope")))
    if scope is None:
        return None
    if scope == 0 or (scope < 3 and has_capability(roots, SYS_PTRACE)):
        return HostSetting("ptrace", "attaching", True, "profilers may attach to running processes")
    return HostSetting(
        "ptrace",
        "attaching",
        False,
        f"kernel.yama.ptrace_scope is {scope}: a profiler cannot attach to a running process (pid=)",
        command_advice("Add --cap-add SYS_PTRACE to a container, or allow it", "sudo sysctl kernel.yama.ptrace_scope=0")
        if scope < 3
        else "Set kernel.yama.ptrace_scope=0 in /etc/sysctl.d and reboot: level 3 cannot be changed before",
    )


def _driver_release(driver: str | None, release: str | None) -> HostSetting | None:
    """Whether driver and ROCm are releases that AMD tests together; None if one is not known."""
    driver_version = re.match(r"amdgpu (\d+\.\d+)", driver or "")
    rocm = re.search(r"\d+\.\d+", release or "")
    tested = _facts()["driver"]
    of_driver = tested["released_with"].get(driver_version[1]) if driver_version else None
    if of_driver is None or rocm is None or rocm[0] not in tested["releases"]:
        return None
    newer = tested["releases"].index(rocm[0]) - tested["releases"].index(of_driver)
    text = f"{driver} came with ROCm {of_driver}, and the profiler is of {release}"
    if -tested["older"] <= newer <= tested["newer"]:
        return HostSetting("driver_release", "counters", True, text)
    which = "driver" if newer > 0 else "ROCm"
    return HostSetting(
        "driver_release",
        "counters",
        False,
        f"{text}: AMD tests releases of at most about a year apart; counters and PC sampling may fail or be wrong",
        command_advice(
            f"Install the {which} from the repository of ROCm {rocm[0] if newer > 0 else of_driver}",
            f"sudo apt install {'amdgpu-dkms' if newer > 0 else 'rocm'}",
        ),
    )


def torch_hip(roots: Roots) -> str | None:
    """Return the HIP version of the PyTorch in this environment if its wheel contains the old tracer, else None."""
    if roots.site is None:
        return None
    libraries = [file.name for file in listing(roots.site / "torch/lib")]
    stated = re.search(r"^hip\b[^=]*=\s*'([\d.]+)", read(roots.site / "torch/version.py") or "", re.MULTILINE)
    return stated[1] if stated and any(name.startswith("libroctracer64.so") for name in libraries) else None
