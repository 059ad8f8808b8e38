"""Choose the device of this machine that a run uses, and the profiler for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...analysis.base.problems import MissingTool, Problem, join_sentences
from ...analysis.catalogue import targets
from ..device.machine.host_settings import HostSetting
from ..device.machine.model import Device, InstalledProfiler
from .drivers import registry
from .wording import problem

if TYPE_CHECKING:
    from ..device.machine.survey import Machine

_MASKS = {"amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "nvidia": ("CUDA_VISIBLE_DEVICES",)}
"""Environment variables that restrict the GPUs that a program sees, by vendor."""


@dataclass(frozen=True)
class DeviceChoice:
    """A device, the profiler for it, and the locks that the run needs."""

    device: Device
    target: str
    profiler: InstalledProfiler
    path: str
    locks: dict[str, str]
    """Lock name -> description, for every device that the program may use."""
    mask: dict[str, str]
    """Variables that show the program only the chosen GPU; empty if none was chosen."""
    warnings: list[str]
    settings: tuple[HostSetting, ...] = ()
    """Settings of the host and of the device that profiles depend on."""


def choose(
    machine: Machine, gpu: str | int | None, profiler: str, environment: Mapping[str, str], *, counts: bool = True
) -> DeviceChoice:
    """Return the device and the profiler; raise a Problem that states what is missing here and how to get it.

    A timing-only run (``counts`` false) needs neither a profiler nor permission to count if rooflens records times
    itself.

    Without ``gpu``, the program may use every GPU that ``environment`` shows it, so the run locks all of them.
    """
    vendor = registry.profiler(profiler).VENDOR if profiler != "auto" else None
    if str(gpu).lower() == "cpu" or (gpu is None and vendor == "cpu"):
        devices = [d for d in machine.devices if d.vendor == "cpu"]
    elif gpu is None:
        devices = _visible_gpus([d for d in machine.gpus if vendor in (None, d.vendor)], environment)
        if not devices:
            raise _no_gpu(machine, vendor)
    else:
        devices = [_find_gpu(machine, str(gpu), vendor)]
    registry.driver_for(profiler, devices[0].vendor)
    device = min(devices, key=lambda d: not _profilers(machine, d, profiler))
    tool = _profiler(machine, device, profiler, counts=counts)
    same = [d for d in devices if d.vendor == device.vendor]
    return DeviceChoice(
        device=device,
        target="cpu" if device.vendor == "cpu" else device.arch or "",
        profiler=tool,
        path=tool.path or tool.name,
        locks={f"{d.vendor}-{d.uuid or d.index}": _title(d) for d in same},
        mask=_mask(device) if gpu is not None else {},
        warnings=[join_sentences(tool.why, tool.fix or "")] if tool.why else [],
        settings=tuple(machine.settings) if device.vendor == "amd" else (),
    )


def facts(device: Device) -> dict[str, float]:
    """Return the known facts of a device beyond its target: product data, for the dies of this device or partition."""
    product = targets.identify(device.name, device.arch, {})
    known = {name: fact.value for name, fact in product.all_facts.items()} if product else {}
    if device.xccs and (whole := known.get("num_xcd")) and "total_l2_chan" in known:
        known |= {"num_xcd": device.xccs, "total_l2_chan": known["total_l2_chan"] * device.xccs / whole}
    return known


def _find_gpu(machine: Machine, gpu: str, vendor: str | None) -> Device:
    fitting = [d for d in machine.gpus if gpu in (d.uuid, str(d.index)) and vendor in (None, d.vendor)]
    if not machine.gpus:
        raise _no_gpu(machine, vendor)
    if not fitting:
        here = machine.gpu_names()
        raise problem("no_such_gpu", gpu=gpu, here=here)
    if len({d.vendor for d in fitting}) > 1:
        raise problem("ambiguous_gpu", gpu=gpu)
    return fitting[0]


def _no_gpu(machine: Machine, vendor: str | None) -> Problem:
    kind = {"amd": "AMD GPU", "nvidia": "NVIDIA GPU"}.get(vendor or "", "GPU")
    why = machine.notes[0] if machine.notes else "neither sysfs nor a driver lists one"
    return problem("no_visible_gpu", kind=kind, why=why)


def _visible_gpus(devices: list[Device], environment: Mapping[str, str]) -> list[Device]:
    """Return the GPUs that the visibility variables leave, in the order that they specify."""
    for vendor, names in _MASKS.items():
        for name in names:
            stated = [part.strip() for part in environment.get(name, "").split(",") if part.strip()]
            if stated and (shown := [d for part in stated for d in devices if _fits(d, part) and d.vendor == vendor]):
                devices = [*shown, *(d for d in devices if d.vendor != vendor)]
    return devices


def _fits(device: Device, part: str) -> bool:
    return part == str(device.index) or bool(device.uuid and part.startswith("GPU-") and device.uuid.startswith(part))


def _mask(device: Device) -> dict[str, str]:
    name = device.uuid or str(device.index)
    return {_MASKS[device.vendor][0]: name} if device.vendor in _MASKS else {}


def _profilers(machine: Machine, device: Device, wanted: str) -> list[InstalledProfiler]:
    """Return the installed profilers that may work for a device, best first; perf works without a PMU too."""
    order = _order(device, wanted)
    installed = {p.name: p for p in machine.profilers if p.path}
    ready = [installed[name] for name in order if name in installed]
    return [p for p in ready if p.usable is not False or device.vendor == "cpu"]


def _order(device: Device, wanted: str) -> list[str]:
    """Return the names of the profilers for a device, the preferred one first."""
    return [p.NAME for p in registry.for_vendor(device.vendor) if wanted in ("auto", p.NAME)]


def _profiler(machine: Machine, device: Device, wanted: str, *, counts: bool) -> InstalledProfiler:
    if ready := _profilers(machine, device, wanted):
        return ready[0]
    order = _order(device, wanted)
    own = next((name for name in order if (sampler := registry.sampler(name)) and sampler.RECORDS), None)
    if own and not counts:
        return InstalledProfiler(name=own, vendor=device.vendor)
    absent = InstalledProfiler(
        name=order[0], vendor=device.vendor, why="it is not installed: neither on PATH nor in the usual places"
    )
    known = [*(p for p in machine.profilers if p.name in order), absent]
    first = next((p for p in known if p.path), known[0])
    without = 'Times (metrics=[]) and a timeline (["timeline"]) do not need it' if own else ""
    what = f"{first.name} cannot profile {_title(device)} here"
    raise MissingTool(what, join_sentences(first.why or "", without), first.fix or "See list_devices")


def _title(device: Device) -> str:
    if device.vendor == "cpu":
        return "the processor"
    return f"GPU {device.index} ({device.vendor} {device.arch or device.name or ''})"
