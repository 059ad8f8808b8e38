"""Occupancy of NVIDIA targets equals the calculator that the CUDA Toolkit ships as a header, compiled here."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rooflens.analysis.occupancy import occupancy

HEADERS = sorted(Path("/usr/local").glob("cuda*/include/cuda_occupancy.h"))
COMPILER = shutil.which("c++")
# Compute capability; warps per SM; in KiB the shared memory per SM, the most of a block, and what the driver takes of
# each block: from the table of technical specifications in the CUDA C++ Programming Guide.
SPECIFIED = {
    "sm_70": (7, 0, 64, 96, 96, 0),
    "sm_75": (7, 5, 32, 64, 64, 0),
    "sm_80": (8, 0, 64, 164, 163, 1),
    "sm_86": (8, 6, 48, 100, 99, 1),
    "sm_89": (8, 9, 48, 100, 99, 1),
    "sm_90": (9, 0, 64, 228, 227, 1),
    "sm_100": (10, 0, 64, 228, 227, 1),
    "sm_103": (10, 3, 64, 228, 227, 1),
    "sm_120": (12, 0, 48, 100, 99, 1),
}
PROGRAM = Path(__file__).with_name("cuda_occupancy.cpp")


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (HEADERS and COMPILER):
        pytest.skip("needs cuda_occupancy.h of the CUDA Toolkit and a C++ compiler")
    folder = tmp_path_factory.mktemp("calculator")
    command = [str(COMPILER), "-O1", "-w", "-I", str(HEADERS[-1].parent), str(PROGRAM), "-o"]
    subprocess.run([*command, str(folder / "main")], check=True, timeout=120)
    return folder / "main"


@pytest.mark.parametrize("target", SPECIFIED)
def test_resident_blocks_equal_those_of_the_cuda_calculator(target: str, calculator: Path) -> None:
    specified = SPECIFIED[target]
    most = 1024 * specified[4]
    rng = random.Random(target)
    kernels = [
        (
            rng.randint(16, 255),
            32 * rng.randint(1, 32),
            rng.choice([0, rng.randint(1, most), most // rng.randint(1, 32)]),
        )
        for _ in range(300)
    ]
    kernels = [(r, threads, lds) for r, threads, lds in kernels if -(-r // 8) * 8 * threads <= 65536]
    asked = "\n".join(" ".join(map(str, kernel)) for kernel in kernels)
    command = [str(calculator), *map(str, specified)]
    done = subprocess.run(command, input=asked, check=True, capture_output=True, text=True, timeout=60)
    expected = [int(line) for line in done.stdout.split()]
    ours = [
        occupancy(target, vgprs=r, workgroup_size=threads, lds_bytes=lds).waves_per_cu // (threads // 32)
        for r, threads, lds in kernels
    ]
    assert len(expected) == len(kernels) > 150 and len(set(expected)) > 8
    assert ours == expected
