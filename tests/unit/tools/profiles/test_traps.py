"""Recorded workloads of rocprof-compute: what is doubted in them, and what is not; and times that passes contradict."""

from __future__ import annotations

import pytest

from rooflens.tools.list_workloads import list_workloads


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


def test_spoiled_timestamps_of_the_recorded_mi300_give_no_duration(load_shared):
    bench, done = load_shared("vcopy/MI300X_A1")
    assert bench.column(done, "counters", "duration_ns") == [None] * 3
    assert any("3 of 3 dispatches have no usable timing" in w for w in done.warnings)


def test_gfx950_registers_of_early_tools_are_flagged(load_shared):
    _, done = load_shared("vcopy/MI350")
    assert warned(done, "gfx950_registers")


@pytest.mark.parametrize(("other", "suspect"), [(25_000, False), (40_000, True)])
def test_times_are_suspect_where_passes_differ_more_than_threefold(bench, other, suspect):
    folder = bench.workload(SQ_WAVES=[16, 16], Start_Timestamp=[5, 5], End_Timestamp=[10_005, 10_005])
    bench.workload(file="timestamps.csv", Start_Timestamp=[5, 5], End_Timestamp=[other + 5, other + 5])
    done = bench.load(folder)
    assert any("took up to 4 times as long" in text for text in warned(done, "pass_times")) == suspect
    (time,) = list_workloads(bench.store, done.workload).table.records()
    assert (time["status"], "4-fold" in (time["reason"] or "")) == (("suspect", True) if suspect else ("ok", False))


def test_doubtful_recorded_data_are_flagged(load_shared):
    assert warned(load_shared("multikernel/MI200")[1], "waves_vs_grid")


@pytest.mark.parametrize("model", ["MI100", "MI200", "MI300X_A1"])
def test_the_known_answer_kernel_has_its_known_answer(load_shared, model):
    bench, done = load_shared(f"vcopy/{model}")
    waves, accesses = bench.rows(done, "counters", "SQ_WAVES, TCP_TOTAL_CACHE_ACCESSES_sum")[0]
    assert (waves, accesses) == (16_384.0, 524_288.0)
