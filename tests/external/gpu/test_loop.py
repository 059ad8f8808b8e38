"""The scripted loop on an NVIDIA GPU, over stdio; ``pytest -m nvidia tests/external/gpu/test_loop.py`` runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.tests import ROOT

pytestmark = pytest.mark.nvidia


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example program, built for this GPU."""
    if missing := [name for name in ("nvcc", "ncu", "nvidia-smi") if shutil.which(name) is None]:
        pytest.skip(f"needs an NVIDIA GPU with the CUDA toolkit and Nsight Compute; not found: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("kernels")
    shutil.copytree(ROOT / "examples" / "kernels", folder, dirs_exist_ok=True)
    subprocess.run(["make", "-j8", "CUDA=1", "CUDA_ARCHS=90"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "kernels"


@pytest.mark.parametrize(
    ("ladder", "best", "least"), [("transpose", "transpose_padded", 4.0), ("yax", "yax_solution", 1.5)]
)
def test_the_loop_ends_with_the_fast_version(program: Path, ladder: str, best: str, least: float) -> None:
    script = ROOT / "examples" / "loop" / "optimize.py"
    done = subprocess.run(
        [sys.executable, script, ladder, "--live", str(program)], capture_output=True, text=True, timeout=580
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == best and float(last[2]) > least
    assert ("it does different work" in done.stdout) == (ladder == "yax")
