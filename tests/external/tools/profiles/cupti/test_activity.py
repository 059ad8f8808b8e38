"""Timelines of the recorder: what it writes where one is asked for, and what becomes of calls, copies and fills."""

from __future__ import annotations

import subprocess

import pytest

from rooflens.tests.made.cupti import END, START, Recording
from rooflens.tools.query_counters import query_counters

INNER = 5
KERNELS = INNER + 3


def record(kit, folder, *, timeline: bool = True) -> None:
    """The stand-in's program, run to its end."""
    env = kit.environment(folder, timeline=timeline)
    argv = [str(kit.program), str(INNER), "return"]
    subprocess.run(argv, env=env, capture_output=True, check=True, timeout=120)


@pytest.mark.parametrize("version", [18, 130000])
def test_a_timeline_holds_calls_copies_fills_and_the_profilers_own_work(bench, kits, tmp_path, version):
    record(kits(version), tmp_path / "rec")
    done = bench.load(tmp_path / "rec")
    assert (done.dispatches, done.warnings) == (KERNELS, [])
    found = bench.rows(
        done, "events", "kind, name, category, count(*)::INT", "kind NOT IN ('kernel') GROUP BY ALL ORDER BY ALL"
    )
    assert found == [
        ("alloc", "cudaMalloc", "runtime", KERNELS),
        ("api", "CUPTI buffer flush", "profiler", 1),
        ("api", "cudaGetDevice", "runtime", 1),  # of many, the one that took long
        ("api", "cudaLaunchKernel", "launch", KERNELS),
        ("api", "cudaMemcpyAsync", "copy", 2),
        ("api", "cudaMemcpyPeerAsync", "copy", 1),
        ("api", "cudaMemset", "copy", 1),
        ("copy", "d2h", None, 1),
        ("copy", "h2d", None, 1),
        ("copy", "p2p", None, 1),
        ("fill", "fill", None, 1),
        ("sync", "cudaStreamSynchronize", "runtime", 1),
    ]


def test_copies_tell_bytes_and_whether_host_memory_is_pinned(bench, kit, tmp_path):
    record(kit, tmp_path / "rec")
    done = bench.load(tmp_path / "rec")
    found = bench.rows(
        done, "events", "name, bytes, pinned, end_ns - start_ns", "kind IN ('copy', 'fill') ORDER BY start_ns"
    )
    assert found == [
        ("h2d", 4096, False, 2000),
        ("fill", 1024, None, 500),
        ("d2h", 512, True, 2000),
        ("p2p", 256, None, 2000),
    ]


def test_a_kernel_goes_with_the_call_that_the_program_made_not_with_the_drivers_within(bench, kit, tmp_path):
    record(kit, tmp_path / "rec")
    done = bench.load(tmp_path / "rec")
    calls = "(SELECT correlation FROM events WHERE name = 'cudaLaunchKernel')"
    sql = f"SELECT count(*) FROM events WHERE kind = 'kernel' AND correlation IN {calls}"
    assert query_counters(bench.store, sql, done.workload).table.rows == [[KERNELS]]


def test_events_belong_to_the_ranges_that_launches_belong_to(bench, kit, tmp_path):
    record(kit, tmp_path / "rec")
    done = bench.load(tmp_path / "rec")
    sql = "SELECT e.name, r.name FROM events e LEFT JOIN ranges r USING (range_id) WHERE e.kind IN ('copy', 'fill') "
    found = query_counters(bench.store, sql + "ORDER BY e.start_ns", done.workload).table.rows
    assert found == [["h2d", None], ["fill", "step"], ["d2h", "step"], ["p2p", "step"]]
    launches = bench.rows(done, "dispatches", "kernel, range_id", "true ORDER BY dispatch_id")
    kernels = bench.rows(done, "events", "name, range_id", "kind = 'kernel' ORDER BY correlation")
    assert kernels == launches and sum(r is not None for _, r in launches) == KERNELS - 1


def test_without_being_asked_the_recorder_holds_kernels_and_launches_only(bench, kit, tmp_path):
    record(kit, tmp_path / "rec", timeline=False)
    done = bench.load(tmp_path / "rec")
    assert done.dispatches == KERNELS and bench.manifest(done).events == 0


LATE = 2**64 - 1


def test_records_with_impossible_times_are_left_out_and_counted(bench):
    made = Recording().device().launch(5000)
    name = made.name("cudaMemcpyAsync_v3020")
    for at, (start, end) in enumerate([(100, 90), (LATE, LATE), (0, 0), (3 << 61, 3 << 61), (200, 300)], 50):
        made.work("CALL", "<2Q4I", start, end, at, 1, name, 0)
        made.work("COPY", "<3Q8I", start, end, LATE, 9, 1, 7, at, 99, 1, 3, 0)
    done = bench.load(made.put(bench.folder / "node_100.record"))
    columns = "kind, name, start_ns, bytes, device_id, direction"
    found = bench.rows(done, "events", columns, "kind != 'kernel' ORDER BY kind")
    assert found == [("api", "cudaMemcpyAsync", 200, None, None, None), ("copy", "other", 200, None, 9, "other")]
    told = " ".join(done.warnings)
    assert "end before they start" in told and "have no start" in told and "have impossible times" in told


def test_calls_of_the_driver_within_one_of_the_runtime_are_not_entered(bench):
    made = Recording().device()
    runtime, driver = made.name("cudaLaunchKernel_v7000"), made.name("cuLaunchKernel")
    free = made.name("cuMemFree_v2")
    made.work("CALL", "<2Q4I", 1000, 1100, 5, 1, runtime, 0).work("CALL", "<2Q4I", 1010, 1020, 5, 1, driver, 1)
    made.work("CALL", "<2Q4I", 1030, 1040, 6, 1, driver, 1).work("CALL", "<2Q4I", 1050, 1060, 7, 2, free, 1)
    made.work("CALL", "<2Q4I", 1090, 1200, 8, 1, free, 1)
    done = bench.load(made.kernel(start=2000, at=5).kernel(start=3000, at=6).put(bench.folder / "node_100.record"))
    found = bench.rows(done, "events", "kind, name, correlation", "true ORDER BY event_id")
    assert found == [
        ("api", "cudaLaunchKernel", 5),
        ("alloc", "cuMemFree", 7),
        ("alloc", "cuMemFree", 8),
        ("kernel", "k", 5),
        ("kernel", "k", 5),
    ]


def test_processes_with_one_id_on_two_ranks_keep_their_ranges_apart(bench):
    for rank in (0, 1):
        made = Recording(RANK=rank, process=1, host=f"node{rank}").device(uuid=bytes([65 + rank]) * 16)
        name = made.name("cudaLaunchKernel_v7000")
        made.mark(10 + rank, 1, START, f"of {rank}").work("CALL", "<2Q4I", 20, 30, 20, 1, name, 0).launch(20)
        made.mark(40, 1, END).put(bench.folder / "rec" / f"node{rank}_1.record")
    done = bench.load(bench.folder / "rec")
    sql = "SELECT e.kind, e.rank, r.name FROM events e JOIN ranges r USING (range_id) ORDER BY ALL"
    found = query_counters(bench.store, sql, done.workload).table.rows
    assert found == [["api", 0, "of 0"], ["api", 1, "of 1"], ["kernel", 0, "of 0"], ["kernel", 1, "of 1"]]
