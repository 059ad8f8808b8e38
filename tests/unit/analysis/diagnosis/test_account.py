"""The account of the waves' lifetime: it adds up, and names the limit where no other rule holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.catalogue import rules
from rooflens.analysis.diagnosis.account import AccountPart, device_time_account, wave_time_account
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose, diagnose_apart
from rooflens.analysis.rooflines.loads import Load
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.ncu_pages import LAUNCH
from rooflens.tests.support.recordings import stored
from rooflens.tools.answers.verdict_text import diagnosis_blocks
from rooflens.tools.import_profile import import_profile

STALL = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
THROUGHPUTS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": 12.0,
    "lts__throughput.avg.pct_of_peak_sustained_active": 10.0,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 15.0,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 60.0,
}


def imported(folder: Path, *launches: dict[str, float]) -> Workload:
    """A page with launches of different grids and these metrics, as ncu writes it."""
    names = {"gpu__time_duration.sum": 500_000.0, **launches[0]}
    with (folder / "page.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        for number, values in enumerate(launches):
            metrics = {"gpu__time_duration.sum": 500_000.0, **values}
            size = f"({1024 << number}, 1, 1)"
            stated = LAUNCH | {"ID": str(number), "Kernel Name": "unrolled", "Grid Size": size}
            if not number:
                rows.writerow([*stated, *names])
                rows.writerow([*("" for _ in stated), *("nsecond" if "duration" in name else "%" for name in names)])
            rows.writerow([*stated.values(), *(metrics[name] for name in names)])
    store = Store(folder / "store")
    import_profile(store, str(folder / "page.csv"))
    return Workload.open(store, "latest")


def diagnosed(folder: Path, values: dict[str, float]) -> Diagnosis:
    """The diagnosis of a page with one launch and these metrics."""
    (one,) = diagnose(imported(folder, values))[0]
    return one


def check_accounts(folder: Path, path: Path) -> int:
    """Check the accounts of a profile; returns how many it has."""
    accounts = accounts_of(folder, path)
    for account in accounts:
        assert all(part.pct is None or part.pct >= 0 for part in account), account
        contradictory = any(part.pct is None for part in account)
        assert contradictory or sum(part.pct or 0.0 for part in account) == pytest.approx(100, abs=0.5), account
    return len(accounts)


def accounts_of(folder: Path, path: Path) -> list[list[AccountPart]]:
    """The accounts of every kernel of a profile; none for one that is no profile or has no counters."""
    store = Store(folder)
    try:
        stored(store, path, "one")
        diagnoses = diagnose(Workload.open(store, "one"))[0]
    except Problem:
        return []
    return [account for one in diagnoses for account in (one.device_time, one.wave_time) if account]


def test_the_device_time_names_idle_units_and_the_unit_closest_to_its_limit(tmp_path: Path) -> None:
    """Shared by all, memory also works while some SMs are idle; they get what it leaves."""
    given = {expression: 0.0 for part in rules.parts("sm_90").values() for expression in part.expressions}
    stated = {name: part.expressions[0] for name, part in rules.parts("sm_90").items()}
    given |= {stated["launch_end"]: 10.0, stated["small_grid"]: 0.0, stated["tail"]: 20.0}
    load = Load("valu", "arithmetic pipe", 50.0, 50.0, None, "ok", decides=True)
    told = {part.name: part.pct for part in device_time_account("sm_90", given, [load])}
    assert told == {"launch_end": 10.0, "small_grid": 0.0, "tail": 20.0, "busy": 50.0, "waiting": 20.0}
    memory = Load("hbm", "device memory", 85.0, 85.0, None, "ok", decides=True)
    told = {part.name: part.pct for part in device_time_account("sm_90", given, [load, memory])}
    assert told == {"launch_end": 5.0, "small_grid": 0.0, "tail": 10.0, "busy": 85.0, "waiting": 0.0}


def test_launch_configurations_with_different_limits_are_rows_of_their_own(tmp_path: Path) -> None:
    memory = {**THROUGHPUTS, "dram__throughput.avg.pct_of_peak_sustained_elapsed": 85.0}
    fetching = {STALL.format("no_instruction"): 99.0, STALL.format("long_scoreboard"): 0.5}
    waiting = {STALL.format("no_instruction"): 0.5, STALL.format("long_scoreboard"): 90.0}
    workload = imported(tmp_path, {**THROUGHPUTS, **fetching}, {**memory, **waiting})
    assert [one.number for one in diagnose(workload)[0]] == ["1"]
    rows = diagnose_apart(workload)[0]
    assert {one.number: one.verdict.subsystem for one in rows} == {"1.1": "instruction_fetch", "1.2": "hbm"}
    (tmp_path / "alike").mkdir()
    alike = imported(tmp_path / "alike", {**THROUGHPUTS, **fetching}, {**THROUGHPUTS, **fetching})
    assert [one.number for one in diagnose_apart(alike)[0]] == ["1"]


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
    (block,) = [b for b in diagnosis_blocks([one], "gfx90a") if b.title.startswith("#1")]
    assert "wave time: waiting for data from memory 61 %, not counted 39 %" in block.content


def test_parts_of_more_than_the_whole_are_contradictory_and_not_clamped(tmp_path: Path) -> None:
    one = diagnosed(tmp_path, {**THROUGHPUTS, STALL.format("long_scoreboard"): 80.0, STALL.format("wait"): 40.0})
    assert {part.name: part.pct for part in one.wave_time} == {"data": 80.0, "fixed_latency": 40.0, "not_counted": None}


def test_without_its_counters_there_is_no_account() -> None:
    assert wave_time_account("sm_90", {}) == wave_time_account("gfx90a", {}) == []


def test_amd_waiting_is_divided_by_level_where_latencies_were_counted(tmp_path: Path, shared: Path) -> None:
    """MI200 counts every level, MI100 nothing in flight."""
    expected = {
        "workloads/vcopy/MI200": {"memory_latency", "l2_latency", "l1_latency", "lds_latency", "scalar_data"},
        "workloads/vcopy/MI100": {"dependency"},
    }
    for number, (path, waiting) in enumerate(expected.items()):
        (_, parts) = accounts_of(tmp_path / str(number), shared / path)
        shares = {part.name: part.pct or 0.0 for part in parts}
        assert shares.keys() - {"issuing", "ready", "other_results"} == waiting, path
        assert sum(shares.values()) == pytest.approx(100, abs=0.5)
