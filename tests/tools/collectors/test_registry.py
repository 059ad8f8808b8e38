"""Which reader takes what, and what is said of everything else."""

from __future__ import annotations

import sqlite3

import pytest
from rooflens.analysis.problems import BadArgument, BadInput
from rooflens.tools.collectors.registry import READERS, reader_for

V1 = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj"
STATS = "Name,Calls,TotalDurationNs,AverageNs,Percentage"


@pytest.mark.parametrize(
    ("file", "header", "reader"),
    [
        ("pmc_perf.csv", "Dispatch_ID,Kernel_Name,SQ_WAVES", "rocprof-compute"),
        ("pmc_perf_0.csv", "Dispatch_ID,Kernel_Name,SQ_WAVES", "rocprof-compute"),
        ("pmc_perf.csv.gz", "", "rocprof-compute"),
        ("results.csv", f"{V1},SQ_WAVES", "rocprof"),
        ("rocprof_counters.csv", f"{V1},SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs", "rocprof"),
        ("results.stats.csv", STATS, "rocprof-stats"),
    ],
)
@pytest.mark.parametrize("named", ["file", "folder"])
def test_auto_finds_the_reader_of_a_file_and_of_its_folder(tmp_path, file, header, reader, named):
    (tmp_path / file).write_text(f"{header}\n")
    found = reader_for(tmp_path if named == "folder" else tmp_path / file, "auto").FORMAT
    assert found == reader


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("4711_counter_collection.csv", b'"Correlation_Id","Counter_Name"\n', "counters of rocprofv3"),
        ("counter_collection.csv", b"", "counters of rocprofv3"),
        ("node_kernel_trace.csv", b'"Kind","Agent_Id","Kernel_Name"\n', "kernel trace of rocprofv3"),
        ("4711_agent_info.csv", b'"Node_Id"\n', "rocprofv3"),
        ("results.json", b'{"rocprofiler-sdk-tool": [{', "JSON output of rocprofv3"),
        ("report.ncu-rep", b"NVR\x00", "Nsight Compute"),
        ("perf.data", b"PERFILE2\x68", "perf"),
        ("workload.tar.gz", b"\x1f\x8b\x08\x00", "archive"),
    ],
)
@pytest.mark.parametrize("named", ["file", "folder", "parent"])
def test_known_formats_without_a_reader_are_named_plainly(tmp_path, file, content, what, named):
    folder = tmp_path / "out" / "node01"
    folder.mkdir(parents=True)
    (folder / file).write_bytes(content)
    path = {"file": folder / file, "folder": folder, "parent": folder.parent}[named]
    with pytest.raises(BadInput, match=what) as found:
        reader_for(path, "auto")
    assert "cannot read that format yet" in found.value.text and "rocprof-compute" in found.value.text


def test_a_database_is_recognised_by_its_first_bytes(tmp_path):
    con = sqlite3.connect(tmp_path / "4711_results.db")
    con.execute("CREATE TABLE rocpd_string (id INT)")
    con.close()
    with pytest.raises(BadInput, match="database .rocpd"):
        reader_for(tmp_path, "auto")


@pytest.mark.parametrize("name", ["default_names", "kernel_trace", "two_process", "defaults_csv", "api_trace"])
def test_recorded_output_of_rocprofv3_is_named_plainly(shared, name):
    with pytest.raises(BadInput, match="cannot read that format yet"):
        reader_for(shared / "rocprofv3" / name, "auto")


def test_what_is_no_profile_gets_the_list_of_formats(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(BadInput, match="no profile that rooflens knows") as found:
            reader_for(path, "auto")
        assert all(reader.TITLE in found.value.text for reader in READERS)


def test_an_unknown_format_suggests_known_ones(tmp_path):
    with pytest.raises(BadArgument, match="Near names: rocprof"):
        reader_for(tmp_path, "rocprof-v1")


@pytest.mark.parametrize("format", [r.FORMAT for r in READERS])
def test_a_forced_format_that_does_not_fit_is_refused(bench, format):
    (bench.folder / "other").mkdir()
    (bench.folder / "other" / "a.csv").write_text("x,y\n1,2\n")
    for path in ("other", "other/a.csv"):
        with pytest.raises(BadInput):
            bench.load(bench.folder / path, format=format)
    assert bench.is_clean()
