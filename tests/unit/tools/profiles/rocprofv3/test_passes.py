"""Passes, processes and ranks of one profile in one folder; and what does not belong together."""

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


def values(name: str, *numbers: float) -> tuple[Launch, ...]:
    return tuple(replace(k, counters={name: [n]}) for k, n in zip((A, B, A, B), numbers, strict=True))


@pytest.mark.parametrize("layout", ["{step}/{pid}", "{step}/node01/{pid}", "{step}/pass_1/{pid}"])
def test_the_pass_without_counters_gives_the_durations(bench, writer, layout):
    steps = {
        "timing": TIMING,
        "pass_1": counted(1, *values("X_A", 1, 2, 3, 4)),
        "pass_2": counted(2, *values("X_B", 5, 6, 7, 8)),
        "pass_10": counted(3, *values("X_C", 9, 9, 9, 9)),
    }
    for step, made in steps.items():
        where = "out/" + layout.format(step=step, pid=made.pid)
        writer.trace(where, made) if step == "timing" else writer.counters(where, made)
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "passes", "name") == ["timing", "pass_1", "pass_2", "pass_10"]
    assert (done.passes, done.passes_matched, done.warnings) == (4, 4, [])
    assert bench.rows(done, "counters", "duration_ns, X_A, X_B, X_C") == [
        (1000.0, 1, 5, 9), (1000.0, 2, 6, 9), (500.0, 3, 7, 9), (1000.0, 4, 8, 9),
    ]  # fmt: skip


def test_without_a_timing_run_the_fullest_pass_leads(bench, writer):
    writer.counters("out/pmc_1/1", counted(1, *values("X_A", 1, 2, 3, 4)[:3]))
    writer.counters("out/pmc_2/2", counted(2, *values("X_B", 5, 6, 7, 8)))
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", "X_B, X_A") == [(5, 1), (6, 2), (7, 3), (8, None)]
    assert any("1 of the main pass without it" in w for w in done.warnings)


def test_passes_in_one_folder_are_told_apart_by_their_counters(bench, writer):
    writer.trace("out/4711", TIMING)
    writer.counters("out/1", counted(1, *values("X_A", 1, 2, 3, 4)))
    writer.counters("out/2", counted(2, *values("X_B", 5, 6, 7, 8)))
    done = bench.load(bench.folder / "out")
    assert (done.dispatches, done.passes) == (4, 3)
    assert bench.rows(done, "counters", "duration_ns, X_A, X_B")[2] == (500.0, 3, 7)


def test_files_beside_the_pass_folders_are_further_passes(bench, writer):
    writer.counters("out/pass_1/1", counted(1, *values("X_A", 1, 2, 3, 4)))
    writer.counters("out/2", counted(2, *values("X_B", 5, 6, 7, 8)))
    writer.trace("out/timing/4711", TIMING)
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "passes", "name") == ["timing", "pass_1", "pass_2"]
    assert bench.rows(done, "counters", "duration_ns, X_A, X_B")[2] == (500.0, 3, 7)


def test_a_counter_of_two_passes_keeps_both_values(bench, writer):
    writer.counters("out/pass_1/1", counted(1, *values("X_A", 1, 2, 3, 4)))
    writer.counters("out/pass_2/2", counted(2, *values("X_A", 5, 6, 7, 8)))
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", '"X_A", "X_A@pass_2"')[:2] == [(1, 5), (2, 6)]


def test_a_filter_on_kernels_is_a_note_and_no_warning(bench, writer):
    writer.trace("out/timing/4711", TIMING)
    for step in (1, 2):
        only = [
            replace(launch, dispatch_id=2 * i + 2) for i, launch in enumerate(repeated(2, B, **{f"X_{step}": [7, 8]}))
        ]
        writer.counters(f"out/pass_{step}/{step}", counted(step, *only))
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", "X_1, X_2") == [(None, None), (7, 7), (None, None), (8, 8)]
    assert not done.warnings
    (note,) = [n for n in done.notes if n.startswith("Only launches of second<2>(float*) were counted")]
    assert "pass_1, pass_2" in note and "2 launches of other kernels" in note


def test_a_range_of_launches_is_matched_by_dispatch(bench, writer):
    writer.trace("out/timing/4711", run(*repeated(4, A)))
    third = replace(A, dispatch_id=3, counters={"X_A": [33.0]})
    writer.counters("out/pass_1/1", counted(1, third))
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "counters", "X_A") == [None, None, 33.0, None]
    assert any("1 dispatch matched" in w and "3 of the main pass without it" in w for w in done.warnings)


def test_launches_in_another_order_are_matched_by_ordinal(bench, writer):
    writer.trace("out/timing/4711", run(A, B, A, B))
    a, b = repeated(2, A, X_A=[1.0, 3.0]), repeated(2, B, X_A=[2.0, 4.0])
    writer.counters("out/pass_1/1", counted(1, b[0], a[0], a[1], b[1]))
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "counters", "X_A") == [1.0, 2.0, 3.0, 4.0] and not done.warnings


def test_processes_are_kept_apart_and_matched_by_what_they_run(bench, writer):
    """Process ids come in another order in the second run, and a third process launches nothing there."""
    writer.trace("out/timing/node01_10", run(A, A, pid=10))
    writer.trace("out/timing/node01_11", run(B, pid=11))
    writer.counters("out/pass_1/node01_20", counted(20, *repeated(1, B, X_A=[7.0])))
    writer.counters("out/pass_1/node01_21", counted(20, *repeated(2, A, X_A=[5.0, 6.0]), host="node01"))
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", "kernel, X_A") == [(A.kernel, 5.0), (A.kernel, 6.0), (B.kernel, 7.0)]
    assert bench.column(done, "dispatches", "pid") == [10, 10, 11]
    assert not done.warnings


@pytest.mark.parametrize("form", ["csv", "json", "rocpd"])
def test_ranks_are_processes_in_the_order_of_their_ranks(bench, writer, form):
    for rank, pid in ((0, 900), (1, 30)):
        for guid, step in enumerate(("timing", "pass_1")):
            numbers = {"X_A": [rank + 1.0, rank + 10.0]} if step == "pass_1" else {}
            made = counted(pid, *repeated(2, A, **(numbers or {"X_A": [0, 0]})), guid=pid + guid)
            if not numbers:
                made = replace(made, launches=(A, A))
            stem = f"out/{step}/node01_{rank}_{pid}"
            if form == "csv":
                writer.counters(stem, made) if numbers else writer.trace(stem, made)
            elif form == "json":
                writer.json(f"{stem}_results.json", made)
            else:
                write_rocpd(writer.place(f"{stem}_results.db"), made)
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


def test_traces_of_other_kernels_at_another_time_are_refused(bench, writer):
    writer.trace("out/10", run(A, pid=10))
    writer.trace("out/11", run(B, pid=11, start=TIMING.start + 10**9))
    with pytest.raises(BadInput, match="2 unrelated runs"):
        bench.load(bench.folder / "out")


def test_counters_of_other_kernels_are_refused(bench, writer):
    writer.counters("out/10", run(*repeated(1, A, X_A=[1.0]), pid=10))
    writer.counters("out/11", run(*repeated(1, B, X_B=[1.0]), pid=11, start=TIMING.start + 10**9))
    with pytest.raises(BadInput, match="no kernel in common"):
        bench.load(bench.folder / "out")


def test_folders_of_two_profiles_are_refused(bench, writer):
    for name, start in (("before", 0), ("after", 10**9)):
        writer.counters(f"out/{name}/pass_1/10", run(*repeated(1, A, X_A=[1.0]), start=TIMING.start + start))
    with pytest.raises(BadInput, match="2 unrelated runs"):
        bench.load(bench.folder / "out")


def test_one_program_several_times_in_a_folder_is_told(bench, writer):
    writer.trace("out/10", run(A, A, pid=10))
    writer.trace("out/11", run(A, A, pid=11, start=TIMING.start + 10**9))
    done = bench.load(bench.folder / "out")
    assert done.dispatches == 4
    assert any(w.startswith("several_runs: 2 processes ran one after the other") for w in done.warnings)


def test_steps_of_a_script_are_one_run_in_a_pass_folder(bench, writer):
    write_rocpd(writer.place("out/timing/10_results.db"), run(A, pid=10, command="./a"))
    later = run(B, pid=11, command="./b", start=TIMING.start + 10**9, guid=2)
    write_rocpd(writer.place("out/timing/11_results.db"), later)
    assert bench.load(bench.folder / "out").dispatches == 2


def test_statistics_alone_are_totals(bench, writer):
    header = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"]
    for pid, calls in ((10, 3), (11, 4)):
        bench.csv(f"out/{pid}_kernel_stats.csv", header, [(A.kernel, calls, 100 * calls, 100, 100, 90 + pid, 110, 1.5)])
        writer.agents(f"out/{pid}")
    done = bench.load(bench.folder / "out")
    assert (done.format, done.arch, done.dispatches, done.kernels, done.name) == ("rocprofv3", "gfx942", 0, 1, "out")
    assert bench.rows(done, "kernel_stats") == [(A.kernel, 7, 700, 100.0, 100, 110, None)]


def test_recorded_processes(bench, shared):
    done = bench.load(shared / "rocprofv3" / "two_process")
    assert done.dispatches == 18 and set(bench.column(done, "dispatches", "pid")) == {10616, 10617}
    assert len(set(bench.column(done, "dispatches", "dispatch_id"))) == 18
    assert bench.column(done, "dispatches", "ordinal") == [1, 2, 3, 1, 2, 1, 2, 1, 1] * 2


def _table(con, prefix):
    return next(
        n for (n,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if n.startswith(prefix)
    )
