"""The wall time of a step before and after a change: ratio, interval and verdict, where both have the same steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.comparison.timeline_changes import StepChange, change
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.timelines import Made, chrome, publish
from rooflens.tools.compare_workloads import CompareResult, compare_workloads
from rooflens.tools.import_profile import import_profile

US, MS = 1_000, 1_000_000


def program(steps: int, copies: int, name: str | None = "step", kernel_us: int = 400) -> Made:
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


def changed(folder: Path, before: Made, after: Made) -> StepChange | None:
    store = Store(folder)
    for name, made in (("before", before), ("after", after)):
        publish(store, made, name)
    with Workload.open(store, "before") as one, Workload.open(store, "after") as other:
        whole = change(one, other)
        assert whole is not None
        return whole.steps


def test_steps_without_copies_are_improved_by_their_ratio_with_an_interval(tmp_path: Path) -> None:
    steps = changed(tmp_path, program(40, 4), program(40, 0))
    assert steps is not None and (steps.name, steps.verdict, steps.doubt) == ("step", "improved", None)
    before, after = (520 + 4 * 4020), 520
    assert steps.effect.speedup == pytest.approx(before / after, rel=2e-2)
    assert steps.effect.low is not None and steps.effect.high is not None
    assert steps.effect.low <= steps.effect.speedup <= steps.effect.high and steps.effect.n == (39, 39)


def test_the_opposite_change_is_a_regression_and_equal_steps_are_inconclusive(tmp_path: Path) -> None:
    slower = changed(tmp_path / "slower", program(20, 0), program(20, 1))
    same = changed(tmp_path / "same", program(20, 1), program(20, 1))
    assert slower is not None and slower.verdict == "regressed"
    assert same is not None and same.verdict == "inconclusive" and same.effect.speedup == 1


def test_steps_of_other_names_and_unequally_many_repetitions_of_a_kernel_are_not_compared(tmp_path: Path) -> None:
    assert changed(tmp_path / "names", program(20, 1, "train_step"), program(20, 0, "eval_step")) is None
    assert changed(tmp_path / "number", program(20, 1, None), program(30, 0, None)) is None


def test_equally_many_repetitions_of_a_kernel_that_cover_the_device_are_compared(tmp_path: Path) -> None:
    steps = changed(tmp_path, program(20, 1, None), program(20, 0, None))
    assert steps is not None and steps.verdict == "improved"
    assert steps.effect.speedup == pytest.approx((520 + 4020) / 520, rel=2e-2)


def test_times_of_an_incomplete_trace_give_no_verdict(tmp_path: Path) -> None:
    lost = program(40, 0)
    kernels = [e for e in lost.events if e["kind"] == "kernel"]
    lost.events = [e for e in lost.events if e not in kernels[10:20]]
    steps = changed(tmp_path, program(40, 4), lost)
    assert steps is not None and steps.doubt and steps.verdict == "inconclusive"
    assert steps.effect.verdict == "improved", "the ratio is shown"


@pytest.fixture
def recorded(shared: Path, tmp_path: Path) -> Store:
    """A recorded trace, and the same one at twenty times the speed."""
    path = shared / "traces" / "pageable.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    store = Store(tmp_path)
    import_profile(store, str(path), name="before")
    made = chrome(path)
    scale = 20
    for row in (*made.events, *made.ranges):
        row["start_ns"], row["end_ns"] = row["start_ns"] // scale, row["end_ns"] // scale
    publish(store, made, "after", vendor="nvidia")
    return store


def test_of_recorded_traces_the_answer_states_the_wall_time_of_a_step(recorded: Store) -> None:
    with Workload.open(recorded, "before") as one, Workload.open(recorded, "after") as other:
        whole = change(one, other)
    assert whole is not None and whole.steps is not None
    assert whole.steps.verdict == "improved" and whole.steps.effect.speedup == pytest.approx(20, rel=1e-3)


def compared(folder: Path, **asked: str) -> CompareResult:
    """The answer about two PyTorch traces of the same kernels, in which a step lost its copies."""
    from rooflens.tests.tools.profiles.chrome.made import complete, trace, write

    store = Store(folder / "store")
    for name, copies in (("before", 20), ("after", 1)):
        events = []
        length = 1000.0 + 5000.0 * copies
        for step in range(30):
            t, device = 1000.0 + step * length, {"device": 0, "stream": 7}
            events += [
                complete("user_annotation", "step", t, length - 1),
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
    return compare_workloads(store, "before", "after", **asked)


def test_the_verdict_is_that_of_the_steps_although_the_kernels_did_not_change(tmp_path: Path) -> None:
    """A step fell from 101 to 6 ms while the same kernel ran; the kernel alone says nothing."""
    result = compared(tmp_path)
    assert result.verdict == "improved" and result.steps is not None
    (row,) = [dict(zip(result.steps.columns, row, strict=True)) for row in result.steps.rows]
    assert (row["baseline_ms"], row["candidate_ms"], row["verdict"]) == (101, 6, "improved")
    assert row["low"] <= row["speedup"] <= row["high"] and row["speedup"] == pytest.approx(101 / 6, rel=1e-3)
    assert str(result.answer).startswith("Wall time of a step: improved, 101 ms -> 6 ms, speed-up x 16.83")
    assert "To be published only after a check that both do the same work." in str(result.answer)
    verdicts = [row[result.kernels.columns.index("verdict")] for row in result.kernels.rows]
    assert verdicts == ["inconclusive"]


def test_equal_steps_are_stated_after_the_kernels(tmp_path: Path) -> None:
    compared(tmp_path)
    result = compare_workloads(Store(tmp_path / "store"), "before", "before")
    assert result.verdict == "inconclusive" and "Wall time of a step: inconclusive, 101 ms -> 101 ms" in str(
        result.answer
    )
    assert not str(result.answer).startswith("Wall time")


def test_who_asks_for_a_kernel_gets_its_verdict(tmp_path: Path) -> None:
    result = compared(tmp_path, kernel="solve")
    assert result.verdict == "inconclusive" and "Wall time of a step" not in str(result.answer)
    assert result.steps is not None
