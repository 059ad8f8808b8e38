"""The account of the waves' lifetime: it adds up, and names the limit where no other rule holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from rooflens.analysis.diagnosis.account import wave_time_account
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.recordings import stored
from rooflens.tools.answers.verdict_text import diagnosis_blocks
from rooflens.tools.import_profile import import_profile

ROOT = Path(__file__).resolve().parents[3]
STALL = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
THROUGHPUTS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": 12.0,
    "lts__throughput.avg.pct_of_peak_sustained_active": 10.0,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 15.0,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 60.0,
}


def diagnosed(folder: Path, values: dict[str, float]) -> Diagnosis:
    """The diagnosis of a page with one launch and these metrics, as ncu writes it."""
    metrics = {"gpu__time_duration.sum": 500_000.0, **values}
    stated = {
        "ID": 0, "Process ID": 1, "Process Name": "app", "Host Name": "host", "Kernel Name": "unrolled", "Context": 1,
        "Stream": 7, "Block Size": "(256, 1, 1)", "Grid Size": "(1024, 1, 1)", "Device": 0, "CC": "9.0",
    }  # fmt: skip
    with (folder / "page.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow([*stated, *metrics])
        rows.writerow([*("" for _ in stated), *("nsecond" if "duration" in name else "%" for name in metrics)])
        rows.writerow([*stated.values(), *metrics.values()])
    store = Store(folder / "store")
    import_profile(store, str(folder / "page.csv"))
    (one,) = diagnose(Workload.open(store, "latest"))[0]
    return one


def test_the_parts_of_every_kernel_add_up_and_none_is_negative(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    stored(store, ROOT / "server" / "samples" / "h200_kernels", "h200_kernels")
    diagnoses = diagnose(Workload.open(store, "h200_kernels"))[0]
    accounts = [one.wave_time for one in diagnoses if one.wave_time]
    assert accounts
    for account in accounts:
        assert sum(part.pct or 0.0 for part in account) == pytest.approx(100, abs=0.5)
        assert all(part.pct is not None and part.pct >= 0 for part in account)


def test_a_stall_that_is_nearly_all_of_the_lifetime_is_the_verdict(tmp_path: Path) -> None:
    """Code that is too large for the instruction cache issues next to nothing, and every unit is idle."""
    one = diagnosed(tmp_path, {**THROUGHPUTS, STALL.format("no_instruction"): 99.5, STALL.format("wait"): 0.3})
    assert one.verdict.subsystem == "instruction_fetch"
    assert one.verdict.speedup_bound is None or one.verdict.speedup_bound >= 34
    assert [(part.name, part.pct) for part in one.wave_time[:2]] == [
        ("instruction_fetch", 99.5),
        ("fixed_latency", 0.3),
    ]
    assert "99.5 %" in one.findings[0].claim and "#pragma unroll 1" in one.findings[0].advice[0].do


def test_shares_that_agents_collect_give_loads_and_a_verdict_that_is_not_confident(tmp_path: Path) -> None:
    """Throughputs and two stall reasons: the largest known part is named, and what was not counted."""
    one = diagnosed(
        tmp_path, {**THROUGHPUTS, STALL.format("long_scoreboard"): 61.0, STALL.format("short_scoreboard"): 5.0}
    )
    loads = {load.unit: load.pct for load in one.units}
    assert (loads["hbm"], loads["l2"]) == (12.0, 10.0)
    assert one.verdict.subsystem == "latency" and 0 < one.verdict.confidence < 0.5 and one.next_counters
    assert {part.name: part.pct for part in one.wave_time} == {"data": 61.0, "not_counted": 39.0}
    (block,) = [b for b in diagnosis_blocks([one]) if b.title.startswith("#1")]
    assert "wave time: waiting for data from memory 61 %, not counted 39 %" in block.content


def test_parts_of_more_than_the_whole_are_contradictory_and_not_clamped(tmp_path: Path) -> None:
    one = diagnosed(tmp_path, {**THROUGHPUTS, STALL.format("long_scoreboard"): 80.0, STALL.format("wait"): 40.0})
    assert {part.name: part.pct for part in one.wave_time} == {"data": 80.0, "fixed_latency": 40.0, "not_counted": None}


def test_without_its_counters_there_is_no_account() -> None:
    assert wave_time_account("sm_90", {}) == wave_time_account("gfx90a", {}) == []
