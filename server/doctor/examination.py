"""doctor: check what works on this machine, what is missing, and how to fix it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tomli

from ...analysis.base.extensions import CATALOGUE, GROUPS, READERS, Extension, extensions
from ...analysis.base.problems import Problem, join_sentences
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import targets
from ...analysis.catalogue.files import VARIABLE, extension_folder
from ...analysis.store.store import Store
from ...tools.answers.sentences import sentence
from ...tools.device.machine import programs
from ...tools.device.machine.model import Check, Device, InstalledProfiler, Roots
from ...tools.device.machine.survey import Machine, survey
from ...tools.device.machine.sysfs import clean, path_exists
from ...tools.running.known_failures import defects_here
from ..terminal.wording import problem

_LOW_GB = 2.0
_OTHER_STORE = "Use another store with --store or ROOFLENS_STORE"
_VENDORS = {"amd": "AMD", "nvidia": "NVIDIA", "cpu": "CPU"}
_WITHOUT_GPU = (
    "profiles taken elsewhere can be imported and fully analysed; `rooflens tools` lists the tools, "
    "`rooflens demo` shows the loop on shipped samples"
)


def examine(store: Store, roots: Roots) -> tuple[Machine, list[Check]]:
    """The survey of the machine, and the result of every check. Each has a time limit, and none of them writes."""
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
        *(
            # What this machine permits us to read, whatever profiler is installed.
            _judge_check(
                f"counters ({_VENDORS[vendor]})",
                verdict.usable is True and verdict.fix is None,
                verdict.why or ("permitted" if verdict.usable else "not permitted"),
                verdict.fix or "",
            )
            for vendor, verdict in machine.verdicts.items()
        ),
        *(
            _judge_check(
                f"setting {s.code}" + ("" if s.device is None else f" (GPU {s.device})"), s.sound, s.text, s.fix
            )
            for s in machine.settings
        ),
        *(_profiler(p, machine) for p in machine.profilers),
        *(
            _judge_check(
                f"known defect {defect.code}",
                False,
                f"{profiler.name} {profiler.version}: {defect.what} ({defect.source})",
                join_sentences(defect.mending, defect.instead),
            )
            for profiler, defect in defects_here(machine)
        ),
        *(_judge_check("note", False, note) for note in machine.notes),
        programs.hip("amd" in vendors),
        *([*programs.extras(programs.CUDA_EXTRAS), programs.nvcc(roots)] if "nvidia" in vendors else []),
        *(programs.kernels(gpu) for gpu in {gpu.arch: gpu for gpu in reversed(machine.gpus)}.values() if gpu.supported),
        _judge_check("without a GPU", True, _WITHOUT_GPU),
    ]


def draft_target(machine: Machine) -> tuple[str, str]:
    """Return the first GPU target of the machine that has no file, and the draft of its file as TOML.

    The draft can be used as it stands if a near target exists, whose formulas it takes. Raises NotFound if every GPU
    has a file.
    """
    known = targets.targets()
    unknown = next((gpu for gpu in machine.gpus if gpu.arch and gpu.arch not in known), None)
    if unknown is None or unknown.arch is None:
        here = ", ".join(sorted({gpu.arch or "an unknown target" for gpu in machine.gpus})) or "no GPU is visible"
        raise problem("no_unknown_gpu", here=here)
    stated = Counter(machine.limits.get((unknown.vendor, unknown.index), {}))
    return unknown.arch, _draft(unknown.arch, unknown, stated)


def _draft(target: str, gpu: Device, stated: Counter[str]) -> str:
    """Return the file of a target: the near target whose formulas it takes, what the driver states, and in comments
    what must be looked up."""
    like = targets.nearest(target, catalog.targets_with_metrics())
    near = targets.gpu(like) if like else None
    name = gpu.name or target
    limits = "".join(f"{block} = {number}\n" for block, number in near.counter_limits.items()) if near else ""
    text = sentence(
        "draft.head",
        target=target,
        variable=VARIABLE,
        vendor=gpu.vendor,
        family=near.family if near else "unknown",
        like=sentence("draft.like" if like else "draft.unlike", like=like),
        name=json.dumps(name),
        brand='brand = "AMD"\n' if gpu.vendor == "amd" else "",
    )
    if "device_id" in stated:
        text += sentence("draft.pci", id=stated["device_id"], name=json.dumps(name.removeprefix("AMD ")))
    if limits:
        text += sentence("draft.registers", like=like, limits=limits)
    occupancy = ["".join([sentence("draft.occupancy"), *_driver_figures("limit", stated)])]
    if gpu.vendor == "amd" or like is None:
        occupancy = [sentence("draft.no_occupancy")]
    return "\n".join([text, *_driver_figures("fact", stated), *occupancy, _sheet(target, gpu, stated)])


def _driver_figures(kind: str, stated: Counter[str]) -> Iterator[str]:
    """Yield the facts or limits of the catalogue that the driver states (draft.toml)."""
    warps = stated["threads_per_sm"] // stated.get("warp_size", 32)
    waves = stated["simd_per_cu"] * stated["max_waves_per_simd"]
    figures = {**stated, "warps": warps, "warps_per_partition": warps // 4, "waves": waves}
    driver = "the driver of a machine with this GPU (rooflens doctor --draft)"
    for key, source, unit in tomli.loads(Path(__file__).with_name("draft.toml").read_text(encoding="utf-8"))[kind]:
        if value := figures.get(source):
            yield sentence(f"draft.{kind}", key=key, value=value, unit=unit, driver=driver)


def _sheet(target: str, gpu: Device, stated: Counter[str]) -> str:
    """Return, as comments, the file of the product with what the driver states and what its data sheet must add."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", gpu.name or target) if word][-2:]
    memory = stated["mem_clk_max"] or stated["memory_khz"] // 1000
    width = stated["width"] or stated["bus_bits"]
    given = {"cu_per_gpu": gpu.compute_units, "max_sclk": gpu.clock_max_mhz, "max_mclk": memory}
    facts = "".join(f"# [facts.{name}]\n# value = {value}\n" for name, value in given.items() if value)
    return sentence(
        "draft.sheet",
        file="_".join(words).lower(),
        title=json.dumps(gpu.name or target),
        target=target,
        names=json.dumps([word.upper() for word in words]),
        facts=facts,
        width=f" (the driver states {width} bits)" if width else "",
    )


def _store(store: Store) -> list[Check]:
    """Check whether the store can be read and written, its free space, and its damaged entries."""
    place = next(folder for folder in (store.root, *store.root.parents) if path_exists(folder))
    copies = f"{store.address}, copies in " if store.address != str(store.root) else ""
    where = f"{copies}{store.root}" + ("" if place == store.root else " (made at the first import)")
    writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    state = ", writable" if writable else f": {place} cannot be written"
    free = shutil.disk_usage(place).free / 1e9
    checks = [
        _judge_check("store", writable, f"{where}{state}", _OTHER_STORE),
        _judge_check("free space", free >= _LOW_GB, f"{free:.1f} GB", _OTHER_STORE),
    ]
    try:
        known, broken = store.scan()
    except Problem as problem:
        return [*checks, _judge_check("workloads", False, problem.text, _OTHER_STORE)]
    checks.append(_judge_check("workloads", True, f"{len(known)} readable"))
    fix = "Import the profile again, or delete the entry"
    return checks + [_judge_check("damaged entry", False, clean(line, 200), fix) for line in broken]


def _extension(extension: Extension) -> Check:
    """Check whether an extension can be loaded."""
    name = f"extension {extension.name} ({extension.group.removeprefix('rooflens.')})"
    try:
        contents = _contents(extension)
    except Problem as problem:
        return _judge_check(name, False, f"{problem.what}: {problem.why}", problem.fix)
    return _judge_check(name, True, f"{extension.package} {extension.version}: {clean(str(contents), 200)}")


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
        return _judge_check(name, True, facts_text)
    facts_text = f"{facts_text}; rooflens has no metrics for it, only times, timelines and hotspots"
    fix = "The resource rooflens://metrics lists the known targets"
    if device.arch and device.arch not in targets.targets():
        fix = catalog.how_to_add(device.arch)
    return _judge_check(name, False, facts_text, fix)


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
    return Check(name=name, state="ok" if sound else "warning", found=observed, fix="" if sound else fix)
