"""The GPU, the programs and the store of the tests on NVIDIA hardware; everything is skipped where they are missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.external.gpu.measuring import python_with
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.device.machine.survey import survey
from rooflens.tools.running import start as launch

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session")
def gpus() -> int:
    """How many NVIDIA GPUs there are; counters of the first can be read."""
    if missing := [name for name in ("nvcc", "ncu") if shutil.which(name) is None]:
        pytest.skip(f"needs an NVIDIA GPU with the CUDA toolkit and Nsight Compute; not found: {', '.join(missing)}")
    machine = survey(Roots())
    count = sum(device.vendor == "nvidia" for device in machine.gpus)
    if not count:
        pytest.skip("needs an NVIDIA GPU: no driver shows one")
    ncu = next(profiler for profiler in machine.profilers if profiler.name == "ncu")
    if ncu.usable is False:
        pytest.skip(f"ncu cannot be used here: {ncu.why}")
    return count


@pytest.fixture(scope="session")
def launching(gpus: int, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of launching.cu, built for this GPU."""
    program = tmp_path_factory.mktemp("launching") / "launching"
    argv = ["nvcc", "-O2", "-std=c++17", "-arch=native", "-o", program, PROGRAMS / "launching.cu"]
    subprocess.run([str(word) for word in argv], check=True, capture_output=True, timeout=300)
    return str(program)


@pytest.fixture(scope="session")
def torch_python(gpus: int) -> str:
    """An interpreter with PyTorch that sees the GPU."""
    if (python := python_with("torch")) is None:
        pytest.skip("needs PyTorch with CUDA, in this interpreter or in python3")
    return python


@pytest.fixture(scope="session")
def jax_python(gpus: int) -> str:
    """An interpreter with JAX."""
    if (python := python_with("jax")) is None:
        pytest.skip("needs JAX, in this interpreter or in python3")
    return python


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all: runs are dear."""
    yield Store(tmp_path_factory.mktemp("live") / "store")
    launch.stop_all()


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example program, built for this GPU."""
    if missing := [name for name in ("nvcc", "ncu", "nvidia-smi") if shutil.which(name) is None]:
        pytest.skip(f"needs an NVIDIA GPU with the CUDA toolkit and Nsight Compute; not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("kernels")
    shutil.copytree(ROOT / "examples" / "kernels", folder, dirs_exist_ok=True)
    subprocess.run(["make", "-j8", "CUDA=1", "CUDA_ARCHS=90"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "kernels"
