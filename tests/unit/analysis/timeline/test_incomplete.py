"""Traces from which events are missing: they say how many and where, their figures are suspect, no verdict is sure."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.timeline.timeline import Timeline
from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import MS, US, told


def busy(count: int = 100, threads: int = 1, first_ms: int = 0) -> Made:
    """Kernels without pauses, launched in turn by threads."""
    made = Made()
    for i in range(count):
        t = (first_ms + i) * MS
        made.launch(f"k{i % 4}", (t, t + 5 * US), (t + 10 * US, t + 990 * US), thread=1 + i % threads)
    return made


def without(made: Made, kernels: set[int]) -> Made:
    """The same trace, without the kernels of these numbers."""
    number, kept = -1, []
    for event in made.events:
        number += event["kind"] == "kernel"
        if event["kind"] != "kernel" or number not in kernels:
            kept.append(event)
    return Made(kept, made.ranges, made.correlation)


def doubt_codes(analysed: Timeline) -> list[str]:
    return [doubt.code for doubt in analysed.doubts]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (range(13, 100), "87 of 100 launches (87 %) left no work in the trace: they were made after 13 ms, behind"),
        (range(20), "20 of 100 launches (20 %) left no work in the trace: they were made in the first 20 ms, before"),
        (range(30, 60), "30 of 100 launches (30 %) left no work in the trace: they were made between 30 and 59 ms"),
    ],
)
def test_launches_without_execution_are_counted_and_located(tmp_path: Path, missing: range, words: str) -> None:
    analysed = told(tmp_path, without(busy(first_ms=7), set(missing)))
    assert doubt_codes(analysed) == ["lost_launches"] and words in analysed.doubts[0].text
    assert analysed.verdict.confidence <= 0.5
    assert {f["status"] for f in analysed.figures if f["value"] is not None} == {"suspect"}
    assert all("lost_launches" in (f["reason"] or "") for f in analysed.figures if f["value"] is not None)


def test_launches_within_others_and_those_that_a_capture_records_are_not_missing(tmp_path: Path) -> None:
    made = busy(20)
    for i in range(20):
        made.host("hipExtModuleLaunchKernel", i * MS + US, i * MS + 2 * US)
    made.host("hipStreamBeginCapture", 20 * MS, 20 * MS + US)
    for i in range(10):
        made.host("hipLaunchKernel", 20 * MS + (2 + i) * US, 20 * MS + (2 + i) * US + 500)
    made.host("hipStreamEndCapture", 20 * MS + 20 * US, 20 * MS + 21 * US)
    assert doubt_codes(told(tmp_path, made)) == []


def replays(nodes: list[int]) -> Made:
    """Replays of one graph of 64 nodes, of each of which some nodes were recorded."""
    made = Made()
    for i, recorded in enumerate(nodes):
        t = i * 10 * MS
        call = made.host("hipGraphLaunch", t, t + 20 * US)
        for node in range(recorded):
            start = t + 30 * US + node * 150 * US
            made.add("kernel", f"k{node}", start, start + 140 * US, device_id=0, stream=7, correlation=call)
    return made


def test_a_replay_without_any_node_is_a_lost_launch(tmp_path: Path) -> None:
    analysed = told(tmp_path, replays([64] * 4 + [0] + [64] * 3))
    assert "1 of 8 launches (12.5 %), 1 of them of graphs," in analysed.doubts[0].text
    assert analysed.verdict.confidence <= 0.5


def test_nodes_that_replays_of_the_same_graph_lack_are_counted(tmp_path: Path) -> None:
    analysed = told(tmp_path, replays([64, 64, 64, 32, 64, 64, 32, 64]))
    assert doubt_codes(analysed) == ["lost_nodes"]
    assert "64 of 512 nodes of graphs are missing (12.5 %): 2 of 8 replays have fewer" in analysed.doubts[0].text
    assert "the first at 30.03 ms" in analysed.doubts[0].text


def test_graphs_of_different_sizes_are_not_incomplete(tmp_path: Path) -> None:
    """A smaller graph that is replayed as often as the larger one is a graph of its own."""
    assert doubt_codes(told(tmp_path, replays([64, 32] * 6))) == []


@pytest.mark.parametrize("kept", [0, 10])
def test_a_stream_that_falls_silent_is_named_with_what_was_launched_to_it(tmp_path: Path, kept: int) -> None:
    made = busy(1500)
    for i in range(30):
        t = i * 50 * MS + 995 * US
        if i < kept:
            made.launch("side", (t, t + US), (t + US, t + 2 * US), stream=9)
            made.events[-2]["stream"] = 9
        else:
            made.host("hipLaunchKernel", t, t + US, stream=9)
    analysed = told(tmp_path, made)
    (doubt,) = [d for d in analysed.doubts if d.code == "silent_streams"]
    since = kept * 50 + 0.995
    assert f"stream 9 ({30 - kept} of 30 launches, from {since:.4g} ms on)" in doubt.text
    assert {f["status"] for f in analysed.figures if f["value"] is not None} == {"suspect"}


def test_launches_without_work_between_others_of_their_stream_are_no_silence(tmp_path: Path) -> None:
    made = busy(400)
    for event in made.events:
        event["stream"] = 7
    assert "silent_streams" not in doubt_codes(told(tmp_path, without(made, set(range(0, 390, 3)))))


def test_a_device_that_falls_silent_is_named(tmp_path: Path) -> None:
    made = Made()
    for rank in range(4):
        for i in range(10 if rank == 2 else 100):
            own = {"rank": rank, "pid": 100 + rank, "device_id": 0}
            made.launch("gemm", (i * MS, i * MS + 5 * US), (i * MS + 10 * US, i * MS + 990 * US), **own)
    analysed = told(tmp_path, made, steady=False)
    assert doubt_codes(analysed) == ["silent_devices"]
    assert "1 of 4 devices work during a part of the trace only: rank 2, GPU 0 from 0.01 to 9.99 ms" in (
        analysed.doubts[0].text
    )


@pytest.mark.parametrize(("apart", "doubted"), [(1, False), (14, False), (200, True)])
def test_a_sample_of_the_calls_shows_in_their_correlation_ids(tmp_path: Path, apart: int, doubted: bool) -> None:
    made = busy(300)
    for event in made.events:
        event["correlation"] *= apart
    analysed = told(tmp_path, made)
    assert doubt_codes(analysed) == (["sampled"] if doubted else [])
    assert (analysed.verdict.confidence <= 0.5) == doubted


def test_a_pause_of_the_recording_is_no_sample_and_a_single_missing_launch_no_doubt(tmp_path: Path) -> None:
    made = without(busy(300), {70})
    for event in made.events[len(made.events) // 2 :]:
        event["correlation"] += 1_000_000
    assert doubt_codes(told(tmp_path, made)) == []
