"""Every reading trap of AMD's profilers, one test each."""

from __future__ import annotations

import re

import pytest

A, B = "first(float*, int) [clone .kd]", "second<2, float>(float*) [clone .kd]"


def warned(done, name):
    return [w for w in done.warnings if w.startswith(f"{name}:")]


def test_timestamps_above_2_to_the_53_keep_every_digit(bench):
    start = 2**53 + 1
    done = bench.load(bench.workload(SQ_WAVES=[16.0], Start_Timestamp=[start], End_Timestamp=[start + 12_345]))
    assert bench.rows(done, "dispatches", "start_ns, end_ns, duration_ns") == [(start, start + 12_345, 12_345.0)]


def test_mean_timestamps_with_a_fraction_give_a_fractional_duration(bench):
    done = bench.load(
        bench.workload(SQ_WAVES=[16.0], Start_Timestamp=["1248227792617386.5"], End_Timestamp=["1248227792640000.75"])
    )
    assert bench.column(done, "dispatches", "duration_ns") == [22614.25]


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (500, 500), (900, 800), ("8.1097E+14", "8.1097E+14"), ("8.1097E+14", "8.1098E+14"), ("", ""), ("x", "9")],
    ids=["zero", "equal", "backwards", "rounded equal", "rounded apart", "empty", "text"],
)
def test_useless_timestamps_give_no_duration_and_a_warning(bench, start, end):
    done = bench.load(bench.workload(SQ_WAVES=[16, 16], Start_Timestamp=[start, 100], End_Timestamp=[end, 350]))
    assert bench.column(done, "counters", "duration_ns") == [None, 250.0]
    assert any("1 of 2 dispatches have no usable timing" in w for w in done.warnings)


def test_spoiled_timestamps_of_the_recorded_mi300_give_no_duration(load_shared):
    bench, done = load_shared("vcopy/MI300X_A1")
    assert bench.column(done, "counters", "duration_ns") == [None] * 3
    assert any("3 of 3 dispatches have no usable timing" in w for w in done.warnings)


@pytest.mark.parametrize("version", ["6.3.0-14", "6.4.1"])
def test_rocm_versions_with_wrong_mi300_timestamps_are_flagged(bench, version):
    folder = bench.workload(SQ_WAVES=[16.0])
    bench.sysinfo("made/MI200", gpu_arch="gfx942", rocm_version=version)
    assert warned(bench.load(folder), "gfx942_timestamps")
    bench.sysinfo("made/MI200", gpu_arch="gfx942", rocm_version="6.4.2")
    assert not warned(bench.load(folder), "gfx942_timestamps")


def test_kernel_names_with_commas_quotes_and_newlines_survive(bench):
    name = 'void k<"a,b">(int, char const*)'
    done = bench.load(bench.workload(SQ_WAVES=[16.0, 16.0], Kernel_Name=[name, "line\none"]))
    assert bench.column(done, "dispatches", "kernel") == [name, "line one"]


@pytest.mark.parametrize("suffix", [" [clone .kd]", " (.kd)", ".kd", ""])
def test_kernel_names_lose_the_profilers_suffix_and_keep_the_raw_name(bench, suffix):
    done = bench.load(bench.workload(SQ_WAVES=[16.0], Kernel_Name=[f"copy(int, int){suffix}"]))
    assert bench.rows(done, "dispatches", "kernel, kernel_raw") == [("copy(int, int)", f"copy(int, int){suffix}")]


def test_one_kernel_under_three_suffixes_is_one_kernel(bench):
    done = bench.load(
        bench.workload(SQ_WAVES=[16] * 3, Kernel_Name=["k(int).kd", "k(int) (.kd)", "k(int) [clone .kd]"])
    )
    assert done.kernels == 1
    assert bench.column(done, "dispatches", "ordinal") == [1, 2, 3]


def test_only_metadata_loses_the_number_that_a_join_appended(bench):
    done = bench.load(
        bench.workload(
            SQC_DCACHE_REQ_READ_8=[8],
            SQ_WAVES_LT_32=[3],
            wave_size_1=[64],
            obj_2=["0x7f"],
            Kernel_ID_3=[13],
            XCC_Index_5=[0],
        )
    )
    assert bench.manifest(done).counters == ["SQC_DCACHE_REQ_READ_8", "SQ_WAVES_LT_32"]
    assert not done.warnings


def test_row_order_is_kept_but_dispatches_are_counted_in_the_order_of_their_ids(bench):
    done = bench.load(bench.workload(SQ_WAVES=[1, 3, 2], Dispatch_ID=[1, 3, 2]))
    assert bench.rows(done, "dispatches", "dispatch_id, ordinal") == [(1, 1), (3, 3), (2, 2)]


def test_a_pass_whose_rows_stand_in_another_order_is_matched_by_dispatch_order(bench):
    folder = bench.workload(SQ_WAVES=[16, 16, 16])
    bench.workload(file="timestamps.csv", Dispatch_ID=[1, 3, 2], Start_Timestamp=[0, 0, 0], End_Timestamp=[10, 30, 20])
    done = bench.load(folder)
    assert bench.column(done, "counters", '"duration_ns@timestamps"') == [10.0, 20.0, 30.0]


def test_dispatches_launched_in_another_order_are_matched_by_kernel_and_ordinal(bench):
    folder = bench.workload(SQ_WAVES=[1, 2, 3, 4], Kernel_Name=[A, B, A, B])
    bench.workload(file="SQ_LEVEL_WAVES.csv", Kernel_Name=[B, A, A, B], SQ_ACCUM_PREV_HIRES=[20, 10, 30, 40])
    done = bench.load(folder)
    assert bench.column(done, "counters", "SQ_LEVEL_WAVES_ACCUM") == [10.0, 20.0, 30.0, 40.0]
    assert (done.passes, done.passes_matched, done.passes_unmatched) == (2, 2, 0)


def test_launches_of_another_size_are_no_match(bench):
    folder = bench.workload(SQ_WAVES=[1, 2], Grid_Size=[1024, 4096])
    bench.workload(file="SQ_LEVEL_WAVES.csv", Grid_Size=[4096, 8192], SQ_ACCUM_PREV_HIRES=[20, 99])
    done = bench.load(folder)
    assert bench.column(done, "counters", "SQ_LEVEL_WAVES_ACCUM") == [None, 20.0]
    assert done.passes_unmatched == 1


def test_unmatched_dispatches_are_counted_and_told(bench):
    folder = bench.workload(SQ_WAVES=[1, 2, 3], Kernel_Name=[A, A, B])
    bench.workload(file="SQ_LEVEL_WAVES.csv", Kernel_Name=[A, B, B, B], SQ_ACCUM_PREV_HIRES=[10, 30, 31, 32])
    done = bench.load(folder)
    assert bench.column(done, "counters", "SQ_LEVEL_WAVES_ACCUM") == [10.0, None, 30.0]
    assert bench.rows(done, "passes", "name, dispatches, matched, unmatched") == [
        ("pmc_perf", 3, 3, 0),
        ("SQ_LEVEL_WAVES", 4, 2, 2),
    ]
    assert any(
        "2 dispatches matched" in w and "2 only in this pass" in w and "1 of the main pass" in w for w in done.warnings
    )


def test_two_processes_are_never_merged_by_dispatch_id_alone(bench):
    two = {"pid": [77, 88, 77, 88], "Dispatch_ID": [0, 0, 1, 1], "Kernel_Name": [A] * 4}
    folder = bench.workload(SQ_WAVES=[1, 2, 3, 4], **two)
    bench.workload(
        file="SQ_LEVEL_WAVES.csv",
        SQ_ACCUM_PREV_HIRES=[20, 40, 10, 30],
        pid=[99, 99, 98, 98],
        Dispatch_ID=[0, 1, 0, 1],
        Kernel_Name=[A] * 4,
    )
    done = bench.load(folder)
    assert done.dispatches == 4
    assert bench.column(done, "dispatches", "dispatch_id") == [0, 1, 2, 3]
    assert bench.column(done, "dispatches", "pid") == [77, 88, 77, 88]
    assert bench.column(done, "counters", "SQ_LEVEL_WAVES_ACCUM") == [10.0, 20.0, 30.0, 40.0]
    assert any("dispatch ids repeat" in w for w in done.warnings)


def test_two_devices_count_their_dispatches_apart(bench):
    done = bench.load(bench.workload(SQ_WAVES=[1, 2, 3, 4], GPU_ID=[0, 1, 0, "Agent 1"], Dispatch_ID=[0, 0, 1, 1]))
    assert bench.rows(done, "dispatches", "device_id, ordinal") == [(0, 1), (1, 1), (0, 2), (1, 2)]


def test_a_missing_counter_is_null_and_a_measured_zero_is_zero(bench):
    done = bench.load(bench.workload(SQ_WAVES=[16, 16], TCC_HIT_sum=[0, ""], SQ_INSTS_LDS=["nan", "N/A"]))
    assert bench.rows(done, "counters", "TCC_HIT_sum, SQ_INSTS_LDS") == [(0.0, None), (None, None)]
    assert not done.warnings


def test_gfx908_accumulation_registers_are_not_additional(bench):
    folder = bench.workload(SQ_WAVES=[16], Accum_VGPR=[8])
    bench.sysinfo("made/MI200", gpu_arch="gfx908", gpu_model="MI100")
    done = bench.load(folder)
    assert bench.rows(done, "dispatches", "vgpr, agpr") == [(8, 8)]
    assert any("gfx908" in n and "not additional" in n for n in done.notes)


def test_gfx950_registers_of_early_tools_are_flagged(load_shared):
    _, done = load_shared("vcopy/MI350")
    assert warned(done, "gfx950_registers")


def test_lds_of_csv_files_is_told_to_be_static_only(bench):
    assert any("static LDS only" in n for n in bench.load(bench.workload(SQ_WAVES=[16])).notes)


def test_durations_of_counter_runs_are_told_to_be_serialised(bench):
    assert any("one kernel at a time" in n for n in bench.load(bench.workload(SQ_WAVES=[16])).notes)


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
    assert "not of the same run" not in found


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


def test_replays_with_different_times_are_told(bench):
    folder = bench.workload(SQ_WAVES=[16, 16])
    bench.workload(file="timestamps.csv", Start_Timestamp=[0, 0], End_Timestamp=[7000, 7000])
    assert "30 %" in warned(bench.load(folder), "replay_spread")[0]


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


def test_waves_that_do_not_fit_the_launch_are_flagged(bench):
    folder = bench.workload(SQ_WAVES=[16, 17, 2], Grid_Size=[1024, 1024, 65], Workgroup_Size=[256, 256, 65])
    (found,) = warned(bench.load(folder), "waves_vs_grid")
    assert "1 of 3 dispatches" in found


@pytest.mark.parametrize(
    "name", ["vcopy/MI100", "vcopy/MI200", "vcopy/MI350", "join_type_grid/MI300X_A1", "mixbench/MI200"]
)
def test_recorded_waves_fit_their_launches(load_shared, name):
    assert not warned(load_shared(name)[1], "waves_vs_grid")


def test_doubtful_recorded_data_are_flagged(load_shared):
    assert warned(load_shared("multikernel/MI200")[1], "waves_vs_grid")


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


def test_launches_without_a_wave_are_flagged(bench):
    (found,) = warned(bench.load(bench.workload(SQ_WAVES=[16, 0], SQ_INSTS_VALU=[32, 0])), "no_waves")
    assert "1 of 2 dispatches" in found


def test_negative_counters_are_kept_and_flagged(bench):
    done = bench.load(bench.workload(SQ_BUSY_CYCLES=[-5, 7]))
    assert bench.column(done, "counters", "SQ_BUSY_CYCLES") == [-5.0, 7.0]
    assert "SQ_BUSY_CYCLES" in warned(done, "negative")[0]


def test_counters_beyond_64_bits_are_kept_and_flagged(bench):
    done = bench.load(bench.workload(SQ_BUSY_CYCLES=["1e30", 7]))
    assert bench.column(done, "counters", "SQ_BUSY_CYCLES") == [1e30, 7.0]
    assert warned(done, "overflow")


@pytest.mark.parametrize("model", ["MI100", "MI200", "MI300A_A1", "MI300X_A1"])
def test_the_known_answer_kernel_has_its_known_answer(load_shared, model):
    bench, done = load_shared(f"vcopy/{model}")
    waves, accesses = bench.rows(done, "counters", "SQ_WAVES, TCP_TOTAL_CACHE_ACCESSES_sum")[0]
    assert (waves, accesses) == (16_384.0, 524_288.0)
