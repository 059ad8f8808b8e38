"""Counting on an NVIDIA GPU: progress with numbers, a range, a sample against all launches, and what it costs.

``pytest -m nvidia tests/external/gpu`` runs everything here; each test prints what it measured (-rP shows it).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.analysis.planning.plan import plan
from rooflens.analysis.store.store import Store
from rooflens.tests.external.gpu.measuring import Ended, asked, deviations, profiled, records, told, wall_s
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.running.drivers import registry
from rooflens.tools.running.request import ProfileRequest

pytestmark = pytest.mark.nvidia
LAUNCHES = 240
METRICS = ["roofline.f32.hbm", "hbm.bw_gbs", "dispatch.duration_ns"]
WALL_RATIO, SAME_PCT = 1.15, 3.0


@pytest.fixture(scope="module")
def whole(node: Store, launching: str) -> Ended:
    """Every launch counted."""
    command = [launching, "many", str(LAUNCHES)]
    run = profiled(node, command, metrics=METRICS, launches=[1, 1000], timeout_s=240, name="whole")
    assert run.result.state == "done", (run.result.problem, run.result.output)
    return run


@pytest.fixture(scope="module")
def sampled(node: Store, launching: str) -> Ended:
    """As anybody asks, with enough launches for progress to be seen."""
    command = [launching, "many", str(LAUNCHES)]
    run = profiled(node, command, metrics=METRICS, launches=15, budget_s=120, timeout_s=240, name="sampled")
    assert run.result.state == "done", (run.result.problem, run.result.output)
    return run


def test_progress_tells_the_launch_and_how_many_there_are(sampled: Ended) -> None:
    seen = sampled.launches_told()
    told("progress", {"told": len(seen), "first": seen[:1], "last": seen[-1:], "took_s": sampled.took_s})
    assert seen, sampled.said
    assert {of for _, of in seen} == {60}, "fifteen launches of each of four kernels"
    numbers = [number for number, _ in seen]
    assert numbers == sorted(numbers) and numbers[0] >= 1 and numbers[-1] <= 60


def figures(store: Store, run: Ended, called: Callable[[str], str]) -> dict[str, dict[str, float]]:
    """What a kernel is called -> time, bytes of device memory and operations of a launch, and how many are known."""
    points = records(compute_roofline(store, str(run.result.workload), levels=["hbm"], datatype="f32", limit=9).points)
    launches = dict(asked(store, run.result.workload, "SELECT kernel, count(*) FROM dispatches GROUP BY 1"))
    return {
        called(str(point["kernel"])): {
            "n": point["n"],
            **{name: point[name] / launches[point["kernel"]] for name in ("time_ns", "bytes", "operations")},
        }
        for point in points
        if point["level"] == "hbm"
    }


def rounds(kernel: str) -> str:
    """What tells the kernels apart, however a name is spelled: turn<8>, turn<(int)8>."""
    found = re.search(r"turn<(?:\(int\))?(\d+)>", kernel)
    assert found, kernel
    return found[1]


def test_a_sample_gives_the_figures_of_the_whole(node: Store, whole: Ended, sampled: Ended) -> None:
    every, some = figures(node, whole, rounds), figures(node, sampled, rounds)
    assert len(every) == 4 and every.keys() == some.keys()
    worst = {"time_ns": 0.0, "bytes": 0.0, "operations": 0.0}
    for kernel, values in every.items():
        counts = values.pop("n"), some[kernel].pop("n")
        found = deviations(values, some[kernel])
        told(f"turn<{kernel}> ({counts[1]} of {counts[0]} counted)", {f"{n} %": v for n, v in found.items()})
        worst = {name: max(worst[name], abs(found[name])) for name in worst}
    told("sampled against whole, worst in %", worst)
    assert max(worst.values()) <= SAME_PCT


def test_counting_takes_little_longer_than_ncu_alone(launching: str, whole: Ended, tmp_path: Path) -> None:
    ncu = registry.profiler("ncu")
    planned = plan("sm_90", METRICS)
    request = ProfileRequest(
        (launching, "many", str(LAUNCHES)), planned.passes, launches=(1, 1000), replay="kernel", target="sm_90"
    )
    program = shutil.which("ncu") or "ncu"
    texts = [
        subprocess.run([program, o], capture_output=True, text=True, timeout=60).stdout for o in ("--help", "--version")
    ]
    (step,) = ncu.steps(request, ncu.features(*texts), program=program, out=str(tmp_path))
    (tmp_path / step.name).mkdir()
    alone_s = wall_s(lambda: subprocess.run(step.argv, check=True, capture_output=True, timeout=300))
    ratio = whole.wall_s / alone_s
    told("wall against plain ncu", {"ncu_s": alone_s, "ours_s": whole.wall_s, "ratio": ratio, "steps": whole.took_s})
    assert ratio <= WALL_RATIO


def counted(store: Store, run: Ended) -> dict[str | None, int]:
    """Range -> its launches that hold counters."""
    return dict(asked(
        store, run.result.workload,
        'SELECT r.path, count(c."dram__bytes_read.sum") AS n FROM dispatches d '
        "JOIN counters c USING (workload, dispatch_id) "
        "LEFT JOIN ranges r USING (workload, range_id) GROUP BY 1 HAVING n > 0",
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("range", "expected"),
    [
        ("forward [1/2]", {"step/forward [1/2]": 2, "step/forward [1/2]/inner": 2}),
        ("inner", {"step/forward [1/2]/inner": 2}),
        ("step/forward [1/2]", {"step/forward [1/2]": 2, "step/forward [1/2]/inner": 2}),
        ("window", {"step/window": 2}),
    ],
)
def test_only_launches_of_a_range_are_counted(
    node: Store, launching: str, range: str, expected: dict[str, int]
) -> None:  # fmt: skip
    command = [launching, "ranges", "6"]
    run = profiled(node, command, metrics=["hbm.bw_gbs"], range=range, launches=2, budget_s=60, timeout_s=240)
    assert run.result.state == "done", (run.result.problem, run.result.output, run.result.notes)
    found = counted(node, run)
    told(f"range={range}", {"wall_s": run.wall_s, **{str(path): n for path, n in found.items()}})
    assert found == expected
    assert not any("skipped" in warning.lower() for warning in run.result.warnings), run.result.warnings


def test_a_range_holds_what_another_thread_launches_for_it(node: Store, launching: str) -> None:
    command = [launching, "ranges", "6"]
    run = profiled(node, command, metrics=["hbm.bw_gbs"], range="step", launches=12, budget_s=60, timeout_s=240)
    assert run.result.state == "done", (run.result.problem, run.result.output, run.result.notes)
    found = counted(node, run)
    told("range=step", {"wall_s": run.wall_s, **{str(path): n for path, n in found.items()}})
    scope = subprocess.run(["ncu", "--help"], capture_output=True, text=True, timeout=60).stdout
    of_threads = found.get("step", 0)
    if "--nvtx-push-pop-scope" in scope:
        assert of_threads == 6, "launches of the second thread"
    rows = records(compute_metrics(node, str(run.result.workload), ["hbm.bw_gbs"], by="range").table)
    told("by range", {row["range"]: row["avg"] for row in rows})
    assert {"step", "step/forward [1/2]"} <= {row["range"] for row in rows if row["avg"]}


def test_a_range_that_is_not_there_is_told_with_near_names(node: Store, launching: str) -> None:
    run = profiled(node, [launching, "ranges", "2"], metrics=["hbm.bw_gbs"], range="stop", timeout_s=240)
    assert run.result.state == "failed" and "step" in (run.result.problem or "")


def test_kernels_of_a_graph_are_counted(node: Store, launching: str) -> None:
    run = profiled(node, [launching, "graph", "4"], metrics=["hbm.bw_gbs"], budget_s=60, timeout_s=240)
    sql = 'SELECT count("dram__bytes_read.sum"), count(*) FROM counters'
    found = asked(node, run.result.workload, sql) if run.result.workload else None
    told("graph with counters", {"wall_s": run.wall_s, "counted, launches": found, "problem": run.result.problem})
    assert run.result.state == "done", (run.result.problem, run.result.output)
    assert found is not None and found[0][1] == 20 and found[0][0] > 0


def test_a_request_is_plain_to_another_version(launching: str) -> None:
    """What is asked of the installed ncu is in its own help."""
    known = subprocess.run(["ncu", "--help"], capture_output=True, text=True, timeout=60).stdout
    ncu = registry.profiler("ncu")
    request = replace(
        ProfileRequest((launching,), (("dram__bytes_read.sum",),), replay="kernel", target="sm_90"), range="step"
    )
    (step,) = ncu.steps(request, ncu.features(known, ""), program="ncu", out="out")
    options = {word for word in step.argv[: step.argv.index("--")] if word.startswith("--")}
    assert {option for option in options if option not in known} == set()
