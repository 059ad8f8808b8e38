"""A report file is read by a child process: whatever is wrong with it is a refusal in words, never a crash."""

from __future__ import annotations

import gzip
import importlib.util
import random

import pytest

from rooflens.analysis.base.extensions import install_command
from rooflens.analysis.base.problems import BadInput, LimitExceeded, MissingTool
from rooflens.tools.profiles.ncu import report

needs_ncu_report = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="needs the package ncu-report (extra cuda)"
)


@pytest.mark.parametrize("part", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_report_cut_short_is_refused(bench, recorded, tmp_path, part):
    whole = (recorded / "small.ncu-rep").read_bytes()
    (tmp_path / "cut.ncu-rep").write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(BadInput, match="cut.ncu-rep is damaged. It ends early"):
        bench.load(tmp_path / "cut.ncu-rep")
    assert bench.is_clean()


@needs_ncu_report
def test_a_packed_report_is_read_like_the_plain_one(bench, recorded, tmp_path):
    (tmp_path / "small.ncu-rep.gz").write_bytes(gzip.compress((recorded / "small.ncu-rep").read_bytes()))
    packed, plain = bench.load(tmp_path / "small.ncu-rep.gz"), bench.load(recorded / "small.ncu-rep")
    assert (packed.format, packed.dispatches, packed.counters) == ("ncu", plain.dispatches, plain.counters)


def test_without_the_package_both_ways_to_read_a_report_are_commands_on_lines_of_their_own(
    bench, recorded, tmp_path, monkeypatch
):
    (tmp_path / "small.ncu-rep.gz").write_bytes(gzip.compress((recorded / "small.ncu-rep").read_bytes()))
    monkeypatch.setattr(report, "library_folder", lambda roots: None)
    with pytest.raises(MissingTool) as refusal:
        bench.load(tmp_path / "small.ncu-rep.gz")
    assert refusal.value.text.splitlines() == [
        "small.ncu-rep.gz needs the package ncu-report. It is not installed. Install it:",
        f"  {install_command('ncu-report')}",
        "On a machine with Nsight Compute, write a page and import that:",
        "  ncu --import small.ncu-rep --csv --page raw --print-units base > page.csv",
    ]


def test_a_packed_report_whose_end_is_missing_is_refused(bench, recorded, tmp_path):
    whole = gzip.compress((recorded / "small.ncu-rep").read_bytes())
    (tmp_path / "cut.ncu-rep.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="cut.ncu-rep.gz is damaged"):
        bench.load(tmp_path / "cut.ncu-rep.gz")
    assert bench.is_clean()


@needs_ncu_report
@pytest.mark.parametrize("seed", range(6))
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


def test_random_bytes_named_as_a_report_are_refused(bench, tmp_path):
    (tmp_path / "noise.ncu-rep").write_bytes(random.Random(1).randbytes(50_000))
    with pytest.raises(BadInput, match="not a report of Nsight Compute"):
        bench.load(tmp_path / "noise.ncu-rep")


def test_an_empty_report_is_refused(bench, tmp_path):
    (tmp_path / "empty.ncu-rep").write_bytes(b"")
    with pytest.raises(BadInput, match="not a report of Nsight Compute"):
        bench.load(tmp_path / "empty.ncu-rep")


def test_without_the_package_the_refusal_says_how_to_get_it_and_how_to_do_without(bench, recorded, monkeypatch):
    monkeypatch.setattr(report, "library_folder", lambda roots: None)
    with pytest.raises(MissingTool, match="install.* ncu-report") as found:
        bench.load(recorded / "small.ncu-rep")
    assert "ncu --import small.ncu-rep --csv --page raw" in found.value.text


def test_without_the_package_the_pages_beside_the_report_are_read(bench, recorded, monkeypatch):
    monkeypatch.setattr(report, "library_folder", lambda roots: None)
    done = bench.load(recorded)
    assert done.dispatches == 5 and any("install ncu-report" in note for note in done.notes)


@needs_ncu_report
def test_reading_that_takes_too_long_is_ended(bench, recorded, monkeypatch):
    monkeypatch.setattr(report.size_limits, "REPORT_MOST_S", 0.005)
    with pytest.raises(LimitExceeded, match="took more than"):
        bench.load(recorded / "small.ncu-rep")
    assert bench.is_clean()
