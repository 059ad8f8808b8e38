"""Command lines of rocprofv2, and the folder that its runs leave."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import import_profile
from rooflens.tools.running.drivers.rocprof import V2
from rooflens.tools.running.request import ProfileRequest
from rooflens.tools.sql.unlimited_query import query

REQUEST = ProfileRequest(command=("./app", "a b"), passes=(("SQ_WAVES",), ("TCC_HIT[*]",)), target="gfx942",
                  facts={"num_xcd": 8.0, "total_l2_chan": 128.0})  # fmt: skip
HEAD = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
)


def test_times_come_from_a_kernel_trace_and_counters_from_input_files() -> None:
    timing, first, second = V2.steps(REQUEST, V2.features_of(None), program="rocprofv2", out="run")
    assert timing.argv == ("rocprofv2", "--kernel-trace", "-d", "run/timing", "./app", "a b")
    assert first.argv == ("rocprofv2", "-i", "run/pass_1.txt", "-d", "run/pass_1", "./app", "a b")
    assert second.files["pass_2.txt"].split() == ["pmc:", *(f"TCC_HIT[{i}]" for i in range(16))], "of one XCD"
    assert second.env == {"ROCPROFILER_INDIVIDUAL_XCC_MODE": "1"}


def test_a_folder_that_its_script_would_split_is_refused() -> None:
    with pytest.raises(BadArgument, match="splits paths"):
        V2.steps(REQUEST, V2.features_of(None), program="rocprofv2", out="my run")
    with pytest.raises(BadArgument, match="option"):
        V2.steps(dataclasses.replace(REQUEST, command=("-v",)), V2.features_of(None), program="rocprofv2", out="run")


def test_the_folder_of_its_runs_is_read_with_the_times_of_the_run_without_counters(tmp_path: Path) -> None:
    rows = {"timing": (100, 150, ""), "pass_1/pmc_1": (1000, 1900, ",64"), "pass_2/pmc_1": (2000, 2800, ",7")}
    for (place, (start, end, value)), counter in zip(rows.items(), ("", ",SQ_WAVES", ",GRBM_COUNT"), strict=True):
        folder = tmp_path / "rooflens_run" / place
        folder.mkdir(parents=True)
        line = f'1,1,1,77,77,4096,64,0,0,8,0,16,64,"copy(float*, float*)",{start},{end},1{value}'
        (folder / "results_77.csv").write_text(f"{HEAD}{counter}\n{line}\n")
    store = Store(tmp_path / "store")
    done = import_profile(store, str(tmp_path / "rooflens_run"))
    assert (done.format, done.passes, done.passes_unmatched) == ("rocprof", 3, 0)
    manifest = store.resolve(done.workload)
    found = query(store, [manifest], "SELECT duration_ns, SQ_WAVES, GRBM_COUNT FROM counters").columns
    assert [column.tolist() for column in found.values()] == [[50.0], [64.0], [7.0]]
    names = query(store, [manifest], "SELECT name FROM passes ORDER BY pass_id").columns["name"]
    assert names.tolist() == ["timing", "pass_1", "pass_2"]
