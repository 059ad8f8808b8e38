"""Which device run_peak_benchmarks measures, and what there is to measure on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.problems import NotFound
from .detect.model import Device
from .devices import Machine

_MEMORY, _BEST = "hbm.", "hbm.bw"
"""The ways to use device memory, and the best of them, which only a run of all tells."""
_RUNTIME = re.compile(r"(amd|nvidia)(?::(\d+))?")
"""A GPU as its runtime counts it, which detection need not see: an emulated one has no driver."""


@dataclass(frozen=True)
class Target:
    """A device to measure: what is kept of it with every figure, how the benchmarks call it, and its ceilings."""

    about: dict[str, Any]
    called: str
    names: tuple[str, ...]
    kernel_version: str
    lock: dict[str, str]
    seen: bool = True
    """Whether it is known what it is; a GPU that only its runtime shows is looked at by the run itself."""


def choose(machine: Machine, device: str | int | None, wanted: Sequence[str] | None) -> tuple[Target, list[str]]:
    """The device meant and the ceilings that it has, with remarks; NotFound where there is no such thing."""
    notes = []
    if device is None and not machine.gpus:
        notes.append('No GPU is visible here: these are ceilings of the host\'s processors, device="cpu".')
    if str(device).lower() == "cpu" or (device is None and not machine.gpus):
        return _host(next(d for d in machine.devices if d.vendor == "cpu"), wanted), notes
    fitting = [d for d in machine.gpus if device is None or str(device) in _names(d)]
    if not fitting and (named := _RUNTIME.fullmatch(str(device).lower())):
        return _unseen(named[1], int(named[2] or 0), wanted), notes
    if not fitting:
        here = ", ".join(f"{d.index} ({d.vendor} {d.arch}, {d.uuid})" for d in machine.gpus[:8]) or "no GPU"
        raise NotFound(f"There is no GPU {device!r}", f"here are {here}", 'Give an index, a uuid or "cpu"')
    if device is None and len(fitting) > 1:
        notes.append(f"GPU 0 of {len(fitting)} was taken; device= takes another.")
    return _gpu(fitting[0], wanted), notes


def _host(found: Device, wanted: Sequence[str] | None) -> Target:
    from .bench import host

    about = {
        "vendor": "cpu", "device_uuid": host.identity(), "partition": host.partition(), "device": found.name,
        "gpu": "cpu", "driver": None, "compute_units": found.compute_units, "compiler": host.compiler(),
    }  # fmt: skip
    return Target(
        about, "cpu", host.chosen(wanted), host.version(), {f"cpu-{found.uuid or found.index}": "the processor"}
    )


def _gpu(found: Device, wanted: Sequence[str] | None) -> Target:
    from .bench import sources, table

    specs = table.chosen(found.arch or "", list(wanted) if wanted else None)
    about = {
        "vendor": found.vendor, "device_uuid": found.uuid or f"{found.vendor}-{found.index}",
        "partition": found.partition, "device": found.name, "gpu": found.arch, "driver": found.driver,
        "compute_units": found.compute_units,
    }  # fmt: skip
    names = together([spec.name for spec in specs], [spec.name for spec in table.ceilings(found.arch or "")])
    return Target(
        about,
        found.uuid if found.uuid and found.vendor == "nvidia" else f"{found.vendor}:{found.index}",
        (*names, _BEST) if any(name.startswith(_MEMORY) for name in names) else tuple(names),
        sources.version(),
        {f"{found.vendor}-{found.uuid or found.index}": f"GPU {found.index} ({found.vendor} {found.arch})"},
    )


def _names(found: Device) -> tuple[str | None, ...]:
    number = f"{found.vendor}:{found.index}"
    return (found.uuid, str(found.index), number, *([found.vendor] if found.index == 0 else []))


def _unseen(vendor: str, index: int, wanted: Sequence[str] | None) -> Target:
    from .bench import sources

    about = dict.fromkeys(("device_uuid", "partition", "device", "gpu", "driver", "compute_units"))
    lock = {f"{vendor}-{index}": f"GPU {index} ({vendor})"}
    return Target(
        {"vendor": vendor, **about}, f"{vendor}:{index}", tuple(wanted or ()), sources.version(), lock, seen=False
    )


def together(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """``wanted`` in the order of ``known``, with every way to use device memory where one is wanted."""
    memory = any(name.startswith(_MEMORY) for name in wanted)
    return [name for name in known if name in wanted or (memory and name.startswith(_MEMORY))]
