"""Ranks and processes as databases in one folder."""

from __future__ import annotations

from dataclasses import replace

from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Run, repeated, run

A, B = Launch("first(float*)"), Launch("second<2>(float*)", grid=(2048, 1, 1))
TIMING = run(A, B, replace(A, duration=500), B)


def counted(pid: int, *launches: Launch, **options: object) -> Run:
    """A run of A, B, A, B with its counters, some time after the timing run."""
    return run(*launches, pid=pid, start=TIMING.start + pid * 1_000_000, **options)


def test_ranks_are_processes_in_the_order_of_their_ranks(bench, writer):
    """As in the cases of tests/cases/readers/rocprofv3 of the same run in CSV and JSON."""
    for rank, pid in ((0, 900), (1, 30)):
        for guid, step in enumerate(("timing", "pass_1")):
            launches = repeated(2, A, X_A=[rank + 1.0, rank + 10.0]) if step == "pass_1" else (A, A)
            made = counted(pid, *launches, guid=pid + guid)
            write_rocpd(writer.place(f"out/{step}/node01_{rank}_{pid}_results.db"), made)
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "dispatches", "pid") == [900, 900, 30, 30]
    assert bench.column(done, "counters", "X_A") == [1.0, 10.0, 2.0, 11.0]
    assert bench.column(done, "dispatches", "dispatch_id") == [0, 1, 2, 3]
    assert any(n.startswith("One workload of 2 ranks") for n in done.notes)
    assert bench.rows(done, "ranks", "rank, pid, dispatches") == [(0, 900, 2), (1, 30, 2)]
    assert not done.warnings


def test_recorded_processes(bench, shared):
    done = bench.load(shared / "rocprofv3" / "two_process")
    assert done.dispatches == 18 and set(bench.column(done, "dispatches", "pid")) == {10616, 10617}
    assert len(set(bench.column(done, "dispatches", "dispatch_id"))) == 18
    assert bench.column(done, "dispatches", "ordinal") == [1, 2, 3, 1, 2, 1, 2, 1, 1] * 2
