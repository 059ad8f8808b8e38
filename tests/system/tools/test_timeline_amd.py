"""Timelines and hot spots of a run on AMD, alone and beside counters, without an AMD GPU: the stand-in of rocprofv3 is
asked as AMD's would be and refuses what AMD's would. It makes up a copy, a call for each launch and a wait, where it is
told to trace them, and three samples of each launch."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool
from rooflens.tests.standins.write_json import SAMPLES
from rooflens.tests.support.amd_node import COPY, FEW, Node
from rooflens.tools.compute_timeline import compute_timeline
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.query_counters import query_counters

LAUNCHES = 6
KINDS = {"api": 7, "copy": 1, "kernel": 6, "sync": 1}
"""Events by kind: a copy and its call, six launches and their calls, and a wait."""


def _kinds(node: Node, workload: str | None) -> dict[str, int]:
    sql = "SELECT kind, count(*) FROM events GROUP BY ALL ORDER BY 1"
    return dict(query_counters(node.store, sql, workload).table.rows)


def test_a_timeline_alone_is_one_run_without_counters(node: Node) -> None:
    run = node.has("0.4.0").profile("--log", str(node.folder / "log"), metrics=["timeline"])
    assert run.state == "done", (run.problem, run.output)
    assert len((node.folder / "log").read_text().splitlines()) == 1
    held = node.manifest(run.workload)
    assert (held.dispatches, held.counters, held.events) == (6, [], 15)
    assert _kinds(node, run.workload) == KINDS
    assert run.next[0].tool == "compute_timeline"
    found = compute_timeline(node.store, str(run.workload), steady=False)
    assert found.verdict and [d for d in found.copies.rows if "h2d" in d]


def test_timeline_and_samples_beside_counters_are_those_of_the_run_for_times(node: Node) -> None:
    run = node.has().profile(metrics=["timeline", "hotspots", *FEW])
    assert run.state == "done", (run.problem, run.output)
    held = node.manifest(run.workload)
    assert "SQ_WAVES" in held.counters and held.events == 15
    assert (held.dispatches, held.samples) == (LAUNCHES, SAMPLES * LAUNCHES)
    assert [call.tool for call in run.next][:2] == ["compute_timeline", "find_hotspots"]
    sql = (
        'SELECT count(*), count(c."SQ_WAVES") FROM events e JOIN dispatches d USING (start_ns) '
        f"JOIN counters c USING (dispatch_id) WHERE e.kind = 'kernel' AND d.end_ns = e.end_ns AND e.name = '{COPY}'"
    )
    ((copies, counted),) = query_counters(node.store, sql, run.workload).table.rows
    assert copies and counted == copies
    sql = "SELECT count(DISTINCT s.kernel), count(DISTINCT d.kernel) FROM samples s RIGHT JOIN dispatches d "
    ((sampled, launched),) = query_counters(node.store, f"{sql} USING (kernel)", run.workload).table.rows
    assert sampled == launched > 1
    found = find_hotspots(node.store, str(run.workload))
    column = found.hotspots.columns.index("line")
    assert [row[column] for row in found.hotspots.rows] == ["app.cpp:12"]
    assert any("are not enough to rank lines" in note for note in found.notes)


def test_a_version_from_before_pc_sampling_is_refused_before_anything_runs(node: Node) -> None:
    with pytest.raises(MissingTool, match=r"ROCm 6\.4"):
        node.has("0.4.0").profile(metrics=["hotspots"])
    assert not node.store.runs.exists() or not list(node.store.runs.iterdir())


def test_the_plan_has_counters_and_timeline_and_no_metric_of_that_name() -> None:
    found = plan_profile(None, "MI300X", ["timeline", "overview"], detail="full")  # type: ignore[arg-type]
    alone = plan_profile(None, "MI300X", ["overview"], detail="full")  # type: ignore[arg-type]
    assert "--runtime-trace" in found.commands[0].argv and "--runtime-trace" not in alone.commands[0].argv
    assert [c.argv for c in found.commands[1:]] == [c.argv for c in alone.commands[1:]]
    assert (found.whole, found.unsupported) == (alone.whole, alone.unsupported)


@pytest.mark.parametrize(
    ("gpu", "profiler", "said"),
    [
        ("MI210", "rocprof", "--sys-trace --roctx-trace"),
        ("MI210", "rocprofv2", "Use rocprofv3"),
        ("cpu", "perf", "torch"),
    ],
)
def test_a_profiler_that_cannot_trace_says_what_to_do(gpu: str, profiler: str, said: str) -> None:
    with pytest.raises(BadArgument) as told:
        plan_profile(None, gpu, ["timeline"], profiler=profiler)  # type: ignore[arg-type]
    assert said in told.value.fix
