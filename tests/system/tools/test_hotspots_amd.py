"""Hot spots of a run on AMD, alone and beside counters, without an AMD GPU: the stand-in of rocprofv3 refuses what
AMD's would, and makes up three samples of each launch."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.tests.standins.write_json import SAMPLES
from rooflens.tests.support.amd_node import FEW, Node
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.query_counters import query_counters

LAUNCHES = 6


def test_samples_belong_to_the_launches_of_the_run_for_times_beside_counters(node: Node) -> None:
    run = node.has().profile(metrics=["hotspots", *FEW])
    assert run.state == "done", (run.problem, run.output)
    held = node.manifest(run.workload)
    assert "SQ_WAVES" in held.counters and (held.dispatches, held.samples) == (LAUNCHES, SAMPLES * LAUNCHES)
    assert [call.tool for call in run.next][:2] == ["find_hotspots", "diagnose_bottleneck"]
    sql = "SELECT count(DISTINCT s.kernel), count(DISTINCT d.kernel) FROM samples s RIGHT JOIN dispatches d "
    sql += "USING (kernel)"
    ((sampled, launched),) = query_counters(node.store, sql, run.workload).table.rows
    assert sampled == launched > 1
    found = find_hotspots(node.store, str(run.workload))
    column = found.hotspots.columns.index("line")
    assert [row[column] for row in found.hotspots.rows] == ["app.cpp:12"]
    assert any("are not enough to rank lines" in note for note in found.notes)


def test_a_version_from_before_pc_sampling_is_refused_before_anything_runs(node: Node) -> None:
    with pytest.raises(MissingTool, match=r"ROCm 6\.4"):
        node.has("0.4.0").profile(metrics=["hotspots"])
    assert not node.store.runs.exists() or not list(node.store.runs.iterdir())
