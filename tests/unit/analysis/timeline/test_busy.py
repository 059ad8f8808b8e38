"""How close a program is to its ceiling: the longest chain of its device work with every kernel at its roof."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.busy import ProgramCeiling
from rooflens.analysis.timeline.timeline import TimelineRequest, application, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish
from rooflens.tests.unit.analysis.timeline.test_made import MS


def ceiling_of(folder: Path, made: Made, **roofs: float) -> ProgramCeiling:
    store = Store(folder)
    publish(store, made, "program")
    with Workload.open(store, "program") as opened:
        whole = application(opened, roofs)
    assert whole is not None and whole.ceiling is not None
    return whole.ceiling


def device(*work: tuple[str, str, int, int, int]) -> Made:
    """Device work of 10 ms in total, of which each has a kind, a name, a stream, and its first and last ms."""
    made = Made()
    made.host("hipDeviceSynchronize", 0, 10 * MS)
    for kind, name, stream, start, end in work:
        made.add(kind, name, start * MS, end * MS, device_id=0, stream=stream)
    return made


def test_kernels_shrink_to_their_roofs_and_copies_keep_their_time(tmp_path: Path) -> None:
    made = device(("kernel", "a", 1, 0, 4), ("copy", "CopyHostToDevice", 1, 4, 5), ("kernel", "b", 1, 8, 10))
    told = ceiling_of(tmp_path, made, a=0.25, b=0.5)
    assert (told.path_ns, told.wall_ns, told.status) == (pytest.approx((1 + 1 + 1) * MS), 10 * MS, "ok")
    assert told.pct == pytest.approx(30) and told.known_pct == pytest.approx(100)


def test_work_at_the_same_time_counts_once_and_only_work_that_had_ended_is_waited_for(tmp_path: Path) -> None:
    """``c`` begins after ``a`` and during ``b``; the chains are a, c (4 + 2 ms) and b (3 ms), then d after all."""
    made = device(
        ("kernel", "a", 1, 0, 4), ("kernel", "b", 2, 0, 6), ("kernel", "c", 1, 4, 6), ("kernel", "d", 1, 6, 10)
    )
    assert ceiling_of(tmp_path, made, a=1.0, b=0.5, c=1.0, d=1.0).path_ns == pytest.approx((4 + 2 + 4) * MS)
    assert ceiling_of(tmp_path / "2", made, a=0.1, b=0.5, c=0.1, d=1.0).path_ns == pytest.approx((3 + 4) * MS)


def test_a_kernel_without_a_roof_keeps_its_time_and_lowers_the_known_share(tmp_path: Path) -> None:
    made = device(("kernel", "a", 1, 0, 4), ("kernel", "b", 1, 4, 10))
    told = ceiling_of(tmp_path, made, a=0.5)
    assert (told.pct, told.status, told.known_pct) == (pytest.approx(80), "partial", pytest.approx(40))


def test_fills_are_neither_computing_nor_copies_but_memory_operations_like_these(tmp_path: Path) -> None:
    made = device(("kernel", "a", 1, 0, 4), ("fill", "Memset", 2, 3, 6), ("copy", "CopyHostToDevice", 1, 5, 7))
    with Workload.open(store := Store(tmp_path), publish(store, made).id) as opened:
        total = timeline(opened, TimelineRequest(steady=False)).total
    assert (total.kernels, total.computing) == (4 * MS, 4 * MS)
    assert (total.copies, total.fills, total.memory) == (2 * MS, 3 * MS, 4 * MS)
    assert (total.exposed_copies, total.overlapped_copies) == (3 * MS, 1 * MS)
