"""The wall time of a step before and after a change: ratio, interval and verdict, where both have the same steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.comparison.timeline_changes import SPAN, StepChange, WallTimeChange, change
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import launches, workload
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.timelines import Made, chrome, publish
from rooflens.tools.compare_workloads import CompareResult, compare_workloads
from rooflens.tools.import_profile import import_profile

US, MS = 1_000, 1_000_000


def program(steps: int, copies: int, name: str | None = "train_step", kernel_us: int = 400) -> Made:
    """Steps of one kernel and copies of 4 ms each, after which nothing runs for about 100 us."""
    made, t = Made(), 0
    for number in range(steps):
        begun = t
        made.launch("solve", (t, t + 5 * US), (t + 10 * US, t + (10 + kernel_us + number % 3) * US))
        t += (20 + kernel_us) * US
        for _ in range(copies):
            made.copy("d2h", (t, t + 5 * US), (t + 10 * US, t + 10 * US + 4 * MS), pinned=False)
            t += 4 * MS + 20 * US
        t += (95 + 7 * number % 11) * US
        if name:
            made.range(name, begun, t - US)
    return made


def whole_change(folder: Path, before: Made, after: Made) -> WallTimeChange:
    store = Store(folder)
    for name, made in (("before", before), ("after", after)):
        publish(store, made, name)
    with Workload.open(store, "before") as one, Workload.open(store, "after") as other:
        whole = change(one, other)
        assert whole is not None
        return whole


def changed(folder: Path, before: Made, after: Made) -> StepChange:
    return whole_change(folder, before, after).steps


def test_steps_without_copies_are_improved_by_their_ratio_with_an_interval(tmp_path: Path) -> None:
    steps = changed(tmp_path, program(20, 4), program(20, 0))
    assert (steps.name, steps.verdict, steps.doubt) == ("train_step", "improved", None)
    before, after = (520 + 4 * 4020), 520
    assert steps.effect.speedup == pytest.approx(before / after, rel=2e-2)
    assert steps.effect.low is not None and steps.effect.high is not None
    assert steps.effect.low <= steps.effect.speedup <= steps.effect.high and steps.effect.n == (19, 19)


def test_the_opposite_change_is_a_regression_and_equal_steps_are_inconclusive(tmp_path: Path) -> None:
    slower = changed(tmp_path / "slower", program(10, 0), program(10, 1))
    same = changed(tmp_path / "same", program(10, 1), program(10, 1))
    assert slower.verdict == "regressed"
    assert same.verdict == "inconclusive" and same.effect.speedup == 1


@pytest.mark.parametrize(("one", "other"), [("train_step", "eval_step"), (None, None)])
def test_without_certain_steps_the_time_from_first_to_last_work_is_compared(
    tmp_path: Path, one: str | None, other: str | None
) -> None:
    """A kernel that repeats equally often on both sides may be a part of a step."""
    whole = whole_change(tmp_path, program(20, 1, one), program(20, 0, other))
    steps, effect = whole.steps, whole.steps.effect
    assert (steps.name, steps.verdict, steps.beyond_noise) == (SPAN, "inconclusive", True)
    assert (effect.baseline_ns, effect.candidate_ns) == (whole.before, whole.after) == (90_682_000, 10_283_000)
    assert (effect.low, effect.high, effect.n) == (None, None, (1, 1)), "one run of each side has no interval"
    parts = {part.name: part for part in whole.parts}
    assert whole.parts[0].name == "copies alone" and parts["copies alone"].delta == -20 * 4 * MS
    assert sum(part.delta for part in whole.parts) == pytest.approx(whole.after - whole.before)


def test_the_span_leaves_out_start_up_and_shut_down(tmp_path: Path) -> None:
    """The host runs for a second before and after the device's work in one version and does not in the other."""
    slow = program(20, 0, None)
    for row in slow.events:
        row["start_ns"], row["end_ns"] = row["start_ns"] + 1000 * MS, row["end_ns"] + 1000 * MS
    slow.host("hipInit", 0, 900 * MS)
    slow.host("hipDeviceReset", 1100 * MS, 2000 * MS)
    whole = whole_change(tmp_path, slow, program(20, 0, None))
    assert whole.before == whole.after == 10_283_000
    assert not whole.steps.beyond_noise
    assert not {"idle: start_up", "idle: shut_down"} & {part.name for part in whole.parts}


@pytest.mark.parametrize(("kernel_us", "beyond"), [(470, True), (440, False)])
def test_single_runs_differ_by_chance_up_to_the_noise_floor_of_15_percent(
    tmp_path: Path, kernel_us: int, beyond: bool
) -> None:
    steps = changed(tmp_path, program(20, 0, None, kernel_us), program(20, 0, None, 380))
    assert steps.effect.speedup == pytest.approx({470: 1.18, 440: 1.12}[kernel_us], rel=1e-2)
    assert steps.beyond_noise is beyond and steps.verdict == "inconclusive"


def test_times_of_an_incomplete_trace_give_no_verdict(tmp_path: Path) -> None:
    lost = program(20, 0)
    kernels = [e for e in lost.events if e["kind"] == "kernel"]
    lost.events = [e for e in lost.events if e not in kernels[5:10]]
    steps = changed(tmp_path, program(20, 4), lost)
    assert steps.doubt and steps.verdict == "inconclusive"
    assert steps.effect.verdict == "improved", "the ratio is shown"


@pytest.fixture
def recorded(shared: Path, tmp_path: Path) -> Store:
    """A recorded trace, and the same one at twenty times the speed."""
    path = shared / "traces" / "pageable.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    store = Store(tmp_path)
    stored(store, path, "before")
    made = chrome(path)
    scale = 20
    for row in (*made.events, *made.ranges):
        row["start_ns"], row["end_ns"] = row["start_ns"] // scale, row["end_ns"] // scale
    publish(store, made, "after", vendor="nvidia")
    return store


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two PyTorch traces of the same kernels, in which a step lost its copies."""
    from rooflens.tests.made.chrome import complete, trace, write

    folder = tmp_path_factory.mktemp("traced")
    store = Store(folder / "store")
    for name, copies in (("before", 20), ("after", 1)):
        events = []
        length = 1000.0 + 5000.0 * copies
        for step in range(30):
            t, device = 1000.0 + step * length, {"device": 0, "stream": 7}
            events += [
                complete("user_annotation", "train_step", t, length - 1),
                complete("cuda_runtime", "cudaLaunchKernel", t + 1, 5.0, args={"correlation": 100 * step}),
                complete("kernel", "solve", t + 10, 700.0 + step % 3, pid=0,
                         args={**device, "correlation": 100 * step, "grid": [8, 1, 1], "block": [64, 1, 1]}),
            ]  # fmt: skip
            for i in range(copies):
                at, number = t + 800 + 5000.0 * i, 100 * step + i + 1
                call = complete("cuda_runtime", "cudaMemcpyAsync", at, 5.0, args={"correlation": number})
                copy = {**device, "correlation": number, "bytes": 1 << 20}
                moved = complete("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 6, 4900.0, pid=0, args=copy)
                events += [call, moved]
        import_profile(store, str(write(folder / f"{name}.json", trace(events))), name=name)
    return store


def test_the_verdict_is_that_of_the_steps_although_the_kernels_did_not_change(traced: Store) -> None:
    """A step fell from 101 to 6 ms while the same kernel ran; the kernel alone says nothing."""
    result = compare_workloads(traced, "before", "after")
    assert result.verdict == "improved" and result.steps is not None
    (row,) = [dict(zip(result.steps.columns, row, strict=True)) for row in result.steps.rows]
    assert (row["baseline_ms"], row["candidate_ms"], row["verdict"]) == (101, 6, "improved")
    assert row["low"] <= row["speedup"] <= row["high"] and row["speedup"] == pytest.approx(101 / 6, rel=1e-3)
    assert str(result.answer).startswith("Wall time of a step: improved, 101 ms -> 6 ms, speed-up x 16.83")
    assert "To be published only after a check that both do the same work." in str(result.answer)
    verdicts = [row[result.kernels.columns.index("verdict")] for row in result.kernels.rows]
    assert verdicts == ["inconclusive"]


def test_who_asks_for_a_kernel_gets_its_verdict(traced: Store) -> None:
    result = compare_workloads(traced, "before", "after", kernel="solve")
    assert result.verdict == "inconclusive" and "Wall time of a step" not in str(result.answer)
    assert result.steps is not None


def transfers(path: Path, copies: int, copy_ms: float, count: int = 50) -> Path:
    """A PyTorch trace of launches of 90 ms, one every 94 ms, and of copies after them, without ranges."""
    from rooflens.tests.made.chrome import complete, trace, write

    device, events = {"device": 0, "stream": 7}, []
    at = 1000.0
    for number in range(count + copies):
        call, begun = {"correlation": number}, at + 20
        if number < count:
            shape = {**device, **call, "grid": [8, 1, 1], "block": [64, 1, 1]}
            events.append(complete("cuda_runtime", "cudaLaunchKernel", at, 5.0, args=call))
            events.append(complete("kernel", "solve", begun, 90_000.0 + 40 * (number % 5), pid=0, args=shape))
            at += 94_000
        else:
            moved = {**device, **call, "bytes": 1 << 20}
            events.append(complete("cuda_runtime", "cudaMemcpyAsync", at, 5.0, args=call))
            words = "Memcpy DtoH (Device -> Pageable)"
            events.append(complete("gpu_memcpy", words, begun, 1000 * copy_ms, pid=0, args=moved))
            at += 1000 * copy_ms
    return write(path, trace(events))


def transferred(folder: Path, *sides: Path) -> CompareResult:
    store = Store(folder / "store")
    for path in sides:
        import_profile(store, str(path), name=path.stem)
    return compare_workloads(store, sides[0].stem, sides[1].stem)


def test_the_answer_begins_with_the_time_of_the_program(tmp_path: Path) -> None:
    """200 copies of 131 ms became 3 of 113 ms while the same 50 launches ran."""
    sides = transfers(tmp_path / "item.json", 200, 131), transfers(tmp_path / "batch.json", 3, 113.33)
    result = transferred(tmp_path, *sides)
    answer = str(result.answer)
    assert answer.startswith(
        "Time between first and last work of the device: 30.9 -> 5.04 s, x 6.13, one run of each (no interval); "
        "most of it: copies alone 26.2 -> 0.34 s. To be published only after a check that both do the same work. "
        "solve: inconclusive"
    )
    assert (result.verdict, result.only_in_baseline) == ("inconclusive", [])
    assert result.steps is not None
    (row,) = [dict(zip(result.steps.columns, row, strict=True)) for row in result.steps.rows]
    assert (row["step"], row["verdict"], row["status"], row["n"]) == (SPAN, "inconclusive", "ok", "1, 1")
    assert (row["low"], row["high"], row["reason"]) == (None, None, "no interval: one run of each side")
    assert row["speedup"] == pytest.approx(6.131, rel=1e-3) and row["baseline_ms"] == pytest.approx(30_900, rel=1e-3)


def test_other_launches_make_the_times_comparable_only_for_the_same_work(tmp_path: Path) -> None:
    sides = transfers(tmp_path / "all.json", 3, 100, 50), transfers(tmp_path / "half.json", 3, 100, 25)
    answer = str(transferred(tmp_path, *sides).answer)
    assert answer.startswith("Time between first and last work of the device: 5 -> 2.65 s, x 1.89, one run of each")
    assert "Their launches differ: these times are comparable only if both did the same work. solve:" in answer


def test_a_kernel_that_only_one_side_has_and_that_takes_most_of_its_time_is_named_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = {"sync_item": (("busy_wait", 8.2e6), ("gemm", 1.8e6)), "batch": (("gemm", 1.8e6), ("pack_rows", 0.2e6))}
    for name, kernels in rows.items():
        workload(store, [row for kernel, ns in kernels for row in launches(kernel, [ns] * 5)], name=name)
    answer = str(compare_workloads(store, "sync_item", "batch").answer)
    first = "busy_wait takes 82 % of the kernels' time of sync_item and is only there. "
    assert answer.startswith(f"{first}Not to be published as a difference. gemm: ") and "pack_rows" not in answer
    back = str(compare_workloads(store, "batch", "sync_item").answer)
    assert back.startswith(first)
