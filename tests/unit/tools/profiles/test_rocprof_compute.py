"""Workload folders of omniperf and rocprof-compute in every layout that occurs."""

from __future__ import annotations

import csv
import gzip
import shutil
from dataclasses import replace

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.rocprofv3_samples import LAUNCHES, SAMPLES, as_json

V1_SYSINFO = {
    "workload_name": "vcopy",
    "command": "./vcopy 1048576 256",
    "host_name": "node01",
    "host_cpu": "AMD EPYC 7V13",
    "host_rocmver": "5.2.1-79",
    "date": "Fri Jan 20 11:22:20 2023 (CST)",
    "gpu_soc": "gfx90a",
    "numSE": "8",
    "numCU": "104",
    "numSIMD": "4",
    "waveSize": "64",
    "maxWavesPerCU": "32",
    "maxWorkgroupSize": "1024",
    "L1": "16",
    "L2": "8192",
    "sclk": "1700",
    "mclk": "1600",
    "cur_sclk": "800",
    "cur_mclk": "1600",
    "L2Banks": "32",
    "LDSBanks": "32",
    "name": "mi200",
    "numSQC": "56",
    "numPipes": "4",
    "hbmBW": "1638.4",
    "ip_blocks": "roofline|SQ|LDS",
}


def compressed(file):
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()


def test_the_first_generation_of_2022(bench):
    header = [
        "Index",
        "KernelName",
        "gpu-id",
        "queue-id",
        "queue-index",
        "pid",
        "tid",
        "grd",
        "wgr",
        "lds",
        "scr",
        "vgpr",
    ]
    header += [
        "sgpr",
        "fbar",
        "sig",
        "obj",
        "SQ_WAVES",
        "TCC_HIT[0]",
        "TCC_HIT[1]",
        "DispatchNs",
        "BeginNs",
        "EndNs",
        "CompleteNs",
    ]
    row = [
        0,
        "vecCopy(double*, int) [clone .kd]",
        0,
        0,
        0,
        77,
        78,
        1024,
        256,
        512,
        16,
        8,
        24,
        6464,
        "0x0",
        "0x7f3e",
        16,
        5,
        6,
        10,
        20,
        95,
        99,
    ]
    bench.csv("vcopy/mi200/pmc_perf.csv", header, [row])
    bench.csv("vcopy/mi200/sysinfo.csv", list(V1_SYSINFO), [list(V1_SYSINFO.values())])
    done = bench.load(bench.folder / "vcopy" / "mi200")
    manifest = bench.manifest(done)
    assert (done.name, done.arch, done.device, manifest.tool) == ("vcopy", "gfx90a", "mi200", "omniperf")
    assert (manifest.command, manifest.host, manifest.tool_version) == ("./vcopy 1048576 256", "node01", "5.2.1-79")
    facts = {
        "cu_per_gpu": 104,
        "simd_per_cu": 4,
        "se_per_gpu": 8,
        "wave_size": 64,
        "max_waves_per_cu": 32,
        "max_sclk": 1700,
    }
    facts |= {"max_mclk": 1600, "total_l2_chan": 32, "lds_banks_per_cu": 32, "sqc_per_gpu": 56, "pipes_per_gpu": 4}
    assert manifest.facts == facts | {"num_xcd": 1, "num_hbm_channels": 32}
    launch = "pid, queue_id, grid, workgroup_size, lds_bytes, scratch_bytes, vgpr, agpr, sgpr, duration_ns"
    assert bench.rows(done, "dispatches", launch) == [(77, 0, 1024, 256, 512, 16, 8, None, 24, 75.0)]
    assert bench.rows(done, "counter_instances", "counter, xcd, instance, value") == [
        ("TCC_HIT", 0, 0, 5.0),
        ("TCC_HIT", 0, 1, 6.0),
    ]


def test_the_third_generation_names_series_chip_and_memory_channels(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.sysinfo(
        "made/MI200",
        version="3",
        gpu_model="",
        gpu_series="MI300",
        gpu_chip_id="29857",
        num_hbm_channels="",
        num_memory_channels="128",
    )
    manifest = bench.manifest(bench.load(folder))
    assert (
        manifest.device == "MI300" and manifest.tool == "rocprof-compute" and manifest.facts["num_hbm_channels"] == 128
    )


def test_unknown_device_facts_stay_unknown(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.sysinfo("made/MI200", max_sclk="0", max_mclk="", gpu_arch="N/A", cu_per_gpu="many", num_hbm_channels="-3")
    done = bench.load(folder)
    facts = bench.manifest(done).facts
    assert done.arch is None and not {"max_sclk", "max_mclk", "cu_per_gpu", "num_hbm_channels"} & facts.keys()
    assert any("no clock" in w for w in done.warnings)


def test_the_target_loses_its_feature_flags(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.sysinfo("made/MI200", gpu_arch="gfx90a:sramecc+:xnack-")
    assert bench.load(folder).arch == "gfx90a"


def test_an_mi300_without_a_count_of_xcds_gets_it_from_its_channels(bench):
    folder = bench.workload(SQ_WAVES=[16], **{"TCC_HIT[17]": [1]})
    bench.sysinfo("made/MI200", gpu_arch="gfx942", num_xcd="", total_l2_chan="96")
    done = bench.load(folder)
    assert bench.manifest(done).facts["num_xcd"] == 6
    assert bench.rows(done, "counter_instances", "xcd, instance") == [(1, 1)]


def test_channels_of_an_mi300_are_numbered_within_their_xcd(load_shared):
    bench, done = load_shared("join_type_grid/MI300X_A1")
    places = set(bench.rows(done, "counter_instances", "xcd, instance", "counter = 'TCC_HIT'"))
    assert places == {(xcd, channel) for xcd in range(8) for channel in range(16)}


def test_channels_that_were_not_collected_are_absent_and_not_zero(load_shared):
    bench, done = load_shared("vcopy/MI350")
    counted = {(x, i) for x, i in bench.rows(done, "counter_instances", "xcd, instance", "counter = 'TCC_EA0_RDREQ'")}
    assert 0 < len(counted) < 128


def test_a_row_per_counter_of_rocpd_becomes_a_row_per_dispatch(load_shared):
    bench, done = load_shared("vcopy/MI300X_A1_rocpd")
    assert (done.dispatches, done.counters, done.passes) == (3, 217, 1)
    assert bench.column(done, "dispatches", "dispatch_id") == [1, 2, 3]
    assert all(5000 < d < 9000 for d in bench.column(done, "dispatches", "duration_ns"))


def test_level_counters_are_called_as_in_rocpd(load_shared):
    bench, done = load_shared("vcopy/MI200")
    counters = bench.manifest(done).counters
    assert {"SQ_LEVEL_WAVES_ACCUM", "SQ_INST_LEVEL_VMEM_ACCUM", "SQ_WAVES@SQ_LEVEL_WAVES", "SQ_WAVES"} <= set(counters)
    assert not any(c.startswith("SQ_ACCUM_PREV") for c in counters)


def test_a_profile_without_accumulation_registers_has_none_known(load_shared):
    bench, done = load_shared("mixbench/MI100")
    assert set(bench.column(done, "dispatches", "agpr")) == {None}
    assert min(bench.column(done, "dispatches", "start_ns")) > 2**53


def test_counters_of_some_blocks_only(load_shared):
    assert load_shared("ipblocks_TD/MI200")[1].counters == 14


def test_single_replays_without_a_joined_file_are_joined_by_key(bench, shared):
    folder = bench.folder / "vcopy" / "MI350"
    shutil.copytree(shared / "workloads" / "vcopy" / "MI350", folder)
    joined = bench.load(folder)
    (folder / "pmc_perf.csv").unlink()
    single = bench.load(folder)
    assert single.passes == 13 and single.passes_unmatched == 0 and single.dispatches == 3
    plain = [c for c in bench.manifest(joined).counters if "@" not in c]
    assert set(plain) <= set(bench.manifest(single).counters)
    for counter in plain:
        assert bench.column(joined, "counters", f'"{counter}"') == bench.column(single, "counters", f'"{counter}"'), (
            counter
        )
    instances = "dispatch_id, counter, xcd, instance, value"
    assert bench.rows(joined, "counter_instances", instances) == bench.rows(single, "counter_instances", instances)


def test_a_counter_measured_twice_keeps_the_name_of_its_second_pass(bench):
    folder = bench.workload(file="pmc_perf_2.csv", SQ_WAVES=[16, 16], SQ_BUSY_CYCLES=[1, 2])
    bench.workload(file="pmc_perf_10.csv", SQ_WAVES=[17, 17], TCC_HIT_sum=[3, 4])
    done = bench.load(folder)
    assert bench.manifest(done).counters == ["SQ_WAVES", "SQ_BUSY_CYCLES", "SQ_WAVES@pmc_perf_10", "TCC_HIT_sum"]
    assert bench.column(done, "passes", "name") == ["pmc_perf_2", "pmc_perf_10"]


def test_replays_with_a_row_per_xcd_are_merged(bench):
    xcds = {"Dispatch_ID": [1, 1, 2, 2], "XCC_Index": [0, 1, 0, 1]}
    folder = bench.workload(file="pmc_perf_0.csv", SQ_WAVES=[8, 8, 9, 9], **xcds, **{"TCC_HIT[3]": [1, 2, 3, 4]})
    bench.sysinfo("made/MI200", gpu_arch="gfx942", num_xcd="2", total_l2_chan="32")
    done = bench.load(folder)
    assert bench.column(done, "counters", "SQ_WAVES") == [16.0, 18.0]
    assert bench.rows(done, "counter_instances", "dispatch_id, xcd, instance, value") == [
        (1, 0, 3, 1.0), (1, 1, 3, 2.0), (2, 0, 3, 3.0), (2, 1, 3, 4.0),
    ]  # fmt: skip


def test_compressed_files_hold_the_same(bench):
    folder = bench.workload(SQ_WAVES=[16, 17])
    bench.workload(file="SQ_LEVEL_WAVES.csv", SQ_ACCUM_PREV_HIRES=[9, 8])
    before = bench.load(folder)
    compressed(folder / "pmc_perf.csv")
    compressed(folder / "SQ_LEVEL_WAVES.csv")
    after = bench.load(folder)
    assert bench.rows(before, "counters") == bench.rows(after, "counters")


@pytest.mark.parametrize("path", ["root/MI200", "root/MI200", "root/MI200/pmc_perf.csv", "root/MI200/sysinfo.csv"])
def test_root_folder_and_own_files_mean_the_workload(bench, path):
    bench.workload("root/MI200", SQ_WAVES=[16])
    bench.sysinfo("root/MI200", workload_name="path")
    done = bench.load(bench.folder / path)
    assert (done.format, done.name, done.dispatches) == ("rocprof-compute", "root/MI200", 1)


def test_a_root_with_several_models_asks_for_one(bench):
    bench.workload("root/MI200", SQ_WAVES=[16])
    bench.workload("root/MI300X_A1", SQ_WAVES=[16])
    with pytest.raises(BadInput, match=r"contains 2 workloads.*MI200, MI300X_A1"):
        bench.load(bench.folder / "root")


def test_a_second_file_of_one_pass_is_left_out_and_told(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.workload(file="SQ_LEVEL_WAVES.csv", SQ_ACCUM_PREV_HIRES=[9])
    bench.workload(file="old/SQ_LEVEL_WAVES.csv", SQ_ACCUM_PREV_HIRES=[7])
    done = bench.load(folder)
    assert bench.column(done, "counters", "SQ_LEVEL_WAVES_ACCUM") == [9.0]
    assert any("old/SQ_LEVEL_WAVES.csv was skipped" in w for w in done.warnings)


def test_options_of_the_profiler_tell_about_filters(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.sysinfo("made/MI200", version="", workload_name="")
    (folder / "profiling_config.yaml").write_text(
        "format_rocprof_output: csv\nkernel: vecCopy\ndispatch: null\nname: mine\n"
    )
    done = bench.load(folder)
    assert any("filtered by kernel" in n for n in done.notes)
    assert done.name == "mine" and bench.manifest(done).tool == "rocprof-compute"


def test_a_long_form_without_values_or_counters_is_refused(bench):
    folder = bench.workload(SQ_WAVES=[16], Counter_Name=["SQ_WAVES"])
    with pytest.raises(BadInput, match="no column Counter_Value"):
        bench.load(folder)
    bench.workload(Counter_Name=["not a counter"], Counter_Value=[1])
    with pytest.raises(BadInput, match="names no counter"):
        bench.load(folder)
    assert bench.is_clean()


def test_names_that_are_no_counters_are_left_out_of_the_long_form(bench):
    names = ["SQ_WAVES", "Kernel_Name", "sq waves; DROP TABLE x", "SQ_Waves", "TCC_HIT[3]"]
    once = {"Dispatch_ID": [0] * 5, "Start_Timestamp": [10] * 5, "End_Timestamp": [30] * 5}
    done = bench.load(bench.workload(Counter_Name=names, Counter_Value=[16, 1, 2, 3, 4], **once))
    assert bench.manifest(done).counters == ["SQ_WAVES"] or bench.manifest(done).counters == ["SQ_Waves"]
    assert any("3 names that are not counters" in w for w in done.warnings)
    assert bench.rows(done, "counter_instances", "counter, instance, value") == [("TCC_HIT", 3, 4.0)]


def test_the_roofline_of_every_device_is_kept(bench, shared):
    folder = bench.workload(SQ_WAVES=[16])
    shutil.copy(shared / "workloads" / "vcopy" / "MI200" / "roofline.csv", folder)
    with (folder / "roofline.csv").open() as file:
        recorded = list(csv.DictReader(file))
    done = bench.load(folder)
    assert set(bench.column(done, "ceilings", "device_id")) == {int(r["device"]) for r in recorded}
    first = {
        c: (v, low, high)
        for c, v, low, high in bench.rows(done, "ceilings", "ceiling, value, low, high", "device_id = 0")
    }
    assert first["hbm.bw"] == (1388.9302, 1388.3835, 1389.4768)  # spelled hbmBwHigh in the file
    assert first["matrix.i8"] == (166402.27, 165911.17, 166893.36)  # spelled MFMAFI8OpsLow in the file
    assert first["vl1d.bw"][0] == 9226.7266 and first["valu.f32"][0] == 20941.971 and len(first) == 11
    units = dict(bench.rows(done, "ceilings", "ceiling, unit", "device_id = 0"))
    assert (units["lds.bw"], units["matrix.bf16"], units["matrix.i8"]) == ("GB/s", "GFLOP/s", "GOP/s")
    assert set(bench.column(done, "ceilings", "gpu")) == {"gfx90a"}


def test_samples_beside_counters_are_those_of_the_launches_that_their_run_repeats(bench):
    """Of three launches counted, the run for samples has the last two, by other numbers and in another order."""
    grids = [32, 128, 64]
    folder = bench.workload(SQ_WAVES=[16, 32, 64], Kernel_Name=["dots.kd"] * 3, Grid_Size=grids)
    as_json(folder / "ps_file_results.json", LAUNCHES, SAMPLES)
    done = bench.load(folder)
    assert (done.samples, done.counters, done.dispatches) == (1000, 1, 3)
    size = {i: (grid, launch) for i, grid, launch in bench.rows(done, "dispatches", "dispatch_id, grid, launch")}
    found = bench.rows(done, "samples", "dispatch_id, launch, CAST(sum(count) OVER (PARTITION BY dispatch_id) AS INT)")
    assert {(size[i][0], n) for i, _, n in found} == {(64, 700), (128, 300)}
    assert all(size[i][1] == launch for i, launch, _ in found)
    code = bench.rows(done, "instructions", "kernel, launch")
    assert set(code) == {("dots", launch) for grid, launch in size.values() if grid != 32}
    (folder / "ps_file_results.json").write_text('{"rocprofiler-sdk-tool": [{"buffer_records"')
    done = bench.load(folder)
    assert done.samples == 0 and any("Its samples were skipped" in warning for warning in done.warnings)


def test_samples_of_many_processes_are_one_profile(bench):
    """Since 3.9, each process has a file with its pid."""
    folder = bench.folder / "app" / "MI300X"
    folder.mkdir(parents=True)
    for pid in (31, 4711):
        as_json(folder / f"{pid}_ps_file_results.json", replace(LAUNCHES, pid=pid), SAMPLES)
    bench.sysinfo(folder.relative_to(bench.folder))
    done = bench.load(folder)
    assert done.samples == 2000 and done.warnings == []
    launches = dict(bench.rows(done, "dispatches", "dispatch_id, pid"))
    sums = {31: 0, 4711: 0}
    for number, count in bench.rows(done, "samples", "dispatch_id, count"):
        sums[launches[number]] += count
    assert sums == {31: 1000, 4711: 1000}


def test_samples_of_another_process_beside_csv_files_are_named(bench):
    folder = bench.workload(SQ_WAVES=[16, 32, 64], Kernel_Name=["dots.kd"] * 3, Grid_Size=[32, 128, 64])
    for pid in (31, 4711):
        as_json(folder / f"{pid}_ps_file_results.json", replace(LAUNCHES, pid=pid), SAMPLES)
    done = bench.load(folder)
    assert done.samples == 1000
    assert any("4711_ps_file_results.json holds samples of another process" in text for text in done.warnings)
