"""Find the installed profilers, their versions, and whether they can read counters."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pydantic

from ....analysis.base.extensions import DRIVERS, extensions
from ....analysis.base.problems import BadInput
from ....analysis.catalogue import files
from ...base.profile_files import natural_sort_key
from .model import InstalledProfiler, Roots, Vendor
from .permissions import CounterPermission
from .programs import ask, find
from .sysfs import clean, read

_TIMEOUT_S = 10.0
_ROCM = ("opt/rocm/bin", "opt/rocm-*/bin")
_VENDORS = {"amd": "AMD GPU", "nvidia": "NVIDIA GPU", "cpu": "processor"}
_OTHERS = 4


@dataclass(frozen=True)
class ProfilerProgram:
    """A profiler that rooflens can run or import from."""

    name: str
    vendor: Vendor
    places: tuple[str, ...]
    version: str
    """Pattern of the version in the output of --version."""
    install: str | None = None
    """How to install it; given only for the most important profiler of each vendor."""
    must_answer: bool = False
    """Whether a failing --version means that it does not work; old versions of rocprofv3 lack the option."""


PROGRAMS = {
    entry["name"]: pydantic.TypeAdapter(ProfilerProgram).validate_python(entry)
    for entry in files.load(Path(__file__).with_suffix(".toml"))["program"]
}
"""The programs of our own drivers, and rocprof-compute, whose results are imported."""


def programs() -> list[ProfilerProgram]:
    """Return the programs to look for on a machine: ours, then those that the drivers of extensions name."""
    known = dict(PROGRAMS)
    for extension in extensions(DRIVERS):
        with suppress(BadInput):
            known.setdefault(extension.name, extension.load().PROGRAM)
    return list(known.values())


def detect(program: ProfilerProgram, roots: Roots, timeout_s: float = _TIMEOUT_S) -> InstalledProfiler | None:
    """Return a profiler with its version; ``usable`` is still None, or False if it fails. None if not installed."""
    paths = find(program.name, roots, program.places)
    if not paths:
        return None
    answer = ask([str(paths[0]), "--version"], timeout_s)
    hit = re.search(program.version, answer.out + "\n" + answer.err, re.MULTILINE)
    complaint = None if hit else f"{program.name} --version {answer.complaint or 'printed no version'}"
    broken = complaint and (answer.failure or (program.must_answer and answer.code != 0))
    return InstalledProfiler(
        name=program.name,
        vendor=program.vendor,
        path=str(paths[0]),
        version=clean(hit[1], 40) if hit else None,
        release=_release(paths[0]) if program.places == _ROCM else None,
        usable=False if broken else None,
        why=complaint,
        fix=f"Run {paths[0]} --version by hand and repair the installation" if broken else None,
        others=[str(path) for path in paths[1 : 1 + _OTHERS]],
    )


def find_installed(roots: Roots, timeout_s: float = _TIMEOUT_S) -> list[InstalledProfiler]:
    """Return every installed profiler; their versions are queried in parallel."""
    sought = programs()
    with ThreadPoolExecutor(max_workers=len(sought)) as pool:
        return [p for p in pool.map(lambda program: detect(program, roots, timeout_s), sought) if p]


def rocm(roots: Roots) -> str | None:
    """Return the newest ROCm installed here, as "ROCm 6.3.0 (/opt/rocm-6.3.0)", or None."""
    folders = [path for place in _ROCM for path in roots.base.glob(place.removesuffix("/bin")) if path.is_dir()]
    if not folders:
        return None
    newest = max(folders, key=lambda path: natural_sort_key(path.name))
    return f"{_release(newest / 'bin' / 'any') or 'ROCm'} ({newest})"


def judge_profilers(
    profilers: list[InstalledProfiler], verdicts: dict[Vendor, CounterPermission], installed_rocm: str | None = None
) -> list[InstalledProfiler]:
    """Return the profilers with their permissions, and the important missing ones as not installed.

    ``verdicts`` has an entry for each vendor with a device; ``installed_rocm`` is the release that AMD's profilers can
    be added to.
    """
    release = next((p.release for p in profilers if p.release), installed_rocm)
    installed = {p.name: p for p in profilers}
    judged = []
    for program in programs():
        if profiler := installed.get(program.name):
            judged.append(_judge_profiler(profiler, verdicts.get(profiler.vendor)))
        elif program.install and program.vendor in verdicts:
            absent = InstalledProfiler(
                name=program.name,
                vendor=program.vendor,
                usable=False,
                why="not installed: neither on PATH nor in the usual places",
                fix=_advice(program, release),
            )
            judged.append(absent)
    return judged


def _advice(program: ProfilerProgram, rocm_here: str | None) -> str | None:
    """Advise how to install a profiler; AMD's are part of ROCm, which may be missing altogether."""
    if program.vendor != "amd":
        return program.install
    if rocm_here is None:
        return "Install ROCm with its rocprofiler-sdk, which contains rocprofv3; no ROCm was found here"
    return f"{program.install} of {rocm_here}"


def _judge_profiler(profiler: InstalledProfiler, verdict: CounterPermission | None) -> InstalledProfiler:
    if profiler.usable is False:
        return profiler
    if verdict is None:
        verdict = CounterPermission(
            False,
            f"no {_VENDORS[profiler.vendor]} is visible here",
            "Profile on a node that has one, then import_profile here",
        )
    return profiler.model_copy(
        update={"usable": verdict.usable, "why": verdict.why or profiler.why, "fix": verdict.fix or profiler.fix}
    )


def _release(path: Path) -> str | None:
    """Return the ROCm release stated next to a program, as in /opt/rocm-6.3.0/.info/version."""
    text = read(path.resolve().parent.parent / ".info" / "version") or read(path.parent.parent / ".info" / "version")
    return clean(f"ROCm {text}", 40) if text else None
