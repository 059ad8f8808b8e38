"""Static proof of a kernel: its hot loop, disassembled, holds what peaks.toml says and nothing that it must not."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.occupancy import occupancy
from rooflens.tools.code_objects.kernels import CodeKernel, read
from rooflens.tools.device.benchmarks.specs import BenchmarkSpec

_FORBIDDEN = r"flat_|scratch_|buffer_"
_PACKED = r"v_pk_"
_SHARE = {"valu.cu": 0.9, "mfma.cu": 0.75, "sweep.cu": 0.2, "cache.cu": 0.12, "hbm.cu": 0.12}
"""Least share of the payload in the loop; address arithmetic of memory kernels runs while loads are under way."""


@dataclass(frozen=True)
class Loop:
    """The instructions of the loop with the most payload."""

    instructions: tuple[str, ...]
    payload: int


def objdump() -> Path:
    """llvm-objdump of the newest LLVM, or a skip that says how to install it."""
    for name in ("llvm-objdump-22", "llvm-objdump-19", "llvm-objdump"):
        if found := shutil.which(name):
            return Path(found)
    pytest.skip("needs llvm-objdump and clang: apt-get install clang-22 lld-22 llvm-22")


def _lines(code: Path, arch: str, kernel: str) -> list[tuple[str, str, str]]:
    """Instruction, address and offset of the branch target of every line of a kernel."""
    text = _disassembled(code.read_bytes(), arch)
    body = re.search(rf"^[0-9a-f]+ <{kernel}>:\n(.*?)(?=^[0-9a-f]+ <|\Z)", text, re.MULTILINE | re.DOTALL)
    assert body, f"there is no kernel {kernel}"
    return re.findall(
        r"^\s+(\S.*?)\s*// ([0-9A-F]{12}):[^<\n]*(?:<[^>+]*(?:\+0x([0-9a-f]+))?>)?", body[1], re.MULTILINE
    )


def instructions(code: Path, arch: str, kernel: str) -> list[str]:
    """The instructions of a kernel in their order."""
    return [instruction for instruction, _, _ in _lines(code, arch, kernel)]


def hot_loop(code: Path, arch: str, kernel: str, payload: str) -> Loop:
    """The backward branch of a kernel whose body holds the payload most often."""
    lines = _lines(code, arch, kernel)
    start = int(lines[0][1], 16)
    best = Loop((), 0)
    for instruction, address, target in lines:
        if not instruction.startswith(("s_cbranch", "s_branch")) or not target:
            continue
        first, last = start + int(target, 16), int(address, 16)
        inside = tuple(i for i, at, _ in lines if first <= int(at, 16) <= last)
        count = sum(bool(re.match(payload, i)) for i in inside)
        if count > best.payload:
            best = Loop(inside, count)
    return best


@cache
def _disassembled(image: bytes, arch: str) -> str:
    """A code object as text."""
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(image)
        file.flush()
        command = [str(objdump()), "-d", f"--mcpu={arch}", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def complaints(code: Path, arch: str, spec: BenchmarkSpec, kernel: str, *, count: int | None = None) -> list[str]:
    """What is wrong with a compiled kernel, in words."""
    loop = hot_loop(code, arch, kernel, spec.instruction)
    if not loop.payload:
        return ["no loop holds the payload"]
    wanted, said = spec.count if count is None else count, []
    if loop.payload != wanted:
        said.append(f"{loop.payload} payload instructions instead of {wanted}")
    forbidden = _FORBIDDEN if "pk" in spec.kernel or spec.shape else f"{_FORBIDDEN}|{_PACKED}"
    said += [f"forbidden: {i}" for i in loop.instructions if re.match(forbidden, i)]
    share = loop.payload / len(loop.instructions)
    if share < _SHARE[spec.source]:
        said.append(f"payload is only {100 * share:.0f} % of the loop")
    return said + _resources(next(k for k in read(code) if k.name == kernel), arch, spec)


def _resources(kernel: CodeKernel, arch: str, spec: BenchmarkSpec) -> list[str]:
    said = []
    if kernel.vgpr_spills or kernel.sgpr_spills or kernel.scratch_bytes:
        said.append("spills or scratch")
    fits = occupancy(
        arch, vgprs=kernel.vgprs, agprs=kernel.agprs, sgprs=kernel.sgprs, workgroup_size=spec.threads
    ).waves_per_simd
    # A SIMD of gfx908 has half the registers.
    if fits < spec.waves // (2 if arch == "gfx908" else 1):
        said.append(f"registers for {fits} waves per SIMD, {spec.waves} wanted")
    return said
