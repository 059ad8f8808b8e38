"""Recordings of the host in the folder of a trace: which of them join it, and that none can spoil it."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from rooflens.tests.cases.readers.case import FOLDER

JOINED = FOLDER / "torch" / "py_spy_beside_a_trace_joins_it_by_unix_time" / "profile"
PERF = FOLDER / "perf-script" / "samples_of_a_running_thread_become_spans" / "profile" / "short.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace with the recording of py-spy, which is packed, and its log."""
    run = Path(shutil.copytree(JOINED, tmp_path / "run"))
    (run / "host.json.gz").write_bytes(gzip.compress((run / "host.json").read_bytes()))
    (run / "host.json").unlink()
    return run


def sources(bench, done):
    return sorted(set(bench.column(done, "host_samples", "source")))


def codes(bench, done):
    return [warning.code for warning in bench.manifest(done).warnings]


def test_recordings_of_several_samplers_keep_their_own_stacks(bench, folder):
    shutil.copy(PERF, folder / "perf.txt")
    done = bench.load(folder)
    assert sources(bench, done) == ["perf", "py-spy"]
    assert {start is None for start in bench.column(done, "host_samples", "start_ns", "source = 'perf'")} == {True}
    assert None not in bench.column(done, "host_samples", "start_ns", "source = 'py-spy'")
    assert "host_clock_unknown" in codes(bench, done)
    stacks = {
        source: set(bench.column(done, "host_samples", "stack", f"source = '{source}'"))
        for source in ("perf", "py-spy")
    }
    assert stacks["perf"].isdisjoint(stacks["py-spy"])
    of_perf = ", ".join(map(str, stacks["perf"]))
    assert "libpython3.11.so.1.0" in bench.column(done, "host_stacks", "module", f"stack IN ({of_perf})")
    assert bench.column(done, "host_stacks", "file", f"stack IN ({of_perf}) AND file LIKE '%three.py'") == []


def test_a_damaged_recording_is_left_out_and_the_trace_stays(bench, folder):
    text = gzip.decompress((folder / "host.json.gz").read_bytes())
    (folder / "host.json.gz").write_bytes(gzip.compress(text.replace(b'"ts":', b'"when":')))
    done = bench.load(folder)
    assert done.events and "left_out" in codes(bench, done)
    assert "host_samples.parquet" not in bench.manifest(done).files


def test_a_link_to_a_recording_elsewhere_is_not_followed(bench, folder, tmp_path):
    outside = tmp_path / "elsewhere.json.gz"
    (folder / "host.json.gz").rename(outside)
    (folder / "host.json.gz").symlink_to(outside)
    done = bench.load(folder)
    assert codes(bench, done) == [] and "host_samples.parquet" not in bench.manifest(done).files
