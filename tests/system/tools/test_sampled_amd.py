"""A sample of the launches of a program on AMD, from question to workload; stand-ins count as rocprofv3 does."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tests.support.amd_node import APP, THREE, Node, launching
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plan_profile import plan_profile

SHAPES = ((1 << 18, 1, 1), (1 << 20, 1, 1))


def step(number: int) -> list[dict[str, object]]:
    """One step of a training loop: two builds of one name, one of them with two shapes, under ranges."""
    name = "triton_red_fused_native_layer_norm_3"
    return [
        {"kernel": name, "grid": SHAPES[0], "within": [f"step {number}", "forward"]},
        {"kernel": name, "grid": SHAPES[1], "within": [f"step {number}", "forward"]},
        {"kernel": name, "grid": SHAPES[1], "code_object": 2, "vgpr": 64, "within": [f"step {number}", "backward"]},
        {"kernel": "copy", "within": [f"step {number}", "backward"]},
        {"kernel": "rare", "grid": (256, 1, 1)} if number == 3 else {"kernel": "fma", "within": [f"step {number}"]},
    ]


def arguments(steps: int) -> list[str]:
    launches = [one for number in range(steps) for one in step(number)]
    return [word for one in launches for word in ("--launch", json.dumps(one))]


def test_a_few_launches_of_each_configuration_are_counted_and_stand_for_all(node: Node) -> None:
    node.has("1.3.2")
    run = node.profile(*arguments(20), metrics=THREE, launches=3, budget_s=600)
    assert run.state == "done", (run.problem, run.output)
    rows = node.rows(run.workload, "d.kernel", "d.grid", "d.vgpr", "d.duration_ns", *THREE)
    assert len(rows) == 100 and all(row[3] for row in rows)
    counted = [row for row in rows if row[4] is not None]
    assert all(None not in row for row in counted), "every pass counted the same launches"
    configurations = Counter(row[:3] for row in rows if row[0] != "rare")
    assert len(configurations) == 5
    of = Counter(row[:3] for row in counted)
    assert of.keys() >= {c for c in configurations if c[0] != "void fma_chain<float, 16>(float*, float)"}
    assert all(3 <= of[c] < configurations[c] / 2 for c in of if c[0] != "rare"), of
    found = node.manifest(run.workload)
    assert found.sampled and found.multiplexed is None


def test_workers_of_torchrun_are_ranks_of_one_workload_with_their_own_counters(node: Node) -> None:
    """torchrun tells the rank in RANK; each worker launches as many kernels as its rank says."""
    node.has("1.3.2")
    for rank in range(2):
        command = [*APP, *launching(*["copy"] * (rank + 1), "fma")]
        plan = plan_profile(node.store, "gfx90a", ["SQ_WAVES"], command=command, detail="full")
        folder = node.by_hand(plan, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    result = import_profile(node.store, str(folder))
    assert result.warnings == [] and result.passes_unmatched == 0
    rows = node.rows(result.workload, "d.rank", "d.pid", "d.iteration", "SQ_WAVES")
    assert [Counter(row[0] for row in rows)[rank] for rank in range(2)] == [2, 3]
    assert len({row[1] for row in rows}) == 2 and all(row[3] for row in rows)
    assert sorted(row[2] for row in rows if row[0] == 1) == [1, 1, 2]


def test_counting_is_held_to_a_range_by_the_numbers_of_its_launches(node: Node) -> None:
    node.has("1.3.2")
    run = node.profile(*arguments(6), metrics=["SQ_WAVES"], range="step 2", launches=5)
    assert run.state == "done", (run.problem, run.output)
    rows = node.rows(run.workload, "d.dispatch_id", "d.kernel", "SQ_WAVES")
    counted = {dispatch: kernel for dispatch, kernel, waves in rows if waves is not None}
    assert counted.keys() >= {11, 12, 13, 14, 15}, "the five launches of the third step"
    assert len(counted) < 15 and len(rows) == 30
    with pytest.raises(BadArgument, match="cannot restrict counting to a range"):
        node.profile(*arguments(2), range="step 1", launches=[1, 2])
