"""Passes in which only some launches were counted: each counted launch finds its own in the run for times.

The launches are those of a real recording; what a pass counts of them is what rocprofv3 would.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.tests.made.rocprofv3 import Launch, Run, repeated, run
from rooflens.tools.profiles.merging.matching import SAMPLE, CountingSample
from rooflens.tools.running.drivers.rocprofv3.command import features_of, steps
from rooflens.tools.running.range_filter import choose_iterations
from rooflens.tools.running.request import LaunchSample, ProfileRequest

HEADER = [
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id",
    "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count",
    "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp",
]  # fmt: skip
ADD, REDUCE, REVERSE = (
    "vector_add(float const*, float const*, float*, int)",
    "reduce_static_lds(float const*, float*, int)",
    "reverse_dynamic_lds(float const*, float*)",
)


@pytest.fixture
def trace(shared: Path, tmp_path: Path) -> list[dict[str, str]]:
    """The rows of a real trace, which lies in out/timing."""
    source = shared / "rocprofv3" / "kernel_trace"
    target = tmp_path / "out" / "timing" / "node01_10520_kernel_trace.csv"
    target.parent.mkdir(parents=True)
    shutil.copy(source / "node01_10520_kernel_trace.csv", target)
    with target.open(newline="") as file:
        return list(csv.DictReader(file))


def iterations(rows: Iterable[dict[str, str]], wanted: dict[str, set[int]]) -> list[dict[str, str]]:
    """What counting is held to by kernel names and numbers, which rocprofv3 gives to launches by kernel and device."""
    seen: dict[tuple[str, str], int] = {}
    kept = []
    for row in sorted(rows, key=lambda r: int(r["Dispatch_Id"])):
        key = (row["Kernel_Id"], row["Agent_Id"])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] in wanted.get(row["Kernel_Name"], set()):
            kept.append(row)
    return kept


def count(bench, rows: Iterable[dict[str, str]], step: str, *, ids: int = 0, sampled: bool = True) -> None:
    """Write what a pass counted of these launches: the counter X is their dispatch id of the trace."""
    table = []
    for r in rows:
        grid, group = (
            int(r[f"{size}_Size_X"]) * int(r[f"{size}_Size_Y"]) * int(r[f"{size}_Size_Z"])
            for size in ("Grid", "Workgroup")
        )
        table.append(
            [0, int(r["Dispatch_Id"]) + ids, r["Agent_Id"], r["Queue_Id"], 20620, 20620, grid, r["Kernel_Id"],
             r["Kernel_Name"], group, r["LDS_Block_Size"], 0, r["VGPR_Count"], r["Accum_VGPR_Count"], r["SGPR_Count"],
             f"X_{step}", f"{r['Dispatch_Id']}.000000", 5000, 6000]
        )  # fmt: skip
    bench.csv(f"out/{step}/pass_1/node01_20620_counter_collection.csv", HEADER, table)
    if sampled:
        (bench.folder / "out" / step / SAMPLE).write_text(CountingSample().text())


WANTED = {ADD: {2, 3}, REDUCE: {2}, REVERSE: {2}}


def test_each_counted_launch_finds_its_own(bench, trace):
    kept = iterations(trace, WANTED)
    assert [int(r["Dispatch_Id"]) for r in kept] == [2, 3, 5, 7]
    count(bench, kept, "pass_1")
    count(bench, kept, "pass_2")
    done = bench.load(bench.folder / "out")
    found = dict(bench.rows(done, "counters", "dispatch_id, X_pass_1"))
    assert found == {i: i if i in (2, 3, 5, 7) else None for i in range(1, 10)}
    assert bench.column(done, "counters", "X_pass_2") == bench.column(done, "counters", "X_pass_1")
    assert not done.warnings
    assert bench.manifest(done).sampled and bench.manifest(done).multiplexed is None


def test_a_program_that_launched_something_more_before_is_matched_all_the_same(bench, trace):
    """A search for the fastest kernel in one run only: all ids after it are higher by what it launched."""
    count(bench, iterations(trace, WANTED), "pass_1", ids=3)
    done = bench.load(bench.folder / "out")
    assert dict(bench.rows(done, "counters", "dispatch_id, X_pass_1", "X_pass_1 IS NOT NULL")) == {
        i: i for i in (2, 3, 5, 7)
    }
    assert not done.warnings


def test_a_launch_that_cannot_be_found_stands_for_another_of_its_configuration_or_is_told(bench, trace):
    kept = iterations(trace, WANTED)
    strange = [dict(kept[0], Dispatch_Id="90"), dict(kept[1], Dispatch_Id="91", Grid_Size_X="64"), *kept[1:]]
    count(bench, strange, "pass_1")
    done = bench.load(bench.folder / "out")
    values = dict(bench.rows(done, "counters", "dispatch_id, X_pass_1", "X_pass_1 IS NOT NULL"))
    assert values == {1: 90, 3: 3, 5: 5, 7: 7}, "the first launch of the configuration that has none yet"
    assert any("1 of 5 counted launches have configurations" in w for w in done.warnings)


def test_launches_by_hand_are_matched_by_id_too_and_do_not_stand_for_others(bench, trace):
    kept = iterations(trace, {kernel: {2, 3} for kernel in (ADD, REDUCE, REVERSE)})
    count(bench, kept, "pass_1", ids=2, sampled=False)
    done = bench.load(bench.folder / "out")
    assert dict(bench.rows(done, "counters", "dispatch_id, X_pass_1", "X_pass_1 IS NOT NULL")) == {
        i: i for i in (2, 3, 5, 7)
    }
    assert not bench.manifest(done).sampled


def test_two_processes_may_be_shifted_differently(bench, writer):
    a, b = Launch("first(float*)"), Launch("second(float*)", grid=(2048, 1, 1))

    def counted(pid: int, kernel: Launch, ids: tuple[int, ...]) -> Run:
        kept = [
            replace(kept, dispatch_id=i)
            for kept, i in zip(repeated(len(ids), kernel, X_A=[float(i) for i in ids]), ids, strict=True)
        ]
        return run(*kept, pid=pid, start=run(a).start + 1_000_000)

    for pid, kernel in ((10, a), (11, b)):
        writer.trace(f"out/timing/node01_{pid}", run(*repeated(9, kernel), pid=pid))
    for pid, kernel, ids in ((20, a, (5, 6, 8)), (21, b, (14, 16))):
        writer.counters(f"out/pass_1/node01_{pid}", counted(pid, kernel, ids))
    (bench.folder / "out" / "pass_1" / SAMPLE).write_text(CountingSample().text())
    done = bench.load(bench.folder / "out")
    found = bench.rows(done, "counters", "kernel, X_A", "X_A IS NOT NULL")
    assert found == [(a.kernel, n) for n in (5.0, 6.0, 8.0)] + [(b.kernel, n) for n in (14.0, 16.0)]
    assert not done.warnings


def test_what_the_driver_asks_for_is_what_the_reader_takes_as_a_sample(bench, trace):
    """From the numbers in the workload of the run for times to the launches that a pass then counts."""
    times = bench.load(bench.folder / "out" / "timing")
    rows = bench.rows(times, "dispatches", "kernel_raw, launch, iteration")
    assert choose_iterations([r for r in rows if r[0] == REVERSE], 0, 1) == {REVERSE: (1, 2)}, "two configurations"
    sample = LaunchSample((ADD, REDUCE), 1, 1, choose_iterations([r for r in rows if r[0] in (ADD, REDUCE)], 1, 1))
    assert sample.iterations == {ADD: (2,), REDUCE: (2,)}
    request = ProfileRequest(("./app",), (("SQ_WAVES",),), target="gfx90a", sample=sample)
    step = steps(request, features_of(None), program="rocprofv3", out="out")[1]
    assert '"kernel_iteration_range": "[2]"' in step.files["pass_1.json"]
    count(bench, iterations(trace, {ADD: {2}, REDUCE: {2}}), "pass_1", sampled=False)
    (bench.folder / "out" / f"pass_1/{SAMPLE}").write_text(step.files[f"pass_1/{SAMPLE}"])
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "counters", "X_pass_1", "X_pass_1 IS NOT NULL") == [2.0, 5.0]
    assert bench.manifest(done).sampled
