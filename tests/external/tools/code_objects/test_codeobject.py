"""What is read of code objects that clang makes here is what LLVM tells of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rooflens.tests.unit.tools.code_objects.test_codeobject import OBJECTS, by_name
from rooflens.tools.code_objects.kernels import read

CLANG, READELF = shutil.which("clang-22"), shutil.which("llvm-readelf-22")
BUNDLER = shutil.which("clang-offload-bundler-22") or shutil.which("clang-offload-bundler")
needs_clang = pytest.mark.skipif(not (CLANG and READELF), reason="needs apt-get install clang-22 lld-22 llvm-22")
DEVICE = ["-x", "hip", "-nogpuinc", "-nogpulib", "-O1", "--cuda-device-only"]


def readelf(path: Path) -> dict[str, dict[str, str]]:
    """Kernel name -> the entries that llvm-readelf prints for it."""
    text = subprocess.run([str(READELF), "--notes", str(path)], check=True, capture_output=True, text=True).stdout
    found = {}
    for block in re.split(r"\n  - ", text.split("amdhsa.kernels:")[1].split("amdhsa.target")[0])[1:]:
        entries = dict(re.findall(r"(?:^|\n {4})(\.\w+): +(\S+)", block))
        found[entries[".name"]] = entries
    return found


@needs_clang
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
def test_compiled_kernels_equal_llvm_readelf(target: str, tmp_path: Path) -> None:
    path = tmp_path / "k.hsaco"
    command = [str(CLANG), *DEVICE, "--no-gpu-bundle-output", f"--offload-arch={target}", str(OBJECTS / "kernels.hip")]
    subprocess.run([*command, "-o", str(path)], check=True, capture_output=True)
    ours, theirs = by_name(read(path)), readelf(path)
    assert set(ours) == set(theirs) and len(ours) == 5
    for name, entries in theirs.items():
        found = ours[name]
        assert found.vgprs + found.agprs == int(entries[".vgpr_count"])
        assert found.agprs == int(entries[".agpr_count"])
        assert found.sgprs == int(entries[".sgpr_count"])
        assert found.lds_bytes == int(entries[".group_segment_fixed_size"])
        assert found.scratch_bytes == int(entries[".private_segment_fixed_size"])
        assert found.vgpr_spills == int(entries[".vgpr_spill_count"])
        assert found.sgpr_spills == int(entries[".sgpr_spill_count"])
        assert found.max_workgroup_size == int(entries[".max_flat_workgroup_size"])
    assert ours["spilling"].vgpr_spills > 0 and ours["accumulating"].agprs == 40


@needs_clang
@pytest.mark.skipif(not BUNDLER, reason="needs apt-get install clang-tools-22")
@pytest.mark.parametrize("options", [[], ["--offload-compress"], ["--offload-new-driver"]])
def test_host_objects_hold_the_kernels_of_every_target(options: list[str], tmp_path: Path) -> None:
    source, path = tmp_path / "k.hip", tmp_path / "k.o"
    source.write_text(
        "struct dim3 { unsigned x, y, z; };\n"
        'extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);\n'
        'extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);\n'
        "__attribute__((global)) void one(float *p) { *p = 1; }\n"
        "__attribute__((global)) void two(float *p) { *p = 2; }\n"
    )
    command = [str(CLANG), "-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a,gfx942", *options, "-c"]
    subprocess.run([*command, str(source), "-o", str(path)], check=True, capture_output=True)
    assert sorted((k.gpu, k.name) for k in read(path)) == [
        ("gfx90a", "_Z3onePf"), ("gfx90a", "_Z3twoPf"), ("gfx942", "_Z3onePf"), ("gfx942", "_Z3twoPf"),
    ]  # fmt: skip
