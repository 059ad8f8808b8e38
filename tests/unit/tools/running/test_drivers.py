"""The profilers that rooflens can run, and what all of them promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.tools.running.drivers import registry as programs
from rooflens.tools.running.request import ProfileRequest


def test_the_preferred_profiler_of_each_vendor() -> None:
    assert [p.NAME for p in programs.for_vendor("amd")] == ["rocprofv3", "rocprofv2", "rocprof"]
    assert programs.driver_for("auto", "nvidia").NAME == "ncu"
    assert programs.driver_for("auto", "cpu").NAME == "perf"
    assert programs.driver_for("rocprof", "amd").NAME == "rocprof"


def test_unknown_and_unfit_profilers_are_refused_with_what_fits() -> None:
    with pytest.raises(NotFound, match="rocprofv3"):
        programs.driver_for("rocprofv4", "amd")
    with pytest.raises(BadArgument, match="rocprofv3 or rocprofv2 or rocprof"):
        programs.driver_for("ncu", "amd")
    with pytest.raises(BadArgument):
        programs.driver_for("auto", "abacus")


def test_ncu_replays_kernels_without_one_allocation_of_the_whole_device() -> None:
    ncu = programs.profiler("ncu")
    wanted = ProfileRequest(command=("./app",), passes=(("SQ_WAVES",),), replay="kernel", hotspots=True)
    replayed = ncu.steps(wanted, ncu.features_of(None), program="ncu", out="o")
    again = ncu.steps(replace(wanted, replay="application"), ncu.features_of(None), program="ncu", out="o")
    assert [step.defaults["XLA_PYTHON_CLIENT_PREALLOCATE"] for step in replayed] == ["false", "false"]
    assert not any(step.defaults for step in again)


@pytest.mark.parametrize("name", [name for name in programs.profilers() if name != "rocprofv3"])
def test_a_profiler_that_cannot_attach_to_a_process_says_why(name: str) -> None:
    driver = programs.profiler(name)
    wanted = ProfileRequest(command=("./app",), replay=driver.REPLAY, pid=4711)
    with pytest.raises(BadArgument, match=rf"{name} cannot attach to a running process\. .+"):
        driver.steps(wanted, driver.features_of(None), program=name, out="o")
