"""Three forms of one recorded run give the same numbers, in base units, under ncu's own names."""

from __future__ import annotations

import csv
import gzip
import importlib.util

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tools.profiles.ncu.pages import number, scale

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


def test_a_zero_of_a_scaled_column_may_be_a_small_value_and_is_named(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("us", ["1", "2"]), "dram__bytes.sum": ("Gbyte", ["0.000000", "1"])})
    (note,) = [n for n in bench.load(page).notes if "rounded" in n]
    assert "dram__bytes.sum in Gbyte" in note and "--print-units base" in note
    page = raw_page({"gpu__time_duration.sum": ("ns", ["1", "2"]), "dram__bytes.sum": ("byte", ["0", "1"])})
    assert not [n for n in bench.load(page).notes if "rounded" in n]


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_a_page_that_ends_early_is_refused(bench, recorded, tmp_path, part):
    name = "small_raw.csv"
    text = (recorded / name).read_bytes()
    (tmp_path / name).write_bytes(text[: int(part * len(text))])
    with pytest.raises(BadInput, match=r"is damaged|contains no launches"):
        bench.load(tmp_path / name)
    assert bench.is_clean()


@pytest.mark.parametrize(("length", "why"), [(8 << 20, "line of more than"), (1 << 18, "larger than field limit")])
def test_an_endless_line_is_refused(bench, tmp_path, length, why):
    (tmp_path / "p.csv").write_bytes(b'"ID","Process ID","Kernel Name"\n"1","2","' + b"x" * length + b'"\n')
    with pytest.raises(BadInput, match=why):
        bench.load(tmp_path / "p.csv")
