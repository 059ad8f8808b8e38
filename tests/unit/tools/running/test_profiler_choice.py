"""Which device and which profiler a run gets on machines of all kinds."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotFound
from rooflens.tools.device.machine.model import Device, InstalledProfiler
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.running.profiler_choice import choose, facts

CPU = Device(vendor="cpu", index=0, arch="x86_64", name="a processor")
AMD = [
    Device(vendor="amd", index=i, arch="gfx942", uuid=f"GPU-{i}00000000000000a", name="AMD Instinct MI300X", xccs=8)
    for i in range(2)
]
NVIDIA = Device(vendor="nvidia", index=0, arch="sm_90", uuid="GPU-aaaa-bbbb", name="NVIDIA H200")
PERF = InstalledProfiler(
    name="perf", vendor="cpu", path="/usr/bin/perf", usable=False, why="no hardware counters", fix="a PMU"
)
ROCPROFV3 = InstalledProfiler(name="rocprofv3", vendor="amd", path="/opt/rocm/bin/rocprofv3", usable=True)
ROCPROF = InstalledProfiler(name="rocprof", vendor="amd", path="/opt/rocm/bin/rocprof", usable=True)
NCU = InstalledProfiler(name="ncu", vendor="nvidia", path="/usr/local/cuda/bin/ncu", usable=True)


def _machine(devices: list[Device], *profilers: InstalledProfiler) -> Machine:
    return Machine([*devices, CPU], list(profilers), {}, [])


def test_the_first_gpu_with_its_best_profiler_is_taken_and_all_of_them_are_held() -> None:
    found = choose(_machine(AMD, ROCPROF, ROCPROFV3, PERF), None, "auto", {})
    assert (found.target, found.profiler.name, found.path) == ("gfx942", "rocprofv3", "/opt/rocm/bin/rocprofv3")
    assert sorted(found.locks) == [f"amd-{d.uuid}" for d in AMD] and found.mask == {}
    found = choose(_machine(AMD, ROCPROFV3), None, "auto", {"ROCR_VISIBLE_DEVICES": "1"})
    assert list(found.locks) == [f"amd-{AMD[1].uuid}"] and found.device.index == 1, "variables narrow what is held"
    assert choose(_machine([*AMD, NVIDIA], NCU), None, "auto", {}).target == "sm_90", "whose profiler works comes first"


@pytest.mark.parametrize("gpu", [1, "1", AMD[1].uuid])
def test_a_chosen_gpu_is_the_only_one_held_and_shown(gpu: str | int) -> None:
    found = choose(_machine(AMD, ROCPROFV3), gpu, "auto", {})
    assert list(found.locks) == [f"amd-{AMD[1].uuid}"] and found.mask == {"ROCR_VISIBLE_DEVICES": AMD[1].uuid}


def test_a_named_profiler_decides_the_vendor() -> None:
    machine = _machine([*AMD, NVIDIA], ROCPROFV3, ROCPROF, NCU, PERF)
    assert choose(machine, None, "ncu", {}).target == "sm_90"
    assert choose(machine, None, "rocprof", {}).profiler.name == "rocprof"
    assert choose(machine, None, "perf", {}).target == "cpu"
    assert choose(machine, NVIDIA.uuid, "auto", {}).mask == {"CUDA_VISIBLE_DEVICES": NVIDIA.uuid}


def test_the_processor_is_profiled_on_request_even_without_hardware_counters() -> None:
    found = choose(_machine(AMD, ROCPROFV3, PERF), "cpu", "auto", {})
    assert found.profiler.name == "perf" and "no hardware counters" in found.warnings[0] and found.mask == {}
    assert list(found.locks) == ["cpu-0"]


def test_without_a_gpu_the_ways_out_are_named() -> None:
    with pytest.raises(MissingTool, match='gpu="cpu".*plan_profile.*import_profile'):
        choose(_machine([], PERF), None, "auto", {})
    with pytest.raises(MissingTool, match="No NVIDIA GPU"):
        choose(_machine(AMD, ROCPROFV3), None, "ncu", {})


def test_a_profiler_that_may_not_read_counters_says_why_and_how_to_change_that() -> None:
    closed = ROCPROFV3.model_copy(update={"usable": False, "why": "/dev/kfd is closed", "fix": "usermod -aG render"})
    with pytest.raises(MissingTool, match="/dev/kfd is closed.*usermod"):
        choose(_machine(AMD, closed), None, "auto", {})
    missing = InstalledProfiler(
        name="rocprofv3", vendor="amd", usable=False, why="not installed", fix="Install rocprofiler-sdk"
    )
    with pytest.raises(MissingTool, match="Not installed.*Install rocprofiler-sdk"):
        choose(_machine(AMD, missing), None, "auto", {})


def test_what_is_not_here_is_refused_with_what_is() -> None:
    with pytest.raises(NotFound, match="This machine has 0 .amd gfx942"):
        choose(_machine(AMD, ROCPROFV3), 7, "auto", {})
    with pytest.raises(NotFound, match="rocprofv3"):
        choose(_machine(AMD, ROCPROFV3), None, "rocprofv4", {})
    with pytest.raises(BadArgument, match="ncu"):
        choose(_machine(AMD, ROCPROFV3, NCU), "cpu", "ncu", {})


def test_facts_of_a_partition_are_those_of_its_dies() -> None:
    assert facts(AMD[0])["total_l2_chan"] == 128
    part = AMD[0].model_copy(update={"xccs": 1})
    assert (facts(part)["num_xcd"], facts(part)["total_l2_chan"]) == (1, 16)
    assert facts(CPU) == {}
