"""Which reader takes what, and what is said of everything else."""

from __future__ import annotations

import sqlite3

import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput
from rooflens.tools.device.machine.profilers import programs
from rooflens.tools.profiles.registry import formats, reader_for
from rooflens.tools.running.drivers import registry

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
        ("4711_kernel_stats.csv", STATS, "rocprofv3"),
        ("4711_counter_collection.csv", "Correlation_Id,Counter_Name", "rocprofv3"),
        ("counter_collection.csv", "", "rocprofv3"),
        ("node_kernel_trace.csv", "Kind,Agent_Id,Kernel_Name", "rocprofv3"),
        ("sizes.csv", "Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value", "rocprofv3"),
        ("4711_agent_info.csv", "Node_Id", "rocprofv3"),
        ("node01_4711_results.db", "", "rocprofv3"),
        ("anything.json", '{"rocprofiler-sdk-tool": [{', "rocprofv3"),
        ("report.ncu-rep", "", "ncu"),
        ("page.csv", '"ID","Process ID","Kernel Name"', "ncu"),
        ("raw.csv", '==PROF== Connected to process 5\n"ID","Process ID","Kernel Name"', "ncu"),
        ("node_4711.record", "RFLREC1", "cupti"),
        ("stat.txt", " Performance counter stats for 'true':", "perf"),
        ("stat.csv", "# started on Fri\n\n1.01,msec,task-clock,1010391,100.00,0.561,CPUs utilized", "perf"),
        ("stat.json", '{"counter-value" : "1.0", "unit" : "", "event" : "cycles"}', "perf"),
    ],
)
@pytest.mark.parametrize("named", ["file", "folder"])
def test_auto_finds_the_reader_of_a_file_and_of_its_folder(tmp_path, file, header, reader, named):
    (tmp_path / file).write_text(f"{header}\n")
    found = reader_for(tmp_path if named == "folder" else tmp_path / file, "auto").name
    assert found == reader


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("perf.data", b"PERFILE2\x68", "perf"),
        ("run.nsys-rep", b"NSYS", "Nsight Systems"),
        ("results.pftrace", b"text", "Perfetto"),
        ("4711_results.db.gz", b"\x1f\x8b\x08\x00", "unpack it"),
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


def test_a_database_is_recognised_by_its_tables(tmp_path):
    con = sqlite3.connect(tmp_path / "mine.db")
    con.execute("CREATE TABLE notes (id INT)")
    con.commit()
    with pytest.raises(BadInput, match="a SQLite database without the tables of rocpd"):
        reader_for(tmp_path, "auto")
    con.execute("CREATE TABLE rocpd_kernel_dispatch_0000 (id INT)")
    con.execute("CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch_0000")
    con.close()
    assert reader_for(tmp_path, "auto").name == "rocprofv3"


@pytest.mark.parametrize("name", ["default_names", "kernel_trace", "two_process", "defaults_csv", "hip_trace"])
def test_recorded_output_of_rocprofv3_has_its_reader(shared, name):
    assert reader_for(shared / "rocprofv3" / name, "auto").name == "rocprofv3"


def test_what_is_no_profile_gets_the_list_of_formats(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(BadInput, match="not a profile that rooflens recognises") as found:
            reader_for(path, "auto")
        assert all(profiler.files in found.value.text for profiler in formats().values())


def test_an_unknown_format_suggests_known_ones(tmp_path):
    with pytest.raises(BadArgument, match="Near names: rocprof"):
        reader_for(tmp_path, "rocprof-v1")


@pytest.mark.parametrize("format", [known.name for known in formats().values()])
def test_a_forced_format_that_does_not_fit_is_refused(bench, format):
    (bench.folder / "other").mkdir()
    (bench.folder / "other" / "a.csv").write_text("x,y\n1,2\n")
    for path in ("other", "other/a.csv"):
        with pytest.raises(BadInput):
            bench.load(bench.folder / path, format=format)
    assert bench.is_clean()


def test_every_profiler_that_is_run_is_looked_for_on_the_machine():
    looked_for = {program.name: program.vendor for program in programs()}
    assert {p.NAME: p.VENDOR for p in registry.profilers().values()}.items() <= looked_for.items()


def test_every_format_is_that_of_its_workloads(bench):
    assert bench.load(bench.workload()).format in {known.name for known in formats().values()}
