"""The example program compiles for AMD and NVIDIA without warnings, to the instructions it is meant to show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rooflens.tests.oracle.examples.conftest import SOURCES

STAND_INS = Path(__file__).resolve().parent / "rocm_bin"
"""A hipcc that adds nothing but what hipcc adds."""
FILES = sorted(path.name for path in SOURCES.glob("*.cu"))


def with_hipcc() -> dict[str, str]:
    """An environment whose PATH has a hipcc."""
    if shutil.which("clang++-22") is None:
        pytest.skip("needs clang-22 with the AMDGPU back end and lld-22")
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    return {**environment, "PATH": f"{STAND_INS}{os.pathsep}{os.environ['PATH']}"}


def amd_assembly(target: str, file: str, folder: Path, *more: str) -> str:
    out = folder / "device.s"
    words = ["hipcc", "-x", "hip", "-std=c++20", "-O3", "-Wall", "-Wextra", f"--offload-arch={target}"]
    words += [*more, "--cuda-device-only", "-S", "-Werror", str(SOURCES / file), "-o", str(out)]
    done = subprocess.run(words, env=with_hipcc(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_text()


@pytest.mark.parametrize("file", FILES)
def test_make_with_hip_compiles_every_file(tmp_path: Path, file: str) -> None:
    """As the README says to type it: no macro. Files with code of their own for AMD or for a target: for three."""
    differs = re.search(r"ON_AMD|__gfx", (SOURCES / file).read_text())
    targets = "gfx90a gfx942 gfx950" if differs else "gfx942"
    made = f"{tmp_path}/{Path(file).stem}.o"
    words = ["make", "HIP=1", f"HIP_ARCHS={targets}", f"BUILD={tmp_path}", made]
    done = subprocess.run(
        words, cwd=SOURCES, env=with_hipcc(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert Path(made).is_file()


@pytest.mark.parametrize("target", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_amd_code_holds_the_instructions_that_the_kernels_are_named_for(tmp_path: Path, target: str) -> None:
    assert "v_mfma_f32_16x16x16" in amd_assembly(target, "matrix_unit.cu", tmp_path)
    kernels = amd_assembly(target, "arithmetic.cu", tmp_path)
    assert re.search(r"v_(pk_)?fma(c)?_f32", kernels)
    assert "v_fma_f64" in kernels or "v_fmac_f64" in kernels
    assert "v_pk_fma_f16" in kernels
    scratch = dict(re.findall(r"\.amdhsa_kernel (\w+)\n\s+.*\n\s+\.amdhsa_private_segment_fixed_size (\d+)", kernels))
    spilled = {name for name, size in scratch.items() if int(size) > 0}
    assert len(spilled) == 1
    assert "spill_local" in spilled.pop()


@pytest.mark.parametrize(("target", "widths"), [("gfx908", set()), ("gfx942", {""}), ("gfx950", {"", "x4"})])
def test_cdna_loads_to_lds_where_it_can(tmp_path: Path, target: str, widths: set[str]) -> None:
    assembly = amd_assembly(target, "async_copy.cu", tmp_path)
    assert set(re.findall(r"global_load_lds_dword(\w*)", assembly)) == widths


def test_the_code_of_the_instruction_fetch_kernel_is_larger_than_the_caches(tmp_path: Path) -> None:
    assembly = amd_assembly("gfx942", "control.cu", tmp_path)
    body = assembly[assembly.index("icache_heavy") :]
    size = re.search(r"codeLenInByte = (\d+)", body)
    assert size is not None
    assert int(size[1]) > 2 * 64 * 1024  # the instruction cache of a pair of compute units has 64 KiB


def test_line_tables_hold_the_lines_that_are_marked_as_hot(tmp_path: Path) -> None:
    text = (SOURCES / "lines.cu").read_text().splitlines()
    # A barrier is inlined from a header of HIP's, whose line it has.
    lines = {n for n, line in enumerate(text, 1) if "; // hot: " in line and "__syncthreads" not in line}
    assembly = amd_assembly("gfx942", "lines.cu", tmp_path, "-gline-tables-only")
    (number,) = set(re.findall(r'\.file\s+(\d+) .*"lines\.cu"', assembly))
    assert lines and lines <= {int(line) for line in re.findall(rf"\.loc\s+{number} (\d+) ", assembly)}


@pytest.mark.parametrize(
    "file", ["matrix_unit.cu", "shared.cu", "arithmetic.cu", "async_copy.cu", "cluster.cu", "lines.cu"]
)
def test_device_code_compiles_for_hopper(tmp_path: Path, file: str) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("needs nvcc (CUDA 12 or newer)")
    words = [compiler, "-std=c++20", "-O3", "-arch=sm_90", "-Werror", "all-warnings", "-Xptxas", "-v"]
    words += ["-cubin", str(SOURCES / file), "-o", str(tmp_path / "device.cubin")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    functions = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores", done.stderr, re.DOTALL)
    spilled = {name for name, size in functions if int(size) > 0}
    expected = {"spill_local"} if file == "arithmetic.cu" else set()
    assert {re.sub(r"^_Z\d+|P.*$", "", name) for name in spilled} == expected
