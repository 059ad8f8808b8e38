"""Reports of ncu, which a child process reads: the numbers of its page, whatever is wrong with it, and how long."""

from __future__ import annotations

import csv
import gzip
import random

import pytest

from rooflens.analysis.base.problems import BadInput, LimitExceeded
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tools.import_profile import import_profile
from rooflens.tools.profiles.ncu import report
from rooflens.tools.profiles.ncu.pages import scale

pytest.importorskip("ncu_report", reason="needs the package ncu-report (extra cuda)")


def table(bench, done):
    """{counter: values by launch} of everything stored."""
    names = bench.manifest(done).counters
    columns = ", ".join('"' + name + '"' for name in names)
    return dict(zip(names, zip(*bench.rows(done, "counters", columns), strict=True), strict=True))


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


@pytest.mark.parametrize("seed", range(2))
def test_a_report_with_random_bytes_inside_never_ends_this_process(bench, recorded, tmp_path, seed):
    spoiled = bytearray((recorded / "small.ncu-rep").read_bytes())
    chance = random.Random(seed)
    for _ in range(2000):
        spoiled[chance.randrange(64, len(spoiled))] = chance.randrange(256)
    (tmp_path / "bad.ncu-rep").write_bytes(spoiled)
    try:
        assert bench.load(tmp_path / "bad.ncu-rep").format == "ncu"
    except BadInput as problem:
        assert "bad.ncu-rep" in problem.text and len(problem.text) < 800


def test_reading_that_takes_too_long_is_ended(bench, recorded, monkeypatch):
    monkeypatch.setattr(report.size_limits, "REPORT_MOST_S", 0.005)
    with pytest.raises(LimitExceeded, match="took more than"):
        bench.load(recorded / "small.ncu-rep")
    assert bench.is_clean()


def test_report_and_page_of_the_same_run_agree(shared, labelled, tmp_path):
    text = gzip.decompress((shared / "source_lines" / "ncu_source_page.csv.gz").read_bytes()).decode()
    blocks = text.split('"Kernel Name",')
    small = '"Kernel Name",'.join(block for block in blocks if not block.startswith('"spill_local'))
    (tmp_path / "page.csv").write_text(small)
    page_store = Store(tmp_path / "store")
    import_profile(page_store, str(tmp_path / "page.csv"))
    of_samples = "split_part(kernel, '(', 1), \"offset\", stall_reason, stall_raw, issued, sum(count)"
    of_code = (
        "split_part(kernel, '(', 1), \"offset\", instruction, class, waits_for, target, spill, executed, lanes, "
        "lanes_active, sectors_global, sectors_global_ideal, wavefronts_lds, wavefronts_lds_ideal"
    )
    found = []
    for store in (labelled, page_store):
        with Workload.open(store, "latest") as opened:
            samples, instructions = opened.relation("samples"), opened.relation("instructions")
            only = "WHERE kernel NOT LIKE 'spill%'"
            counted = opened.rows(f"SELECT {of_samples} FROM {samples} {only} GROUP BY ALL ORDER BY ALL")
            known = opened.rows(f"SELECT {of_code} FROM {instructions} {only} AND executed > 0 ORDER BY 1, 2")
            found.append((counted, known))
    (report_samples, report_code), (page_samples, page_code) = found
    assert report_samples == page_samples and len(report_samples) > 1_000
    assert len(report_code) > 400
    assert [(a, b) for a, b in zip(report_code, page_code, strict=True) if a != b] == []
