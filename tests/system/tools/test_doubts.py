"""Doubts of real profiles arrive in the answer of every tool, with the reason."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.diagnosis.findings import diagnose
from rooflens.analysis.store.doubts import Doubt
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.recordings import stored
from rooflens.tools.base.results import Result, Table
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_occupancy import compute_occupancy
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters
from rooflens.tools.rendering import render

COLLECTING = "cycles of collection"
PROFILES = {
    "cycles": "workloads/join_type_grid/MI300X_A1",
    "h200": "ncu/h200_labelled_raw.csv",
    "copied": "workloads/multikernel/MI200",
}


@pytest.fixture(scope="module")
def store(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("doubted"))
    for name, path in PROFILES.items():
        stored(store, shared / path, name)
    return store


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def text(result: Result) -> str:
    return render.text(result)


def test_percentages_of_cycles_are_suspect_and_times_and_rates_are_not(store: Store) -> None:
    metrics = ["valu.utilization_pct", "dispatch.duration_ns", "fabric.read_bw_gbs", "l2.bw_gbs", "dispatch.gpu_cycles"]
    answer = compute_metrics(store, "cycles", metrics)
    found = {row["name"]: row for row in rows(answer.table)}
    assert {name: row["status"] for name, row in found.items()} == {
        "valu.utilization_pct": "suspect", "dispatch.gpu_cycles": "suspect",
        "dispatch.duration_ns": "ok", "fabric.read_bw_gbs": "ok", "l2.bw_gbs": "ok",
    }  # fmt: skip
    assert COLLECTING in found["valu.utilization_pct"]["reason"]
    assert any(COLLECTING in note for note in answer.notes)
    beside = found["valu.utilization_pct"]
    cycles, time_ns = found["dispatch.gpu_cycles"]["avg"], found["dispatch.duration_ns"]["avg"]
    assert beside["of_time"] == pytest.approx(beside["avg"] * cycles / (time_ns * 2.1), rel=1e-6)
    assert found["l2.bw_gbs"]["of_time"] is None


def test_shares_of_cycles_that_collecting_added_to_are_read_by_time_in_every_tool(store: Store) -> None:
    """4.5 % of the wave slots by cycles that hold 14 us of collecting, which are 28 % of them by the time."""
    with Workload.open(store, "cycles") as opened:
        (one,), _ = diagnose(opened)
    pipe = next(load for load in one.units if load.unit == "valu")
    assert pipe.cycles_pct == pytest.approx(pipe.work_pct, rel=0.02), "busy cycles by time, instructions by their rate"
    assert one.verdict.doubt is not None
    waves = next(e for f in one.findings for e in f.evidence if e.metric == "pct_of_peak.occupancy.waves")
    assert waves.value is not None and waves.value > 25 and waves.status == "suspect" and waves.sql is None
    assert "share of the time at the maximum clock" in str(waves.reason)
    (achieved,) = rows(compute_occupancy(store, workload="cycles").kernels)
    assert achieved["achieved_pct"] == pytest.approx(waves.value) and achieved["status"] == "suspect"
    beside = rows(compute_metrics(store, "cycles", ["occupancy.waves"]).table)[0]
    assert beside["of_time"] == pytest.approx(waves.value) and beside["pct_of_peak"] < 10, "the metric stays as it is"


def test_one_value_in_the_launches_of_all_kernels_is_no_count(store: Store) -> None:
    """A kernel of one work-item is said to have sent 29,353,105 atomic operations, as is every other of the profile."""
    answer = compute_metrics(store, "copied", ["atomics.l2_req", "valu.instructions"], kernel="global_atomic")
    found = {row["name"]: row for row in rows(answer.table)}
    assert {row["status"] for row in found.values()} == {"suspect"}
    assert "one value in all dispatches" in found["atomics.l2_req"]["reason"]
    assert "SQ did not count" in found["valu.instructions"]["reason"]


def test_sql_over_counters_tells_what_is_doubted_of_the_columns_it_names(store: Store) -> None:
    [note] = query_counters(store, "SELECT kernel, tcc_atomic_sum, duration_ns FROM counters", "copied").notes
    assert note.startswith("TCC_ATOMIC_sum of copied: one value in all dispatches")
    assert query_counters(store, "SELECT sum(duration_ns) FROM counters", "copied").notes == []
    (note,) = query_counters(store, "SELECT TCC_ATOMIC_sum, TCC_WRITE_sum FROM counters", "copied").notes
    assert set(note.partition(" of copied: one value")[0].split(", ")) == {"TCC_ATOMIC_sum", "TCC_WRITE_sum"}


MISSES = "lts__t_sectors_lookup_miss.sum"


@pytest.fixture(scope="module")
def without_misses(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The profile of an H200 without the misses of its L2, which is also named h200."""
    folder = tmp_path_factory.mktemp("without_misses")
    with (shared / PROFILES["h200"]).open(newline="") as file:
        header, *lines = csv.reader(file)
    left_out = header.index(MISSES)
    with (folder / "h200_raw.csv").open("w", newline="") as file:
        csv.writer(file).writerows([cell for i, cell in enumerate(line) if i != left_out] for line in [header, *lines])
    store = Store(folder / "store")
    stored(store, folder / "h200_raw.csv", "h200")
    return store


def test_an_impossible_figure_makes_its_block_suspect_and_names_the_remedy(without_misses: Store) -> None:
    store = without_misses
    impossible = rows(compute_metrics(store, "h200", ["l2.hit_rate_pct"], by_kernel=True).table)
    kernel = next(row["kernel"] for row in impossible if row["status"] == "impossible")
    answer = compute_metrics(store, "h200", ["l2"], kernel=kernel)
    found = {row["name"]: row for row in rows(answer.table)}
    assert {found[name]["status"] for name in ("l2.misses", "l2.req", "l2.partition_traffic_pct")} == {"suspect"}
    assert "collect them in one pass" in found["l2.misses"]["reason"]
    assert found["l2.client_hit_rate_pct"]["status"] == "undefined", "no lookups: there is nothing to doubt"
    assert found["l2.utilization_pct"]["status"] == "ok", "another stage of the cache"
    (plan,) = [call for call in answer.next if call.tool == "plan_profile"]
    assert plan.arguments == {"gpu": "sm_90", "metrics": ["l2.outcome_hit_rate_pct"]}
    sound = next(row["kernel"] for row in impossible if "hbm_copy" in row["kernel"])
    assert {row["status"] for row in rows(compute_metrics(store, "h200", ["l2"], kernel=sound).table)} == {"ok"}


def test_times_that_are_doubted_decide_nothing(store: Store, tmp_path: Path) -> None:
    manifest = store.resolve("h200")
    told = manifest.model_copy(update={"doubts": [], "name": "times"})
    wrong = told.model_copy(update={"doubts": [Doubt("clock", "the times are of another run", times=True)]})
    other = Store(tmp_path / "store")
    for one in (told, wrong):
        with other.draft() as folder:
            for file in (store.root / f"workload={manifest.id}").glob("*.parquet"):
                (folder / file.name).write_bytes(file.read_bytes())
            done = other.publish(folder, one)
    listed = rows(list_workloads(other, done.id).table)
    assert {(row["status"], row["reason"]) for row in listed} == {("suspect", "the times are of another run")}
    answer = compare_workloads(other, done.id, done.id)
    assert answer.verdict == "inconclusive" and "the times are of another run" in answer.answer
    assert rows(answer.kernels)[0]["status"] == "suspect"
    assert {row["status"] for row in rows(list_workloads(store, "h200").table)} == {"ok"}
