"""Timelines of a run on NVIDIA, alone and beside counters, without an NVIDIA GPU: stand-ins play CUPTI and ncu."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool
from rooflens.tests.support.cupti_kit import kits  # noqa: F401  a fixture
from rooflens.tests.system.tools.test_profile_nvidia import COUNTER, INNER, Node
from rooflens.tools import profile_command as profiling
from rooflens.tools.device.machine.model import Device, InstalledProfiler
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.running import start as launch
from rooflens.tools.running.drivers.ncu import command as ncu
from rooflens.tools.running.request import ProfileRequest

KERNELS = INNER + 3


@pytest.fixture
def node(tmp_path: Path, kits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:  # noqa: F811
    yield Node(tmp_path, kits(130000), monkeypatch)
    launch.stop_all()


def _has(monkeypatch: pytest.MonkeyPatch, *profilers: InstalledProfiler) -> None:
    gpu = Device(vendor="nvidia", index=0, name="NVIDIA H200", arch="sm_90", supported=True, uuid="GPU-0")
    monkeypatch.setattr(profiling, "survey", lambda roots: Machine([gpu], list(profilers), {}, []))


def test_without_ncu_or_the_right_to_count_a_program_is_still_recorded(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    _has(monkeypatch)
    run = node.profile(metrics=["timeline"], launches=None)
    assert run.state == "done", (run.problem, run.output)
    held = node.store.resolve(str(run.workload))
    assert (held.dispatches, held.counters, bool(held.events)) == (KERNELS, [], True)
    assert run.next[0].tool == "compute_timeline"
    with pytest.raises(MissingTool, match="ncu cannot profile") as told:
        node.profile()
    assert '["timeline"]' in told.value.why


def test_a_timeline_with_launches_by_number_is_refused(node: Node) -> None:
    with pytest.raises(BadArgument, match="not of launches selected by number"):
        node.profile(metrics=["timeline", COUNTER], launches=[2, 5])


def test_a_plan_with_counters_says_that_both_are_imported_apart() -> None:
    found = plan_profile(None, "sm_90", ["timeline", "overview"], detail="full")  # type: ignore[arg-type]
    assert [command.argv[0] for command in found.commands] == ["nsys", "ncu"]
    assert [call.arguments["path"] for call in found.next] == ["rooflens_run/timing", "rooflens_run/pass_1"]


def test_where_the_recorder_cannot_be_compiled_nsys_traces_but_not_beside_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingTool("The recorder cannot be compiled", "no compiler", "Install one")

    monkeypatch.setattr(ncu, "recorded_times", missing)
    program = tmp_path / "nsys"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    request = ProfileRequest(("./app",), timeline=True)
    step = ncu.times(request, ncu.features_of(None), program="ncu", out="run")
    assert (step.name, step.argv[0], step.argv[-1]) == ("timing", str(program), "./app")
    with pytest.raises(MissingTool):
        ncu.times(
            ProfileRequest(("./app",), ((COUNTER,),), timeline=True), ncu.features_of(None), program="ncu", out="run"
        )
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(MissingTool):
        ncu.times(request, ncu.features_of(None), program="ncu", out="run")
