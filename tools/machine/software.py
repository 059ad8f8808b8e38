"""Checks of the Python side: the interpreter, required packages, and optional bindings."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata

from .files import clean
from .model import Check, Device, Roots
from .programs import ask, find

REQUIRED = ("mcp", "pydantic", "duckdb", "pandas", "matplotlib")
_CUDA_EXTRAS = {"cuda-bindings": "peak benchmarks on NVIDIA GPUs", "ncu-report": "reading .ncu-rep files"}
_CUDA = ("usr/local/cuda/bin", "usr/local/cuda-*/bin")
_IMPORT_S = 20.0
_TRIAL_S = 90.0
_TRIAL = f"{__package__.partition('.')[0]}.tools.benchmarks.trial"
"""Run as a module, as a machine's software is not to import what the benchmarks need."""
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


def readable_version(number: int) -> str:
    """HIP's version from what its runtime tells: 50221153 is 5.2.21153."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def hip(needed: bool) -> Check:
    """hip-python, imported in a child process: it loads the ROCm runtime, which may print, fail or crash."""
    answer = ask([sys.executable, "-P", "-c", _HIP], _IMPORT_S)
    lines = [clean(line, 160) for line in (answer.err or answer.out).splitlines() if line.strip()]
    if "imported" not in answer.out:
        found = f"not importable ({lines[-1] if lines else answer.complaint}); peak benchmarks on AMD GPUs need it"
        fix = "pip install hip-python, in the version that matches your ROCm"
    elif answer.code == 0:
        version = re.search(r"(\d{1,12})\s*$", answer.out)
        told = readable_version(int(version[1])) if version else "of unknown version"
        return Check(name="hip-python", state="ok", found=f"importable, HIP runtime {told}")
    else:
        found = "importable; the HIP runtime (libamdhip64) cannot be used here"
        fix = "Install the ROCm runtime, or name its lib folder in LD_LIBRARY_PATH"
    # Without an AMD GPU nobody misses it.
    return Check(name="hip-python", state="missing" if needed else "ok", found=found, fix=fix if needed else "")


def kernels(gpu: Device) -> Check:
    """Whether kernels for a GPU can be compiled here and launched on it, tried in a child process."""
    arch = gpu.arch or ""
    name = f"kernels for {arch}"
    words = [gpu.vendor, arch, f"{gpu.vendor}:{gpu.index}"]
    answer = ask([sys.executable, "-P", "-m", _TRIAL, *words], _TRIAL_S)
    lines = [line for line in answer.out.splitlines() if line.startswith("{")]
    if not lines:
        found = f"could not be tried: the process that compiles them {answer.complaint or 'told nothing'}"
        return Check(name=name, state="warning", found=clean(found, 300))
    tried = json.loads(lines[-1])
    if tried["compiler"] is None:
        found = f"cannot be compiled ({clean(tried['why'], 400)})"
        return Check(name=name, state="missing", found=found, fix=tried["fix"])
    compiled = f"compiled by {tried['compiler']}"
    if tried["launched"]:
        return Check(name=name, state="ok", found=f"{compiled}, and launched")
    failed = "launching one failed" if tried["launched"] is False else "launching could not be tried"
    found = f"{compiled}; {failed} ({clean(tried['why'], 400)})"
    return Check(name=name, state="warning", found=found, fix=tried["fix"])


def nvcc(roots: Roots) -> Check:
    """The compiler of the CUDA toolkit, which the recorder of launches and examples/kernels need."""
    found = find("nvcc", roots, _CUDA)
    if not found:
        fix = "Install the CUDA toolkit, or name its bin folder in PATH"
        return Check(name="nvcc", state="missing", found="not found; recording launches needs it", fix=fix)
    answer = ask([str(found[0]), "--version"], _IMPORT_S)
    version = re.search(r"release\s+([\d.]+)", answer.out)
    told = version[1] if version else f"version unknown ({answer.complaint or 'it told none'})"
    return Check(name="nvcc", state="ok" if version else "warning", found=f"{told}, {found[0]}")


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
