"""The SQLite export of Nsight Systems, in its documented layout."""

from __future__ import annotations

import sqlite3

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.nsys import PID, TABLES, THREAD, export, further

_EVENTS = (
    "kind, name, device_id, stream, pid, thread, start_ns, end_ns, bytes, direction, pinned, correlation, range_id"
)


def test_every_kind_of_row_becomes_an_event(bench):
    done = bench.load(export(bench.folder / "report.sqlite"))
    assert (done.format, done.name, done.arch, done.device) == ("nsys", "report", "sm_90", "NVIDIA H200")
    assert bench.rows(done, "events", _EVENTS) == [
        ("alloc", "cuMemAlloc", None, None, PID, THREAD, 1000, 1500, None, None, None, 10, 1),
        ("api", "cudaLaunchKernel", None, None, PID, THREAD, 2000, 2100, None, None, None, 11, 2),
        ("api", "cudaMemcpyAsync", None, None, PID, THREAD, 2200, 2300, None, None, None, 12, 2),
        ("sync", "cudaStreamSynchronize", None, None, PID, THREAD, 2400, 5100, None, None, None, 13, 1),
        ("kernel", "void gemm<float>(float *)", 0, 7, PID, None, 3000, 4500, None, None, None, 11, 2),
        ("copy", "h2d", 0, 13, PID, None, 4600, 4900, 4096, "h2d", False, 12, 2),
        ("fill", "fill", 0, 7, PID, None, 5000, 5010, 64, None, None, 99, None),
    ]  # fmt: skip
    assert bench.column(done, "events", "category")[:4] == ["driver", "launch", "copy", "runtime"]
    assert bench.rows(done, "ranges", "path, source, thread, start_ns, end_ns") == [
        ("step", "nvtx", THREAD, 500, 6000), ("step/backward", "nvtx", THREAD, 1900, 2250),
    ]  # fmt: skip
    launch = "grid, workgroup_size, vgpr, lds_bytes, duration_ns, range_id, queue_id"
    assert bench.rows(done, "dispatches", launch) == [(1024, 128, 40, 1536, 1500.0, 2, 7)]
    assert bench.manifest(done).host == "node01" and not done.warnings


@pytest.mark.parametrize("table", [t for t in TABLES if t != "StringIds"])
def test_tables_that_nothing_was_recorded_for_may_be_missing(bench, table):
    done = bench.load(export(bench.folder / "report.sqlite", (table,)))
    assert done.format == "nsys" and bench.manifest(done).events >= 3


def test_columns_of_other_versions_may_be_missing_and_odd_values_are_null(bench):
    file = export(bench.folder / "report.sqlite")
    with sqlite3.connect(file) as con:
        con.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid")
        con.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 'many', start = 1e300")
        con.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET start = 9, end = 8")
    con.close()
    done = bench.load(file)
    assert bench.rows(done, "events", "pid, correlation, range_id", "kind = 'kernel'") == [(PID, 11, 2)]
    assert [w.partition(":")[0] for w in done.warnings] == ["1 events have no start", "1 events end before they start"]


@pytest.mark.parametrize("machine", [1, 0xFFFF])
def test_whole_graphs_mpi_and_the_profilers_own_work_are_read_whatever_the_machines_number(bench, machine):
    done = bench.load(further(bench.folder / "report.sqlite", machine))
    later = bench.rows(done, "events", "kind, name, category, pid, thread, device_id, correlation", "start_ns > 5150")
    assert sorted(later) == sorted([
        ("api", "Buffer flush", "profiler", PID, THREAD, None, None),
        ("api", "MPI_Allreduce", "mpi", PID, THREAD, None, None),
        ("api", "cudaGraphLaunch", "launch", PID, THREAD, None, 21),
        ("kernel", "CUDA graph 3", None, PID, None, 0, 21),
    ])  # fmt: skip
    said = " ".join(done.notes)
    assert "CUDA graphs were launched as a whole, 1 time, " in said and "calls of cuDNN" in said


def test_a_wait_without_its_call_is_still_a_wait(bench):
    done = bench.load(export(bench.folder / "report.sqlite", ("CUPTI_ACTIVITY_KIND_RUNTIME",)))
    assert bench.rows(done, "events", "name, start_ns, end_ns", "kind = 'sync'") == [("synchronize", 2450, 5050)]


def test_a_database_without_events_is_refused(bench):
    file = export(bench.folder / "report.sqlite", tuple(t for t in TABLES if t not in ("StringIds", "NVTX_EVENTS")))
    with sqlite3.connect(file) as con:
        con.execute("DELETE FROM NVTX_EVENTS")
    con.close()
    with pytest.raises(BadInput, match="no CUDA activity"):
        bench.load(file)
    assert bench.is_clean()


def test_the_device_is_the_gpu_that_ran_the_kernels(bench):
    file = export(bench.folder / "r.sqlite")
    with sqlite3.connect(file) as con:
        con.execute("ALTER TABLE TARGET_INFO_GPU ADD COLUMN cuDevice INT")
        con.execute("UPDATE TARGET_INFO_GPU SET cuDevice = 1, name = 'NVIDIA T400'")
        con.execute("INSERT INTO TARGET_INFO_GPU VALUES (1, 'NVIDIA A100', '0000:02', 80000000000, 108, 8, 0, 0)")
    con.close()
    done = bench.load(file)
    assert (done.device, done.arch) == ("NVIDIA A100", "sm_80")
