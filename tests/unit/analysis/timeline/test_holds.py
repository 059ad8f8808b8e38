"""What holds a device: waits for events of other queues, page faults, and evicted queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.timeline.doubts import doubts
from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import MS, US, told


def queued_work() -> Made:
    """Twenty kernels of 1 ms that are queued early; 4 ms are idle before each of them."""
    made = Made()
    for i in range(20):
        t = i * 5 * MS
        made.launch("gemm", (t - 5 * MS, t - 5 * MS + 5 * US), (t + 4 * MS, t + 5 * MS))
    return made


def idle_ms(tmp_path: Path, made: Made) -> dict[str, float]:
    analysed = told(tmp_path, made, steady=False)
    return {idle.cause: idle.ns / 1e6 for idle, _ in analysed.causes}


def test_a_wait_of_the_device_that_ends_in_a_gap_explains_it_and_others_do_not(tmp_path: Path) -> None:
    made = queued_work()
    for i in range(1, 11):
        t = i * 5 * MS
        made.add("barrier", "wait for an event of queue 2", t + MS, t + 3 * MS, device_id=0, category="wait")
    made.add("barrier", "wait for an event of queue 2", 60 * MS, 150 * MS, device_id=0, category="wait")
    made.add("barrier", "record of an event", 71 * MS, 73 * MS, device_id=0, category="record")
    made.add("barrier", "wait for an event of queue 2", 71 * MS, 73 * MS, device_id=1, category="wait")
    found = idle_ms(tmp_path, made)
    assert found["event_wait"] == pytest.approx(10 * 2)
    assert found["waiting"] == pytest.approx(19 * 4 - 10 * 2)


def test_page_faults_and_evictions_are_causes_and_overlapping_ones_count_once(tmp_path: Path) -> None:
    made = queued_work()
    for start, end in ((6, 7), (6.5, 8), (11, 12)):
        made.add("driver", "KFD_PAGE_FAULT_READ_FAULT_MIGRATED", int(start * MS), int(end * MS), device_id=0,
                 category="kfd_page_fault")  # fmt: skip
    made.add("driver", "KFD_QUEUE_EVICT_TTM", 21 * MS, 33 * MS, category="kfd_queue")
    found = idle_ms(tmp_path, made)
    # The eviction reaches over three gaps (20-24, 25-29 and 30-34 ms), of which it covers 3, 4 and 3 ms.
    assert (found["page_faults"], found["evicted"]) == (pytest.approx(3), pytest.approx(10))
    assert found["waiting"] == pytest.approx(19 * 4 - 13)


def test_a_verdict_that_rests_on_explained_waits_is_not_doubted(tmp_path: Path) -> None:
    made = queued_work()
    for i in range(1, 20):
        made.add(
            "barrier", "wait for an event of queue 2", (5 * i) * MS, (5 * i + 4) * MS, device_id=0, category="wait"
        )
    analysed = told(tmp_path, made, steady=False)
    assert analysed.verdict.height == "waiting" and analysed.verdict.confidence > 0.5


def test_kernels_that_ran_during_page_faults_are_doubted_as_judged_by_their_time(tmp_path: Path) -> None:
    made = queued_work()
    made.add("driver", "KFD_PAGE_MIGRATE_PAGEFAULT_GPU", 4 * MS, 6 * MS, device_id=0, category="kfd_page_migrate")
    analysed = told(tmp_path, made, steady=False)
    (doubt,) = [one for one in doubts(analysed.trace) if one.code == "page_faults"]
    assert doubt.of == "busy" and "5 %" in doubt.text and "(1 ms)" in doubt.text
    assert not [one for one in doubts(told(tmp_path, queued_work(), steady=False).trace) if one.code == "page_faults"]
