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
