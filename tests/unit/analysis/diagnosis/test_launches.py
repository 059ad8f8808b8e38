"""What the launch alone says: few work-groups, one thread, a kernel as short as a launch; a short profile of AMD."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.unit.tools.profiles.test_sums import profile as rocprofv3_counters
from rooflens.tools.diagnose_bottleneck import DiagnosisResult, diagnose_bottleneck
from rooflens.tools.import_profile import import_profile

SMS = 132


def trace(folder: Path, *launches: dict[str, Any]) -> Path:
    """A trace of torch.profiler on an H200 with kernels one after the other."""
    properties = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": SMS}
    events: list[dict[str, Any]] = []
    start = 1000.0
    for number, one in enumerate(launches, 1):
        queue = {"device": 0, "stream": 7, "correlation": number}
        size = {"grid": [one["grid"], 1, 1], "block": [one["block"], 1, 1]}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start - 5, "dur": 3}
        kernel = {"cat": "kernel", "name": one["name"], "pid": 0, "tid": 7, "ts": start, "dur": one["us"]}
        events += [{"ph": "X", "args": {"correlation": number}} | call, {"ph": "X", "args": queue | size} | kernel]
        start += one["us"] + 2
    file = folder / "run.pt.trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [properties], "traceEvents": events}))
    return file


def diagnosed(folder: Path, *launches: dict[str, Any]) -> DiagnosisResult:
    store = Store(folder / "store")
    import_profile(store, str(trace(folder, *launches)), name="w")
    return diagnose_bottleneck(store, "w")


def test_one_thread_is_the_diagnosis_of_a_trace(tmp_path: Path) -> None:
    answer = diagnosed(tmp_path, {"name": "serial", "grid": 1, "block": 1, "us": 25000.0})
    (kernel,) = answer.kernels
    assert kernel.verdict.subsystem == "dispatch" and kernel.verdict.confidence >= 0.9
    assert f"A grid of 1 x 1 (thread blocks x threads) reaches 1 of {SMS} SMs" in (answer.answer or "")


@pytest.mark.parametrize(("blocks", "limited"), [(100, True), (1056, False)])
def test_a_grid_smaller_than_the_device_needs_no_counter(blocks: int, limited: bool, tmp_path: Path) -> None:
    answer = diagnosed(tmp_path, {"name": "k", "grid": blocks, "block": 256, "us": 500.0})
    assert [one.verdict.subsystem for one in answer.kernels] == (["dispatch"] if limited else [])


def test_work_groups_that_do_not_divide_evenly_are_a_tail(tmp_path: Path) -> None:
    (kernel,) = diagnosed(tmp_path, {"name": "k", "grid": 140, "block": 1024, "us": 500.0}).kernels
    assert "do not divide evenly among 132" in kernel.findings[0].claim
    assert kernel.findings[0].severity == pytest.approx(100 - 100 * 140 / 132 / 2, abs=0.1)


def test_a_kernel_as_short_as_a_launch_is_called_so(tmp_path: Path) -> None:
    (kernel,) = diagnosed(tmp_path, {"name": "k", "grid": 1056, "block": 256, "us": 2.0}).kernels
    assert "about as long as an empty launch" in kernel.findings[0].claim and kernel.verdict.subsystem == "dispatch"


def test_kernels_of_communication_take_few_units_on_purpose(tmp_path: Path) -> None:
    answer = diagnosed(
        tmp_path, {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "grid": 4, "block": 512, "us": 900.0}
    )
    assert answer.kernels == []


def test_a_short_kernel_does_not_lead_for_the_program(tmp_path: Path) -> None:
    """The kernel that takes the time has a full grid; of the other, the table tells."""
    large, small = ({"name": n, "grid": g, "block": 256, "us": us} for n, g, us in (("a", 1056, 900.0), ("b", 8, 90.0)))
    answer = diagnosed(tmp_path, large, small)
    assert [one.kernel for one in answer.kernels] == ["b"]
    assert "b (" not in (answer.answer or "") and "judged by their launches" in (answer.answer or "")


def test_a_launch_that_is_mostly_start_and_end_is_too_short_rather_than_badly_occupied(tmp_path: Path) -> None:
    """Cycles of a vector copy of 16.8 MB on an MI300X, as published: 321,518 per XCD, 19,444 per shader engine."""
    counters = {
        "GRBM_GUI_ACTIVE": 8 * 321518, "SQ_BUSY_CYCLES": 32 * 19444, "SQ_WAVES": 262144, "SQ_WAVE_CYCLES": 1e8,
        "SQ_LEVEL_WAVES_ACCUM": 8 * 321518 * 57, "SQ_BUSY_CU_CYCLES": 1.4e6,
    }  # fmt: skip
    store = Store(tmp_path / "store")
    import_profile(store, str(rocprofv3_counters(tmp_path, counters)), name="w", gpu="mi300x")
    (kernel,) = diagnose_bottleneck(store, "w").kernels
    assert kernel.verdict.subsystem == "dispatch" and kernel.verdict.confidence == 0.5
    assert "Too short for a verdict" in kernel.findings[0].claim
