"""What this machine has: a look at its devices, profilers and permissions, all at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ....analysis.catalogue import metrics as catalog
from . import amd as kfd
from . import cpu, nvidia, permissions, power, profilers
from .model import Device, InstalledProfiler, Roots, Vendor
from .permissions import CounterPermission


@dataclass(frozen=True)
class Machine:
    """Everything that is known of this machine, before it is shaped into an answer."""

    devices: list[Device]
    profilers: list[InstalledProfiler]
    verdicts: dict[Vendor, CounterPermission]
    notes: list[str]
    broken: frozenset[str] = frozenset()
    """Profilers that do not even tell their version."""
    on_battery: bool = False

    @property
    def gpus(self) -> list[Device]:
        return [d for d in self.devices if d.vendor != "cpu"]


def survey(roots: Roots) -> Machine:
    """Look at everything at once: sysfs, NVML, profilers. Every program has a time limit."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        nvml = pool.submit(nvidia.devices, roots)
        programs = pool.submit(profilers.find_installed, roots)
        topology = kfd.topology(roots)
        amd = kfd.devices(roots, topology)
        host = cpu.device(roots)
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
        on_battery=power.on_battery(roots),
    )
