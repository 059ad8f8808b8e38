"""A report file is read by a child process: whatever is wrong with it is a refusal in words, never a crash."""

from __future__ import annotations

import gzip
import random

import pytest

from rooflens.analysis.base.extensions import install_command
from rooflens.analysis.base.problems import BadInput, MissingTool
from rooflens.tools.profiles.ncu import report


def test_a_report_cut_short_is_refused_also_if_it_is_packed(bench, recorded, tmp_path):
    whole = (recorded / "small.ncu-rep").read_bytes()
    (tmp_path / "cut.ncu-rep").write_bytes(whole[: int(0.999 * len(whole))])
    with pytest.raises(BadInput, match="cut.ncu-rep is damaged. It ends early"):
        bench.load(tmp_path / "cut.ncu-rep")
    packed = gzip.compress(whole)
    (tmp_path / "cut.ncu-rep.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BadInput, match="cut.ncu-rep.gz is damaged"):
        bench.load(tmp_path / "cut.ncu-rep.gz")
    assert bench.is_clean()


def test_without_the_package_both_ways_to_read_a_report_are_commands(bench, recorded, tmp_path, monkeypatch):
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


@pytest.mark.parametrize("content", [b"", random.Random(1).randbytes(50_000)], ids=["empty", "noise"])
def test_other_bytes_named_as_a_report_are_refused(bench, tmp_path, content):
    (tmp_path / "noise.ncu-rep").write_bytes(content)
    with pytest.raises(BadInput, match="not a report of Nsight Compute"):
        bench.load(tmp_path / "noise.ncu-rep")


def test_without_the_package_the_pages_beside_the_report_are_read(bench, recorded, monkeypatch):
    monkeypatch.setattr(report, "library_folder", lambda roots: None)
    done = bench.load(recorded)
    assert done.dispatches == 5 and any("install ncu-report" in note for note in done.notes)
