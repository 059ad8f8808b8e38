"""Plain CSV files of rocprof v1 and v2."""

from __future__ import annotations

import shutil

import pytest

from rooflens.analysis.base.problems import BadInput

V1 = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj"
V1_OLD = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj"
V1_TIMES = "DispatchNs,BeginNs,EndNs,CompleteNs"
V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
)
V2_EARLY = (
    "Dispatch_ID,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Arch_VGPR,ACCUM_VGPR,SGPR,Wave_Size,SIG,OBJ,"
    "Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
)
KERNEL = "bodyForce(Body*, float, int) [clone .kd]"
LAUNCH = "kernel, device_id, pid, queue_id, grid, workgroup_size, lds_bytes, scratch_bytes, vgpr, agpr, sgpr"


def v1_row(index, *counters, times=(1591372997856209, 1591372998080743, 1591373024164495, 1591373024180993)):
    launch = (
        index,
        KERNEL,
        0,
        1,
        2 * index,
        3673711,
        3673711,
        65536,
        256,
        512,
        16,
        20,
        4,
        16,
        64,
        "0x0",
        "0x7f2b4d282500",
    )
    return (*launch, *counters, *times)


def v1(bench, counters, rows, name="results.csv"):
    return bench.csv(f"run/{name}", [*V1.split(","), *counters, *V1_TIMES.split(",")], rows)


def test_results_of_rocprof_v1(bench):
    done = bench.load(
        v1(bench, ["SQ_WAVES", "Wavefronts", "VALUBusy"], [v1_row(0, 1024, 1024, 68.1), v1_row(1, 1024, 1024, 70)])
    )
    assert (done.format, done.name, done.dispatches, done.kernels) == ("rocprof", "run", 2, 1)
    assert bench.rows(done, "dispatches", LAUNCH)[0] == (KERNEL[:-12], 0, 3673711, 1, 65536, 256, 512, 16, 20, 4, 16)
    assert bench.column(done, "dispatches", "duration_ns") == [26083752.0] * 2
    assert bench.rows(done, "counters", "SQ_WAVES, Wavefronts, VALUBusy") == [(1024, 1024, 68.1), (1024, 1024, 70)]
    assert bench.manifest(done).tool == "rocprof" and not done.warnings


def test_capitals_of_rocprof_6_0_mean_the_same(bench):
    header = V1.replace("grd,wgr,lds,scr", "GRD,WGR,LDS,SCR").replace("accum_vgpr", "ACCUM_VGPR")
    file = bench.csv("run/results.csv", [*header.split(","), "SQ_WAVES", *V1_TIMES.split(",")], [v1_row(0, 1024)])
    assert bench.rows(bench.load(file), "dispatches", LAUNCH)[0][4:] == (65536, 256, 512, 16, 20, 4, 16)


def test_older_results_have_one_kind_of_vector_register(bench):
    row = (
        0,
        "copy_kernel(float*, int) [clone .kd]",
        0,
        0,
        0,
        9,
        10,
        16777216,
        1024,
        0,
        0,
        4,
        24,
        0,
        "0x0",
        "0x7f",
        262144,
    )
    done = bench.load(bench.csv("copy/metrics_copy.csv", [*V1_OLD.split(","), "SQ_WAVES"], [row]))
    assert bench.rows(done, "dispatches", "vgpr, agpr, sgpr") == [(4, None, 24)]
    assert done.name == "metrics_copy"


def test_results_without_timestamps_say_how_to_get_them(bench):
    header = [*V1.split(","), "SQ_WAVES"]
    done = bench.load(bench.csv("run/results.csv", header, [v1_row(0, 1024, times=())]))
    assert bench.column(done, "dispatches", "duration_ns") == [None]
    assert any("--timestamp on" in n for n in done.notes)


def test_a_duration_alone_is_used(bench):
    header = [*V1.split(","), "SQ_WAVES", "DurationNs"]
    done = bench.load(
        bench.csv("run/results.csv", header, [v1_row(0, 1024, times=(26083752,)), v1_row(1, 1, times=(0,))])
    )
    assert bench.column(done, "dispatches", "duration_ns") == [26083752.0, None]


def test_the_accumulate_counter_belongs_to_the_level_before_it(bench):
    counters = ["SQ_WAVES", "SQ_LEVEL_WAVES", "SQ_ACCUM_PREV_HIRES", "SQ_BUSY_CYCLES"]
    done = bench.load(v1(bench, counters, [v1_row(0, 1024, 0, 5000, 7)]))
    assert bench.manifest(done).counters == ["SQ_WAVES", "SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM", "SQ_BUSY_CYCLES"]


@pytest.mark.parametrize(
    ("gfx", "cus", "facts"), [("gfx90a", 104, {}), ("gfx942", 304, {"num_xcd": 8}), ("gfx950", 256, {"num_xcd": 8})]
)
def test_rocminfo_beside_the_results_tells_the_device(bench, shared, gfx, cus, facts):
    file = v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)])
    shutil.copy(shared / "devices" / gfx / "rocminfo.txt", file.with_name("results.sysinfo.txt"))
    done = bench.load(file)
    manifest = bench.manifest(done)
    assert (done.arch, done.device) == (gfx, "AMD Radeon Graphics")
    assert manifest.facts["cu_per_gpu"] == cus and manifest.facts["wave_size"] == 64
    assert manifest.facts.items() >= facts.items() and manifest.facts["max_sclk"] > 1000


def test_a_system_of_several_kinds_of_gpu_is_resolved_by_the_node(bench, shared):
    text = (shared / "devices" / "gfx90a" / "rocminfo.txt").read_text()
    other = (shared / "devices" / "gfx942" / "rocminfo.txt").read_text()
    gpu = other[other.index("*******", other.index("Agent 1") + 30) :].replace(
        "Node:                    1", "Node:                    7"
    )
    file = v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)])
    beside = file.with_name("results.sysinfo.txt")
    beside.write_text(text.replace("*** Done ***", "") + gpu)
    done = bench.load(file)
    assert done.arch is None
    assert any("does not state which GPU" in w and "gfx90a, gfx942" in w for w in done.warnings)
    rows = [
        [7 if h == "gpu-id" else c for h, c in zip([*V1.split(",")], r, strict=False)] + list(r[17:])
        for r in [v1_row(0, 1024)]
    ]
    beside.rename(v1(bench, ["SQ_WAVES"], rows, "second.csv").with_name("second.sysinfo.txt"))
    assert bench.load(bench.folder / "run" / "second.csv").arch == "gfx942"


def test_a_linked_sysinfo_outside_is_not_read(bench):
    file = v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)])
    (bench.folder / "secret.txt").write_text("*******\nAgent 1\n*******\n  Name: gfx90a\n  Device Type: GPU\n")
    file.with_name("results.sysinfo.txt").symlink_to(bench.folder / "secret.txt")
    assert bench.load(file).arch is None


def v2_row(dispatch, xcd=None, *counters, pid=9, times=(0, 0)):
    launch = (dispatch, 60633, 1, pid, pid, 1048576, 256, 0, 0, 4, 4, 16, 64, "vecCopy(double*, int) (.kd)", *times, 0)
    return (*launch, *(() if xcd is None else (xcd,)), *counters)


def test_results_of_rocprof_v2_with_the_empty_line_after_the_header(bench):
    file = bench.csv(
        "run/results_result.csv", [*V2.split(","), "SQ_WAVES"], [(), v2_row(1, None, "16384.000000", times=(7, 5007))]
    )
    done = bench.load(file)
    assert bench.rows(done, "dispatches", "dispatch_id, kernel, device_id, duration_ns") == [
        (1, "vecCopy(double*, int)", 60633, 5000.0)
    ]
    assert bench.manifest(done).tool == "rocprofv2"


def test_the_early_header_of_rocprof_v2(bench):
    row = (
        1,
        4,
        1,
        1,
        77,
        77,
        10,
        10,
        0,
        0,
        8,
        0,
        16,
        64,
        140464978048000,
        1,
        "helloworld(char*, char*) (.kd)",
        0,
        140469300947216,
        33,
        "12637.000000",
    )
    done = bench.load(bench.csv("run/results.csv", [*V2_EARLY.split(","), "GRBM_COUNT"], [row]))
    assert bench.rows(done, "counters", "kernel, GRBM_COUNT") == [("helloworld(char*, char*)", 12637.0)]
    assert bench.rows(done, "dispatches", "grid, workgroup_size, agpr, start_ns") == [(10, 10, 0, 0)]


def test_one_row_per_xcd_becomes_one_dispatch(bench):
    header = [*V2.split(","), "XCC_Index", "SQ_WAVES", "GRBM_GUI_ACTIVE", "VALUBusy", "TCC_HIT[0]", "TCC_HIT[15]"]
    rows = [v2_row(d, x, 2048, 1000 + x, 10 * x, 100 * d + x, 7) for d in (1, 2) for x in range(8)]
    done = bench.load(bench.csv("run/results.csv", header, rows), gpu="gfx942")
    assert done.dispatches == 2
    assert bench.rows(done, "counters", "dispatch_id, SQ_WAVES, GRBM_GUI_ACTIVE, VALUBusy") == [
        (1, 16384, 8028, 35),
        (2, 16384, 8028, 35),
    ]
    hits = bench.rows(done, "counter_instances", "dispatch_id, xcd, instance, value", "instance = 0")
    assert hits == [(d, x, 0, 100.0 * d + x) for d in (1, 2) for x in range(8)]
    assert bench.manifest(done).facts["num_xcd"] == 8
    assert any("sums over the XCDs" in n for n in done.notes)


def test_a_dispatch_with_fewer_xcds_is_told(bench):
    header = [*V2.split(","), "XCC_Index", "SQ_WAVES"]
    rows = [v2_row(1, 0, 8), v2_row(1, 1, 8), v2_row(2, 0, 8)]
    done = bench.load(bench.csv("run/results.csv", header, rows))
    assert any("rows of 1 to 2 XCDs" in w for w in done.warnings)


def test_dispatches_of_two_processes_are_not_taken_for_xcds(bench):
    header = [*V2.split(","), "XCC_Index", "SQ_WAVES"]
    rows = [v2_row(1, x, 8, pid=p) for p in (5, 6) for x in (0, 1)]
    done = bench.load(bench.csv("run/results.csv", header, rows))
    assert bench.rows(done, "dispatches", "pid") == [(5,), (6,)]
    assert bench.column(done, "counters", "SQ_WAVES") == [16.0, 16.0]


def test_an_impossible_number_of_an_xcd_is_refused(bench):
    header = [*V2.split(","), "XCC_Index", "SQ_WAVES"]
    with pytest.raises(BadInput, match="names XCD 1e"):
        bench.load(bench.csv("run/results.csv", header, [v2_row(1, 0, 8), v2_row(1, 10**9, 8)]))
    assert bench.is_clean()


def test_a_folder_per_pass_is_one_profile(bench):
    for number, counter in ((1, "SQ_WAVES"), (2, "TCC_HIT_sum"), (10, "SQ_WAVES")):
        bench.csv(
            f"run/pmc_{number}/results_9.csv",
            [*V2.split(","), counter],
            [v2_row(1, None, number), v2_row(2, None, number)],
        )
    done = bench.load(bench.folder / "run")
    assert (done.name, done.dispatches, done.passes) == ("run", 2, 3)
    assert bench.manifest(done).counters == ["SQ_WAVES", "TCC_HIT_sum", "SQ_WAVES@pmc_10"]
    assert bench.rows(done, "counters", 'SQ_WAVES, TCC_HIT_sum, "SQ_WAVES@pmc_10"') == [(1, 2, 10)] * 2


def test_a_folder_with_results_among_other_files(bench):
    v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)])
    bench.csv("run/results.stats.csv", ["Name", "Calls", "TotalDurationNs"], [(KERNEL, 1, 2)])
    bench.csv("run/other.csv", ["a", "b"], [(1, 2)])
    assert bench.load(bench.folder / "run").format == "rocprof"


def test_a_folder_with_several_profiles_asks_for_one(bench):
    v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)], "a.csv")
    v1(bench, ["SQ_WAVES"], [v1_row(0, 1024)], "b.csv")
    with pytest.raises(BadInput, match=r"contains 2 files of dispatches. a.csv, b.csv"):
        bench.load(bench.folder / "run")


def test_a_device_given_by_the_caller_makes_metrics_possible(bench):
    from rooflens.tests.support.figures import evaluate

    counters = ["SQ_WAVES", "TCC_HIT_sum", "TCC_MISS_sum"]
    done = bench.load(v1(bench, counters, [v1_row(0, 1024, 30, 10)]), gpu="gfx90a")
    assert done.arch == "gfx90a" and done.next[0].tool == "compute_metrics"
    found = evaluate(bench.store, done.workload, ["l2.hit_rate_pct"])
    assert [f.value for f in found] == [75.0]
