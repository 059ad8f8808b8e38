"""Find programs and query them, with limits on time and output."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ....analysis.base.extensions import install_command
from ....analysis.base.problems import command_advice
from ...base.profile_files import natural_sort_key
from .model import Check, Device, Roots
from .sysfs import clean

_OUTPUT_BYTES = 1 << 18
_POLL_S = 0.005
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "ROCM_PATH", "ROCM_HOME", "CUDA_HOME")
"""Environment variables that a queried program may see; none of them contains a secret."""


@dataclass(frozen=True)
class ProgramAnswer:
    """How a program ended. ``failure`` states why there is no exit status."""

    code: int | None
    out: str = ""
    err: str = ""
    failure: str = ""

    @property
    def complaint(self) -> str:
        """One line about what went wrong; empty after success."""
        if self.failure or self.code == 0:
            return self.failure
        lines = [line for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        said = f": {clean(lines[0], 200)}" if lines else ""
        return f"ended with status {self.code}{said}"


def find(name: str, roots: Roots, places: tuple[str, ...] = ()) -> list[Path]:
    """Return every copy of a program: first those on the search path, then those in ``places``, newest release first.

    ``places`` are glob patterns of folders below ``roots.base``. Paths that resolve to the same file count once.
    """
    search = os.environ.get("PATH", "") if roots.search is None else roots.search
    # A relative PATH entry would run a program from whatever folder the server was started in.
    folders = [Path(entry) for entry in search.split(os.pathsep) if entry.startswith("/")]
    for place in places:
        folders += sorted(roots.base.glob(place), key=lambda p: natural_sort_key(str(p)), reverse=True)
    if roots.site is not None:
        folders.append(roots.site / "_rocm_sdk_core" / "bin")
    copies: dict[Path, Path] = {}
    for folder in folders:
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            copies.setdefault(path.resolve(), path)
    return list(copies.values())


def ask(argv: list[str], timeout_s: float) -> ProgramAnswer:
    """Run a program that should answer at once, without input or a shell and with a minimal environment.

    It waits hardly longer than ``timeout_s`` seconds: then the whole process group is killed. A program that does
    not end even then (because a driver hangs in the kernel) is left behind.
    """
    env = {k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | {"LC_ALL": "C.UTF-8"}
    # Files in memory, unlike pipes, are complete when the child has ended, also if a grandchild keeps them open.
    with open(os.memfd_create("out"), "rb") as out, open(os.memfd_create("err"), "rb") as err:  # noqa: PTH123
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd="/", start_new_session=True
            )
        except OSError as error:
            return ProgramAnswer(None, failure=f"could not be started ({error.strerror or error})")
        deadline, ended, failure = time.monotonic() + timeout_s, False, ""
        while not ended and not failure:
            time.sleep(_POLL_S)
            ended = _has_ended(child.pid)
            if max(os.fstat(file.fileno()).st_size for file in (out, err)) > _OUTPUT_BYTES:
                failure = "printed too much output"
            elif not ended and time.monotonic() > deadline:
                failure = f"did not answer within {timeout_s:g} s"
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(1)
        said = [os.pread(file.fileno(), _OUTPUT_BYTES, 0).decode("utf-8", "replace") for file in (out, err)]
    if code is None and not failure:
        failure = "did not end"
    return ProgramAnswer(None if failure else code, said[0], said[1], failure)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended. It is not reaped, so that its process group id cannot be reused before the kill."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        # Something else reaped it, for example because the embedding process ignores SIGCHLD.
        return True


REQUIRED = ("mcp", "pydantic", "duckdb", "pandas", "matplotlib")
CUDA_EXTRAS = {"cuda-bindings": "peak benchmarks on NVIDIA GPUs"}
READER_EXTRAS = {
    "ncu-report": "reading .ncu-rep files",
    "py-spy": "stacks of the host while a program is profiled",
    "boto3": "stores in S3",
    "duckdb-extension-ducklake": "stores with a DuckLake catalogue",
}
"""Optional packages that any machine can use, with or without a GPU."""
_CUDA = ("usr/local/cuda/bin", "usr/local/cuda-*/bin")
_IMPORT_S = 20.0
_TRIAL_S = 90.0
_TRIAL = f"{__package__.partition('.')[0]}.tools.device.benchmarks.launch_trial"
"""Run as a module, because this package must not import what the benchmarks need."""
_HIP = "from hip import hip; print('imported', flush=True); print(hip.hipRuntimeGetVersion()[-1])"


def python() -> Check:
    """Check the interpreter: the package cannot be installed with one that is too old."""
    return Check(name="Python", state="ok", found=f"{sys.version.split()[0]} ({sys.executable})")


def package(name: str) -> Check:
    """Check a required package: it is installed, and within the version bounds that rooflens declares."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name=name, state="missing", found="not installed", fix=install_command(name))
    bounds = _bounds(name)
    if all(_holds(version, sign, limit) for sign, limit in bounds):
        return Check(name=name, state="ok", found=version)
    bounds_text = ",".join(sign + limit for sign, limit in bounds)
    description = f"{version}, but rooflens requires {bounds_text}"
    return Check(name=name, state="warning", found=description, fix=install_command(name + bounds_text))


def readable_version(number: int) -> str:
    """Format the version number of the HIP runtime: 50221153 is 5.2.21153."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def hip(needed: bool) -> Check:
    """Check hip-python in a child process, because it loads the ROCm runtime, which may print, fail or crash."""
    answer = ask([sys.executable, "-P", "-c", _HIP], _IMPORT_S)
    lines = [clean(line, 160) for line in (answer.err or answer.out).splitlines() if line.strip()]
    if "imported" not in answer.out:
        description = (
            f"not importable ({lines[-1] if lines else answer.complaint}); peak benchmarks on AMD GPUs need it"
        )
        fix = command_advice("Install it in the version that matches your ROCm", install_command("hip-python"))
    elif answer.code == 0:
        version = re.search(r"(\d{1,12})\s*$", answer.out)
        runtime_version = readable_version(int(version[1])) if version else "of unknown version"
        return Check(name="hip-python", state="ok", found=f"importable, HIP runtime {runtime_version}")
    else:
        description = "importable; the HIP runtime (libamdhip64) cannot be used here"
        fix = "Install the ROCm runtime, or add its lib folder to LD_LIBRARY_PATH"
    # Without an AMD GPU it is not needed.
    return Check(name="hip-python", state="missing" if needed else "ok", found=description, fix=fix if needed else "")


def kernels(gpu: Device) -> Check:
    """Check in a child process whether kernels for a GPU can be compiled here and launched on it."""
    arch = gpu.arch or ""
    name = f"kernels for {arch}"
    answer = ask([sys.executable, "-P", "-m", _TRIAL, gpu.vendor, arch, f"{gpu.vendor}:{gpu.index}"], _TRIAL_S)
    lines = [line for line in answer.out.splitlines() if line.startswith("{")]
    if not lines:
        description = f"could not be tried: the compiling process {answer.complaint or 'printed nothing'}"
        return Check(name=name, state="warning", found=clean(description, 300))
    trial = json.loads(lines[-1])
    if trial["compiler"] is None:
        description = f"cannot be compiled ({clean(trial['why'], 400)})"
        return Check(name=name, state="missing", found=description, fix=trial["fix"])
    made_by = f"compiled by {trial['compiler']}"
    if trial["launched"]:
        return Check(name=name, state="ok", found=f"{made_by}, and launched")
    launch_state = "launching one failed" if trial["launched"] is False else "launching could not be tried"
    description = f"{made_by}; {launch_state} ({clean(trial['why'], 400)})"
    return Check(name=name, state="warning", found=description, fix=trial["fix"])


def nvcc(roots: Roots) -> Check:
    """Check the compiler of the CUDA toolkit, which the launch recorder and examples/kernels need."""
    copies = find("nvcc", roots, _CUDA)
    if not copies:
        fix = "Install the CUDA toolkit, or add its bin folder to PATH"
        return Check(name="nvcc", state="missing", found="not found; recording launches needs it", fix=fix)
    answer = ask([str(copies[0]), "--version"], _IMPORT_S)
    version = re.search(r"release\s+([\d.]+)", answer.out)
    version_text = version[1] if version else f"version unknown ({answer.complaint or 'it printed none'})"
    return Check(name="nvcc", state="ok" if version else "warning", found=f"{version_text}, {copies[0]}")


def extras(uses: Mapping[str, str]) -> list[Check]:
    """Check optional packages, each with what it is needed for; they are looked up, not imported."""
    checks = []
    for name, use in uses.items():
        try:
            checks.append(Check(name=name, state="ok", found=metadata.version(name)))
        except metadata.PackageNotFoundError:
            description = f"not installed; needed for {use}"
            checks.append(Check(name=name, state="missing", found=description, fix=install_command(name)))
    return checks


def _bounds(name: str) -> list[tuple[str, str]]:
    """Return the bounds on a package in rooflens' own metadata, as (operator, version) pairs."""
    try:
        needs = metadata.requires("rooflens") or []
    except metadata.PackageNotFoundError:
        return []
    line = next((need for need in needs if re.match(rf"{re.escape(name)}(?![\w.-])", need)), "")
    return re.findall(r"(>=|<)\s*(\d[\d.]*)", line.partition(";")[0])


def _holds(version: str, sign: str, limit: str) -> bool:
    have, want = (tuple(int(n) for n in re.findall(r"\d+", text)[:3]) for text in (version, limit))
    return have >= want if sign == ">=" else have < want
