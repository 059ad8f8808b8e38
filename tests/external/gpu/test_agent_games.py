"""The kernels of eval/agent on an NVIDIA GPU, by the script (``pytest -m nvidia tests/external/gpu``)."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from rooflens.eval.agent.games import kernels
from rooflens.eval.agent.games.tasks import Task, tasks
from rooflens.eval.agent.games.workbench import Limits

pytestmark = pytest.mark.nvidia
PLAYED = [task for task in tasks() if task.language in ("cuda", "triton")]


@pytest.mark.anyio
@pytest.mark.parametrize("task", PLAYED, ids=lambda task: task.name)
async def test_the_known_best_version_is_right_and_faster(task: Task) -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU")
    if task.language == "cuda" and shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    if task.language == "triton" and importlib.util.find_spec("triton") is None:
        pytest.skip("needs PyTorch and Triton")
    played = await kernels.play(kernels.scripted(task), task, with_tools=False, limits=Limits(seconds=300))
    print(task.name, played.slow_ns, played.best_ns, played.speedup)
    assert played.problem is None
    assert played.speedup is not None and played.speedup > 1.5
