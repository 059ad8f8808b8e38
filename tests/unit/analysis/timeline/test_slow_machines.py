"""Slow launches are launches: the limits on times of host and queue go by the pace of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.timeline.idle import launch_ns, scale_limits
from rooflens.analysis.timeline.rules import rules
from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import CASES, MS, US, shares, told

SLOWER = 30


@pytest.mark.parametrize("case", ["sync per operation", "small batches"])
def test_a_machine_on_which_everything_takes_30_times_as_long_gets_the_same_verdict(tmp_path: Path, case: str) -> None:
    make, height = CASES[case]
    made = make()
    for row in [*made.events, *made.ranges]:
        row["start_ns"], row["end_ns"] = SLOWER * row["start_ns"], SLOWER * row["end_ns"]
    found = told(tmp_path, made)
    assert found.verdict.height == height, shares(found)


def test_a_wait_that_is_long_for_that_machine_stays_a_wait(tmp_path: Path) -> None:
    made, t = Made(), 0
    for i in range(500):
        made.launch(f"k{i % 10}", (t, t + 150 * US), (t + 5 * MS, t + 5 * MS + 3 * US))
        t += 6 * MS
    assert told(tmp_path, made).causes[0][0].cause == "waiting"


def test_launches_that_block_or_queue_up_are_as_quick_as_any(tmp_path: Path) -> None:
    """Each call lasts until its kernel of 2 ms ends; the host takes 1 ms before the next: work of the host."""
    made, t = Made(), 0
    for _ in range(50):
        made.launch("k", (t, t + 2 * MS), (t + 8 * US, t + 2 * MS))
        t += 3 * MS
    found = told(tmp_path, made)
    assert scale_limits(found.trace) == rules().limits
    assert found.causes[0][0].cause == "host"
    queued = Made()
    for i in range(50):
        queued.launch("k", (i * MS, i * MS + MS), (i * MS + 900 * US, i * MS + 1900 * US))
    assert launch_ns(told(tmp_path / "queued", queued).trace) is None
