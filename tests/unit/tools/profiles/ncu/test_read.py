"""The raw page of a recorded run gives its numbers in base units, under ncu's own names."""

from __future__ import annotations

import csv

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.support.bench import Bench
from rooflens.tools.profiles.ncu.pages import number, scale

KERNELS = ["hbm_copy", "shared_conflict", "fp32_fma", "yax_problem", "yax_solution"]


@pytest.fixture(scope="module")
def page(recorded, tmp_path_factory):
    """A bench, and the raw page of the recorded run, imported on it."""
    bench = Bench(tmp_path_factory.mktemp("page"))
    return bench, bench.load(recorded / "small_raw.csv")


def table(bench, done):
    """{counter: values by launch} of everything stored."""
    names = bench.manifest(done).counters
    columns = ", ".join('"' + name + '"' for name in names)
    return dict(zip(names, zip(*bench.rows(done, "counters", columns), strict=True), strict=True))


def test_the_raw_page_becomes_launches_with_their_data(page):
    bench, done = page
    assert (done.format, done.arch, done.device) == ("ncu", "sm_90", "NVIDIA H200")
    assert (done.dispatches, done.kernels, done.passes) == (5, 5, 1)
    assert [k.split("(")[0] for k in bench.column(done, "dispatches", "kernel")] == KERNELS
    assert bench.column(done, "dispatches", "kernel")[0] == "hbm_copy(const float4 *, float4 *, unsigned long)"
    launch = bench.rows(done, "dispatches", "grid, workgroup_size, vgpr, lds_bytes, pid, queue_id, device_id")
    assert launch[0] == (67108864, 256, 16, 0, 894, 7, 0)
    assert launch[1][3] == 16_896  # static shared memory; the driver's part is a counter of its own
    assert bench.column(done, "counters", '"launch__shared_mem_per_block_driver"') == [1024.0] * 5


def test_durations_and_rates_are_in_base_units(page):
    bench, done = page
    duration, same, rate, size = bench.rows(
        done,
        "counters",
        'duration_ns, "gpu__time_duration.sum", "dram__bytes_read.sum.per_second", "dram__bytes_read.sum"',
    )[0]
    assert duration == same == pytest.approx(496_832)
    assert rate == pytest.approx(size / duration * 1e9, rel=1e-3) and rate > 2e12
    (clock,) = bench.rows(done, "counters", '"sm__cycles_elapsed.avg.per_second"')[0]
    assert 1.9e9 < clock < 2.0e9
    manifest = bench.manifest(done)
    assert manifest.facts["cu_per_gpu"] == 132 and manifest.facts["max_sclk"] == 1980
    assert manifest.facts["pc_sampling_interval_cycles"] == 2048
    assert manifest.facts["l2_bytes"] == 62_914_560 and manifest.facts["wave_size"] == 32
    assert not [c for c in manifest.counters if c.startswith("device__")]


def test_every_number_of_the_raw_page_is_stored(page, recorded):
    found = table(*page)
    with (recorded / "small_raw.csv").open(newline="") as file:
        header, units, *rows = csv.reader(file)
    checked = 0
    for i, (name, unit) in enumerate(zip(header, units, strict=True)):
        values = [number(row[i]) for row in rows]
        if i < 11 or name.startswith("device__") or all(v is None or v != v for v in values):
            continue
        wanted = [None if v is None or v != v else v * scale(unit) for v in values]
        assert list(found[name]) == pytest.approx(wanted, rel=1e-12), name
        checked += 1
    assert checked == len(found) > 900


def test_zeros_in_base_units_are_not_said_to_be_rounded(bench, raw_page):
    page = raw_page({"gpu__time_duration.sum": ("ns", ["1", "2"]), "dram__bytes.sum": ("byte", ["0", "1"])})
    assert not [n for n in bench.load(page).notes if "rounded" in n]


@pytest.mark.parametrize("part", [0.3, 0.999])
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


def test_what_is_counted_beside_a_share_above_the_whole_is_not_said_to_exceed_it(bench, raw_page):
    metrics = {"lts__t_sector_hit_rate.pct": ("%", [140]), "lts__t_sectors_srcunit_tex.sum": ("sector", [0])}
    manifest = bench.manifest(bench.load(raw_page({"gpu__time_duration.sum": ("ns", [1000]), **metrics})))
    of = {counter: doubt.text for doubt in manifest.doubts for counter in doubt.counters}
    assert "exceeds 100 %" in of["lts__t_sector_hit_rate.pct"]
    assert "counted with" in of["lts__t_sectors_srcunit_tex.sum"]
