"""Counting within a range on NVIDIA: from what the recorder saw to ncu's filters, and back into one workload.

What ncu would measure is told by a stand-in that applies its documented filters to the program's launches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.made.cupti import END, START, Recording
from rooflens.tests.standins.ncu_filters import DEFAULT, Launch, page
from rooflens.tools.import_profile import import_profile
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running.counting import plan_counting
from rooflens.tools.running.request import ProfileRequest
from rooflens.tools.running.run_state import ProfileRun, RunState, write

COUNTER = "smsp__inst_executed.sum"
STEPS = 4
MAIN, AUTOGRAD = 1, 2
WIDE = {"launch__registers_per_thread": "40"}


class Program:
    """Steps of a forward pass and a backward pass in a thread of its own; kernel ``gemm`` in all of them and before."""

    def __init__(self) -> None:
        self.recording = Recording().device()
        self.launches: list[Launch] = []
        self.time = self.marks = 0
        self.open: list[tuple[int, str, str]] = []

    def push(self, name: str, domain: str = "") -> None:
        self.time, self.marks = self.time + 10, self.marks + 1
        self.recording.mark(self.time, self.marks, START, name, MAIN, domain)
        self.open.append((self.marks, name, domain or DEFAULT))

    def pop(self) -> None:
        self.time += 10
        number, _, _ = self.open.pop()
        self.recording.mark(self.time, number, END, thread=MAIN)

    def launch(self, kernel: str, thread: int = MAIN) -> None:
        self.time += 10
        self.recording.launch(self.time, thread, kernel)
        stacks: dict[str, list[str]] = {}
        for _, name, domain in self.open:
            stacks.setdefault(domain, []).append(name)
        own = {"pushed": stacks} if thread == MAIN else {"elsewhere": stacks}
        self.launches.append(Launch(kernel, **own))

    def run(self, *, domain: str = "", marked: bool = True) -> Program:
        for kernel in ("gemm", "gemm", "copy"):
            self.launch(kernel)
        for _ in range(STEPS if marked else 0):
            self.push("step", domain)
            self.push("forward [1/2]", domain)
            self.launch("gemm")
            self.launch("norm")
            self.pop()
            self.push("loss")
            self.launch("gemm", AUTOGRAD)
            self.pop()
            self.pop()
        return self


class Node:
    """A run whose times are there; ``count`` plans, lets the stand-in measure, and imports."""

    def __init__(self, root: Path) -> None:
        self.store, self.id = Store(root / "store"), "run-0000000000000000"
        folder = self.store.new_run(self.id)
        write(folder, ProfileRun(run_id=self.id, name="step", timeout_s=60, out="out/step"))
        write(folder, RunState())
        self.out = folder / "out" / "step"

    def count(self, program: Program, *, process: bool = True, **asked: Any) -> dict[str, Any]:
        program.recording.put(self.out / "timing" / "node_100.record")
        request = ProfileRequest((), ((COUNTER,),), range=asked.pop("range"), replay="kernel", target="sm_90")
        run = ProfileRun(
            run_id=self.id, name="step", timeout_s=60, out="out/step", profiler="ncu", profiler_path="ncu",
            metrics=[COUNTER], features={"version": [2025, 3], "whole_process": process}, request=request,
            **{"launches": 2, **asked},
        )  # fmt: skip
        write(self.store.run_folder(self.id), run)
        selection = {"kernel": None, "range": request.range}
        answer = plan_counting(self.store, lambda *_: None, self.id, selection, 1.0)  # type: ignore[arg-type]
        (step,) = answer["steps"]
        for name, text in step["files"].items():
            path = self.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        times = {"gpu__time_duration.sum": "100", **WIDE}
        (self.out / "pass_1").mkdir(exist_ok=True)
        (self.out / "pass_1" / "raw.csv").write_text(page(step["argv"], program.launches, times))
        self.step = step
        return answer

    def counted(self) -> dict[int, int]:
        """Launch of the program -> the launch whose counter it was given (the stand-in counts their numbers)."""
        done = import_profile(self.store, str(self.out))
        sql = f"SELECT dispatch_id, \"{COUNTER}\" FROM counters WHERE workload = '{done.workload}' ORDER BY 1"
        rows = query_counters(self.store, sql).table.rows
        self.warnings = done.warnings
        return {row[0]: int(row[1]) - 1 for row in rows if row[1] is not None}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def told(step: dict[str, Any], option: str) -> list[str]:
    return [step["argv"][i + 1] for i, word in enumerate(step["argv"]) if word == option]


def test_launches_of_a_range_are_counted_and_find_their_own_times(node: Node) -> None:
    program = Program().run()
    node.count(program, range="forward [1/2]")
    assert told(node.step, "--nvtx-include") == ["forward \\[1\\/2\\]/", "forward \\[1\\/2\\]"]
    assert told(node.step, "--nvtx-push-pop-scope") == ["process"]
    # Each step launches gemm (3), norm (4) and gemm of the backward pass (5), which is not of this range.
    assert node.counted() == {3: 3, 4: 4, 6: 6, 7: 7}
    assert node.warnings == []


def test_without_the_scope_of_a_process_launches_pair_within_their_configuration(node: Node) -> None:
    program = Program().run()
    node.count(program, range="step", process=False, launches=3)
    assert "--nvtx-push-pop-scope" not in node.step["argv"]
    found = node.counted()
    assert sorted(found.values()) == [3, 4, 6, 7, 9, 10], "ncu sees none of the backward pass"
    assert {program.launches[mine].kernel == program.launches[its].kernel for mine, its in found.items()} == {True}
    assert set(found) == {3, 4, 5, 6, 7, 10}, "within the range all the same"


def test_a_path_and_a_domain_are_told_as_the_program_names_them(node: Node) -> None:
    node.count(Program().run(domain="my@app"), range="step/forward [1/2]")
    assert told(node.step, "--nvtx-include") == [
        "my\\@app@step/forward \\[1\\/2\\]", "my\\@app@forward \\[1\\/2\\]",
    ]  # fmt: skip
    assert node.counted() == {3: 3, 4: 4, 6: 6, 7: 7}


def test_a_path_over_two_domains_is_told_by_the_inner_range(node: Node) -> None:
    program = Program()
    program.push("step")
    program.push("forward", "lib")
    program.launch("gemm")
    program.pop()
    program.pop()
    node.count(program, range="step/forward")
    assert told(node.step, "--nvtx-include") == ["lib@forward/", "lib@forward"]
    assert node.counted() == {0: 0}


def test_where_no_ranges_were_recorded_ncu_is_told_the_name_as_it_was_spelled(node: Node) -> None:
    answer = node.count(Program().run(marked=False), range="step/forward")
    assert told(node.step, "--nvtx-include") == [
        "step\\/forward/", "step\\/forward", "step/forward", "forward",
    ]  # fmt: skip
    assert "2 launches of every configuration" in answer["remarks"][0]


def test_the_domain_of_a_range_is_in_the_table(node: Node) -> None:
    Program().run(domain="lib").recording.put(node.out / "timing" / "node_100.record")
    done = import_profile(node.store, str(node.out / "timing"))
    sql = f"SELECT DISTINCT name, domain FROM ranges WHERE workload = '{done.workload}' ORDER BY 1"
    assert query_counters(node.store, sql).table.rows == [["forward [1/2]", "lib"], ["loss", None], ["step", "lib"]]
