"""Recorded timelines: shares held against sums by brute force, and verdicts, whatever the ranges are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rooflens.analysis.store.manifest import PcieLink
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, chrome, publish, union

VERDICTS = {"gpu_bound": "gpu", "launch_bound": "launch", "dataloader": "host", "pageable": "copies"}
POINTS = 0.01
"""Of a percent: intervals of whole ns leave no room for more."""


@dataclass
class Recorded:
    """A recorded trace as its events, and as a workload of a store."""

    name: str
    made: Made
    store: Store

    def told(self, **asked: bool) -> Timeline:
        with Workload.open(self.store, "made") as workload:
            return timeline(workload, TimelineRequest(**asked))


@pytest.fixture(scope="module", params=VERDICTS)
def recorded(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = shared / "traces" / f"{request.param}.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    store, made = Store(tmp_path_factory.mktemp("recorded")), chrome(path)
    publish(store, made)
    return Recorded(request.param, made, store)


def by_force(made: Made, start: int, end: int) -> dict[str, float]:
    """Shares of the window in %, from the events one by one."""
    on = {k: [(e["start_ns"], e["end_ns"]) for e in made.events if e["kind"] in k.split()] for k in
          ("kernel fill copy", "kernel", "fill copy")}  # fmt: skip
    return {kinds: 100 * union(intervals, start, end) / (end - start) for kinds, intervals in on.items()}


def check_shares(found: Timeline, made: Made) -> None:
    [window] = found.windows
    total, expected = found.total, by_force(made, *window)
    assert 100 * total.any / total.wall == pytest.approx(expected["kernel fill copy"], abs=POINTS)
    assert 100 * total.kernels / total.wall == pytest.approx(expected["kernel"], abs=POINTS)
    assert 100 * total.memory / total.wall == pytest.approx(expected["fill copy"], abs=POINTS)
    assert found.idle_pct == pytest.approx(100 - expected["kernel fill copy"], abs=POINTS)
    assert sum(idle.ns for idle, _ in found.causes) == total.idle, "every idle ns has one cause"


def check_verdict(found: Timeline, height: str) -> None:
    assert found.verdict.height == height
    assert found.verdict.confidence > 0.7
    assert found.findings[0].height == height
    assert found.findings[0].evidence and found.findings[0].advice and found.findings[0].falsify


def check_steps(found: Timeline, recording: str, by: str) -> None:
    """Six steps of this many ms were recorded; the first and the last end where nothing can be seen."""
    per_step = {"gpu_bound": 19.1, "launch_bound": 19.2, "dataloader": 40.3, "pageable": 208}[recording]
    steps = found.steps
    assert steps is not None and found.selected == "steady" and steps.by == by
    window = found.windows[0]
    assert (window.end - window.start) / 1e6 >= 3 * per_step * 0.8
    if len(steps.starts) == 6:
        assert (window.end - window.start) / 1e6 / steps.count == pytest.approx(per_step, rel=0.12)


def test_verdict_steps_and_shares_of_a_recording_are_right(recorded: Recorded) -> None:
    """Shares are those of a sum by brute force, and those that the recordings' own README gives."""
    stated = {"gpu_bound": (96.8, 0.7), "launch_bound": (7.7, 0.0), "dataloader": (0.4, 2.6), "pageable": (5.3, 90.2)}
    found = recorded.told()
    for one in (found, recorded.told(steady=False)):
        check_verdict(one, VERDICTS[recorded.name])
        check_shares(one, recorded.made)
    check_steps(found, recorded.name, "range")
    assert found.steps and found.steps.name == "step"
    if recorded.name == "dataloader":
        idle, doing = found.causes[0]
        assert (idle.cause, doing.range) == ("host", "step/load")
        assert doing.operations[0][0] == "aten::normal_", "random numbers made on the CPU"
    kernels, copies = stated[recorded.name]
    assert 100 * found.whole.kernels / found.whole.wall == pytest.approx(kernels, abs=0.5)
    assert 100 * found.whole.copies / found.whole.wall == pytest.approx(copies, abs=0.5)


@pytest.mark.parametrize("recorded", ["dataloader", "pageable"], indirect=True)
def test_verdict_and_steps_do_not_depend_on_the_names_of_ranges(recorded: Recorded, tmp_path: Path) -> None:
    """One recording has other names of ranges, and one has no ranges."""
    made, store, renamed = recorded.made, Store(tmp_path), recorded.name == "dataloader"
    ranges = [r | {"name": f"zone {i % 7}", "path": "zone"} for i, r in enumerate(made.ranges)] if renamed else []
    with Workload.open(store, publish(store, Made(made.events, ranges))) as workload:
        found = timeline(workload)
    check_verdict(found, VERDICTS[recorded.name])
    if not renamed:
        check_steps(found, recorded.name, "kernels")


def test_pageable_copies_are_told_with_their_rate_and_that_of_the_link(shared: Path, tmp_path: Path) -> None:
    store, made = Store(tmp_path), chrome(shared / "traces" / "pageable.json.gz")
    with Workload.open(store, publish(store, made, link=PcieLink(generation=5, width=16))) as workload:
        found = timeline(workload, TimelineRequest(steady=False))
    rows = {row["direction"]: row for row in found.copies}
    assert {d: row["host_memory"] for d, row in rows.items()} == {"h2d": "pageable", "d2h": "pageable"}
    assert rows["h2d"]["bytes"] == rows["d2h"]["bytes"] == 6 * (256 << 20)
    assert rows["d2h"]["gbs"] == pytest.approx(1.70, abs=0.02)
    told = "1.7 GB/s (the link, PCIe 5.0 x16, carries up to 63; from pinned memory expect about 52)"
    assert any("pageable" in line and told in line for line in found.findings[0].evidence)
