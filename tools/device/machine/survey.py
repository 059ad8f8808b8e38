"""Survey this machine: its devices, profilers and permissions."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ....analysis.catalogue import metrics as catalog
from . import amd as kfd
from . import host_settings, nvidia, permissions, profilers
from .host_settings import HostSetting
from .model import Device, InstalledProfiler, Roots, Vendor
from .permissions import CounterPermission
from .sysfs import clean, listing, memory_bytes, read, whole_number

_ARM_CORES = {
    (0x41, 0xD0C): "Neoverse N1", (0x41, 0xD49): "Neoverse N2", (0x41, 0xD8E): "Neoverse N3",
    (0x41, 0xD40): "Neoverse V1", (0x41, 0xD4F): "Neoverse V2", (0x41, 0xD84): "Neoverse V3",
}  # fmt: skip
"""Names by Arm (implementer, part) number; /proc/cpuinfo contains no model name on Arm."""


def device(roots: Roots) -> Device:
    """Return all processors of the machine as one device: physical cores, threads, clock and memory."""
    records = _records(read(roots.at("proc/cpuinfo")) or "")
    folders = [p for p in listing(roots.at("sys/devices/system/cpu")) if p.name[:3] == "cpu" and p.name[3:].isdecimal()]
    # /proc/cpuinfo has only the current clocks.
    clocks_khz = [whole_number(read(folder / "cpufreq/cpuinfo_max_freq")) or 0 for folder in folders]
    return Device(
        vendor="cpu",
        index=0,
        name=_name(records),
        arch=platform.machine() or None,
        compute_units=_cores(folders, records),
        threads=len(records) or len(folders) or None,
        clock_max_mhz=max(clocks_khz, default=0) // 1000 or None,
        memory_bytes=memory_bytes(roots.at("proc/meminfo"), "MemTotal") or None,
    )


def _records(cpuinfo: str) -> list[dict[str, str]]:
    """Return one dictionary per hardware thread."""
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
    """Count physical cores as distinct (package, core) pairs, from /sys, else from /proc/cpuinfo."""
    pairs = {(read(f / "topology/physical_package_id"), read(f / "topology/core_id")) for f in folders}
    pairs = {pair for pair in pairs if None not in pair}
    if not pairs:
        pairs = {(r["physical id"], r["core id"]) for r in records if "physical id" in r and "core id" in r}
    return len(pairs) or None


def on_battery(roots: Roots) -> bool:
    """Whether a battery of the machine itself is discharging and no mains supply is connected.

    Batteries of peripherals (scope Device) do not count.
    """
    supplies = listing(roots.at("sys/class/power_supply"))
    kinds = [(read(p / "type"), read(p / "status"), read(p / "online"), read(p / "scope")) for p in supplies]
    own = [kind for kind in kinds if kind[3] != "Device"]
    mains = any(name in ("Mains", "USB") and online == "1" for name, _, online, _ in own)
    return not mains and any(name == "Battery" and status == "Discharging" for name, status, _, _ in own)


@dataclass(frozen=True)
class Machine:
    """Everything known about this machine, before it is formatted as an answer."""

    devices: list[Device]
    profilers: list[InstalledProfiler]
    verdicts: dict[Vendor, CounterPermission]
    notes: list[str]
    broken: frozenset[str] = frozenset()
    """Profilers that cannot even report their version."""
    on_battery: bool = False
    settings: list[HostSetting] = field(default_factory=list)
    """Settings of the host that AMD GPUs depend on."""
    torch_hip: str | None = None
    """HIP version of a PyTorch in this environment that contains the old tracer."""
    limits: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    """What the driver states of one unit of each GPU, by vendor and index, under the driver's names."""

    @property
    def gpus(self) -> list[Device]:
        return [d for d in self.devices if d.vendor != "cpu"]

    def gpu_names(self) -> str:
        """The first GPUs by index, for messages; empty if there are none."""
        return ", ".join(f"{d.index} ({d.vendor} {d.arch}, {d.uuid})" for d in self.gpus[:8])


def survey(roots: Roots) -> Machine:
    """Survey sysfs, NVML and profilers in parallel. Every program has a time limit."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        nvml = pool.submit(nvidia.devices, roots)
        programs = pool.submit(profilers.find_installed, roots)
        topology = kfd.topology(roots)
        amd = kfd.devices(roots, topology)
        host = device(roots)
        green = nvml.result()
        known = set(catalog.targets_with_metrics())
        verdicts: dict[Vendor, CounterPermission] = {"cpu": permissions.cpu(roots)}
        if amd:
            verdicts["amd"] = permissions.amd(roots, topology.render_minors)
        if green.devices:
            verdicts["nvidia"] = permissions.nvidia(roots, green.devices[0].driver)
        installed = programs.result()
    devices = [d.model_copy(update={"supported": d.arch in known}) for d in (*amd, *green.devices, host)]
    return Machine(
        devices,
        profilers.judge_profilers(installed, verdicts, profilers.rocm(roots)),
        verdicts,
        notes=[*kfd.notes(roots, topology, amd), *green.notes],
        broken=frozenset(p.name for p in installed if p.usable is False),
        on_battery=on_battery(roots),
        settings=host_settings.host_settings(roots, amd, installed),
        torch_hip=host_settings.torch_hip(roots),
        limits={
            (vendor, index): stated
            for vendor, limits in (("amd", kfd.limits(roots, topology)), ("nvidia", green.limits))
            for index, stated in limits.items()
        },
    )
