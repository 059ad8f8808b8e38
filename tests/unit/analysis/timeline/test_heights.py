"""What each height of a program could give it, from made timelines whose answer follows by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.heights import Attempt, Heights, attempt_texts, best_attempts, whole_program
from rooflens.analysis.timeline.replay import ProgramChange
from rooflens.analysis.timeline.timeline import timeline
from rooflens.analysis.timeline.verdict import AdviceGain
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

MS = 1_000_000


@contextmanager
def program(tmp_path, made: Made) -> Iterator[Heights]:
    store = Store(tmp_path / "store")
    with Workload.open(store, publish(store, made)) as workload:
        heights = whole_program(workload)
        assert heights is not None
        yield heights


def launched(made: Made, name: str, call: int, start: int, end: int) -> None:
    made.launch(name, (call * MS, call * MS), (start * MS, end * MS))


def queued_kernels() -> Made:
    """Two kernels that follow one another for 80 of 100 ms, and one that the host launches after a wait."""
    made = Made()
    launched(made, "long", 0, 0, 60)
    launched(made, "short", 1, 60, 80)
    made.host("hipStreamSynchronize", 2 * MS, 80 * MS)
    launched(made, "last", 95, 95, 100)
    return made


def test_a_program_gains_from_kernels_as_far_as_it_waits_for_them(tmp_path):
    with program(tmp_path, queued_kernels()) as heights:
        savings = heights.kernel_savings()
        # The short one is requested 1 ms after the long one.
        assert {name: round(100 * saved) for name, saved in savings.items()} == {"long": 59, "short": 20, "last": 5}
        # What remains are the calls until the wait, and the 15 ms of the host after it.
        assert heights.without_kernels == pytest.approx(100 / 17, rel=0.05) and heights.kernels_matter


def test_a_call_that_frees_memory_waits_for_the_kernel_before_it(tmp_path):
    made = Made()
    for start in range(0, 100, 20):
        launched(made, "k", start, start, start + 8)
        made.host("hipFree", (start + 1) * MS, (start + 18) * MS)
    with program(tmp_path, made) as heights:
        assert heights.without_kernels == pytest.approx(88 / 52, rel=0.05), "7 of each 20 ms are its wait"


def test_copies_that_overlap_with_other_work_take_no_time_of_their_own(tmp_path):
    made = Made()
    for start in (0, 50):
        made.copy("HtoD", (0, 1000), (start * MS, (start + 30) * MS))
        launched(made, "k", 0, start + 30, start + 50)
    with program(tmp_path, made) as heights:
        assert heights.speedup(ProgramChange(overlapped=True)) == pytest.approx(100 / 40, rel=0.01)


def test_attempts_have_the_gain_of_the_program_and_more_of_it_together(tmp_path):
    made = Made()
    slow, other = made.stack("load train.py:1"), made.stack("log train.py:2")
    for begin in (10, 110):
        launched(made, "k", begin, begin, begin + 10)
        made.sample(slow, (begin + 10) * MS, (begin + 50) * MS)
        made.sample(other, (begin + 50) * MS, (begin + 100) * MS)
    launched(made, "k", 210, 210, 220)
    store = Store(tmp_path / "store")
    with Workload.open(store, publish(store, made)) as workload:
        analysed = timeline(workload)
        heights = Heights(analysed.trace, analysed.windows, analysed.host, analysed.findings)
        attempts = best_attempts(heights.attempts(), 3)
        assert [one.what for one in attempts] == ["log (train.py:2)", "load (train.py:1)"]
        log, load = (one.gain for one in attempts)
        assert (log.expected, load.expected) == (pytest.approx(200 / 100, 0.01), pytest.approx(200 / 120, 0.01))
        kernel = heights.kernel_attempt(["k"], "k", "tile it", 1.5, 2.0)
        assert kernel is not None and kernel.gain.upper is not None and 1 <= kernel.gain.upper < 1.1
        together = heights.together(attempts)
        assert together.expected is not None and together.expected > 200 / 40, "without both, the kernels remain"
        assert heights.kernel_attempt(["unknown"], "x", "y", 2.0, 2.0) is None
        unbounded = heights.kernel_attempt(["k"], "k", "tile it", None, None)
        assert unbounded is not None and unbounded.gain.expected is None
        assert unbounded.gain.upper == pytest.approx(heights.without_kernels), "what Amdahl leaves"


def test_the_code_that_launches_a_kernel_is_the_program_s_own(tmp_path):
    made = Made()
    stack = made.stack("main train.py:9", "forward model.py:4", "conv lib/torch/nn.py:7")
    made.sample(stack, 0, 100 * MS)
    launched(made, "k", 50, 60, 90)
    store = Store(tmp_path / "store")
    with Workload.open(store, publish(store, made)) as workload:
        analysed = timeline(workload)
        frame = Heights(analysed.trace, analysed.windows, analysed.host).launching_code("k")
        assert frame is not None and (frame.function, frame.line) == ("forward", 4)


def test_attempts_are_ordered_by_what_they_are_expected_to_save():
    tries = [
        Attempt("a", "do this", AdviceGain(upper=4.0)),
        Attempt("b", "do that", AdviceGain(upper=2.0, expected=1.9)),
        Attempt("c", "do that", AdviceGain(upper=50.0, expected=30.0)),
        Attempt("d", "nothing", AdviceGain()),
    ]
    assert [one.what for one in best_attempts(tries, 9)] == ["c", "b", "a", "d"], "what is unknown comes last"
    nothing = Attempt("e", "no use", AdviceGain(upper=1.0, expected=1.0))
    assert best_attempts([nothing], 9) == []
    assert attempt_texts(best_attempts(tries, 9)) == [
        "c: do that (most of its time)",
        "b: likewise (about x 1.9 expected, at most x 2)",
        "a: do this (at most x 4)",
        "d: nothing",
    ]


def test_a_graph_gives_at_most_what_launching_together_gives(tmp_path):
    made = Made()
    for start in range(0, 400, 10):
        begin = start * MS // 1000
        made.launch("k", (begin, begin + 5_000), (begin, begin + 4_000))
    store = Store(tmp_path / "store")
    with Workload.open(store, publish(store, made)) as workload:
        analysed = timeline(workload)
        heights = Heights(analysed.trace, analysed.windows, analysed.host, analysed.findings)
        (graph,) = (one for one in heights.attempts() if "graph" in one.advice)
        bound = heights.speedup(ProgramChange(launched_together=True))
        assert graph.what == "" and graph.gain.upper is not None and bound is not None and graph.gain.upper <= bound
        assert heights.together([graph]).expected == graph.gain.expected
