"""plot(kind="host"): the stacks of the host as a picture, its words, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput
from rooflens.analysis.plot.host_content import of_tree
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.host_code import Frame
from rooflens.analysis.timeline.host_tree import Cells, HostTree, host_tree
from rooflens.analysis.workload import Workload
from rooflens.server.mcp import toolbox
from rooflens.tests.support.pictures import collisions, outside, texts
from rooflens.tests.support.timelines import Made, publish
from rooflens.tests.system.server.test_hostile_text import PAYLOADS, active, strings
from rooflens.tools.plot import DRAWINGS, PlotResult, plot
from rooflens.tools.rendering import render

MS = 1_000_000


def training(*functions: str) -> Made:
    """A program whose GPU waits for these functions, each through a library, while another thread sleeps."""
    made = Made()
    stacks = [made.stack(f"main train.py:{n}", "call lib/torch/a.py:1", "call lib/b.py:2", f"{function} data.py:{n}")
              for n, function in enumerate(functions, 1)]  # fmt: skip
    sleep = made.stack("<module> watch.py:1", "sleep watch.py:2")
    for n in range(12):
        at = 40 * n * MS
        made.launch("k", (at, at + MS), (at + 2 * MS, at + 12 * MS))
        made.sample(stacks[n % len(stacks)], at, at + 40 * MS)
        made.sample(sleep, at, at + 40 * MS, thread=2)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_the_picture_shows_all_time_and_that_of_an_idle_gpu(store: Store) -> None:
    publish(store, training("load", "parse", "load"))
    found = plot(store, "host", "made")
    assert Path(found.png_path).read_bytes() == found.image and "-host-" in found.png_path
    lines = found.description.splitlines()
    assert lines[0] == "All time of main thread 1: 452 ms." and lines[1] == "While a GPU is idle: 330 ms."
    assert "parse (data.py:2): time of all threads 160 ms, GPU idle 120 ms." in lines[2:4]
    assert "sleep (watch.py:2): time" not in found.description, "the GPU does not wait for it"
    svg = Path(found.svg_path).read_text()
    assert svg.count('id="call"') >= 2 * 6, "three lines of main, three boxes of libraries, three functions, twice"
    (step,) = found.next
    assert (step.tool, step.arguments["by"]) == ("find_hotspots", "host_line")


def test_runs_of_library_frames_are_one_box_named_after_the_innermost_package(store: Store) -> None:
    publish(store, training("load", "parse"))
    with Workload.open(store, "made") as workload:
        tree = host_tree(workload)
        assert tree is not None
        picture, _ = of_tree(tree, "title")
    for icicle in picture.icicles:
        rows = {row: {box.name for box in icicle.boxes if box.row == row} for row in range(4)}
        assert rows == {0: {"main:1", "main:2"}, 1: {"lib"}, 2: {"load:1", "parse:2"}, 3: set()}
        widths = [sum(box.width for box in icicle.boxes if box.row == row) for row in range(3)]
        assert widths == pytest.approx([1, 1, 1])
        below = {box.name: box.left for box in icicle.boxes}
        assert abs(below["load:1"] - below["main:1"]) < 1e-9, "callees lie below their callers"
        assert {box.file for box in icicle.boxes} == {"/app/train.py", "/app/data.py", None}


def test_names_fit_into_their_boxes_and_do_not_act(store: Store) -> None:
    functions = ("f" * 300, *PAYLOADS)
    made = training(*(f"name{n}" for n in range(len(functions))))
    for row in made.host_stacks:  # names with spaces
        if row["function"].startswith("name"):
            row["function"] = functions[int(row["function"].removeprefix("name"))]
    publish(store, made)
    with Workload.open(store, "made") as workload:
        picture = DRAWINGS["host"](workload).picture(800)
    assert outside(picture) == [] and collisions(picture) == []
    words = [text for text, _ in texts(picture)]
    assert "Stacks of the host: made" in words and any(text.startswith("While a GPU is idle") for text in words)
    answer = toolbox.answer(store, "plot", {"kind": "host", "workload": "made"})
    assert isinstance(answer, PlotResult)
    shown = {*strings(render.structured_content(answer)), render.text(answer)}
    assert {text: what for text in shown if (what := active(text))} == {}


def test_without_devices_or_times_only_samples_are_drawn() -> None:
    frames = [Frame("main", "/app/a.py", 1, None, True), Frame("f", "/app/a.py", 2, None, True)]
    zero = np.zeros(2, dtype=np.int64)
    cells = Cells(np.array([0, 1]), zero, zero, np.array([3.0, 7.0]), None)
    tree = HostTree(frames, np.array([-1, 0]), np.array([0, 1]), ["main thread 7"], ["all"], cells, "samples")
    picture, facts = of_tree(tree, "title")
    assert facts == ["All time of main thread 7: 10 samples.", "f (a.py:2): time of all threads 7 samples.",
                     "main (a.py:1): time of all threads 3 samples."]  # fmt: skip
    assert len(picture.icicles) == 1


def test_a_workload_without_stacks_of_the_host_says_how_to_get_them(store: Store) -> None:
    made = training("load")
    made.host_stacks.clear()
    made.host_samples.clear()
    publish(store, made)
    with pytest.raises(BadInput, match="no stacks of the host") as refusal:
        plot(store, "host", "made")
    assert "profile_command" in refusal.value.text and "with_stack=True" in refusal.value.text
    with pytest.raises(BadArgument, match="only for the other kinds"):
        plot(store, "host", "made", kernel="k")
