"""Figures on launches and the table of ranges, within windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

US, MS = 1_000, 1_000_000


def told(folder: Path, made: Made, *, steady: bool = False) -> Timeline:
    with Workload.open(store := Store(folder), publish(store, made).id) as opened:
        return timeline(opened, TimelineRequest(top_n=20, steady=steady))


def replays(gap_us: int, *, first: str = "kernel") -> Made:
    """Graphs of 50 kernels of 19 us that the host launches every 950 us and ``gap_us``."""
    made, t = Made(), 0
    for _ in range(20):
        number = made.host("hipGraphLaunch", t, t + 20 * US)
        for i in range(50):
            kind, start = first if i == 0 else "kernel", t + (25 + 19 * i) * US
            made.add(kind, f"k{i}", start, start + 19 * US, device_id=0, stream=7, correlation=number)
        t += (950 + gap_us) * US
    return made


@pytest.mark.parametrize(("gap_us", "first", "index", "kernels"), [(950, "kernel", 2.0, 50), (0, "fill", None, 49)])
def test_a_graph_launch_counts_with_all_its_kernels_also_if_it_begins_with_a_fill(
    tmp_path: Path, gap_us: int, first: str, index: float | None, kernels: int
) -> None:
    found = {f["figure"]: f["value"] for f in told(tmp_path, replays(gap_us, first=first)).figures}
    assert index is None or found["launch_bound_index"] == pytest.approx(index, rel=1e-3)
    assert found["device_us_per_launch"] == pytest.approx(kernels * 19)
    assert found["mean_kernel_us"] == pytest.approx(19)


def ahead() -> Made:
    """Steps of 1 ms of device work in two halves, launched 5 ms ahead on two streams that overlap."""
    made = Made()
    for step in range(10):
        t, run = step * 100 * US, 5 * MS + step * MS
        made.range("step", t, t + 90 * US)
        for half in range(2):
            asked, start = t + (10 + 40 * half) * US, run + half * 400 * US
            made.range("half", asked, asked + 30 * US, depth=1)
            made.range("half", asked + US, asked + 29 * US, depth=2)
            made.launch("k", (asked + 2 * US, asked + 5 * US), (start, start + 600 * US), stream=7 + half)
        made.range("log", t + 91 * US, t + 95 * US)
    return made


def test_ranges_count_by_their_device_work_and_parts_are_no_more_than_the_whole(tmp_path: Path) -> None:
    found = told(tmp_path, ahead(), steady=True)
    [(start, end)] = found.windows
    steps = (end - start) // MS
    of = {row["range"]: row for row in found.ranges}
    assert 5 <= steps < 10 and of["step"]["count"] == steps, "those launched before the window count as well"
    assert of["half"]["count"] == 4 * steps
    assert of["step"]["device_ns"] == of["half"]["device_ns"] == steps * MS, (
        "neither nested nor overlapping work counts twice"
    )
    assert of["step"]["host_ns"] == steps * 90 * US


def test_ranges_without_device_work_count_by_their_time_on_the_host(tmp_path: Path) -> None:
    of = {row["range"]: row for row in told(tmp_path / "whole", ahead()).ranges}
    assert tuple(of["log"][name] for name in ("count", "host_ns", "device_ns")) == (10, 10 * 4 * US, 0)
    assert "log" not in {row["range"] for row in told(tmp_path / "steady", ahead(), steady=True).ranges}


def test_device_work_belongs_to_ranges_of_its_own_process(tmp_path: Path) -> None:
    made = Made()
    for pid in (1, 2):
        made.range("step", 0, 100 * US, pid=pid)
        made.launch("k", (10 * US, 12 * US), (pid * MS, pid * MS + pid * 100 * US), pid=pid)
    rows = told(tmp_path, made).ranges
    assert [(row["range"], row["count"], row["device_ns"]) for row in rows] == [
        ("step", 1, 100 * US),
        ("step", 1, 200 * US),
    ]
