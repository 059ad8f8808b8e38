"""Three forms of one recorded run give the same numbers, in base units, under ncu's own names."""

from __future__ import annotations

import csv
import gzip
import importlib.util

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tools.profiles.merging.matching import SAMPLE, CountingSample
from rooflens.tools.profiles.ncu.pages import number, scale
from rooflens.tools.query_counters import query_counters

needs_ncu_report = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="needs the package ncu-report (extra cuda)"
)
KERNELS = ["hbm_copy", "shared_conflict", "fp32_fma", "yax_problem", "yax_solution"]


def table(bench, done):
    """{counter: values by launch} of everything stored."""
    names = bench.manifest(done).counters
    columns = ", ".join('"' + name + '"' for name in names)
    return dict(zip(names, zip(*bench.rows(done, "counters", columns), strict=True), strict=True))


def test_the_raw_page_becomes_launches_with_their_data(bench, recorded):
    done = bench.load(recorded / "small_raw.csv")
    assert (done.format, done.arch, done.device) == ("ncu", "sm_90", "NVIDIA H200")
    assert (done.dispatches, done.kernels, done.passes) == (5, 5, 1)
    assert [k.split("(")[0] for k in bench.column(done, "dispatches", "kernel")] == KERNELS
    assert bench.column(done, "dispatches", "kernel")[0] == "hbm_copy(const float4 *, float4 *, unsigned long)"
    launch = bench.rows(done, "dispatches", "grid, workgroup_size, vgpr, lds_bytes, pid, queue_id, device_id")
    assert launch[0] == (67108864, 256, 16, 0, 894, 7, 0)
    assert launch[1][3] == 16_896  # static shared memory; the driver's part is a counter of its own
    assert bench.column(done, "counters", '"launch__shared_mem_per_block_driver"') == [1024.0] * 5


def test_durations_and_rates_are_in_base_units(bench, recorded):
    done = bench.load(recorded / "small_raw.csv")
    duration, same, rate, size = bench.rows(
        done,
        "counters",
        'duration_ns, "gpu__time_duration.sum", "dram__bytes_read.sum.per_second", "dram__bytes_read.sum"',
    )[0]
    assert duration == same == pytest.approx(496_832)
    assert rate == pytest.approx(size / duration * 1e9, rel=1e-3) and rate > 2e12
    (clock,) = bench.rows(done, "counters", '"sm__cycles_elapsed.avg.per_second"')[0]
    assert 1.9e9 < clock < 2.0e9


def test_the_device_is_described_by_facts_and_not_by_counters(bench, recorded):
    manifest = bench.manifest(bench.load(recorded / "small_raw.csv"))
    assert manifest.facts["cu_per_gpu"] == 132 and manifest.facts["max_sclk"] == 1980
    assert manifest.facts["pc_sampling_interval_cycles"] == 2048
    assert manifest.facts["l2_bytes"] == 62_914_560 and manifest.facts["wave_size"] == 32
    assert not [c for c in manifest.counters if c.startswith("device__")]


def test_a_fact_that_is_no_finite_number_is_not_known(bench, raw_page):
    numbers = {"gpu__time_duration.sum": ("ns", [1000]), "device__attribute_multiprocessor_count": ("", ["1e999"])}
    assert "cu_per_gpu" not in bench.manifest(bench.load(raw_page(numbers))).facts


def test_every_number_of_the_raw_page_is_stored(bench, recorded):
    done = bench.load(recorded / "small_raw.csv")
    stored = table(bench, done)
    with (recorded / "small_raw.csv").open(newline="") as file:
        header, units, *rows = csv.reader(file)
    checked = 0
    for i, (name, unit) in enumerate(zip(header, units, strict=True)):
        values = [number(row[i]) for row in rows]
        if i < 11 or name.startswith("device__") or all(v is None or v != v for v in values):
            continue
        wanted = [None if v is None or v != v else v * scale(unit) for v in values]
        assert list(stored[name]) == pytest.approx(wanted, rel=1e-12), name
        checked += 1
    assert checked == len(stored) > 900


@needs_ncu_report
def test_the_report_gives_the_numbers_of_its_raw_page(bench, recorded):
    page, report = bench.load(recorded / "small_raw.csv"), bench.load(recorded / "small.ncu-rep")
    printed, exact = table(bench, page), table(bench, report)
    assert printed.keys() == exact.keys()
    with (recorded / "small_raw.csv").open(newline="") as file:
        header, units, *rows = csv.reader(file)
    for name, values in printed.items():
        at = header.index(name)
        for value, wanted, row in zip(values, exact[name], rows, strict=True):
            digits = len(row[at].partition(".")[2])
            rounded = 0.5 * 10**-digits * scale(units[at])
            assert value == pytest.approx(wanted, rel=1e-9, abs=1.000001 * rounded), name
    launch = "kernel, grid, workgroup_size, vgpr, lds_bytes, queue_id, device_id"
    assert bench.rows(page, "dispatches", launch) == bench.rows(report, "dispatches", launch)
    assert bench.manifest(report).facts == bench.manifest(page).facts
    assert bench.manifest(report).tool_version == "2025.3.1" and report.arch == "sm_90"


def test_a_folder_with_the_three_forms_of_one_run_is_read_once(bench, recorded):
    done = bench.load(recorded)
    assert (done.dispatches, done.passes) == (5, 1)
    assert sum("repeats the launches of" in note for note in done.notes) == 1


def test_a_compressed_page_and_one_among_other_output_are_read(bench, recorded, tmp_path):
    page = (recorded / "small_raw.csv").read_text().splitlines()
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress("\n".join(page).encode()))
    lines = ["==PROF== Connected to process 894", "result: 3.5, ok", f"no newline{page[0]}", page[1]]
    lines += [line for row in page[2:] for line in (row, "==PROF== Profiling", 'a "quoted" word, 2')]
    (tmp_path / "mixed.log").write_text("\n".join([*lines, "==PROF== Disconnected"]))
    clean = table(bench, bench.load(recorded / "small_raw.csv"))
    for name in ("zipped.csv.gz", "mixed.log"):
        done = bench.load(tmp_path / name)
        assert table(bench, done) == clean
    assert any("11 lines of other output" in note for note in done.notes)


def test_two_scalings_of_one_value_are_the_same_number(bench, raw_page):
    first = raw_page({"gpu__time_duration.sum": ("ms", ["1.5"]), "dram__bytes.sum": ("Gbyte", ["0.002"])}, "a/p.csv")
    second = raw_page({"gpu__time_duration.sum": ("us", ["1,500"]), "dram__bytes.sum": ("Kbyte", ["2,000"])}, "b/p.csv")
    columns = 'duration_ns, "gpu__time_duration.sum", "dram__bytes.sum"'
    one, two = (bench.rows(bench.load(p), "counters", columns)[0] for p in (first, second))
    assert one == pytest.approx(two, rel=1e-12) and one == pytest.approx((1.5e6, 1.5e6, 2e6))


def test_a_page_with_decimal_commas_is_refused_because_its_points_may_be_thousands(bench, raw_page):
    """117.344 ns on such a page are 117344 ns, and nothing in that cell tells."""
    times = {"gpu__time_duration.sum": ("ns", ["117.344", "98.112"])}
    shares = {"dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", ["65,77", "8,1"])}
    for other in (shares, {"dram__bytes.sum": ("byte", ["27.595.520", "512"])}):
        with pytest.raises(BadInput, match="decimal comma") as refused:
            bench.load(raw_page({**times, **other}))
        assert "LC_ALL=C" in refused.value.fix
    known = {"dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", ["65.77", "8.1"])}
    done = bench.load(raw_page({**times, **known}, "b/p.csv"))
    assert bench.column(done, "dispatches", "duration_ns") == [pytest.approx(117.344), pytest.approx(98.112)]


@pytest.mark.parametrize("missing", ["", "nan", "n/a", "no data", "(!) nan", "inf"])
def test_a_cell_without_a_number_is_null_and_not_zero(bench, raw_page, missing):
    page = raw_page({"gpu__time_duration.sum": ("ns", ["10", "20"]), "sm__inst_executed.sum": ("inst", [missing, "0"])})
    done = bench.load(page)
    assert bench.column(done, "counters", '"sm__inst_executed.sum"') == [None, 0.0]


def test_text_between_numbers_is_null_with_a_warning_that_counts_it(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("ns", ["10", "20", "30"]), "l2__x.sum": ("", ["1", "oops", "3"])})
    done = bench.load(page)
    assert bench.column(done, "counters", '"l2__x.sum"') == [1.0, None, 3.0]
    assert any("l2__x.sum" in w and "1 of 3" in w and "'oops'" in w for w in done.warnings)


def test_of_instances_the_total_counts(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("us", ["1"]), "lts__t_sectors.sum": ("sector", ["12 (5; 7)"])})
    assert bench.column(bench.load(page), "counters", '"lts__t_sectors.sum"') == [12.0]


def test_a_zero_of_a_scaled_column_may_be_a_small_value_and_is_named(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("us", ["1", "2"]), "dram__bytes.sum": ("Gbyte", ["0.000000", "1"])})
    (note,) = [n for n in bench.load(page).notes if "rounded" in n]
    assert "dram__bytes.sum in Gbyte" in note and "--print-units base" in note
    page = raw_page({"gpu__time_duration.sum": ("ns", ["1", "2"]), "dram__bytes.sum": ("byte", ["0", "1"])})
    assert not [n for n in bench.load(page).notes if "rounded" in n]


def test_an_unknown_unit_keeps_the_value_and_warns(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("ns", ["10"]), "sm__x.sum": ("furlong", ["7"])})
    done = bench.load(page)
    assert bench.column(done, "counters", '"sm__x.sum"') == [7.0]
    assert any("'furlong'" in w and "sm__x.sum" in w for w in done.warnings)


def test_a_page_without_its_row_of_units_warns(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("us", ["10"])})
    lines = page.read_text().splitlines()
    page.write_text("\n".join([lines[0], *lines[2:]]))
    done = bench.load(page)
    assert bench.column(done, "counters", "duration_ns") == [10.0]
    assert any("no row of units" in w for w in done.warnings)


def test_files_with_other_metrics_are_passes_and_with_the_same_metrics_processes(bench, raw_page):
    time = {"gpu__time_duration.sum": ("ns", ["100", "200"])}
    first = raw_page({**time, "sm__a.sum": ("", ["1", "2"])}, "passes/a.csv", Process_ID=["5", "5"])
    raw_page({**time, "sm__b.sum": ("", ["3", "4"])}, "passes/b.csv", Process_ID=["6", "6"])
    done = bench.load(first.parent)
    assert (done.dispatches, done.passes) == (2, 2)
    assert bench.rows(done, "counters", '"sm__a.sum", "sm__b.sum"') == [(1.0, 3.0), (2.0, 4.0)]
    ranks = raw_page({**time, "sm__a.sum": ("", ["1", "2"])}, "ranks/0.csv", Process_ID=["5", "5"])
    raw_page({**time, "sm__a.sum": ("", ["3", "4"])}, "ranks/1.csv", Process_ID=["6", "6"])
    done = bench.load(ranks.parent)
    assert (done.dispatches, done.passes) == (4, 1)
    assert bench.rows(done, "dispatches", "pid, duration_ns") == [(5, 100.0), (5, 200.0), (6, 100.0), (6, 200.0)]


def test_a_copy_of_a_page_is_read_once_and_one_with_more_metrics_is_kept(bench, raw_page):
    time = {"gpu__time_duration.sum": ("ns", ["100", "200"])}
    page = raw_page({**time, "sm__a.sum": ("", ["1", "2"])}, "copies/a.csv")
    raw_page({**time, "sm__a.sum": ("", ["1", "2"])}, "copies/b.csv")
    done = bench.load(page.parent)
    assert done.dispatches == 2 and any("repeats the launches of" in note for note in done.notes)
    raw_page({**time, "sm__a.sum": ("", ["1", "5"])}, "copies/b.csv")  # a rank that took the same times
    assert bench.load(page.parent).dispatches == 4
    raw_page({**time, "sm__b.sum": ("", ["3", "4"])}, "copies/b.csv")
    done = bench.load(page.parent)
    assert bench.rows(done, "counters", '"sm__a.sum", "sm__b.sum"') == [(1.0, 3.0), (2.0, 4.0)]


def test_sizes_come_from_metrics_where_the_page_has_no_columns_for_them(bench, tmp_path):
    metrics = {"launch__grid_size": 8, "launch__block_size": 96, "launch__registers_per_thread": 40}
    metrics |= {"launch__shared_mem_per_block": 3072, "launch__shared_mem_per_block_driver": 1024}
    with (tmp_path / "old.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["ID", "Process ID", "Kernel Name", "Kernel Time", "gpu__time_duration.max", *metrics])
        out.writerow(["", "", "", "", "usecond", "", "", "register/thread", "byte/block", "byte/block"])
        out.writerow(["3", "9", "k", "2020-Jan-01 10:00:00", "2.5", *metrics.values()])
    done = bench.load(tmp_path / "old.csv")
    launch = bench.rows(done, "dispatches", "dispatch_id, grid, workgroup_size, vgpr, lds_bytes, duration_ns")
    assert launch == [(3, 768, 96, 40, 2048, 2500.0)]
    assert done.arch is None and any("does not state its GPU" in note for note in done.notes)


def test_the_run_of_times_gives_the_durations_and_the_pass_the_counters(bench, raw_page):
    raw_page({"gpu__time_duration.sum": ("ns", ["90"])}, "out/timing/t.csv")
    raw_page({"gpu__time_duration.sum": ("ns", ["100"]), "sm__a.sum": ("", ["1"])}, "out/pass_1/p.csv")
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", 'duration_ns, "duration_ns@pass_1", "sm__a.sum"') == [(90.0, 100.0, 1.0)]
    assert bench.column(done, "passes", "name") == ["timing", "pass_1"]


def test_several_gpus_in_one_profile_are_named(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("ns", ["10", "20"])}, CC=["9.0", "8.0"], Device=["0", "1"])
    done = bench.load(page)
    assert bench.column(done, "dispatches", "device_id") == [0, 1]
    assert any("several compute capabilities" in w for w in done.warnings) and done.arch == "sm_90"


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_a_page_that_ends_early_is_refused(bench, recorded, tmp_path, part):
    name = "small_raw.csv"
    text = (recorded / name).read_bytes()
    (tmp_path / name).write_bytes(text[: int(part * len(text))])
    with pytest.raises(BadInput, match=r"is damaged|contains no launches"):
        bench.load(tmp_path / name)
    assert bench.is_clean()


def test_a_details_page_is_refused_with_the_command_for_the_raw_page(bench, recorded):
    with pytest.raises(BadInput, match="is a details page") as refused:
        bench.load(recorded / "small_details.csv")
    assert "--page raw" in (refused.value.fix or "")
    assert bench.is_clean()


@pytest.mark.parametrize("row", ['"SQ_WAVES","","4,096"', '"GL2C_HIT_sum","inst","1.5e6"', "TCC_MISS_sum,,7"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_counters_of_amd_in_the_form_of_a_details_page_are_called_so(bench, tmp_path, row, end):
    header = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    (tmp_path / "p.csv").write_bytes(end.join([header, f'"0","1","fill(float*)",{row}', ""]).encode())
    with pytest.raises(BadInput, match="counters of an AMD GPU") as refused:
        bench.load(tmp_path / "p.csv")
    assert "_counter_collection.csv" in (refused.value.fix or "") and "ncu --import" not in refused.value.text


def test_a_kernel_named_like_a_counter_of_amd_makes_no_page_of_amd(bench, tmp_path):
    header = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    (tmp_path / "p.csv").write_text(f'{header}\n"0","1","TA_fill","Duration","us","12.3"\n')
    with pytest.raises(BadInput, match="is a details page"):
        bench.load(tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("Process ID,Process Name,Host Name,Kernel Name,Invocations,Metric Name", "is a summary"),
        ("ID,Process ID,Kernel Name,Section Name,Metric Name", "is a details page"),
        ("ID,Process ID,Process Name", "has no column Kernel Name"),
    ],
)
def test_pages_without_launches_or_values_are_refused_in_words(bench, tmp_path, header, what):
    (tmp_path / "p.csv").write_text(f"{header}\n1,2,k,3\n")
    with pytest.raises(BadInput, match=what):
        bench.load(tmp_path / "p.csv")


@pytest.mark.parametrize(("length", "why"), [(8 << 20, "line of more than"), (1 << 18, "larger than field limit")])
def test_an_endless_line_is_refused(bench, tmp_path, length, why):
    (tmp_path / "p.csv").write_bytes(b'"ID","Process ID","Kernel Name"\n"1","2","' + b"x" * length + b'"\n')
    with pytest.raises(BadInput, match=why):
        bench.load(tmp_path / "p.csv")


def test_columns_named_twice_are_refused(bench, raw_page):
    page = raw_page({"sm__a.sum": ("", ["1"]), "SM__A.sum": ("", ["2"])})
    with pytest.raises(BadInput, match="has duplicate columns"):
        bench.load(page)


def test_a_hostile_kernel_name_is_stored_harmless(bench, raw_page):
    names = ["k\x1b[31m\u202e", "x" * 9000, '"; DROP TABLE counters; --']
    page = raw_page({"gpu__time_duration.sum": ("ns", ["1", "2", "3"])}, Kernel_Name=names)
    kernels = bench.column(bench.load(page), "dispatches", "kernel")
    assert kernels[0] == "k" and len(kernels[1]) <= 4000 and kernels[2] == names[2]


def test_a_page_without_times_gives_no_duration_and_says_so(bench, raw_page):
    done = bench.load(raw_page({"sm__inst_executed.sum": ("inst", ["5"])}))
    assert bench.column(done, "counters", "duration_ns") == [None]
    assert any("no usable timing" in w for w in done.warnings)


def test_ranks_with_a_device_each_are_the_same_in_both_runs_whatever_their_process_ids(bench):
    """torchrun starts its workers in any order, and ids of processes begin anew."""

    def run(folder: str, pids: tuple[int, int], sampled: bool) -> None:
        head = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "gpu__time_duration.sum"]
        head += ["smsp__inst_executed.sum"] * sampled
        rows = [
            [n, pid, "gemm", "(32, 1, 1)", "(8, 1, 1)", rank, 100 * (rank + 1), *([1000 * rank + n] * sampled)]
            for rank, pid in enumerate(pids)
            for n in range(2 if sampled else 4)
        ]
        units = ["", "", "", "", "", "", "ns", *(["inst"] * sampled)]
        bench.csv(f"job/{folder}/raw.csv", head, [units, *rows])

    run("timing", (500, 400), sampled=False)
    run("pass_1", (600, 700), sampled=True)
    (bench.folder / "job" / "pass_1" / SAMPLE).write_text(CountingSample(0).text())
    done = bench.load(bench.folder / "job")
    assert not [w for w in done.warnings if "skipped" in w]
    counted = 'SELECT d.pid, d.device_id, c."smsp__inst_executed.sum"::INT FROM dispatches d JOIN counters c '
    counted += 'USING (workload, dispatch_id) WHERE c."smsp__inst_executed.sum" IS NOT NULL ORDER BY ALL'
    rows = query_counters(bench.store, counted, done.workload)
    assert rows.table.rows == [[400, 1, 1000], [400, 1, 1001], [500, 0, 0], [500, 0, 1]]
