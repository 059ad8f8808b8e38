"""Cycles that do not fit the time: what collecting adds to them is told from times that are wrong."""

from __future__ import annotations

import re


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


def test_more_cycles_than_the_clock_allows_are_flagged(bench):
    folder = bench.workload(GRBM_GUI_ACTIVE=[29_000, 29_000], Start_Timestamp=[1, 1], End_Timestamp=[6701, 29_001])
    (found,) = warned(bench.load(folder), "clock")
    assert "1 of 2 dispatches" in found and "1700 MHz" in found and "4328 MHz" in found


def test_cycles_that_collecting_adds_to_every_launch_are_told_by_a_fit(bench):
    times = [3000, 2500, 6400, 3700, 3500, 9200, 5700, 9900]
    cycles = [17_600 + 1.5 * t + (-1) ** i * 20 for i, t in enumerate(times)]
    folder = bench.workload(GRBM_GUI_ACTIVE=cycles, Start_Timestamp=[1] * 8, End_Timestamp=[t + 1 for t in times])
    (found,) = warned(bench.load(folder), "clock")
    assert "adds about 18000 cycles" in found
    ran = re.search(r"a fit over 8 launches, which ran at (\d+) MHz", found)
    assert ran and abs(int(ran[1]) - 1500) < 10
    assert "from another run" not in found


def test_few_launches_with_like_surpluses_have_cycles_added_too(bench):
    folder = bench.workload(GRBM_GUI_ACTIVE=[54_000, 41_000], Start_Timestamp=[1, 1], End_Timestamp=[20_001, 16_001])
    (found,) = warned(bench.load(folder), "clock")
    assert "adds about 17000 cycles" in found and "at least" in found


def test_cycles_that_no_start_of_counters_explains_are_doubted(bench):
    folder = bench.workload(GRBM_GUI_ACTIVE=[9e7, 9e7], Start_Timestamp=[1, 1], End_Timestamp=[10_000_001, 9_000_001])
    (found,) = warned(bench.load(folder), "clock")
    assert "do not trust rates" in found


def test_cycles_summed_over_xcds_are_divided_before_the_clock_is_judged(bench):
    folder = bench.workload(GRBM_GUI_ACTIVE=[8 * 14_000])
    bench.sysinfo("made/MI200", gpu_arch="gfx942", num_xcd="8", max_sclk="2100", total_l2_chan="128")
    assert not warned(bench.load(folder), "clock")
