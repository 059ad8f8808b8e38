"""Checks of the Python side: the interpreter, required packages, and optional bindings."""

from __future__ import annotations

import re
import sys
from importlib import metadata

from .files import clean
from .model import Check
from .programs import ask

REQUIRED = ("mcp", "pydantic", "duckdb", "pandas", "matplotlib")
_CUDA_EXTRAS = {"cuda-bindings": "peak benchmarks on NVIDIA GPUs", "ncu-report": "reading .ncu-rep files"}
_IMPORT_S = 20.0
_HIP = "from hip import hip; print('imported', flush=True); print(hip.hipRuntimeGetVersion()[-1])"


def python() -> Check:
    """The interpreter: an older one than the package asks for could not have come this far."""
    return Check(name="Python", state="ok", found=f"{sys.version.split()[0]} ({sys.executable})")


def package(name: str) -> Check:
    """A required package: installed, and within the bounds that rooflens itself declares."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name=name, state="missing", found="not installed", fix=f"pip install {name}")
    bounds = _bounds(name)
    if all(_holds(version, sign, limit) for sign, limit in bounds):
        return Check(name=name, state="ok", found=version)
    wanted = ",".join(sign + limit for sign, limit in bounds)
    found = f"{version}, but rooflens asks for {wanted}"
    return Check(name=name, state="warning", found=found, fix=f"pip install '{name}{wanted}'")


def hip(needed: bool) -> Check:
    """hip-python, imported in a child process: it loads the ROCm runtime, which may print, fail or crash."""
    answer = ask([sys.executable, "-P", "-c", _HIP], _IMPORT_S)
    lines = [clean(line, 160) for line in (answer.err or answer.out).splitlines() if line.strip()]
    if "imported" not in answer.out:
        found = f"not importable ({lines[-1] if lines else answer.complaint}); peak benchmarks on AMD GPUs need it"
        fix = "pip install hip-python, in the version that matches your ROCm"
    elif answer.code == 0:
        version = re.search(r"(\d+)\s*$", answer.out)
        return Check(name="hip-python", state="ok", found=f"importable, HIP runtime {version[1] if version else '?'}")
    else:
        found = "importable; the HIP runtime (libamdhip64) cannot be used here"
        fix = "Install the ROCm runtime, or name its lib folder in LD_LIBRARY_PATH"
    # Without an AMD GPU nobody misses it.
    return Check(name="hip-python", state="missing" if needed else "ok", found=found, fix=fix if needed else "")


def cuda_extras() -> list[Check]:
    """The packages of the extra ``cuda``; they are looked up, not imported."""
    checks = []
    for name, use in _CUDA_EXTRAS.items():
        try:
            checks.append(Check(name=name, state="ok", found=metadata.version(name)))
        except metadata.PackageNotFoundError:
            found = f"not installed; needed for {use}"
            checks.append(Check(name=name, state="missing", found=found, fix="pip install 'rooflens[cuda]'"))
    return checks


def _bounds(name: str) -> list[tuple[str, str]]:
    """The bounds of our own package metadata on another package, as (sign, version) pairs."""
    try:
        needs = metadata.requires("rooflens") or []
    except metadata.PackageNotFoundError:
        return []
    line = next((need for need in needs if re.match(rf"{re.escape(name)}(?![\w.-])", need)), "")
    return re.findall(r"(>=|<)\s*(\d[\d.]*)", line.partition(";")[0])


def _holds(version: str, sign: str, limit: str) -> bool:
    have, want = (tuple(int(n) for n in re.findall(r"\d+", text)[:3]) for text in (version, limit))
    return have >= want if sign == ">=" else have < want
