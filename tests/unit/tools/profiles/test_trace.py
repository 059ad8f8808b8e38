"""ML API traces: operators with their call sites, joined to the launches they made as rocprof-compute joins them."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.sql.unlimited_query import query

TRACE = "ml_api_trace_pmc_perf_0_marker_api_trace.csv"


@pytest.fixture
def recorded(shared: Path) -> Path:
    """The recorded trace of a PyTorch program."""
    if not (found := shared / "workloads38" / "torch_trace__MI300X_A1").is_dir():
        pytest.skip(f"needs {found}")
    return found


def test_every_launch_has_the_operator_that_the_recorded_join_gives_it(bench, recorded):
    done = bench.load(recorded)
    assert any("144 ranges of operators" in n and "20 of 20 launches" in n for n in done.notes)
    with (recorded / "ml_api_trace" / "consolidated.csv").open() as file:
        theirs = {
            (int(r["Start_Timestamp_kernel"]), r["Operator_Name"], int(r["Start_Timestamp_function"]))
            for r in csv.DictReader(file)
        }
    sql = "SELECT d.dispatch_id, r.path, r.start_ns FROM dispatches d JOIN ranges r USING (workload, range_id)"
    starts = {
        int(r["Dispatch_ID"]): int(r["Start_Timestamp"]) for r in csv.DictReader((recorded / "pmc_perf.csv").open())
    }
    ours = query(bench.store, [bench.manifest(done)], sql).columns.values()
    found = {(starts[dispatch], path, int(start)) for dispatch, path, start in zip(*ours, strict=True)}
    assert found == theirs and len(theirs) == 20
    (row,) = bench.rows(
        done, "ranges", "name, path, call_site, depth, source, thread, end_ns - start_ns", "range_id = 62"
    )
    path = "nn.Module.SimpleNet.forward/torch.nn.functional.relu/aten::relu/aten::clamp_min"
    assert row[:6] == ("aten::clamp_min", path, "simple_net.py:50 > simple_net.py:36", 3, "torch", 38090)
    assert row[6] > 0
    assert len(set(bench.column(done, "ranges", "range_id"))) == 144


def test_a_damaged_trace_is_left_out_and_told(bench, recorded):
    folder = bench.folder / "damaged" / "MI300X"
    shutil.copytree(recorded, folder)
    (folder / TRACE).write_text("Domain,Function\nM,aten::mm\n")
    done = bench.load(folder)
    assert done.dispatches == 20 and any("has no column" in n and "skipped" in n for n in done.notes)
    with pytest.raises(BadArgument, match="has no operators"):
        compute_metrics(bench.store, done.workload, by="operator")
