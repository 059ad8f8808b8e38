"""Windows of verdicts: steps are what the program calls so, or what covers the device's time; the claim names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import MS, US, told


def layers(count: int, start: int, made: Made | None = None) -> Made:
    """A forward pass: per layer a GEMM, an attention and a norm, which are launched without pauses."""
    made = made or Made()
    for layer in range(count):
        t = start + layer * 300 * US
        for at, name in enumerate(("gemm", "attention", "norm")):
            made.launch(name, (t + at * 100 * US, t + (at * 100 + 5) * US),
                        (t + (at * 100 + 6) * US, t + (at * 100 + 99) * US))  # fmt: skip
    return made


def one_forward_pass_among_pauses() -> Made:
    """As in a decode trace: 465 ms in which one kernel ran before, then one graph of 36 layers."""
    made = Made()
    made.launch("arange", (0, 10 * US), (20 * US, 25 * US))
    call = made.host("hipGraphLaunch", 464 * MS, 464 * MS + 20 * US)
    for node in range(3 * 36):
        t = 464 * MS + 30 * US + node * 90 * US
        made.add("kernel", ("gemm", "attention", "norm")[node % 3], t, t + 88 * US, device_id=0, stream=7,
                 correlation=call)  # fmt: skip
    return made


def test_layers_of_one_forward_pass_are_no_steps_and_the_pause_is_the_verdict(tmp_path: Path) -> None:
    analysed = told(tmp_path, one_forward_pass_among_pauses())
    assert analysed.selected == "work" and not (analysed.steps and analysed.steps.usable)
    assert analysed.idle_pct > 97 and analysed.verdict.height != "gpu"
    assert "% of the time between its first and last work (473.7 ms)" in analysed.findings[0].claim


@pytest.mark.parametrize("annotated", [True, False])
def test_layers_that_are_followed_by_other_kernels_are_no_steps_after_a_setup(tmp_path: Path, annotated: bool) -> None:
    made = Made()
    made.launch("embed", (0, 5 * US), (10 * US, 30 * US))
    if annotated:
        made.range("step[EXTEND bs=1 toks=512]", 0, 22 * MS)
    layers(36, 11 * MS, made)
    t = 11 * MS + 36 * 300 * US
    made.launch("head", (t, t + 5 * US), (t + 6 * US, t + 99 * US))
    analysed = told(tmp_path, made)
    assert analysed.selected == "work" and not (analysed.steps and analysed.steps.usable)
    assert (analysed.verdict.height, round(analysed.idle_pct)) == ("host", 54)


def test_steps_that_follow_a_setup_until_the_end_leave_it_out_without_certainty(tmp_path: Path) -> None:
    """What comes before is start-up, and no limit of a program that then works steadily."""
    made = Made()
    made.launch("setup", (0, 5 * US), (10 * US, 30 * US))
    analysed = told(tmp_path, layers(36, 11 * MS, made))
    assert (analysed.verdict.height, analysed.verdict.confidence) == ("gpu", 0.5)
    assert analysed.findings[0].claim == (
        "The GPU executes kernels for 93.0 % of 35 repetitions (10.5 ms; the program needs 11 ms before that)."
    )


def test_repetitions_that_differ_from_the_work_around_them_come_second(tmp_path: Path) -> None:
    """As 16 levels of a solver in the middle of a program that is busy half of the time."""
    made = Made()
    for i, kernel in enumerate("abcdefgh"):
        made.launch(kernel, (i * 2 * MS, i * 2 * MS + 5 * US), (i * 2 * MS + 10 * US, i * 2 * MS + 200 * US))
    for i in range(16):
        t = 16 * MS + i * 2 * MS
        made.range(f"Level {i}", t, t + 1900 * US)
        made.launch("solve", (t, t + 5 * US), (t + 10 * US, t + 1990 * US))
    for i, kernel in enumerate("abcdefgh"):
        t = 48 * MS + i * 300 * US
        made.launch(kernel, (t, t + 5 * US), (t + 10 * US, t + 200 * US))
    analysed = told(tmp_path, made)
    assert analysed.selected == "work" and analysed.verdict.confidence <= 0.5
    first, second = analysed.findings[0].claim.split(". The GPU")
    assert "of the time between its first and last work (50.29 ms)" in first
    assert (
        second == " executes kernels for 99.0 % of 15 repetitions of 'Level #' (30 ms). They take 59.7 % of that time."
    )


@pytest.mark.parametrize("iterations", [2, 3])
def test_iterations_that_the_profiler_numbers_beat_the_layers_in_them(tmp_path: Path, iterations: int) -> None:
    """Two are too few for a steady state, but layers must not take their place."""
    made = Made()
    for i in range(iterations):
        made.range(f"ProfilerStep#{i}", i * 12 * MS, (i + 1) * 12 * MS)
        layers(36, i * 12 * MS, made)
    analysed = told(tmp_path, made)
    assert analysed.steps is not None and analysed.steps.certain
    assert (analysed.steps.name, analysed.steps.durations) == ("ProfilerStep#", [12 * MS] * (iterations - 1))
    assert analysed.selected == ("work" if iterations == 2 else "steady")


def test_nothing_inside_a_single_step_is_a_step(tmp_path: Path) -> None:
    """As in a trace of dlrm: waits for collectives repeat three times in the only step of the profiler."""
    made = Made()
    made.range("ProfilerStep#10", 0, 30 * MS)
    for i in range(3):
        t = i * 8 * MS
        made.range("## NoWait wait() ##", t, t + 7 * MS)
        made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + 7900 * US))
    analysed = told(tmp_path, made)
    assert analysed.steps is None and analysed.selected == "work"


def test_functions_of_python_with_the_name_of_a_step_do_not_divide_it(tmp_path: Path) -> None:
    made = Made()
    for i in range(6):
        t = i * 8 * MS
        made.range("step", t, t + 8 * MS)
        for k, kernel in enumerate(("gemm", "norm")):
            at = t + 4 * k * MS
            made.range("step", at, at + 4 * MS, depth=1, source="python")
            made.launch(kernel, (at, at + 5 * US), (at + 10 * US, at + 3900 * US))
    steps = told(tmp_path, made).steps
    assert steps is not None and steps.durations == [8 * MS] * 5


@pytest.mark.parametrize("part", ["nccl:all_reduce", "cub::DeviceSelect::Unique", "## forward wait() ##", "solve"])
def test_parts_of_a_step_are_no_steps_even_if_they_repeat_evenly(tmp_path: Path, part: str) -> None:
    """Kernels that differ from one to the next leave nothing else that repeats."""
    made = Made()
    for i in range(5):
        t = i * 8 * MS
        made.range(part, t, t + 7 * MS)
        made.launch(f"gemm{'abcde'[i]}", (t, t + 5 * US), (t + 10 * US, t + 7900 * US))
    steps = told(tmp_path, made).steps
    assert (steps is not None and steps.certain) == (part == "solve")


def test_optimizer_steps_are_steps_only_where_no_range_contains_them(tmp_path: Path) -> None:
    for outer, name in ((None, "Optimizer.step#Adam.step"), ("train_step", "train_step")):
        made = Made()
        for i in range(6):
            t = i * 4 * MS
            made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + 1900 * US))
            if outer:
                made.range(outer, t, t + 4 * MS)
            made.range("Optimizer.step#Adam.step", t + 2 * MS, t + 3 * MS, depth=1)
            made.launch("adam", (t + 2 * MS, t + 2 * MS + 5 * US), (t + 2 * MS + 10 * US, t + 2900 * US))
        steps = told(tmp_path / name, made).steps
        assert steps is not None and steps.certain
        assert (steps.name, steps.durations) == (name, [4 * MS] * 5)


@pytest.mark.parametrize("calls", [True, False])
def test_ranges_called_step_win_over_three_equal_kernels_in_each(tmp_path: Path, calls: bool) -> None:
    """Without host calls, a step begins with the first kernel that starts in its range."""
    made = Made()
    for i in range(8):
        t = i * 4 * MS
        made.range("step", t, t + 3900 * US)
        for k in range(3):
            made.launch("gemm", (t + k * MS, t + k * MS + 5 * US), (t + k * MS + 10 * US, t + k * MS + 900 * US))
    if not calls:
        made.events = [e for e in made.events if e["kind"] == "kernel"]
    steps = told(tmp_path, made).steps
    assert steps is not None and (steps.by, steps.name) == ("range", "step")
    assert steps.durations == [4 * MS] * 7


def test_steps_of_uneven_length_are_steps_if_the_program_calls_them_so(tmp_path: Path) -> None:
    made, t = Made(), 0
    for length in (3, 15, 5, 20, 1, 9, 12, 2):
        made.range("train_step", t, t + length * MS)
        for k in range(length):
            start = t + k * MS
            made.launch("gemm", (start, start + 5 * US), (start + 10 * US, start + 900 * US))
        t += length * MS
    steps = told(tmp_path, made).steps
    assert steps is not None and steps.name == "train_step" and len(steps.durations) == 7


def test_a_replay_of_a_graph_is_one_step_however_often_its_kernels_repeat(tmp_path: Path) -> None:
    made = Made()
    for i in range(6):
        t = i * 5 * MS
        call = made.host("hipGraphLaunch", t, t + 20 * US)
        for node in range(40):
            start = t + 25 * US + node * 120 * US
            made.add("kernel", ("gemm", "norm")[node % 2], start, start + 110 * US, device_id=0, stream=7,
                     correlation=call)  # fmt: skip
    steps = told(tmp_path, made).steps
    assert steps is not None and steps.by == "kernels" and not steps.certain
    assert steps.durations == [5 * MS] * 5


def test_a_moment_of_work_in_a_long_trace_gives_no_confident_verdict(tmp_path: Path) -> None:
    made = Made()
    made.host("cudaMalloc", 0, 900 * MS)
    made.launch("k", (900 * MS, 900 * MS + 5 * US), (900 * MS + 10 * US, 901 * MS))
    analysed = told(tmp_path, made)
    assert analysed.verdict.confidence == 0.5 and analysed.verdict.speedup_bound is None


def test_steps_whose_lengths_differ_much_are_repetitions(tmp_path: Path) -> None:
    """Two reductions per step of a profile: 214 to 387 ms between them are no step time."""
    for lengths, certain in (((10, 11, 12, 10, 11), True), ((10, 18, 10, 18, 10), False)):
        made, t = Made(), 0
        for length in (*lengths, 10):
            made.range("step", t, t + length * MS)
            made.launch("gemm", (t, t + 5 * US), (t + 10 * US, t + length * MS - 10 * US))
            t += length * MS
        analysed = told(tmp_path / str(certain), made)
        assert analysed.steps is not None and analysed.steps.certain == certain
        word = "4 steady steps" if certain else "5 repetitions"
        assert word[1:] in analysed.findings[0].claim
