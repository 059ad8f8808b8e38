"""Recorded timelines: shares held against sums by brute force, and verdicts, whatever the ranges are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.manifest import PcieLink
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, chrome, publish, union

VERDICTS = {"gpu_bound": "gpu", "launch_bound": "launch", "dataloader": "host", "pageable": "copies"}
POINTS = 0.01
"""Of a percent: intervals of whole ns leave no room for more."""


@pytest.fixture(scope="module", params=VERDICTS)
def recorded(request: pytest.FixtureRequest, shared: Path) -> tuple[str, Made]:
    path = shared / "traces" / f"{request.param}.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    return request.param, chrome(path)


def by_force(made: Made, start: int, end: int) -> dict[str, float]:
    """Shares of the window in %, from the events one by one."""
    on = {k: [(e["start_ns"], e["end_ns"]) for e in made.events if e["kind"] in k.split()] for k in
          ("kernel fill copy", "kernel", "fill copy")}  # fmt: skip
    return {kinds: 100 * union(intervals, start, end) / (end - start) for kinds, intervals in on.items()}


@pytest.mark.parametrize("steady", [True, False])
def test_shares_are_those_of_a_sum_by_brute_force(recorded: tuple[str, Made], tmp_path: Path, steady: bool) -> None:
    store, (_, made) = Store(tmp_path), recorded
    with Workload.open(store, publish(store, made)) as workload:
        found = timeline(workload, TimelineRequest(steady=steady))
        [window] = found.windows
        total = found.total
    expected = by_force(made, *window)
    assert 100 * total.any / total.wall == pytest.approx(expected["kernel fill copy"], abs=POINTS)
    assert 100 * total.kernels / total.wall == pytest.approx(expected["kernel"], abs=POINTS)
    assert 100 * total.copies / total.wall == pytest.approx(expected["fill copy"], abs=POINTS)
    assert found.idle_pct == pytest.approx(100 - expected["kernel fill copy"], abs=POINTS)
    assert sum(idle.ns for idle, _ in found.causes) == total.idle, "every idle ns has one cause"


def test_the_whole_is_what_the_recording_states_of_itself(recorded: tuple[str, Made], tmp_path: Path) -> None:
    """Busy shares that the recordings' own README gives."""
    stated = {"gpu_bound": (96.8, 0.7), "launch_bound": (7.7, 0.0), "dataloader": (0.4, 2.6), "pageable": (5.3, 90.2)}
    store, (name, made) = Store(tmp_path), recorded
    with Workload.open(store, publish(store, made)) as workload:
        whole = timeline(workload).whole
    kernels, copies = stated[name]
    assert 100 * whole.kernels / whole.wall == pytest.approx(kernels, abs=0.5)
    assert 100 * whole.copies / whole.wall == pytest.approx(copies, abs=0.5)


@pytest.mark.parametrize("ranges", ["as they are", "renamed", "of operators alone", "none"])
@pytest.mark.parametrize("steady", [True, False])
def test_the_verdict_is_right_whatever_the_ranges_are(
    recorded: tuple[str, Made], tmp_path: Path, ranges: str, steady: bool
) -> None:
    store, (name, made) = Store(tmp_path), recorded
    kept = {
        "as they are": made.ranges,
        "renamed": [r | {"name": f"zone {i % 7}", "path": "zone"} for i, r in enumerate(made.ranges)],
        "of operators alone": [r for r in made.ranges if r["source"] == "torch"],
        "none": [],
    }[ranges]
    with Workload.open(store, publish(store, Made(made.events, kept))) as workload:
        found = timeline(workload, TimelineRequest(steady=steady))
    assert found.verdict.height == VERDICTS[name]
    assert found.verdict.confidence > 0.7
    assert found.findings[0].height == VERDICTS[name]
    assert found.findings[0].evidence and found.findings[0].advice and found.findings[0].falsify


@pytest.mark.parametrize("ranges", [True, False])
def test_steps_are_found_with_and_without_ranges(recorded: tuple[str, Made], tmp_path: Path, ranges: bool) -> None:
    """Six steps of this many ms were recorded; the first and the last end where nothing can be seen."""
    per_step = {"gpu_bound": 19.1, "launch_bound": 19.2, "dataloader": 40.3, "pageable": 208}
    store, (name, made) = Store(tmp_path), recorded
    with Workload.open(store, publish(store, Made(made.events, made.ranges if ranges else []))) as workload:
        found = timeline(workload)
    steps = found.steps
    assert steps is not None and found.selected == "steady"
    assert steps.by == ("range" if ranges else "kernels")
    if ranges:
        assert steps.name == "step"
    window = found.windows[0]
    assert (window.end - window.start) / 1e6 >= 3 * per_step[name] * 0.8
    if len(steps.starts) == 6:
        mean = (window.end - window.start) / 1e6 / steps.count
        assert mean == pytest.approx(per_step[name], rel=0.12)


def test_the_host_is_told_by_its_range_and_operations(shared: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with Workload.open(store, publish(store, chrome(shared / "traces" / "dataloader.json.gz"))) as workload:
        found = timeline(workload)
    idle, doing = found.causes[0]
    assert idle.cause == "host" and doing.range == "step/load"
    assert doing.operations[0][0] == "aten::normal_", "random numbers made on the CPU"


def test_pageable_copies_are_told_with_their_rate(shared: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with Workload.open(store, publish(store, chrome(shared / "traces" / "pageable.json.gz"))) as workload:
        found = timeline(workload, TimelineRequest(steady=False))
    rows = {row["direction"]: row for row in found.copies}
    assert {d: row["host_memory"] for d, row in rows.items()} == {"h2d": "pageable", "d2h": "pageable"}
    assert rows["h2d"]["bytes"] == rows["d2h"]["bytes"] == 6 * (256 << 20)
    assert rows["d2h"]["gbs"] == pytest.approx(1.70, abs=0.02)
    assert any(
        "pageable" in line and "1.7 GB/s; speed-up without them at most x" in line
        for line in found.findings[0].evidence
    )


def test_a_slow_copy_is_held_against_the_link_where_that_is_known(shared: Path, tmp_path: Path) -> None:
    store, made = Store(tmp_path), chrome(shared / "traces" / "pageable.json.gz")
    with Workload.open(store, publish(store, made, link=PcieLink(generation=5, width=16))) as workload:
        found = timeline(workload, TimelineRequest(steady=False))
    told = "1.7 GB/s (the link, PCIe 5.0 x16, carries up to 63; from pinned memory expect about 52)"
    assert any(told in line for line in found.findings[0].evidence)
