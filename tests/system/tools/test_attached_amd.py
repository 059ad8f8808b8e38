"""profile_command of a process that runs already; the stand-in attaches to nothing that does not listen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotFound
from rooflens.tests.support.amd_node import FEW, Node
from rooflens.tests.support.waiting import ended, until
from rooflens.tools.get_run import RunResult
from rooflens.tools.profile_command import profile_command

Begin = Callable[..., int]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """``begin(ROCP_TOOL_ATTACH="1")`` starts a process with these variables and tells its id."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(**variables: str) -> int:
        begun.append(subprocess.Popen(["/bin/sleep", "600"], env={**os.environ, **variables}))
        # It is named a moment after it began.
        until(lambda: Path(f"/proc/{begun[-1].pid}/comm").read_text() == "sleep\n")
        return begun[-1].pid

    yield start
    for process in begun:
        process.kill()
        process.wait()


def attach(node: Node, pid: int, **more: object) -> RunResult:
    run = profile_command(node.store, pid=pid, **{"metrics": FEW, "budget_s": 0.1, **more})  # type: ignore[arg-type]
    return ended(node.store, run)


def test_a_process_that_listens_becomes_a_workload_named_after_it(node: Node, begin: Begin) -> None:
    node.has("1.3.2")
    run = attach(node, pid := begin(ROCP_TOOL_ATTACH="1"))
    assert run.state == "done", (run.problem, run.output)
    found = node.manifest(run.workload)
    assert (found.name, found.command) == ("sleep", f"process {pid} sleep")
    assert "SQ_WAVES" in found.counters and found.dispatches > 0
    assert "attached to process" in run.notes[0] and "0.1 s" in run.notes[0]
    assert any("libtorch_cpu.so" in note and "rocprofiler-sdk 1.4.1" in note for note in run.notes)


def test_a_process_that_does_not_listen_is_told_with_what_it_takes(node: Node, begin: Begin) -> None:
    run = attach(node.has("1.3.2"), begin())
    assert run.state == "failed" and run.workload is None
    assert any("ROCP_TOOL_ATTACH=1" in note for note in run.notes)


def test_what_cannot_be_attached_to_is_refused_before_anything_starts(node: Node, begin: Begin) -> None:
    node.has("1.3.2")
    pid = begin()
    for more, kind, words in (
        ({"command": ["true"]}, BadArgument, "pid cannot be combined with command"),
        ({"env": {"A": "1"}}, BadArgument, "pid cannot be combined with env"),
        ({"range": "step"}, BadArgument, "range"),
    ):
        with pytest.raises(kind, match=words):
            attach(node, pid, **more)
    with pytest.raises(NotFound, match="no process"):
        attach(node, 2**22 + 1)
    with pytest.raises(BadArgument, match="nothing to profile"):
        profile_command(node.store)
    with pytest.raises(MissingTool, match="cannot attach"):
        attach(node.has("1.0.0"), pid)
    assert not node.store.runs.exists() or not list(node.store.runs.iterdir())


def test_a_program_that_goes_on_is_ended_at_the_budget_also_without_counters(node: Node) -> None:
    run = node.has("1.3.2").profile("--sleep", "300", metrics=[], budget_s=0.5)
    assert run.state == "failed" and run.problem is not None and "budget" in run.problem
