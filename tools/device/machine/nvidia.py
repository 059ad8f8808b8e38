"""Detect NVIDIA GPUs with NVML in a child process; if that fails, from the driver's files in /proc."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from ....analysis.base.extensions import install_command
from ....analysis.base.problems import command_advice
from ....analysis.store.manifest import link
from . import sysfs
from .model import Device, Roots, Vendor
from .programs import ProgramAnswer, ask
from .sysfs import clean, fields, listing, path_exists

_SIGNS = ("proc/driver/nvidia", "dev/nvidiactl", "usr/lib/wsl/lib/libnvidia-ml.so.1")
"""Signs of a driver: its module is loaded, a container has its device, or Windows provides it (WSL)."""
_LIMIT_S = 30.0
"""Without persistence mode, the driver first initialises every GPU, which takes seconds on a full node."""
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{36}")
_LACKING = "some device details are missing."
_NO_GPU = "Start the container with its GPUs (--gpus all), or request one from the batch system."
_ADVICE = {
    "NVMLError_LibRmVersionMismatch": (
        "The driver was updated while the old one is still loaded: reboot, or reload the nvidia modules."
    ),
    "NVMLError_DriverNotLoaded": command_advice("Use a node with a GPU, or load the nvidia module", "modprobe nvidia"),
    "NVMLError_LibraryNotFound": "Install the driver's libraries; a container gets them with its GPUs (--gpus all).",
    "ImportError": command_advice("Install it", install_command("nvidia-ml-py")),
}
"""Advice by the name of the NVML error."""


@dataclass(frozen=True)
class NvidiaGpus:
    """The GPUs, and one sentence for each problem."""

    devices: list[Device] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    limits: dict[int, dict[str, int]] = field(default_factory=dict)
    """Limits that the CUDA driver reports, by the index of the GPU."""


class _NvmlGpu(Device):
    """One GPU as nvidia_child.py prints it."""

    vendor: Vendor = "nvidia"
    why: str = ""
    """What is wrong with the GPU; all other fields are then unknown."""
    pcie_generation: int | None = None
    pcie_width: int | None = None


class _Nvml(pydantic.BaseModel):
    """The first line that nvidia_child.py prints."""

    driver: str | None = None
    gpus: list[_NvmlGpu] | None = None
    failure: str = ""
    why: str = ""


_LIMITS = pydantic.TypeAdapter(dict[str, dict[str, int]])


def devices(roots: Roots, timeout_s: float = _LIMIT_S) -> NvidiaGpus:
    """Return every GPU that NVML lists. A missing, failing or hanging NVML results in a note, never in an error.

    On a machine without any sign of an NVIDIA driver, NVML is not called.
    """
    bus = sysfs.on_bus(roots, "nvidia")
    if not bus and not any(path_exists(roots.at(sign)) for sign in _SIGNS):
        return NvidiaGpus()
    # -P removes the script's own folder from the module search path.
    answer = ask([sys.executable, "-P", str(Path(__file__).with_name("nvidia_child.py"))], timeout_s)
    nvml, limits = _parse_answer(answer)
    if nvml is None:
        cause = (
            "The driver may be hanging: check dmesg for Xid messages" if answer.failure else "Run nvidia-smi by hand"
        )
        complaint = answer.complaint or f"printed unreadable output ({clean(answer.out, 100)!r})"
        note = f"NVIDIA's library NVML, called in a child process, {complaint}. {cause}; {_LACKING}"
        return NvidiaGpus(_from_proc(roots), [note])
    if nvml.gpus is None:
        on_bus_too = f"; NVIDIA GPUs are on the PCI bus ({', '.join(bus[:8])})" if bus else ""
        advice = _ADVICE.get(nvml.failure, f"Run nvidia-smi by hand; {_LACKING}")
        reason = clean(nvml.why, 200).rstrip(".")
        return NvidiaGpus(_from_proc(roots), [f"NVIDIA's NVML (pynvml) reports: {reason}{on_bus_too}. {advice}"])
    if not nvml.gpus:
        return NvidiaGpus(_from_proc(roots), [f"The NVIDIA driver shows no GPU to this process. {_NO_GPU}"])
    working = [gpu for gpu in nvml.gpus if not gpu.why]
    of_gpus = {gpu.index: limits.get(gpu.uuid or "", {}) for gpu in working}
    found_devices = [_device(roots, gpu, nvml.driver, of_gpus[gpu.index].get("sms")) for gpu in working]
    notes = [f"NVML reports for GPU {gpu.index}: {clean(gpu.why, 200)}. See dmesg." for gpu in nvml.gpus if gpu.why]
    if any(gpu.partition == "MIG enabled" for gpu in nvml.gpus):
        notes.append(
            "A GPU is in MIG mode: programs see only its instances (nvidia-smi -L lists them), each with part of its "
            "SMs and memory."
        )
    return NvidiaGpus(found_devices or _from_proc(roots), notes, of_gpus)


def _parse_answer(answer: ProgramAnswer) -> tuple[_Nvml | None, dict[str, dict[str, int]]]:
    """Return NVML's line and the limits by uuid; the latter are empty if there is no libcuda or the driver hangs."""
    lines = [line for line in answer.out.splitlines() if line.startswith("{")]
    nvml, limits = None, dict[str, dict[str, int]]()
    with suppress(pydantic.ValidationError):
        nvml = _Nvml.model_validate_json(lines[0] if lines else "")
        limits = _LIMITS.validate_json(lines[1] if len(lines) > 1 else "{}")
    return nvml if nvml and (nvml.gpus is not None or nvml.failure) else None, limits


def _device(roots: Roots, gpu: _NvmlGpu, driver: str | None = None, sms: int | None = None) -> Device:
    where = sysfs.normalize_address(gpu.pci or "")
    return Device(
        vendor=gpu.vendor,
        index=gpu.index,
        arch=gpu.arch,
        partition=gpu.partition,
        name=clean(gpu.name or "") or None,
        uuid=gpu.uuid if gpu.uuid and _UUID.fullmatch(gpu.uuid) else None,
        compute_units=sms or None,
        clock_max_mhz=gpu.clock_max_mhz or None,
        memory_bytes=gpu.memory_bytes or None,
        driver=clean(driver or "") or None,
        pci=where,
        numa_node=sysfs.numa_node(roots, where),
        link=link(gpu.pcie_generation, gpu.pcie_width) or sysfs.link_of(roots, where),
    )


def _from_proc(roots: Roots) -> list[Device]:
    """Return GPUs with name, uuid and location, as the loaded driver lists them in /proc."""
    listed = []
    for index, folder in enumerate(listing(roots.at("proc/driver/nvidia/gpus"))):
        facts = fields(folder / "information")
        gpu = _NvmlGpu(
            index=index,
            name=facts.get("Model"),
            uuid=facts.get("GPU UUID"),
            pci=facts.get("Bus Location", folder.name),
        )
        listed.append(_device(roots, gpu))
    return listed
