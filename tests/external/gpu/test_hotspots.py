"""Hot lines on hardware: kernels whose hot line is marked in their source, from the command to find_hotspots' answer.

``pytest -m nvidia tests/external/gpu``, or ``-m amd``, runs it; each test prints what it found (-rP shows it).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.external.gpu.conftest import PROGRAMS
from rooflens.tests.external.gpu.measuring import profiled, told
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.device.machine.survey import survey

sys.path.insert(0, str(ROOT / "eval"))
import hot_lines

KERNELS = ("latency_chase", "gather", "sfu_chain", "integer_division", "loop_nest", "shared_conflict")
NEAR = 3
"""The place by which a marked line must stand in the answer; most stand first."""


def built(folder: Path, *arguments: str) -> str:
    """The example program with line tables."""
    shutil.copytree(ROOT / "examples" / "kernels", folder, dirs_exist_ok=True)
    subprocess.run(["make", "-j8", *arguments], cwd=folder, check=True, capture_output=True, timeout=600)
    return str(folder / "kernels")


def scored(store: Store, command: list[str], marks: dict[str, list[hot_lines.Place]], name: str) -> None:
    """Profile a command for the hot spots of the marked kernels, and hold the answers against the marks."""
    run = profiled(
        store, command, metrics=["hotspots"], kernel="|".join(marks), launches=1, budget_s=120, timeout_s=300, name=name
    )
    assert run.result.state == "done", (run.result.problem, run.result.output)
    scores = [hot_lines.score(store, str(run.result.workload), kernel, places) for kernel, places in marks.items()]
    told(name, {score.kernel: [score.rank, score.first, score.pct, score.samples] for score in scores})
    assert all(score.rank is not None and score.rank <= NEAR for score in scores), scores
    assert sum(score.rank == 1 for score in scores) > len(scores) / 2, scores


def marked(names: tuple[str, ...]) -> dict[str, list[hot_lines.Place]]:
    return {kernel: places for kernel, places in hot_lines.hot_lines().items() if kernel in names}


@pytest.mark.nvidia
def test_marked_lines_are_found_on_nvidia(node: Store, gpus: int, tmp_path: Path) -> None:
    arch = next(d.arch for d in survey(Roots()).gpus if d.vendor == "nvidia" and d.arch)
    program = built(tmp_path / "kernels", "CUDA=1", f"CUDA_ARCHS={arch.removeprefix('sm_')}")
    scored(node, [program, ",".join(KERNELS), "--repeat", "0"], marked(KERNELS), "hot_kernels")


@pytest.mark.nvidia
def test_the_hot_line_of_a_triton_kernel_is_one_of_its_python_file(node: Store, torch_python: str) -> None:
    marks = hot_lines.hot_lines(PROGRAMS)
    scored(node, [torch_python, str(PROGRAMS / "hot_python.py"), "1"], marks, "hot_triton")


@pytest.mark.amd
def test_marked_lines_are_found_on_amd(tmp_path: Path) -> None:
    """Not run yet: it needs an Instinct from MI200 on, ROCm 6.4 or later and PC sampling permitted."""
    if missing := [name for name in ("hipcc", "rocprofv3") if shutil.which(name) is None]:
        pytest.skip(f"needs an AMD Instinct GPU with ROCm; not found: {', '.join(missing)}")
    found = next((d for d in survey(Roots()).gpus if d.vendor == "amd" and d.arch), None)
    if found is None:
        pytest.skip("needs an AMD Instinct GPU: no driver shows one")
    program = built(tmp_path / "kernels", "HIP=1", f"HIP_ARCHS={found.arch}")
    # Host trap and stochastic sampling have no filter: more launches give more samples.
    command = [program, ",".join(KERNELS), "--repeat", "20"]
    scored(Store(tmp_path / "store"), command, marked(KERNELS), "hot_kernels")
