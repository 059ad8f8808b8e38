"""A pass in which only some launches were counted, from the choice of the driver to what the reader makes of it.

The launches are those of a real recording; what a pass counts of them is what rocprofv3 would.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from rooflens.tools.profiles.merging.matching import SAMPLE
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


def count(bench, rows: Iterable[dict[str, str]], step: str) -> None:
    """Write what a pass counted of these launches: the counter X is their dispatch id of the trace."""
    table = []
    for r in rows:
        grid, group = (
            int(r[f"{size}_Size_X"]) * int(r[f"{size}_Size_Y"]) * int(r[f"{size}_Size_Z"])
            for size in ("Grid", "Workgroup")
        )
        table.append(
            [0, r["Dispatch_Id"], r["Agent_Id"], r["Queue_Id"], 20620, 20620, grid, r["Kernel_Id"],
             r["Kernel_Name"], group, r["LDS_Block_Size"], 0, r["VGPR_Count"], r["Accum_VGPR_Count"], r["SGPR_Count"],
             f"X_{step}", f"{r['Dispatch_Id']}.000000", 5000, 6000]
        )  # fmt: skip
    bench.csv(f"out/{step}/pass_1/node01_20620_counter_collection.csv", HEADER, table)


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
    count(bench, iterations(trace, {ADD: {2}, REDUCE: {2}}), "pass_1")
    (bench.folder / "out" / f"pass_1/{SAMPLE}").write_text(step.files[f"pass_1/{SAMPLE}"])
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "counters", "X_pass_1", "X_pass_1 IS NOT NULL") == [2.0, 5.0]
    assert bench.manifest(done).sampled
