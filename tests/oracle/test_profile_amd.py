"""All counters and metrics of a GPU, and samples by an older version; a stand-in plays AMD's profiler."""

from __future__ import annotations

from collections import Counter

from rooflens.tests.standins import launches
from rooflens.tests.support.amd_node import Node
from rooflens.tests.support.figures import evaluate
from rooflens.tests.system.tools.test_sampled_amd import arguments
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plan_profile import PlanResult, plan_profile


def test_every_counter_and_every_metric_that_a_plan_promises_is_there(node: Node) -> None:
    node.has("1.3.2", target := "gfx942")
    asked = {"metrics": ["everything"], "profiler_version": "1.3.2", "command": ["/bin/true"]}
    plan = plan_profile(node.store, "MI300X", **asked, detail="full")
    assert plan.application_runs == len(plan.commands) > 10
    result = import_profile(node.store, str(node.by_hand(plan)))
    # Counters of the stand-in are made one by one, so that what they say together cannot be.
    beside = [warning for warning in result.warnings if not warning.startswith("identity: ")]
    assert (result.passes_unmatched, beside) == (0, []) and result.dispatches == len(launches.DEFAULT)
    found = set(node.manifest(result.workload).counters)
    found |= {f"{name}[*]" for (name,) in node.rows(result.workload, "DISTINCT counter", table="counter_instances")}
    channels = node.rows(
        result.workload, "dispatch_id", "max(xcd) + 1", "max(instance) + 1", "sum(value)",
        table="counter_instances", rest="WHERE counter = 'TCC_HIT' GROUP BY 1 ORDER BY 1",
    )  # fmt: skip
    hits = [launches.count(target, "TCC_HIT", one) for one in launches.DEFAULT]
    assert [row[1:] for row in channels] == [(8, 16, value) for value in hits]
    # A level that is integrated is not counted itself; the rest is what the notes leave out.
    assert named(plan) - found - {name.removesuffix("_ACCUM") for name in found} <= left_out(plan)
    order = [one.kernel for one in launches.DEFAULT]
    waves = [launches.count(target, "SQ_WAVES", one) for one in launches.DEFAULT]
    assert node.rows(result.workload, "d.kernel", "SQ_WAVES") == list(zip(order, waves, strict=True))
    level = [launches.count(target, "SQ_LEVEL_WAVES_ACCUM", one) for one in launches.DEFAULT]
    assert [row[0] for row in node.rows(result.workload, "SQ_LEVEL_WAVES_ACCUM")] == level
    figures = evaluate(node.store, result.workload, plan.whole)
    promised = {figure.metric.name: figure for figure in figures if not figure.metric.imported_only}
    assert len(promised) > 200
    empty = {name: str(f.reason or "") for name, f in promised.items() if f.status not in ("ok", "suspect")}
    # The kernels do neither atomics nor matrix operations.
    assert {name: reason for name, reason in empty.items() if "denominator is zero" not in reason} == {}


def named(plan: PlanResult) -> set[str]:
    """The counters of a plan."""
    column = plan.passes.columns.index("names")
    return {name for row in plan.passes.rows for name in row[column].split()}


def left_out(plan: PlanResult) -> set[str]:
    """Counters that a note says this version cannot count."""
    notes = [note for note in plan.notes if note.startswith("Skipped: ")]
    return {name for note in notes for name in note.removeprefix("Skipped: ").split(":")[0].split(", ")}


def test_an_older_version_counts_a_sample_too(node: Node) -> None:
    run = node.has("0.5.0").profile(*arguments(10), metrics=["SQ_WAVES"], launches=2, budget_s=600)
    assert run.state == "done", (run.problem, run.output)
    counted = [row for row in node.rows(run.workload, "d.kernel", "d.grid", "SQ_WAVES") if row[2] is not None]
    assert min(Counter(row[:2] for row in counted if row[0] != "rare").values()) >= 2
    assert len(counted) < 40 and all(waves == grid / 64 for _, grid, waves in counted)
