"""Values that no counter can have are kept as read, and named with what they doubt; sound zeros are left alone."""

from __future__ import annotations


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


def test_a_pass_of_zeros_is_a_failed_collection(bench):
    folder = bench.workload(SQ_WAVES=[0, 0], SQ_INSTS_VALU=[0, 0], GRBM_COUNT=[0, 0])
    assert warned(bench.load(folder), "all_zero")


def test_zeros_of_an_unused_unit_are_no_failure(load_shared):
    _, done = load_shared("vcopy/MI200")  # its pass for LDS latency holds zeros only
    assert not warned(done, "all_zero")


def test_an_accumulate_counter_that_stayed_zero_is_flagged(bench):
    folder = bench.workload(SQ_WAVES=[16, 16])
    bench.workload(file="SQ_LEVEL_WAVES.csv", SQ_WAVES=[16, 16], SQ_ACCUM_PREV_HIRES=[0, 0])
    assert warned(bench.load(folder), "accumulate_zero")


def test_a_row_that_was_written_to_all_launches_is_flagged(bench):
    names = [f"TCC_{kind}_sum" for kind in ("HIT", "MISS", "REQ", "READ", "WRITE")]
    launches = {"Kernel_Name": ["a()", "b()", "c()"], "Grid_Size": [1024, 1024, 64], "SQ_WAVES": [16, 16, 4]}
    (found,) = warned(bench.load(bench.workload(**launches, **{name: [9] * 3 for name in names})), "repeated")
    assert "in all 3 dispatches" in found
    names[0] = "TCC_PROBE_sum"
    lacking = {name: [9, 9, ""] for name in names}
    assert not warned(bench.load(bench.workload("lacking/MI200", **launches, **lacking)), "repeated")
    same = launches | {"Grid_Size": [1024] * 3, "SQ_WAVES": [16] * 3}
    assert not warned(bench.load(bench.workload("same/MI200", **same, **{n: [9] * 3 for n in names})), "repeated")


def test_negative_counters_are_kept_and_flagged(bench):
    done = bench.load(bench.workload(SQ_BUSY_CYCLES=[-5, 7]))
    assert bench.column(done, "counters", "SQ_BUSY_CYCLES") == [-5.0, 7.0]
    assert "SQ_BUSY_CYCLES" in warned(done, "negative")[0]


def test_counters_beyond_64_bits_are_kept_and_flagged(bench):
    done = bench.load(bench.workload(SQ_BUSY_CYCLES=["1e30", 7]))
    assert bench.column(done, "counters", "SQ_BUSY_CYCLES") == [1e30, 7.0]
    assert warned(done, "overflow")
