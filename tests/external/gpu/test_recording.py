"""The recorder on an NVIDIA GPU: ranges, graphs, programs that end badly, profile themselves, or are several.

``pytest -m nvidia tests/external/gpu`` runs everything here; each test prints what it measured (-rP shows it).
"""

from __future__ import annotations

from collections import Counter

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.external.gpu.conftest import PROGRAMS
from rooflens.tests.external.gpu.measuring import Ended, asked, printed_by, profiled, records, stated, told
from rooflens.tools.list_workloads import list_workloads

pytestmark = pytest.mark.nvidia
TRAINING, JITTED = str(PROGRAMS / "training.py"), str(PROGRAMS / "jitted.py")
PATHS = "SELECT r.path, count(*) FROM dispatches d LEFT JOIN ranges r USING (workload, range_id) GROUP BY 1"


def launches(store: Store, run: Ended) -> int:
    """How many launches the workload of a run holds."""
    ((count,),) = asked(store, run.result.workload, "SELECT count(*) FROM dispatches")
    return int(count)


def timed(store: Store, *command: str, **more: object) -> Ended:
    """A run for times alone."""
    return profiled(store, list(command), metrics=[], timeout_s=240, **more)


def test_every_launch_of_a_program_belongs_to_its_range(node: Store, launching: str) -> None:
    steps = 6
    run = timed(node, launching, "ranges", str(steps))
    assert run.result.state == "done", (run.result.problem, run.result.output)
    found = dict(asked(node, run.result.workload, PATHS))
    told("ranges under the recorder", {"wall_s": run.wall_s, **{str(path): n for path, n in found.items()}})
    assert found == {
        None: 4, "step/forward [1/2]": steps, "step/forward [1/2]/inner": steps, "step": steps, "step/window": steps,
    }, "the launch of the second thread works for the step"  # fmt: skip
    domains = asked(node, run.result.workload, "SELECT DISTINCT name, domain FROM ranges WHERE domain IS NOT NULL")
    assert domains == [["inner", "my@library"]]
    rows = {r["range"]: r for r in records(list_workloads(node, str(run.result.workload), by="range", limit=50).table)}
    assert (rows["step"]["entered"], rows["step"]["launches"]) == (steps, 4 * steps)
    assert rows["step"]["total_ns"] < rows["step"]["host_ns"], "the thread waits for its launches within the step"


def test_every_kernel_of_a_graph_is_a_launch_within_the_range_that_launched_it(node: Store, launching: str) -> None:
    run = timed(node, launching, "graph", "8")
    assert run.result.state == "done", (run.result.problem, run.result.output)
    found = dict(asked(node, run.result.workload, PATHS))
    told("graph under the recorder", {"wall_s": run.wall_s, "stated": stated(printed_by(node, run.result)), **found})
    assert found == {"replayed": stated(printed_by(node, run.result))}


@pytest.mark.parametrize("how", ["exit3", "_exit", "abort", "term", "kill"])
def test_a_program_that_ends_badly_keeps_its_launches(node: Store, launching: str, how: str) -> None:
    run = timed(node, launching, how, "40")
    count, made = launches(node, run), stated(printed_by(node, run.result))
    told(f"end by {how}", {"wall_s": run.wall_s, "stated": made, "recorded": count, "problem": run.result.problem})
    assert run.result.state == "failed" and run.result.partial
    assert made == 40 == count, "what ran a second before the end was handed over"
    status = {"exit3": "status 3", "_exit": "status 3", "abort": "SIGABRT", "term": "SIGTERM", "kill": "SIGKILL"}[how]
    assert status in (run.result.problem or "")


def test_a_program_that_fails_is_counted_all_the_same_and_reported_as_failed(node: Store, launching: str) -> None:
    run = profiled(node, [launching, "exit3", "8"], metrics=["hbm.bw_gbs"], timeout_s=240)
    sql = 'SELECT count("dram__bytes_read.sum"), count(*) FROM counters'
    ((counted, every),) = asked(node, run.result.workload, sql)
    told("failing program with counters", {"wall_s": run.wall_s, "counted": counted, "launches": every})
    assert run.result.state == "failed" and "status 3" in (run.result.problem or "")
    assert every == 8 and counted == 8


def test_a_program_that_profiles_itself_keeps_its_own_profile(node: Store, torch_python: str) -> None:
    alone = timed(node, torch_python, TRAINING, "4")
    run = timed(node, torch_python, TRAINING, "4", "--profiler")
    own = stated(printed_by(node, run.result))
    recorded = launches(node, run) if run.result.workload else 0
    told("torch.profiler inside", {
        "wall_s": run.wall_s, "its own kernels": own, "recorded": recorded, "without": launches(node, alone),
        "state": run.result.state, "warnings": run.result.warnings, "problem": run.result.problem,
    })  # fmt: skip
    assert own > 0, "the program must get its own records"
    assert "done" in printed_by(node, alone.result)
    if recorded < launches(node, alone):
        assert run.result.warnings or run.result.problem, "launches are missing, and nothing says so"


def test_two_workers_on_one_gpu_are_two_ranks(node: Store, torch_python: str) -> None:
    command = [torch_python, "-m", "torch.distributed.run", "--nproc-per-node", "2", TRAINING, "3", "--gloo"]
    run = profiled(node, command, metrics=["hbm.bw_gbs"], launches=1, budget_s=120, timeout_s=240)
    assert run.result.state == "done", (run.result.problem, run.result.output)
    found = asked(node, run.result.workload, "SELECT rank, count(*), count(DISTINCT pid) FROM dispatches GROUP BY 1")
    told("torchrun with two workers", {"wall_s": run.wall_s, "rank, launches, processes": found})
    assert sorted(row[0] for row in found) == [0, 1] and {row[2] for row in found} == {1}
    assert len({row[1] for row in found}) == 1, "both do the same"
    counted = asked(node, run.result.workload, 'SELECT count("dram__bytes_read.sum") FROM counters')
    assert counted[0][0] > 0


def test_two_gpus_that_talk_are_counted_without_their_communication(
    node: Store, torch_python: str, gpus: int
) -> None:  # fmt: skip
    if gpus < 2:
        pytest.skip("needs two GPUs")
    command = [torch_python, "-m", "torch.distributed.run", "--nproc-per-node", "2", TRAINING, "3", "--nccl"]
    run = profiled(node, command, metrics=["hbm.bw_gbs"], launches=1, budget_s=120, timeout_s=240)
    assert run.result.state == "done", (run.result.problem, run.result.output)
    rows = asked(
        node, run.result.workload, "SELECT device_id, kernel ILIKE '%nccl%', count(*) FROM dispatches GROUP BY ALL"
    )
    told("two GPUs with NCCL", {"wall_s": run.wall_s, "device, nccl, launches": rows})
    assert {row[0] for row in rows} == {0, 1} and any(row[1] for row in rows)
    sql = "SELECT count(\"dram__bytes_read.sum\") FROM counters WHERE kernel ILIKE '%nccl%'"
    assert asked(node, run.result.workload, sql) == [[0]]
    assert any("communication" in note for note in run.result.notes)


def test_a_program_in_jax_is_recorded(node: Store, jax_python: str) -> None:
    run = timed(node, jax_python, JITTED, "10", env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    assert run.result.state == "done", (run.result.problem, run.result.output)
    rows = asked(node, run.result.workload, "SELECT kernel, count(*) FROM dispatches GROUP BY 1 ORDER BY 2 DESC")
    told(
        "JAX",
        {"wall_s": run.wall_s, "launches": sum(row[1] for row in rows), "kernels": Counter(dict(rows)).most_common(3)},
    )
    assert sum(row[1] for row in rows) >= 10
