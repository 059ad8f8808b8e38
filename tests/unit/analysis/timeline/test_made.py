"""Made timelines, each with one known cause: verdicts, shares of idle time, steps, several devices and processes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput, NotFound
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish, union

US, MS = 1_000, 1_000_000


def told(tmp_path: Path, made: Made, **asked: object) -> Timeline:
    store = Store(tmp_path)
    with Workload.open(store, publish(store, made)) as workload:
        return timeline(workload, TimelineRequest(**asked))  # type: ignore[arg-type]


def shares(found: Timeline) -> dict[str, float]:
    return {idle.cause: 100 * idle.ns / found.total.wall for idle, _ in found.causes}


def sync_per_operation() -> Made:
    """Each launch is waited for; the next follows 20 us after the wait."""
    made, t = Made(), 0
    for i in range(300):
        made.launch(f"k{i % 3}", (t, t + 5 * US), (t + 8 * US, t + 38 * US))
        made.host("hipStreamSynchronize", t + 6 * US, t + 45 * US)
        t += 65 * US
    return made


def allocation() -> Made:
    """hipMalloc and hipFree around every launch, of 200 us each; a call within the first one counts once."""
    made, t = Made(), 0
    for i in range(100):
        made.host("hipMalloc", t, t + 200 * US)
        made.host("hsa_amd_memory_pool_allocate", t + 20 * US, t + 180 * US)
        made.launch(f"k{i % 2}", (t + 205 * US, t + 210 * US), (t + 215 * US, t + 300 * US))
        made.host("hipFree", t + 212 * US, t + 400 * US)
        t += 405 * US
    return made


def graph() -> Made:
    """One graph launch a step, for fifty kernels with 1 us between them."""
    made, t = Made(), 0
    for _ in range(20):
        number = made.host("hipGraphLaunch", t, t + 20 * US)
        start = t + 25 * US
        for i in range(50):
            made.add("kernel", f"k{i}", start, start + 19 * US, device_id=0, stream=7, correlation=number)
            start += 20 * US
        t += 1000 * US
    return made


def overlapped() -> Made:
    """Copies on a stream of their own, all behind kernels."""
    made, t = Made(), 0
    for i in range(40):
        made.launch(f"k{i % 2}", (t, t + 5 * US), (t + 10 * US, t + 1005 * US))
        made.copy("h2d", (t + 6 * US, t + 9 * US), (t + 20 * US, t + 900 * US), pinned=True)
        t += 1000 * US
    return made


def small_batches() -> Made:
    """Kernels of 3 us, one every 15 us."""
    made, t = Made(), 0
    for i in range(2000):
        made.launch(f"k{i % 10}", (t, t + 5 * US), (t + 6 * US, t + 9 * US))
        t += 15 * US
    return made


def unbalanced() -> Made:
    """Two ranks; the second computes a fifth of the time and waits in the all-reduce for the first."""
    made, t = Made(), 0
    for _ in range(20):
        for rank, busy in ((0, 10 * MS), (1, 2 * MS)):
            own = {"rank": rank, "pid": 100 + rank, "device_id": 0}
            made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + busy), **own)
            made.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (t + 6 * US, t + 9 * US),
                        (t + busy + 5 * US, t + 10 * MS + 500 * US), **own)  # fmt: skip
        t += 11 * MS - 490 * US
    return made


def exposed_all_reduce() -> Made:
    """Two ranks in step: 4 ms of computing, then 6 ms of all-reduce with nothing beside it."""
    made, t = Made(), 0
    for _ in range(20):
        for rank in (0, 1):
            own = {"rank": rank, "pid": 100 + rank, "device_id": rank}
            made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + 4 * MS), **own)
            made.launch("rcclAllReduceKernel", (t + 6 * US, t + 9 * US), (t + 4 * MS + US, t + 10 * MS), **own)
        t += 10 * MS
    return made


def pipeline() -> Made:
    """The host reads a batch for 20 ms, then the device works for 3."""
    made, t = Made(), 0
    for _ in range(8):
        made.range("step", t, t + 23 * MS)
        made.range("read batch", t, t + 20 * MS, depth=1, path="step/read batch")
        made.launch("conv", (t + 20 * MS, t + 20 * MS + 5 * US), (t + 20 * MS + 10 * US, t + 23 * MS))
        t += 23 * MS
    return made


def waits_for_messages() -> Made:
    """One rank that receives for 6 ms, then computes for 3."""
    made, t = Made(), 0
    for _ in range(20):
        made.host("MPI_Waitall", t, t + 6 * MS, category="mpi")
        made.launch("stencil", (t + 6 * MS, t + 6 * MS + 5 * US), (t + 6 * MS + 10 * US, t + 9 * MS))
        t += 9 * MS
    return made


CASES: dict[str, tuple[Callable[[], Made], str]] = {
    "sync per operation": (sync_per_operation, "synchronisation"),
    "allocation": (allocation, "allocation"),
    "graph": (graph, "gpu"),
    "overlapped": (overlapped, "gpu"),
    "small batches": (small_batches, "launch"),
    "unbalanced": (unbalanced, "communication"),
    "exposed all-reduce": (exposed_all_reduce, "communication"),
    "messages": (waits_for_messages, "communication"),
    "pipeline": (pipeline, "host"),
}


@cache
def analysed_case(case: str) -> tuple[Made, Timeline]:
    """A timeline of CASES and what is told about it; several tests look at each."""
    made = CASES[case][0]()
    with tempfile.TemporaryDirectory() as folder:
        return made, told(Path(folder), made)


@pytest.mark.parametrize("case", CASES)
def test_verdict_and_shares_are_those_of_the_cause_that_was_built_in(case: str) -> None:
    made, found = analysed_case(case)
    assert found.verdict.height == CASES[case][1], shares(found)
    assert sum(idle.ns for idle, _ in found.causes) == found.total.idle
    [(start, end)] = found.windows
    for lane in found.trace.lanes:
        mine = [e for e in made.events if e.get("device_id") == lane.device and e.get("rank") == lane.rank]
        both = [(e["start_ns"], e["end_ns"]) for e in mine]
        copies = [(e["start_ns"], e["end_ns"]) for e in mine if e["kind"] == "copy"]
        of = found.lanes[lane.number]
        assert (of.any, of.copies) == (union(both, start, end), union(copies, start, end))
    assert not [doubt for doubt in found.doubts if "events" in doubt.of], "nothing is missing from the trace"
    for finding in found.findings:
        assert len(finding.gains) in (0, len(finding.advice))
        for gain in finding.gains:
            assert gain.upper is None or gain.upper <= (finding.speedup_bound or 1e9) + 1e-9
            assert gain.expected is None or gain.upper is None or gain.expected <= gain.upper + 1e-9


def test_copies_behind_kernels_are_not_idle_and_calls_within_calls_count_once() -> None:
    # Of each 405 us, 200 of hipMalloc and the 100 of hipFree that follow the kernel.
    assert shares(analysed_case("allocation")[1])["allocation"] == pytest.approx(100 * 300 / 405, abs=1)
    total = analysed_case("overlapped")[1].total
    assert total.overlapped_copies == total.copies > 0.8 * total.wall
    assert total.exposed_copies == 0


def test_imbalance_of_devices_without_ranks_names_both(tmp_path: Path) -> None:
    made = unbalanced()
    for event in made.events:
        event["device_id"], event["rank"] = event.pop("rank"), None
    evidence = [text for finding in told(tmp_path, made).findings for text in finding.evidence]
    assert "out of balance: GPU 1 computes 80 % less than GPU 0" in evidence


def test_waits_count_in_all_windows_however_many(tmp_path: Path) -> None:
    shares = []
    for steps in (5, 20):
        made = Made()
        for step in range(steps):
            t = step * MS
            for rank, busy in ((0, 500 * US), (1, 100 * US)):
                own = {"rank": rank, "pid": 100 + rank, "device_id": 0}
                made.range("step", t, t + 900 * US, rank=rank, pid=100 + rank)
                made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + busy), **own)
                made.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (t + 6 * US, t + 9 * US),
                            (t + busy + 5 * US, t + 600 * US), **own)  # fmt: skip
        found = told(tmp_path / str(steps), made, range="step").balance
        assert found
        shares.append(found.waited_pct)
    assert shares[0] and shares[1] == pytest.approx(shares[0])


def test_the_bound_of_communication_is_that_of_even_ranks_and_it_is_no_computing() -> None:
    """10 and 2 ms of computing in steps of 10.5: evened out, each would take 6."""
    _, found = analysed_case("unbalanced")
    assert found.verdict.share_pct == pytest.approx(80.8, abs=0.5)
    assert found.verdict.speedup_bound == pytest.approx(10.51 / 6.0, rel=0.01)
    gpu = next(f for f in analysed_case("exposed all-reduce")[1].findings if f.height == "gpu")
    assert any("gemm" in text for text in gpu.evidence) and not any("rccl" in text for text in gpu.evidence)


def test_a_wait_for_another_stream_is_told_apart_from_the_gap_between_queued_kernels(tmp_path: Path) -> None:
    made = Made()
    for i in range(50):
        t = i * 1000 * US
        made.launch("a", (i * 10 * US, i * 10 * US + 5 * US), (t + 600 * US, t + 700 * US))
        made.launch("b", (i * 10 * US + 5 * US, i * 10 * US + 9 * US), (t + 705 * US, t + 900 * US))
    found = shares(told(tmp_path, made, steady=False))
    assert found["waiting"] > 60 and 0.3 < found["queued"] < 1


def test_code_that_is_loaded_and_graphs_that_are_built_are_causes_of_their_own(tmp_path: Path) -> None:
    made, t = Made(), 0
    for name in ("hipModuleLoadData", "hipGraphInstantiate"):
        for _ in range(4):
            made.host(name, t, t + 5 * MS)
            made.launch("k", (t + 5 * MS, t + 5 * MS + 5 * US), (t + 5 * MS + 10 * US, t + 6 * MS))
            t += 6 * MS
    found = shares(told(tmp_path, made, steady=False))
    assert found["module_load"] == pytest.approx(100 * 3 * 5 / 48, abs=1), "the first one lies before all work"
    assert found["graph"] == pytest.approx(100 * 4 * 5 / 48, abs=1)


def test_without_host_calls_the_cause_is_unknown_and_nothing_is_confident(tmp_path: Path) -> None:
    made = small_batches()
    made.events = [e for e in made.events if e["kind"] == "kernel"]
    found = told(tmp_path, made)
    assert found.verdict.height == "unknown" and found.verdict.confidence == 0
    assert {f["figure"]: f["status"] for f in found.figures}["launch_bound_index"] == "not_collected"
    busy = Made(events=[e for e in graph().events if e["kind"] == "kernel"])
    assert told(tmp_path, busy).verdict.height == "gpu", "a device that is busy needs no host to say so"


def test_warm_up_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    made, t = Made(), 0
    for i in range(10):
        length = 50 * MS if i == 0 else 5 * MS
        made.range(f"iteration {i}", t, t + length)
        made.launch("k", (t, t + 5 * US), (t + 10 * US, t + 4 * MS))
        t += length
    found = told(tmp_path, made)
    assert found.steps is not None and (found.steps.name, found.steps.warm_up) == ("iteration #", 1)
    assert found.wall_ns == 8 * 5 * MS
    assert told(tmp_path, made, steady=False).wall_ns == t


def test_a_range_is_a_window_of_its_own(tmp_path: Path) -> None:
    found = told(tmp_path, pipeline(), range="read batch")
    assert (found.selected, len(found.windows), found.wall_ns) == ("range", 8, 8 * 20 * MS)
    assert found.total.any == 0 and sum(idle.ns for idle, _ in found.causes) == found.wall_ns
    assert told(tmp_path, pipeline(), range="^rea").wall_ns == 8 * 20 * MS, "a pattern works too"
    with pytest.raises(NotFound, match="read batch"):
        told(tmp_path, pipeline(), range="read batsh")


def test_a_range_has_the_work_that_it_launched_and_not_what_runs_while_it_is_open(tmp_path: Path) -> None:
    """The host runs ahead: the backward pass of 70 ms begins on the device when its range is closed."""
    made = Made()
    made.range("step", 0, 100 * MS)
    made.range("forward", 0, 10 * MS, depth=1)
    made.launch("matmul", (1 * MS, 1 * MS + 5 * US), (2 * MS, 30 * MS))
    made.range("backward", 10 * MS, 20 * MS, depth=1)
    for i in range(2):
        asked, begun = (11 + i) * MS, (30 + 35 * i) * MS
        made.launch("gradient", (asked, asked + 5 * US), (begun, begun + 35 * MS))
    analysed = told(tmp_path, made, range="backward")
    assert (analysed.windows, analysed.total.any) == ([Window(30 * MS, 100 * MS)], 70 * MS)
    assert [(k["kernel"], k["calls"], k["ns"]) for k in analysed.kernels] == [("gradient", 2, 70 * MS)]
    parts = {row["range"]: row["device_ns"] for row in told(tmp_path / "all", made).ranges}
    assert parts == {"step": 98 * MS, "forward": 28 * MS, "backward": 70 * MS}


def test_random_timelines_of_streams_devices_and_processes_agree_with_brute_force(tmp_path: Path) -> None:
    dice = random.Random(7)
    made = Made()
    for _ in range(600):
        start = dice.randrange(0, 40 * MS)
        length = dice.choice([0, 1, 500, 20 * US, 400 * US])
        kind, name = dice.choice([("kernel", "gemm"), ("kernel", "ncclKernel"), ("copy", "c"), ("fill", "f")])
        pid = dice.choice([1, 2])
        number = made.host(dice.choice(["hipLaunchKernel", "hipMalloc", "hipDeviceSynchronize"]),
                           max(0, start - dice.randrange(MS)), start + 5, pid=pid,
                           thread=dice.choice([1, 2]))  # fmt: skip
        made.add(kind, name, start, start + length, device_id=dice.choice([0, 1, None]), pid=pid,
                 rank=None, stream=dice.randrange(4), correlation=dice.choice([number, None]),
                 direction="h2d" if kind == "copy" else None)  # fmt: skip
    found = told(tmp_path, made, steady=False)
    [(start, end)] = found.windows
    for lane in found.trace.lanes:
        mine = [
            e for e in made.events if e["kind"] not in ("api", "sync", "alloc") and (e["device_id"] or 0) == lane.device
        ]
        of = found.lanes[lane.number]

        def covered(*kinds: str, talks: tuple[bool, ...] = (True, False), mine: list = mine) -> int:
            chosen = [e for e in mine if e["kind"] in kinds and ("nccl" in e["name"]) in talks]
            return union([(e["start_ns"], e["end_ns"]) for e in chosen], start, end)

        assert of.any == covered("kernel", "copy", "fill")
        assert of.kernels == covered("kernel")
        assert of.computing == covered("kernel", talks=(False,))
        assert of.communication == covered("kernel", talks=(True,))
        assert of.memory == covered("copy", "fill")
        assert (of.copies, of.fills) == (covered("copy"), covered("fill"))
    assert sum(idle.ns for idle, _ in found.causes) == found.total.idle


def test_a_workload_without_a_timeline_or_without_device_work_says_what_to_collect(tmp_path: Path) -> None:
    made = Made()
    made.host("hipMalloc", 0, 5)
    with pytest.raises(BadInput, match="no device work.*sys-trace"):
        told(tmp_path, made)
    with pytest.raises(BadInput, match="no timeline"):
        told(tmp_path, Made())


def test_steps_that_grow_are_told_and_even_ones_are_not(tmp_path: Path) -> None:
    made, t = Made(), 0
    for i in range(8):
        length = 10 * MS + i * 200 * US
        made.launch("k", (t, t + 5 * US), (t + 10 * US, t + length - 10 * US))
        t += length
    grown, even = told(tmp_path, made).steps, analysed_case("pipeline")[1].steps
    assert grown and even and even.drift_pct is None
    assert grown.drift_pct == pytest.approx(100 * (11.1 / 10.1 - 1), rel=0.1)


def test_what_launches_cost_is_suspect_where_there_are_hardly_any(tmp_path: Path) -> None:
    made = Made()
    for i in range(2):
        made.launch("k", (i * MS, i * MS + 5 * US), (i * MS + 10 * US, i * MS + 11 * US))
    found = told(tmp_path, made)
    of = {f["figure"]: f for f in found.figures}
    assert (of["launch_bound_index"]["status"], of["queue_depth"]["status"]) == ("suspect", "suspect")
    assert of["kernels"]["status"] == "ok"
    assert not any("launch-bound index" in line for f in found.findings for line in f.evidence)
