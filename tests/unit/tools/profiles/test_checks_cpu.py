"""Faults of counting with perf stat are named; sound counts are left alone."""

from __future__ import annotations

import pytest


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


@pytest.fixture
def load(bench):
    """``load(("1000", "ns", "duration_time", 100.0), ...)`` imports one run of these events."""

    def load(*rows):
        lines = [f"{value},{unit},{event},900,{share:.2f},," for value, unit, event, share in rows]
        (bench.folder / "stat.csv").write_text("\n".join(lines) + "\n")
        return bench.load(bench.folder / "stat.csv")

    return load


def test_multiplexed_events_are_named_with_the_least_share(load):
    done = load(("5", "", "cycles", 83.3), ("6", "", "branches", 66.6), ("7", "", "page-faults", 100))
    (found,) = warned(done, "multiplexed")
    assert "cycles, branches were" in found and "67 %" in found and "page-faults" not in found
    assert not warned(load(("5", "", "cycles", 100)), "multiplexed")


def test_a_clock_that_no_processor_has_is_named(load):
    time = ("1.00", "msec", "task-clock", 100)
    assert not warned(load(time, ("4000000", "", "cycles", 100)), "clock")
    assert "20000 MHz" in warned(load(time, ("20000000", "", "cycles:u", 100)), "clock")[0]


def test_zeros_of_events_that_always_count_are_named(load):
    time = ("1.00", "msec", "task-clock", 100)
    assert warned(load(time, ("0", "", "cycles", 100), ("0", "", "instructions", 100)), "all_zero")
    assert not warned(load(time, ("9", "", "cycles", 100), ("0", "", "instructions", 100)), "all_zero")
    assert not warned(load(time, ("0", "", "page-faults", 100)), "all_zero")
    assert not warned(load(time, ("<not supported>", "", "cycles", 100)), "all_zero")


@pytest.mark.parametrize(("error", "named"), [("6.76", True), ("0.80", False)])
def test_a_mean_of_runs_that_differ_is_named(bench, error, named):
    text = " Performance counter stats for 'sleep 0.01' (3 runs):\n\n  1.44 msec task-clock  # 0.1 CPUs ( +-  2.24% )\n"
    (bench.folder / "r.txt").write_text(f"{text}\n  0.013624 +- 0.000921 seconds time elapsed  ( +-  {error}% )\n")
    assert bool(warned(bench.load(bench.folder / "r.txt"), "run_spread")) == named
