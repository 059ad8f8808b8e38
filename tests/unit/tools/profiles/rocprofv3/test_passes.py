"""Processes and ranks as databases in one folder; and databases that do not belong together."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from rooflens.analysis.base.problems import BadInput
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


def test_one_rank_is_told_in_the_manifest(bench, writer):
    done = bench.load(write_rocpd(writer.place("node01_3_4711_results.db"), TIMING))
    assert (bench.manifest(done).rank, bench.manifest(done).host) == (3, "node01")


def test_processes_without_kernels_are_a_note(bench, writer):
    write_rocpd(writer.place("out/4711_results.db"), TIMING)
    idle = write_rocpd(writer.place("out/4712_results.db"), replace(TIMING, pid=4712, guid=2))
    con = sqlite3.connect(idle)
    con.execute(f'DELETE FROM "{_table(con, "rocpd_kernel_dispatch_")}"')
    con.commit()
    con.close()
    done = bench.load(bench.folder / "out")
    assert done.dispatches == 4 and not done.warnings
    assert any("1 process launched no kernel: 4712_results.db" in n for n in done.notes)


def test_a_copy_of_a_database_is_left_out(bench, writer):
    write_rocpd(writer.place("out/4711_results.db"), TIMING)
    write_rocpd(writer.place("out/copy/backup.db"), TIMING)
    done = bench.load(bench.folder / "out")
    assert done.dispatches == 4
    assert any("is a copy of" in w for w in done.warnings)


def test_two_unrelated_runs_are_refused(bench, writer):
    write_rocpd(writer.place("out/before.db"), TIMING)
    after = replace(TIMING, pid=5000, guid=2, start=TIMING.start + 10**9, command="./optimized")
    write_rocpd(writer.place("out/after.db"), after)
    with pytest.raises(BadInput, match=r"2 unrelated runs.*before\.db \(\./app -n 3\).*Import them separately"):
        bench.load(bench.folder / "out")
    assert bench.is_clean()


def test_steps_of_a_script_are_one_run_in_a_pass_folder(bench, writer):
    write_rocpd(writer.place("out/timing/10_results.db"), run(A, pid=10, command="./a"))
    later = run(B, pid=11, command="./b", start=TIMING.start + 10**9, guid=2)
    write_rocpd(writer.place("out/timing/11_results.db"), later)
    assert bench.load(bench.folder / "out").dispatches == 2


def test_recorded_processes(bench, shared):
    done = bench.load(shared / "rocprofv3" / "two_process")
    assert done.dispatches == 18 and set(bench.column(done, "dispatches", "pid")) == {10616, 10617}
    assert len(set(bench.column(done, "dispatches", "dispatch_id"))) == 18
    assert bench.column(done, "dispatches", "ordinal") == [1, 2, 3, 1, 2, 1, 2, 1, 1] * 2


def _table(con, prefix):
    return next(
        n for (n,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if n.startswith(prefix)
    )
