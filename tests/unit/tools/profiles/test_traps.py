"""Every reading trap of AMD's profilers, one test each."""

from __future__ import annotations

import pytest

from rooflens.tools.list_workloads import list_workloads

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


def test_replays_with_different_times_are_told(bench):
    folder = bench.workload(SQ_WAVES=[16, 16])
    bench.workload(file="timestamps.csv", Start_Timestamp=[0, 0], End_Timestamp=[7000, 7000])
    assert "30 %" in warned(bench.load(folder), "replay_spread")[0]


@pytest.mark.parametrize(("other", "suspect"), [(25_000, False), (40_000, True)])
def test_times_are_suspect_where_passes_differ_more_than_threefold(bench, other, suspect):
    folder = bench.workload(SQ_WAVES=[16, 16], Start_Timestamp=[5, 5], End_Timestamp=[10_005, 10_005])
    bench.workload(file="timestamps.csv", Start_Timestamp=[5, 5], End_Timestamp=[other + 5, other + 5])
    done = bench.load(folder)
    assert any("took up to 4 times as long" in text for text in warned(done, "pass_times")) == suspect
    (time,) = list_workloads(bench.store, done.workload).table.records()
    assert (time["status"], "4-fold" in (time["reason"] or "")) == (("suspect", True) if suspect else ("ok", False))


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


def test_launches_without_a_wave_are_flagged(bench):
    (found,) = warned(bench.load(bench.workload(SQ_WAVES=[16, 0], SQ_INSTS_VALU=[32, 0])), "no_waves")
    assert "1 of 2 dispatches" in found


@pytest.mark.parametrize("model", ["MI100", "MI200", "MI300A_A1", "MI300X_A1"])
def test_the_known_answer_kernel_has_its_known_answer(load_shared, model):
    bench, done = load_shared(f"vcopy/{model}")
    waves, accesses = bench.rows(done, "counters", "SQ_WAVES, TCP_TOTAL_CACHE_ACCESSES_sum")[0]
    assert (waves, accesses) == (16_384.0, 524_288.0)
