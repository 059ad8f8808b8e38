"""The SQL tables of timelines: they add up to what the analysis says, and to sums by brute force."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import schema
from rooflens.analysis.tables.derived import table_rows
from rooflens.analysis.timeline.timeline import TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.figures import sql_rows
from rooflens.tests.support.timelines import Made, chrome, publish, union

US, MS = 1_000, 1_000_000
RECORDED = ("dataloader", "pageable")


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest, shared: Path) -> Made:
    path = shared / "traces" / f"{request.param}.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    return chrome(path)


def two_ranks(steps: int = 4) -> Made:
    """Two ranks, of which the second computes half as long; each waits for its device at the end of a step."""
    made = Made()
    for rank in (0, 1):
        own: dict[str, Any] = {"rank": rank, "pid": rank + 1}
        for step in range(steps):
            t = step * 10 * MS
            made.range("step", t, t + 10 * MS - US, **own)
            end = t + (8 if rank == 0 else 4) * MS
            made.launch("gemm", (t, t + 5 * US), (t + 10 * US, end), **own)
            made.host("hipDeviceSynchronize", t + 6 * US, t + 10 * MS - 20 * US, **own)
    return made


def read(store: Store, made: Made) -> tuple[list[dict[str, Any]], ...]:
    with Workload.open(store, publish(store, made)) as workload:
        tables = [table_rows(workload, name) for name in ("steps", "lanes", "gaps")]
        steady = timeline(workload, TimelineRequest(steady=False))
    assert Counter({row["cause"]: 0 for row in tables[2]}) + _by_cause(tables[2]) == Counter(
        {idle.cause: idle.ns for idle, _ in steady.causes}
    ), "the causes are those of compute_timeline"
    for name, rows in zip(("steps", "lanes", "gaps"), tables, strict=True):
        assert all(list(row) == list(schema()[name].columns) for row in rows), "columns as documented, in order"
    return tuple(tables)


def _by_cause(gaps: list[dict[str, Any]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in gaps:
        sums[row["cause"]] += row["ns"]
    return sums


def test_parts_of_recorded_steps_are_sums_by_brute_force(recorded: Made, tmp_path: Path) -> None:
    steps, [lane], gaps = read(Store(tmp_path), recorded)
    device = [e for e in recorded.events if e["kind"] in ("kernel", "copy", "fill")]
    assert len(steps) == 5, "six ranges were recorded; the last one has no end on the device"
    for step in steps:
        window = step["start_ns"], step["end_ns"]
        busy = union([(e["start_ns"], e["end_ns"]) for e in device], *window)
        copies = union([(e["start_ns"], e["end_ns"]) for e in device if e["kind"] == "copy"], *window)
        assert (step["idle_ns"], step["copies_ns"]) == (step["duration_ns"] - busy, copies)
        inside = sum(row["ns"] for row in gaps if row["step"] == step["step"])
        assert inside == step["idle_ns"], "the gaps of a step are its idle time"
    assert lane["idle_ns"] == sum(row["ns"] for row in gaps) == lane["wall_ns"] - lane["busy_ns"]


def test_steps_of_two_ranks_and_their_waits_are_one_query_each(tmp_path: Path) -> None:
    store = Store(tmp_path)
    steps, lanes, _ = read(store, two_ranks())
    assert [row["duration_ns"] for row in steps] == [10 * MS] * 3
    assert [row["idle_ns"] for row in steps] == [2 * 10 * MS - (8 + 4) * MS + 2 * 10 * US] * 3
    assert [(row["rank"], row["computing_ns"]) for row in lanes] == [
        (0, 4 * (8 * MS - 10 * US)),
        (1, 4 * (4 * MS - 10 * US)),
    ]
    waits = "SELECT rank, sum(ns)::BIGINT FROM gaps WHERE cause = 'synchronisation' AND step = 2 GROUP BY 1 ORDER BY 1"
    assert sql_rows(store, waits) == [[0, 2 * MS - 20 * US], [1, 6 * MS - 20 * US]]


def test_a_timeline_without_steps_has_lanes_and_gaps(tmp_path: Path) -> None:
    made = Made()
    made.launch("once", (0, 10 * US), (20 * US, 30 * US))
    made.launch("twice", (90 * US, 95 * US), (100 * US, 130 * US))
    steps, [lane], gaps = read(Store(tmp_path), made)
    assert steps == [] and lane["operations"] == 2
    assert {row["step"] for row in gaps} == {None} and sum(row["ns"] for row in gaps) == 90 * US


def test_a_timeline_without_device_work_has_no_rows(tmp_path: Path) -> None:
    made = Made()
    made.host("hipMalloc", 0, 10 * US)
    store = Store(tmp_path)
    with Workload.open(store, publish(store, made)) as workload:
        assert not any(table_rows(workload, name) for name in ("steps", "lanes", "gaps"))
