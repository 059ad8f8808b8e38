"""Check the settings of a host with AMD GPUs that silently change what profilers measure, each with its remedy.

Sources are in host_settings.toml, with the facts by target and release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ....analysis.base.problems import join_sentences
from ....analysis.catalogue import files
from . import sysfs
from .model import Device, InstalledProfiler, Roots
from .permissions import SYS_PTRACE, has_capability, process_status
from .sysfs import clean, listing, path_exists, read, whole_number

Setting = Literal[
    "power_level", "partition", "numa_balancing", "governor", "iommu", "seccomp", "ptrace", "driver_release"
]


@cache
def _facts() -> dict[str, Any]:
    return files.load(Path(__file__).with_suffix(".toml"))


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
    release = next((p.release for p in profilers if p.vendor == "amd" and p.release), None)
    of_gpus = [setting for gpu in amd for setting in _settings_of_gpu(roots, gpu)]
    return [*of_gpus, *_settings_of_host(roots, amd), *_driver_release(amd[0].driver, release)]


def _setting(
    code: Setting, sound: bool, values: Mapping[str, object] = {}, remedy: str = "fix", gpu: Device | None = None
) -> HostSetting:
    """The setting as host_settings.toml words it with ``values``; ``remedy`` is what to advise if it is not sound."""
    stated = _facts()["settings"][code]
    text = stated["sound" if sound else "wrong"].format(gpu=gpu, **values)
    fix = "" if sound else stated[remedy].format(gpu=gpu, **values)
    return HostSetting(code, stated["concerns"], sound, text, fix, gpu.index if gpu else None)


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


def _settings_of_gpu(roots: Roots, gpu: Device) -> Iterator[HostSetting]:
    """The performance level, which decides on RDNA 3 and 4 whether most counters count at all, and the compute and
    memory partition of a card: a partition is a smaller device with ceilings of its own."""
    if (level := sysfs.attribute(roots, gpu.pci, "power_dpm_force_performance_level")) is not None:
        concerned = re.fullmatch(_facts()["performance_level"]["targets"], gpu.arch or "")
        sound = level.startswith("profile_") or not concerned
        yield _setting("power_level", sound, {"level": clean(level, 40)}, gpu=gpu)
    if gpu.partition is not None:
        stated = zip(("compute", "memory"), gpu.partition.partition("/")[::2], ("SPX", "NPS1"), strict=True)
        wrong = [f"sudo amd-smi set --gpu all --{kind}-partition {whole}" for kind, mode, whole in stated
                 if mode not in ("", whole)]  # fmt: skip
        dies = f" with {gpu.compute_units} CUs" if gpu.compute_units else ""
        yield _setting("partition", not wrong, {"dies": dies, "command": " && ".join(wrong)}, gpu=gpu)


def _settings_of_host(roots: Roots, gpus: Sequence[Device]) -> Iterator[HostSetting]:
    # Automatic NUMA balancing unmaps pages to see who uses them; it has no effect with one NUMA node.
    if (state := whole_number(read(roots.at("proc/sys/kernel/numa_balancing")))) is not None:
        nodes = [n for n in listing(roots.at("sys/devices/system/node")) if re.fullmatch(r"node\d+", n.name)]
        yield _setting("numa_balancing", state == 0 or len(nodes) == 1, {"state": "on" if state else "off"})
    # A driver of the processors' clocks that follows a preference counts by that.
    cores = [p for p in listing(roots.at("sys/devices/system/cpu")) if re.fullmatch(r"cpu\d+", p.name)]
    if stated := [core / "cpufreq" for core in cores if path_exists(core / "cpufreq/scaling_governor")]:
        slow = {
            clean(governor, 40)
            for folder in stated
            if (governor := read(folder / "scaling_governor")) not in (None, "performance")
            and read(folder / "energy_performance_preference") != "performance"
        }
        yield _setting("governor", not slow, {"governors": ", ".join(sorted(slow))})
    # The type identity of an IOMMU group is pass-through (iommu=pt).
    if types := {kind for gpu in gpus if (kind := sysfs.attribute(roots, gpu.pci, "iommu_group/type"))}:
        yield _setting("iommu", types == {"identity"})
    # The system call filter of a container refuses the calls that place memory on NUMA nodes.
    if mode := process_status(roots, "Seccomp"):
        yield _setting("seccomp", mode != "2")
    # Whether a profiler may attach to a running process of the same user.
    if (scope := whole_number(read(roots.at("proc/sys/kernel/yama/ptrace_scope")))) is not None:
        allowed = scope == 0 or (scope < 3 and has_capability(roots, SYS_PTRACE))
        yield _setting("ptrace", allowed, {"scope": scope}, "fix" if scope < 3 else "fix_of_level_3")


def _driver_release(driver: str | None, release: str | None) -> Iterator[HostSetting]:
    """Whether driver and ROCm are releases that AMD tests together; nothing if one is not known."""
    driver_version = re.match(r"amdgpu (\d+\.\d+)", driver or "")
    rocm = re.search(r"\d+\.\d+", release or "")
    tested = _facts()["driver"]
    of_driver = tested["released_with"].get(driver_version[1]) if driver_version else None
    if of_driver and rocm and rocm[0] in tested["releases"]:
        newer = tested["releases"].index(rocm[0]) - tested["releases"].index(of_driver)
        values = {"driver": driver, "of_driver": of_driver, "release": release, "rocm": rocm[0]}
        sound = -tested["older"] <= newer <= tested["newer"]
        yield _setting("driver_release", sound, values, "fix_driver" if newer > 0 else "fix_rocm")


def torch_hip(roots: Roots) -> str | None:
    """Return the HIP version of the PyTorch in this environment if its wheel contains the old tracer, else None."""
    if roots.site is None:
        return None
    libraries = [file.name for file in listing(roots.site / "torch/lib")]
    stated = re.search(r"^hip\b[^=]*=\s*'([\d.]+)", read(roots.site / "torch/version.py") or "", re.MULTILINE)
    return stated[1] if stated and any(name.startswith("libroctracer64.so") for name in libraries) else None
