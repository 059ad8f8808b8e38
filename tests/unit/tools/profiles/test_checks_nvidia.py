"""Faults of collection on NVIDIA GPUs are named; sound profiles are left alone."""

from __future__ import annotations

import csv

import pytest

LAUNCH = {"ID": "0", "Process ID": "5", "Kernel Name": "k()", "Block Size": "(256, 1, 1)", "Grid Size": "(10, 1, 1)",
          "Device": "0", "CC": "9.0"}  # fmt: skip
CLOCK = "device__attribute_max_gpu_frequency_khz"


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


@pytest.fixture
def load(bench):
    """``load({"metric": value})`` imports one launch of 10 blocks of 256 threads that took 1000 ns."""

    def load(metrics, **launch):
        metrics = {"gpu__time_duration.sum": 1000, CLOCK: 2_000_000} | metrics
        row = LAUNCH | {k.replace("_", " "): v for k, v in launch.items()}
        with (bench.folder / "p.csv").open("w", newline="") as file:
            out = csv.writer(file, quoting=csv.QUOTE_ALL)
            out.writerow([*row, *metrics])
            out.writerow([""] * len(row) + ["ns" if "duration" in m else "" for m in metrics])
            out.writerow([*row.values(), *metrics.values()])
        return bench.load(bench.folder / "p.csv")

    return load


def test_warps_that_are_not_those_of_the_grid_are_named(load):
    name = "smsp__warps_launched.sum"
    assert not warned(load({name: 80}), "waves_vs_grid")
    (found,) = warned(load({name: 81}), "waves_vs_grid")
    assert "1 of 1 launch smsp__warps_launched.sum" in found
    assert not warned(load({name: 40}, Block_Size="(100, 1, 1)"), "waves_vs_grid")  # 4 warps of 32, the last in part


def test_cycles_above_the_maximum_clock_are_named(load):
    assert not warned(load({"sm__cycles_elapsed.max": 2050}), "clock")
    (found,) = warned(load({"sm__cycles_elapsed.max": 2200}), "clock")
    assert "2200 MHz" in found and "maximum clock of 2000 MHz" in found


def test_shares_above_the_whole_are_named(load):
    share = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
    assert not warned(load({share: 100.4}), "above_100")
    assert "up to 140 %" in warned(load({share: 140}), "above_100")[0]
    assert warned(load({"lts__t_sector_hit_rate.pct": 101}), "above_100")
    # The busiest unit over the mean of all may exceed the whole.
    assert not warned(load({"sm__warps_active.max.pct_of_peak_sustained_active": 207}), "above_100")


def test_launches_without_instructions_are_named(load):
    assert not warned(load({"smsp__inst_executed.sum": 1}), "no_instructions")
    assert warned(load({"smsp__inst_executed.sum": 0}), "no_instructions")


def test_a_pass_of_zeros_is_named_whatever_the_launch_states(load):
    zeros = {"sm__cycles_active.avg": 0, "smsp__inst_executed.sum": 0, "launch__registers_per_thread": 32}
    assert warned(load(zeros), "all_zero")
    assert not warned(load(zeros | {"sm__cycles_active.avg": 3}), "all_zero")
    assert not warned(load({"dram__bytes.sum": 0, "launch__registers_per_thread": 32}), "all_zero")


def test_durations_that_differ_between_replays_are_named(load):
    span = {"gpu__time_duration.min": 900, "gpu__time_duration.max": 1200}
    assert "33 %" in warned(load(span), "replay_spread")[0]
    assert not warned(load(span | {"gpu__time_duration.max": 920}), "replay_spread")


def test_a_difference_that_falls_short_of_zero_by_rounding_is_no_fault(bench, load):
    with_rest = {"sm__x.sum": -0.001}
    assert warned(load(with_rest), "negative")


def test_the_recorded_run_is_sound_but_for_its_hit_rate(bench, shared):
    done = bench.load(shared / "ncu" / "small_raw.csv")
    assert {w.split(":")[0] for w in done.warnings} == {"above_100"}
    assert "lts__t_sector_hit_rate.pct" in done.warnings[0]


def test_the_full_recording_has_no_fault_of_clocks_warps_or_signs(bench, shared):
    done = bench.load(shared / "ncu" / "h200_labelled_raw.csv")
    assert {w.split(":")[0] for w in done.warnings} == {"above_100"}


def test_what_is_counted_beside_a_share_above_the_whole_is_not_said_to_exceed_it(bench, load):
    done = bench.manifest(load({"lts__t_sector_hit_rate.pct": 140, "lts__t_sectors_srcunit_tex.sum": 0}))
    of = {c: d.text for d in done.doubts for c in d.counters}
    assert "exceeds 100 %" in of["lts__t_sector_hit_rate.pct"]
    assert "counted with" in of["lts__t_sectors_srcunit_tex.sum"]
