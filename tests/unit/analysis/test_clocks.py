"""What sampled clocks explain: causes, the split of a ratio of times, what is said beside a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from rooflens.analysis.launches import device_clocks
from rooflens.analysis.launches.device_clocks import ClockState
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload


def row(mhz: float | None = 1700.0, held: str | None = "", **more: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(device_clocks.COLUMNS),
        "t_ns": 0,
        "step": "timing",
        "clock_mhz": mhz,
        "held_back": held,
        **more,
    }


def stored(store: Store, rows: list[dict[str, Any]], name: str = "a") -> Workload:
    with store.draft() as folder:
        with duckdb.connect() as con:
            device_clocks.save(con, folder, rows)
        return Workload(store, store.publish(folder, Manifest(name=name, format="csv")))


def test_idle_samples_do_not_count_and_shares_are_of_those_that_tell() -> None:
    rows = [
        row(300.0, "limit", busy_pct=0.0), row(1700.0, "power", busy_pct=99.0, power_w=500.0, temperature_c=60.0),
        row(1500.0, "", busy_pct=99.0, power_w=400.0, temperature_c=71.0), row(1600.0, None, busy_pct=None),
    ]  # fmt: skip
    assert device_clocks.summary(rows) == ClockState(3, 1600.0, 450.0, 71.0, {"power": 0.5})
    assert device_clocks.summary(rows[:1]) is device_clocks.summary([]) is None


def test_causes_below_a_tenth_of_the_samples_are_not_told() -> None:
    state = device_clocks.summary(
        [row(held="power,temperature")] * 6 + [row(held="power")] * 2 + [row(held="hardware")] * 1
    )
    assert state is not None and state.notable_causes == ["power", "temperature", "hardware"]
    rare = device_clocks.summary([row(held="temperature")] + [row()] * 19)
    assert rare is not None and rare.notable_causes == [] and rare.causes_text == ""


def test_workloads_of_different_clocks_say_so_with_cause_and_share(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with stored(store, [row(1980.0)] * 4) as cool, stored(store, [row(1320.0, "temperature")] * 4, "b") as hot:
        (note,) = device_clocks.clock_difference_notes(cool, hot, 1.5)
        assert "1980 MHz, then 1320 MHz" in note.text
        assert "candidate limited by heat in 100 % of the samples" in note.text
        assert "1.500, the clock explains 1.500" in note.text and "1.000 remains" in note.text
        (note,) = device_clocks.clock_difference_notes(cool, hot, 1.2)
        assert "1.200, the clock explains 1.500" in note.text and "0.800 remains" in note.text
        assert device_clocks.clock_difference_notes(cool, cool, 1.5) == []
        (without,) = device_clocks.clock_difference_notes(cool, hot, None)
        assert "explains" not in without.text


def test_the_run_for_times_counts_and_the_device_that_worked(tmp_path: Path) -> None:
    rows = [row(1700.0, device_uuid="GPU-1")] * 3 + [row(900.0, device_uuid="GPU-2", busy_pct=0.0)] * 5
    with stored(Store(tmp_path), [*rows, *[row(500.0, step="pass_1", device_uuid="GPU-1")] * 9]) as workload:
        state = device_clocks.clock_state_of(workload)
        assert state is not None and (state.n, state.mhz) == (3, 1700.0)


def test_a_run_that_was_held_back_keeps_a_remark() -> None:
    (note,) = device_clocks.held_back_notes([row(1320.0, "temperature")] * 3 + [row(100.0, "", step="pass_1")] * 9)
    assert "limited by heat in 100 % of the samples, with a median of 1320 MHz" in note.text
    assert device_clocks.held_back_notes([row()] * 3) == device_clocks.held_back_notes([]) == []


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = json.dumps(row())
    assert device_clocks.parse_samples(f"{whole}\n[]\n{{}}\n{whole[:40]}") == [row()]
