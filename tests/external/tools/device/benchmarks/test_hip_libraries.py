"""HIP's own libraries: what they compile, refuse and survive on a machine without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.tools.device.benchmarks import hip, specs

_OPEN = """
from rooflens.analysis.base.problems import Problem
from rooflens.tools.device.benchmarks.gpu import open_device
try:
    open_device("amd")
except Problem as problem:
    print(type(problem).__name__, problem)
"""


def _child(code: str) -> str:
    """Standard output of a program that may not touch this process: libraries stay loaded."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hip_without_a_gpu_says_that_it_shows_none(hip_libraries: None) -> None:
    assert _child(_OPEN).startswith("NotFound There is no GPU 'amd' to measure. amd: 0 GPUs")


def test_hiprtc_compiles_for_a_target_that_it_knows(hip_libraries: None) -> None:
    code = hip.compile_for("gfx90a", specs.text("valu.cu"), {"STEPS": "8"})
    assert code.image.startswith(b"\x7fELF") and code.compiler.startswith("hiprtc")


def test_a_hiprtc_that_aborts_is_survived_and_clang_takes_over(hip_libraries: None) -> None:
    with pytest.raises(MissingTool, match="hiprtc ended with signal 6 at gfx942"):
        hip.by_hiprtc("gfx942", specs.text("launch.cu"), {})
    if not hip.clangs():
        pytest.skip("needs clang: apt-get install clang-22 lld-22")
    assert hip.compile_for("gfx942", specs.text("launch.cu"), {}).compiler.startswith("clang")


def test_a_source_that_hiprtc_refuses_comes_with_its_log(hip_libraries: None) -> None:
    with pytest.raises(MissingTool, match="undeclared identifier"):
        hip.by_hiprtc("gfx90a", 'extern "C" __attribute__((global)) void k() { nothing = 1; }', {})


def test_the_library_of_hiprtc_missing_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(Path(folder, "libhiprtc.so").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/opt/rocm/lib")):
        pytest.skip("this machine has a hiprtc of its own")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("ROCM_PATH", raising=False)
    monkeypatch.setattr(hip, "clangs", list)
    with pytest.raises(MissingTool, match="Kernels cannot be compiled for gfx90a.*hiprtc.*no clang was found"):
        hip.compile_for("gfx90a", specs.text("launch.cu"), {})


def test_clang_makes_the_version_asked_for(tmp_path: Path) -> None:
    if not hip.clangs():
        pytest.skip("needs clang: apt-get install clang-22 lld-22")
    abi = {hip.by_clang("gfx90a", specs.text("launch.cu"), {}, version).image[8] for version in (4, 5)}
    assert abi == {2, 3}  # ELFABIVERSION_AMDGPU_HSA_V4 and _V5
