"""The columns of a timeline give back every event; of too many the longest stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflens.analysis.store.store import Store
from rooflens.tests.support.timelines import Made, publish
from rooflens.tools.compute_timeline import compute_timeline
from rooflens.tools.report.trace_export import events


def unpacked(drawn: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Lane, name, start and duration of every event, as the page reads them."""
    found, before, moment = [], -1, 0
    for lane, name, start, duration in zip(
        drawn["lane"], drawn["name"], drawn["start"], drawn["duration"], strict=True
    ):
        moment = start if lane != before else moment + start
        before = lane
        found.append((drawn["lanes"][lane]["name"], drawn["names"][name], moment, duration))
    return found


def made() -> Made:
    """Two kernels on a stream, a copy, their calls on two threads, and a range within a range."""
    timeline = Made()
    timeline.range("step", 1_000, 9_000)
    timeline.range("forward", 2_000, 5_000, depth=1)
    timeline.launch("k1", (1_500, 1_700), (2_000, 3_000))
    timeline.launch("k2", (1_800, 1_900), (3_500, 7_000), thread=2)
    timeline.copy("h2d", (1_100, 1_200), (1_300, 1_400))
    timeline.add("sample", "clock", 1_000, 1_000, value=1.0)
    return timeline


def test_every_event_comes_back_in_its_lane_and_work_is_paired_with_its_call(tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = publish(store, made())
    drawn = events(store, manifest.id, 100)
    assert drawn is not None
    assert (drawn["origin_ns"], drawn["span_ns"], drawn["total"], drawn["lanes_left_out"]) == (1_000, 8_000, 8, 0)
    assert sorted(unpacked(drawn)) == sorted(
        [
            ("GPU 0, stream 7", "k1", 1_000, 1_000),
            ("GPU 0, stream 7", "k2", 2_500, 3_500),
            ("GPU 0, stream 8", "copy h2d", 300, 100),
            ("thread 1", "hipLaunchKernel", 500, 200),
            ("thread 1", "hipMemcpyAsync", 100, 100),
            ("thread 2", "hipLaunchKernel", 800, 100),
            ("thread 1, ranges 1", "step", 0, 8_000),
            ("thread 1, ranges 2", "forward", 1_000, 3_000),
        ]
    )
    assert [lane["kind"] for lane in drawn["lanes"]] == ["device", "device", "host", "host", "ranges", "ranges"]

    every = [(lane, name) for lane, name in zip(drawn["lane"], drawn["name"], strict=True)]
    launched = [
        (drawn["lanes"][every[call][0]]["name"], drawn["names"][every[work][1]])
        for call, work in zip(drawn["calls"], drawn["called"], strict=True)
    ]
    assert sorted(launched) == [("thread 1", "copy h2d"), ("thread 1", "k1"), ("thread 2", "k2")]
    few = events(store, manifest.id, 2)
    assert few is not None and few["calls"] == few["called"] == [], "the calls are not among the longest"
    assert {name for _, name, _, _ in unpacked(few)} == {"step", "k2"} and few["total"] == 8


def test_the_window_is_the_analysed_part_of_the_timeline(tmp_path: Path) -> None:
    timeline = Made()
    timeline.host("hipInit", 0, 50_000_000)
    for step in range(12):
        at = 60_000_000 + step * 1_000_000
        timeline.range("step", at, at + 900_000)
        timeline.launch("k", (at, at + 1_000), (at + 2_000, at + 800_000))
    store = Store(tmp_path)
    manifest = publish(store, timeline)
    drawn = events(store, manifest.id, 100)
    analysed = compute_timeline(store, manifest.id)
    assert drawn is not None and analysed.window.endswith("steps in the steady state")
    first, last = drawn["window"]
    assert 60_000_000 <= first < last <= drawn["span_ns"] and (last - first) / 1e6 == analysed.wall_ms


def test_threads_of_processes_are_told_apart_and_lanes_beyond_the_limit_counted(tmp_path: Path) -> None:
    store, timeline = Store(tmp_path), Made()
    for thread in range(70):
        timeline.host("hipLaunchKernel", 0, 100 + thread, thread=thread, pid=7 + thread % 2)
    timeline.launch("k", (0, 1), (1, 2), pid=8)
    drawn = events(store, publish(store, timeline).id, 1_000)
    assert drawn is not None
    assert len(drawn["lanes"]) == 60 and drawn["lanes_left_out"] == 11
    assert {"thread 7/68", "thread 8/69"} <= {lane["name"] for lane in drawn["lanes"]}
    assert min(duration for _, _, _, duration in unpacked(drawn)) >= 100, "those with least time are left out"


def test_a_workload_without_events_has_none(samples: Store) -> None:
    assert events(samples, "yax_before", 10) is None
