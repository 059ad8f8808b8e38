"""Machine code for AMD GPUs without a GPU: hiprtc in a child process, else the clang of ROCm or of the system."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...analysis.problems import MissingTool

_LIMIT_S = 120.0
_OPTIONS = ("-O3", "-fno-slp-vectorize")
"""Without the second, clang packs scalar FP32 multiply-adds where it can, which is another ceiling."""
_CLANG = (
    "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output", "-mcode-object-version=5",
)  # fmt: skip
"""Older runtimes refuse code objects of version 6, which new clangs make unasked."""


@dataclass(frozen=True)
class Code:
    """A code object and what made it."""

    image: bytes
    compiler: str


def compile_for(arch: str, source: str, defines: Mapping[str, str]) -> Code:
    """Compile for a target such as gfx942; a hiprtc that is missing, aborts or refuses is no error if clang can.

    Raises MissingTool with what each compiler said when none can.
    """
    said = []
    for compiler in (by_hiprtc, by_clang):
        try:
            return compiler(arch, source, defines)
        except MissingTool as problem:
            said.append(problem.why)
    raise MissingTool(
        f"Kernels cannot be compiled for {arch}",
        "; ".join(said),
        "Install ROCm, or a clang that knows the target (Debian: apt-get install clang-22 lld-22)",
    )


def by_hiprtc(arch: str, source: str, defines: Mapping[str, str]) -> Code:
    """Compile with hiprtc in a child process: old ones abort the process at a target they do not know."""
    options = [f"--offload-arch={arch}", *_OPTIONS, *(f"-D{k}={v}" for k, v in defines.items())]
    task = json.dumps({"source": source, "options": options})
    script = Path(__file__).with_name("hiprtc_child.py")
    try:
        done = subprocess.run(
            # -P keeps the script's own folder out of the search for modules: it holds a hip.py of ours.
            [sys.executable, "-P", str(script)],
            input=task,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingTool("hiprtc hangs", f"hiprtc took more than {_LIMIT_S:.0f} s") from error
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        raise MissingTool("hiprtc ended", f"hiprtc ended with {how} at {arch} ({_last(done.stderr)})")
    answer = json.loads(done.stdout)
    if "failure" in answer:
        raise MissingTool("hiprtc cannot compile", f"hiprtc: {answer['failure']}")
    return Code(base64.b64decode(answer["code"]), answer["version"])


def by_clang(arch: str, source: str, defines: Mapping[str, str]) -> Code:
    """Compile and link with the first clang that can; our kernels need no headers and no device library."""
    options = [*_OPTIONS, *(f"-D{name}={value}" for name, value in defines.items())]
    said = []
    for program in clangs():
        with tempfile.TemporaryDirectory(prefix="rooflens_") as folder:
            path, out = Path(folder, "kernel.hip"), Path(folder, "kernel.co")
            path.write_text(source, encoding="utf-8")
            command = [str(program), *_CLANG, f"--offload-arch={arch}", *options, str(path), "-o", str(out)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                said.append(f"{program}: {error}")
                continue
            if done.returncode == 0 and out.is_file():
                return Code(out.read_bytes(), f"clang ({program})")
            said.append(f"{program}: {_last(done.stderr)}")
    raise MissingTool("No clang can compile", "; ".join(said) or "no clang was found")


def clangs() -> list[Path]:
    """The clang of ROCm first, then those of the system from the newest."""
    rocm = [Path(root, "llvm/bin/clang") for root in (os.environ.get("ROCM_PATH"), "/opt/rocm") if root]
    names = sorted(
        {p.name for folder in os.get_exec_path() for p in Path(folder).glob("clang-[0-9]*")},
        key=lambda name: -int(m[1]) if (m := re.fullmatch(r"clang-(\d+)", name)) else 0,
    )
    system = [shutil.which(name) for name in [*(n for n in names if re.fullmatch(r"clang-\d+", n)), "clang"]]
    return [p for p in rocm if p.is_file()] + [Path(p) for p in system if p]


def _last(text: str) -> str:
    """The last error line, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1][:300]
