"""Kernel statistics: totals per kernel, which are no dispatches."""

from __future__ import annotations

import gzip

import pytest

from rooflens.analysis.base.problems import BadInput

HEADER = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"]
V3 = [*HEADER, "MinNs", "MaxNs", "StdDev"]
ROWS = [("bodyForce(Body*, float, int) [clone .kd]", 10, 261124944, 26112494, 90.0), ("fill.kd", 2, 3001, 1500, 10.0)]
JACOBI = [("NormKernel1(int, double)", 1001, 412893767, 412481.285714, 33.95, 401603, 423364, 2862.057355)]


def test_statistics_are_kernels_and_no_dispatches(bench):
    done = bench.load(bench.csv("run/results.stats.csv", HEADER, ROWS))
    assert (done.format, done.name, done.kernels, done.dispatches, done.counters) == ("rocprof-stats", "run", 2, 0, 0)
    assert bench.rows(done, "kernel_stats") == [
        ("bodyForce(Body*, float, int)", 10, 261124944, 26112494.4, None, None, None),
        ("fill", 2, 3001, 1500.5, None, None, None),
    ]
    assert not bench.rows(done, "dispatches") and not bench.rows(done, "counters")
    (note,) = done.notes
    assert "no single dispatches and no counters" in note
    assert [n.tool for n in done.next] == ["list_workloads"]


def test_statistics_of_rocprofv3_have_bounds_and_deviation(bench):
    done = bench.load(bench.csv("run/4711_kernel_stats.csv", V3, JACOBI))
    assert bench.rows(done, "kernel_stats", "calls, total_ns, min_ns, max_ns, std_ns") == [
        (1001, 412893767, 401603, 423364, 2862.057355)
    ]
    assert done.name == "4711" and bench.manifest(done).tool == "rocprofv3"


def test_recorded_statistics(bench, shared):
    (file,) = (shared / "rocprofv3" / "kernel_trace").glob("*_kernel_stats.csv")
    done = bench.load(file)
    assert done.kernels == 5 and sum(bench.column(done, "kernel_stats", "calls")) == 9


def test_one_kernel_under_two_spellings_is_added_up(bench):
    rows = [("k(int).kd", 2, 100, 50, 50), ("k(int) [clone .kd]", 1, 50, 50, 50)]
    done = bench.load(bench.csv("run/results.stats.csv", HEADER, rows))
    assert bench.rows(done, "kernel_stats", "kernel, calls, total_ns, mean_ns") == [("k(int)", 3, 150, 50.0)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_names_with_commas_need_no_quotes(bench, tmp_path, end, packed):
    """As rocprof of ROCm 3 and 4 writes them: what follows a name are four numbers."""
    rows = [
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"',
        "void run<Functor<int, 3>, Tag>(int, char const*),4,4000,1000,80.0",
        '"copy(int, int)",1,900,900,18.0',
        "fill,2,100,50,2.0",
        'name<"a", "b">(int),1,7,7,0.1',
    ]
    text = end.join([*rows, ""]).encode()
    file = tmp_path / ("results.stats.csv.gz" if packed else "results.stats.csv")
    file.write_bytes(gzip.compress(text) if packed else text)
    done = bench.load(file)
    assert bench.rows(done, "kernel_stats", "kernel, calls, total_ns") == [
        ("void run<Functor<int, 3>, Tag>(int, char const*)", 4, 4000),
        ("copy(int, int)", 1, 900),
        ("fill", 2, 100),
        ('name<"a", "b">(int)', 1, 7),
    ]
    assert bench.column(done, "passes", "source") == [file.name]
    assert not done.warnings


@pytest.mark.parametrize("row", ["k(int, int),4,4000,1000,much", "k(int, int),4", "k(int),4,4000,1000,80.0,more"])
def test_a_row_that_does_not_end_in_four_numbers_is_damaged(bench, tmp_path, row):
    (tmp_path / "results.stats.csv").write_text(f"{','.join(HEADER)}\n{row}\n")
    with pytest.raises(BadInput, match=r"results\.stats\.csv is damaged"):
        bench.load(tmp_path / "results.stats.csv")


def test_a_folder_with_statistics_only(bench):
    bench.csv("run/results.stats.csv", HEADER, ROWS)
    assert bench.load(bench.folder / "run").kernels == 2


@pytest.mark.parametrize("names", [["hipMemcpy", "hipLaunchKernel", "__hipPushCallConfiguration"], ["hsa_queue_create"],
                                   ["KERNEL_DISPATCH", "HIP_API"], ["CopyHostToDevice", "FillBuffer"]])  # fmt: skip
def test_statistics_of_api_calls_are_refused(bench, names):
    file = bench.csv("run/results.hip_stats.csv", HEADER, [(n, 1, 10, 10, 1) for n in names])
    with pytest.raises(BadInput, match="API calls or copies, not kernels"):
        bench.load(file)
    assert bench.is_clean()


def test_text_among_the_totals_is_null_with_a_warning(bench):
    done = bench.load(bench.csv("run/results.stats.csv", HEADER, [("k", "many", 5, 5, 5)]))
    assert bench.rows(done, "kernel_stats", "calls, total_ns, mean_ns") == [(None, 5, None)]
    assert any("column Calls contains text" in w for w in done.warnings)
