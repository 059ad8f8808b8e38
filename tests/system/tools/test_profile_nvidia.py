"""Profiling on NVIDIA from the question to the workload, without an NVIDIA GPU: stand-ins play CUPTI and ncu.

What is tested is everything around the measurement: the recorder, the plan, ncu's filters, the run, the import. The
stand-in of ncu gives every launch its number in the program as its counters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.store.store import Store
from rooflens.tests.standins.ncu import install
from rooflens.tests.support.cupti_kit import Kit, kits  # noqa: F401  a fixture
from rooflens.tests.support.waiting import ended
from rooflens.tools import profile_command as profiling
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.device.machine.model import Device, InstalledProfiler
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running import start as launch
from rooflens.tools.running.drivers.ncu import command as ncu
from rooflens.tools.running.job import Step

COUNTER = "smsp__inst_executed.sum"
INNER = 6
PROGRAM = {"step": [0, *range(1, INNER + 1), INNER + 1], "after": [INNER + 2]}
"""Launches of program.c by range, the last of the step by another thread."""


class Node:
    """A machine with one NVIDIA GPU, as far as rooflens can see."""

    def __init__(self, folder: Path, kit: Kit, patch: pytest.MonkeyPatch) -> None:
        self.store, self.kit = Store(folder / "store"), kit
        (runtime := folder / "runtime").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        found = InstalledProfiler(
            name="ncu", vendor="nvidia", path=install(folder / "bin"), version="2025.3.1", usable=True
        )
        gpu = Device(vendor="nvidia", index=0, name="NVIDIA H200", arch="sm_90", supported=True, uuid="GPU-0")
        patch.setattr(profiling, "survey", lambda roots: Machine([gpu], [found], {}, []))

        def times(command: Any, out: str, *, timeline: bool) -> Step:
            env = kit.recorder.environment(f"{out}/timing", timeline=timeline)
            return Step("timing", tuple(command), env=env, durable=True)

        patch.setattr(ncu, "recorded_times", times)

    def profile(self, **asked: Any) -> RunResult:
        command = [str(self.kit.program), str(INNER), "return"]
        run = profiling.profile_command(self.store, command, **{"metrics": [COUNTER], "launches": 2, **asked})
        return ended(self.store, run)

    def counted(self, run: RunResult) -> dict[int, int]:
        """Launch -> the launch whose counter it was given."""
        assert run.state == "done", (run.problem, run.output, run.notes)
        sql = f'SELECT dispatch_id, "{COUNTER}"::INT - 1 FROM counters WHERE "{COUNTER}" IS NOT NULL ORDER BY 1'
        return dict(query_counters(self.store, sql, run.workload).table.rows)


@pytest.fixture
def node(tmp_path: Path, kits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:  # noqa: F811
    yield Node(tmp_path, kits(130000), monkeypatch)
    launch.stop_all()


def test_launches_of_a_range_are_counted_those_of_its_other_thread_too(node: Node) -> None:
    run = node.profile(range="step", launches=1)
    assert node.counted(run) == {0: 0, 1: 1, 2: 2, 7: 7}
    assert set(PROGRAM["step"]) >= {0, 1, 2, 7} and not any("skipped" in warning.lower() for warning in run.warnings)
    assert any("of the launches of the range in a timing run" in note for note in run.notes)
    assert not any("a timing run of" in warning for warning in run.warnings), "stated once"
    assert any("restricted to the range" in note for note in run.notes)
    rows = list_workloads(node.store, str(run.workload), by="range").table.rows
    assert [row[:3] for row in rows if row[0] in ("step", "(no range)")] == [["step", 1, 8], ["(no range)", None, 1]]
    found = compute_metrics(node.store, str(run.workload), ["dispatch.duration_ns"], by="range")
    assert "step" in {row[found.table.columns.index("range")] for row in found.table.rows}


def test_what_ncu_cannot_do_is_refused_before_anything_starts(node: Node) -> None:
    with pytest.raises(BadArgument, match="backslash"):
        node.profile(range="a\\b")
    with pytest.raises(BadArgument, match="vLLM and SGLang") as told:
        profiling.profile_command(node.store, pid=1)
    assert "budget_s" in told.value.fix
    assert not node.store.runs.exists() or not list(node.store.runs.iterdir())


def test_one_run_holds_a_timeline_hot_spots_and_counters_of_the_same_launches(node: Node) -> None:
    began = time.monotonic()
    run = node.profile(metrics=["timeline", "hotspots", COUNTER], budget_s=60, env={"STANDIN_NCU_GOES_ON": "60"})
    assert time.monotonic() - began < 40, "a program is ended after the last launch that is counted"
    assert "partial" not in node.store.resolve(str(run.workload)).tags and not run.partial
    assert not any("was ended" in note for note in run.notes)
    assert node.counted(run) == {n: n for n in (0, 1, 2, 3, 4, 7, 8)} and run.next[0].tool == "compute_timeline"
    sql = (
        "SELECT count(*) FROM dispatches d JOIN events e ON e.kind = 'kernel' AND e.start_ns = d.start_ns "
        "AND e.end_ns = d.end_ns"
    )
    assert query_counters(node.store, sql, run.workload).table.rows == [[INNER + 3]]
    steps = json.loads((next(node.store.runs.iterdir()) / "state.json").read_text())["finished"]
    assert steps == ["timing", "pass_1", "hotspots"]


def test_hot_lines_that_fail_cost_nothing_else(node: Node, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ncu"
    begin, rest = program.read_text().split("\n", 1)
    refuses = 'import sys\nif "--section" in sys.argv: sys.exit("==ERROR== Unable to find section")'
    program.write_text(f"{begin}\n{refuses}\n{rest}")
    # The time of its kernels is stated, so that no busy machine comes near it: it is that of the program.
    slow = node.profile(metrics=None, launches=None, env={"STANDIN_KERNEL_NS": "9000000000"})
    assert slow.state == "done", (slow.problem, slow.output, slow.notes)
    assert any("Without hotspots" in note for note in get_run(node.store, slow.run_id, detail="full").notes)
    held = node.store.resolve(str(slow.workload))
    assert held.counters and held.events and held.dispatches == INNER + 3
    run = node.profile(metrics=None, launches=None, baseline=str(slow.workload))
    assert run.state == "done" and run.round is not None
    assert run.steps_done == 1 and not node.store.resolve(str(run.workload)).counters
    assert run.round.not_counted and "even without its kernels" in run.round.not_counted
    assert run.round.time[0].startswith("device: kernels run for ") and run.round.attempts and run.arch == "sm_90"
    assert set(run.round.stages) == {"timing", "planning", "import", "analysis"}
    assert [call.arguments.get("by") for call in run.next] == [None, "host_line"]
    assert not list(node.store.runs.glob("*/timing*")), "what was imported to plan has been moved"
    assert run.round.program_speedup is not None and run.round.changed is not None
    assert run.round.program_speedup > 10 and run.round.changed.startswith("From its first to its last device work")
