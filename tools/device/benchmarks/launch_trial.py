"""Tests in a child process, because a runtime may crash, whether a GPU can compile and launch an empty kernel.

Arguments: vendor, target, and the device as named by run_peak_benchmarks. Prints one line of JSON, a Trial.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from ....analysis.base.problems import Problem
from . import cuda, hip, specs
from . import gpu as run
from .runtime import settle


@dataclass(frozen=True)
class Trial:
    """``compiler`` is None if nothing compiles; ``launched`` is None if no device could be opened."""

    compiler: str | None = None
    launched: bool | None = None
    why: str = ""
    fix: str = ""


def trial(vendor: str, arch: str, device: str) -> Trial:
    """Compile for the target, then open the device and launch there. Never raises a Problem."""
    source = specs.text("launch.cu")
    try:
        compiler = _compile(vendor, arch, source)
    except (Problem, RuntimeError) as problem:
        # Runtime bindings raise RuntimeError for functions that an older library lacks.
        return Trial(why=getattr(problem, "why", "") or str(problem), fix=getattr(problem, "fix", ""))
    try:
        gpu = run.open_device(device)
    except (Problem, RuntimeError) as problem:
        return Trial(compiler, why=str(problem))
    try:
        kernel = gpu.kernel(gpu.load(gpu.compile(source, {})), "empty", 0)
        gpu.launch(kernel, 1, 64, 0, (0,) * 6)
        settle(gpu)
    except (Problem, RuntimeError) as problem:
        return Trial(gpu.device.compiler or compiler, False, str(problem), getattr(problem, "fix", ""))
    return Trial(gpu.device.compiler or compiler, True)


def _compile(vendor: str, arch: str, source: str) -> str:
    """Return what compiled the kernel; no device is opened for it."""
    if vendor == "amd":
        return hip.compile_for(arch, source, {}).compiler
    _, nvrtc = cuda.modules()
    cuda.compile_for(nvrtc, arch, source, {})
    return f"NVRTC {'.'.join(str(part) for part in nvrtc.nvrtcVersion()[1:])}"


if __name__ == "__main__":
    print(json.dumps(asdict(trial(*sys.argv[1:4]))))
