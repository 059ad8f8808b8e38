"""Figures on launches and the table of ranges, within windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.timelines import Made, publish

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


@pytest.mark.parametrize(("gap_us", "index"), [(0, 1.0), (950, 2.0)])
def test_a_graph_launch_counts_with_all_its_kernels(tmp_path: Path, gap_us: int, index: float) -> None:
    found = {f.name: f.value for f in told(tmp_path, replays(gap_us)).figures}
    assert found["launch_bound_index"] == pytest.approx(index, rel=1e-3)
    assert found["device_us_per_launch"] == pytest.approx(950)
    assert found["mean_kernel_us"] == pytest.approx(19)


def test_a_graph_that_begins_with_a_fill_counts_as_one_launch(tmp_path: Path) -> None:
    found = {f.name: f.value for f in told(tmp_path, replays(0, first="fill")).figures}
    assert found["device_us_per_launch"] == pytest.approx(49 * 19)
