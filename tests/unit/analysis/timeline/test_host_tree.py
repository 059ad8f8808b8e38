"""The tree of calls of the host: its values are those of the spans and of the charged idle time, however it is cut."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import host_lines
from rooflens.analysis.timeline.host_code import Frame, HostCode, ThreadCode
from rooflens.analysis.timeline.host_idle import CODE_CAUSES
from rooflens.analysis.timeline.host_tree import HostTree, host_tree, tree_of
from rooflens.analysis.timeline.host_waits import Charges
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

MS = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def training(steps: int) -> Made:
    """A program that loads its data before each step and waits in the library for the rest of it."""
    made = Made()
    load = made.stack("main train.py:9", "load data.py:3", "decode lib/image.py:7")
    forward, log = (
        made.stack("main train.py:10", "call lib/torch/nn.py:5"),
        made.stack("main train.py:11", "log io.py:1"),
    )
    made.host("hipInit", 0, 10 * MS)
    for n in range(steps):
        at = (20 + 40 * n) * MS
        made.range("step", at, at + 38 * MS)
        made.launch("k", (at + 10 * MS, at + 11 * MS), (at + 12 * MS, at + 30 * MS))
        made.sample(load, at - 10 * MS, at + 10 * MS)
        made.sample(forward, at + 10 * MS, at + 25 * MS)
        made.sample(log, at + 25 * MS, at + 30 * MS)
        made.sample(log, at, at + 40 * MS, thread=2)
    return made


def tree_in(store: Store, made: Made) -> tuple[HostTree, list[dict[str, object]]]:
    with Workload.open(store, publish(store, made)) as workload:
        tree = host_tree(workload)
        assert tree is not None
        return tree, host_lines.rows(workload)


def by_function(tree: HostTree, values: np.ndarray) -> dict[str, float]:
    """The own values of cells by the function of their node, in ms."""
    sums: dict[str, float] = {}
    for node, value in zip(tree.cells.node, values, strict=True):
        function = tree.frames[tree.frame[node]].function
        sums[function] = sums.get(function, 0) + value / MS
    return {function: ms for function, ms in sums.items() if ms}


def test_time_is_that_of_the_spans_by_thread(store: Store) -> None:
    tree, _ = tree_in(store, training(5))
    assert tree.threads == ["main thread 1", "thread 2 of process 1"]
    main = np.where(tree.cells.thread == 0, tree.cells.time, 0)
    assert by_function(tree, main) == {"decode": 100, "call": 75, "log": 25}
    # The trace ends with the last range, 2 ms before the last sample.
    assert by_function(tree, tree.cells.time - main) == {"log": 198}
    assert all(parent < node for node, parent in enumerate(tree.parent))


def test_idle_time_is_that_of_the_table_of_lines(store: Store) -> None:
    tree, rows = tree_in(store, training(5))
    assert tree.cells.idle_ns is not None
    wanted: dict[str, float] = {}
    for row in rows:
        wanted[str(row["function"])] = wanted.get(str(row["function"]), 0) + float(str(row["idle_ns"])) / MS
    found = by_function(tree, tree.cells.idle_ns)
    assert found == pytest.approx({name: ms for name, ms in wanted.items() if ms}, abs=1e-3)
    assert found["decode"] > 30 and set(tree.cells.thread[tree.cells.idle_ns > 0]) == {0}, "of the launching thread"
    total = dict.fromkeys(found, 0.0)
    for node, value in enumerate(tree.inclusive(tree.cells.idle_ns)):
        function = tree.frames[tree.frame[node]].function
        total[function] = total.get(function, 0) + value / MS
    assert total["load"] == pytest.approx(found["decode"]) and total["main"] == pytest.approx(sum(found.values()))


def test_steps_divide_the_time_and_many_are_joined(store: Store) -> None:
    tree, _ = tree_in(store, training(5))
    assert tree.steps == ["before the steps", "step 1", "step 2", "step 3", "step 4", "after the steps"]
    third = np.where((tree.cells.step == 3) & (tree.cells.thread == 0), tree.cells.time, 0)
    # A step begins with its work on the device, 12 ms after its range.
    assert by_function(tree, third) == {"call": 15, "log": 5, "decode": 20}
    many, _ = tree_in(store, training(50))
    assert many.steps[1:3] == ["steps 1 to 3", "steps 4 to 6"] and len(many.steps) <= 22
    assert by_function(many, np.where(many.cells.thread == 0, many.cells.time, 0))["decode"] == 1000
    whole, _ = tree_in(store, training(1))
    assert whole.steps == ["all"] and set(whole.cells.step) == {0}, "without certain steps"


def code(spans: int, stacks: int, deep: int) -> HostCode:
    """Spans of equal length that go through stacks which share their outer frames."""
    made: list[tuple[Frame, ...]] = [()]
    for n in range(stacks):
        frames = [
            Frame(f"f{n % (depth + 1)}", f"/app/{depth}.py", n % 7, None, depth % 3 == 0) for depth in range(deep)
        ]
        made.append((*frames, Frame(f"leaf{n}", "/app/leaf.py", n, None, True)))
    start = np.arange(spans, dtype=np.int64) * 10
    return HostCode(made, {(7, 7): ThreadCode(start, start + 10, 1 + start // 10 % stacks)})


def test_small_nodes_are_merged_into_their_callers_and_sums_stay() -> None:
    many = code(20_000, 2_000, 5)
    at, ns = np.array([0, 100, 100]), np.zeros((len(CODE_CAUSES), 3))
    ns[0] = 300.0, 200.0, 0.1
    idle = Charges(np.array([5, 5, 6]), at, at, ns, gap=at)
    tree = tree_of(many, np.array([0, 100, 200_000]), ["one", "two"], [((7, 7), idle)])
    functions = {frame.function for frame in tree.frames}
    # Each innermost function has 1/2000 of the time; one of them has nearly all idle time.
    assert "leaf4" in functions and "leaf5" not in functions and "leaf7" not in functions
    assert tree.cells.time.sum() == 200_000 and tree.cells.time[tree.cells.step == 0].sum() == 100
    assert tree.cells.idle_ns is not None
    by_step = [float(tree.cells.idle_ns[tree.cells.step == step].sum()) for step in (0, 1)]
    assert by_step == pytest.approx([300, 200.1])


def test_recursion_stays_in_the_tree() -> None:
    f, g = Frame("f", "/app/a.py", 1, None, True), Frame("g", "/app/a.py", 2, None, True)
    deep = replace(code(10, 1, 1), stacks=[(), (f, g, f, g, f)])
    tree = tree_of(deep, np.array([0, 100]), ["all"], None)
    assert tree.parent.tolist() == [-1, 0, 1, 2, 3] and len(tree.frames) == 2


def test_fifty_thousand_spans_take_less_than_half_a_second() -> None:
    many = code(50_000, 2_000, 30)
    edges, names = np.linspace(0, 500_000, 23).astype(np.int64), [str(n) for n in range(22)]
    began = time.perf_counter()
    tree = tree_of(many, edges, names, None)
    took = time.perf_counter() - began
    assert tree.cells.time.sum() == 500_000 and len(tree.parent) > 30
    assert took < 0.5
