"""doctor: check what works on this machine, what is missing, and how to fix it."""

from __future__ import annotations

import os
import shutil

from ...analysis.base.extensions import CATALOGUE, GROUPS, READERS, Extension, extensions
from ...analysis.base.problems import Problem
from ...analysis.catalogue.files import extension_folder
from ...analysis.store.store import Store
from ...tools.device.machine import programs
from ...tools.device.machine.model import Check, Device, InstalledProfiler, Roots
from ...tools.device.machine.survey import Machine, survey
from ...tools.device.machine.sysfs import clean, path_exists
from ...tools.running.known_failures import defects_here

__all__ = ["Check", "doctor"]

_LOW_GB = 2.0
_VENDORS = {"amd": "AMD", "nvidia": "NVIDIA", "cpu": "CPU"}
_WITHOUT_GPU = (
    "profiles taken elsewhere can be imported and fully analysed; `rooflens tools` lists the tools, "
    "`rooflens demo` shows the loop on shipped samples"
)


def doctor(store: Store, *, roots: Roots | None = None) -> list[Check]:
    """Run every check. Each has a time limit, and none of them writes."""
    return examine(store, roots or Roots())[1]


def examine(store: Store, roots: Roots) -> tuple[Machine, list[Check]]:
    """The survey of the machine, and the result of every check."""
    machine = survey(roots)
    return machine, _checks(store, machine, roots)


def _checks(store: Store, machine: Machine, roots: Roots) -> list[Check]:
    vendors = {d.vendor for d in machine.gpus}
    return [
        programs.python(),
        *(programs.package(name) for name in programs.REQUIRED),
        *_store(store),
        *(_extension(extension) for group in GROUPS for extension in extensions(group)),
        *programs.extras(programs.READER_EXTRAS),
        *_gpus(machine),
        *_access(machine),
        *_settings(machine),
        *(_profiler(p, machine) for p in machine.profilers),
        *_defects(machine),
        *(Check(name="note", state="warning", found=note) for note in machine.notes),
        programs.hip("amd" in vendors),
        *([*programs.extras(programs.CUDA_EXTRAS), programs.nvcc(roots)] if "nvidia" in vendors else []),
        *(programs.kernels(gpu) for gpu in {gpu.arch: gpu for gpu in reversed(machine.gpus)}.values() if gpu.supported),
        Check(name="without a GPU", state="ok", found=_WITHOUT_GPU),
    ]


def _store(store: Store) -> list[Check]:
    """Check whether the store can be read and written, its free space, and its damaged entries."""
    elsewhere = "Use another store with --store or ROOFLENS_STORE"
    place = store.root
    while not path_exists(place) and place != place.parent:
        place = place.parent
    copies = f"{store.address}, copies in " if store.address != str(store.root) else ""
    where = f"{copies}{store.root}" + ("" if place == store.root else " (made at the first import)")
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        checks = [Check(name="store", state="ok", found=f"{where}, writable")]
    else:
        checks = [Check(name="store", state="warning", found=f"{where}: {place} cannot be written", fix=elsewhere)]
    free = shutil.disk_usage(place).free / 1e9
    low = free < _LOW_GB
    checks.append(_judge_check("free space", not low, f"{free:.1f} GB", elsewhere if low else ""))
    try:
        known, broken = store.scan()
    except Problem as problem:
        return [*checks, Check(name="workloads", state="warning", found=problem.text, fix=elsewhere)]
    checks.append(Check(name="workloads", state="ok", found=f"{len(known)} readable"))
    fix = "Import the profile again, or delete the entry"
    return checks + [Check(name="damaged entry", state="warning", found=clean(line, 200), fix=fix) for line in broken]


def _extension(extension: Extension) -> Check:
    """Check whether an extension can be loaded."""
    name = f"extension {extension.name} ({extension.group.removeprefix('rooflens.')})"
    try:
        contents = _contents(extension)
    except Problem as problem:
        return Check(name=name, state="warning", found=f"{problem.what}: {problem.why}", fix=problem.fix)
    found = f"{extension.package} {extension.version}: {clean(str(contents), 200)}"
    return Check(name=name, state="ok", found=found)


def _contents(extension: Extension) -> object:
    """Describe what an extension adds: a folder, the files that it reads, or the profiler that it runs."""
    if extension.group == CATALOGUE:
        return extension_folder(extension)
    added = extension.load()
    return added.files if extension.group == READERS else f"{added.NAME} for {added.VENDOR}"


def _gpus(machine: Machine) -> list[Check]:
    if machine.gpus:
        return [_gpu(device) for device in machine.gpus]
    fix = "Profile on a node with a GPU and import the result"
    return [Check(name="GPU", state="missing", found="none visible", fix=fix)]


def _gpu(device: Device) -> Check:
    unit = "CUs" if device.vendor == "amd" else "SMs"
    facts = [
        device.name,
        device.arch,
        f"{device.compute_units} {unit}" if device.compute_units else None,
        f"{device.memory_bytes / 1e9:.0f} GB ({device.memory_bytes / 2**30:.0f} GiB)" if device.memory_bytes else None,
        device.partition,
        device.driver,
    ]
    facts_text = ", ".join(fact for fact in facts if fact) or "it is unknown"
    name = f"GPU {device.index} ({_VENDORS[device.vendor]})"
    if device.supported:
        return Check(name=name, state="ok", found=facts_text)
    facts_text = f"{facts_text}; rooflens has no metrics for it"
    return Check(
        name=name, state="warning", found=facts_text, fix="The resource rooflens://metrics lists the known targets"
    )


def _access(machine: Machine) -> list[Check]:
    """Check whether this machine permits us to read counters, whatever profiler is installed."""
    return [
        _judge_check(
            f"counters ({_VENDORS[vendor]})",
            verdict.usable is True and verdict.fix is None,
            verdict.why or ("permitted" if verdict.usable else "not permitted"),
            verdict.fix or "",
        )
        for vendor, verdict in machine.verdicts.items()
    ]


def _settings(machine: Machine) -> list[Check]:
    """Check the settings of the host that AMD GPUs depend on, each with the command that changes it."""
    return [
        _judge_check(
            f"setting {one.code}" + ("" if one.device is None else f" (GPU {one.device})"), one.sound, one.text, one.fix
        )
        for one in machine.settings
    ]


def _defects(machine: Machine) -> list[Check]:
    """Name the known defects of the installed versions of profilers."""
    return [
        Check(
            name=f"known defect {defect.code}",
            state="warning",
            found=f"{profiler.name} {profiler.version}: {defect.what} ({defect.source})",
            fix=f"{defect.instead}. {defect.mending}",
        )
        for profiler, defect in defects_here(machine)
    ]


def _profiler(profiler: InstalledProfiler, machine: Machine) -> Check:
    name, why, fix = profiler.name, profiler.why, profiler.fix or ""
    if profiler.path is None:
        return Check(name=name, state="missing", found=why or "not installed", fix=fix)
    version = " ".join(part for part in (profiler.version, profiler.release and f"({profiler.release})") if part)
    facts_text = f"{version or 'version unknown'}, {profiler.path}"
    # A remark without a fix is not an error.
    sound = profiler.usable is True and not fix
    verdict = machine.verdicts.get(profiler.vendor)
    if verdict and verdict.why and name not in machine.broken:
        # The permissions of the machine have a separate check, with the fix.
        return _judge_check(name, sound, f"{facts_text}; see counters ({_VENDORS[profiler.vendor]})")
    return _judge_check(name, sound, f"{facts_text}; {why}" if why else facts_text, fix)


def _judge_check(name: str, sound: bool, observed: str, fix: str = "") -> Check:
    return Check(name=name, state="ok" if sound else "warning", found=observed, fix=fix)
