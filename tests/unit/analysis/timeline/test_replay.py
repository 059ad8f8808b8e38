"""What a program would take without some code, by replaying made timelines whose answer follows by hand."""

from __future__ import annotations

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.host_code import host_code
from rooflens.analysis.timeline.replay import PAUSES, ProgramChange, Replay
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

MS = 1_000_000


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def replayed(store: Store, made: Made, stacks: set[int], *, copies: bool = False) -> float:
    """The ms from 0 to 100 without the stacks; without any, the replay takes exactly that."""
    with Workload.open(store, publish(store, made)) as workload:
        trace = prepare(workload)
        code = host_code(trace)
        assert code is not None
        replay = Replay(trace, [Window(0, 100 * MS)], code)
        assert replay.wall_ns() == 100 * MS
        return replay.wall_ns(ProgramChange(frozenset(stacks), copies)) / MS


def test_the_host_saves_its_time_if_the_device_waits_for_it(store):
    made = Made()
    slow, other = made.stack("load train.py:1"), made.stack("train train.py:2")
    made.sample(slow, 20 * MS, 60 * MS)
    made.sample(other, 60 * MS, 100 * MS)
    for start in (10, 70):
        made.launch("k", (start * MS, start * MS), (start * MS, (start + 10) * MS))
    assert replayed(store, made, {slow}) == pytest.approx(60, abs=0.1)
    assert replayed(store, made, {other}) == pytest.approx(70, abs=0.1)  # launched at 60, for 10
    made.launch("k", (120 * MS, 120 * MS), (120 * MS, 130 * MS))
    assert replayed(store, made, {slow}) == pytest.approx(60, abs=0.1), "the end of the window comes earlier"


def test_code_that_used_up_the_lead_of_the_host_saves_more_than_the_gap_after_it(store):
    made = Made()
    slow = made.stack("log train.py:1")
    made.sample(slow, 20 * MS, 70 * MS)
    made.launch("long", (10 * MS, 10 * MS), (10 * MS, 60 * MS))
    made.launch("next", (80 * MS, 80 * MS), (80 * MS, 100 * MS))
    # The device is idle from 60 to 80. Without the code, the second launch is made at 30, and the work follows at once.
    assert replayed(store, made, {slow}) == pytest.approx(80, abs=0.1)


def test_a_wait_that_vanishes_lets_the_host_run_ahead(store):
    made = Made()
    reads = made.stack("item train.py:3")
    made.launch("k", (10 * MS, 10 * MS), (10 * MS, 40 * MS))
    made.host("hipStreamSynchronize", 12 * MS, 41 * MS)
    made.sample(reads, 12 * MS, 41 * MS)
    made.launch("k", (71 * MS, 71 * MS), (71 * MS, 100 * MS))
    # 30 ms after the wait the host launches the second kernel, which then follows the first one.
    assert replayed(store, made, {reads}) == pytest.approx(71, abs=0.1)


def test_a_wait_that_stays_ends_with_the_work_that_it_waits_for(store):
    made = Made()
    slow = made.stack("load train.py:1")
    made.sample(slow, 0, 30 * MS)
    made.launch("k", (40 * MS, 40 * MS), (40 * MS, 70 * MS))
    made.host("hipStreamSynchronize", 41 * MS, 75 * MS)
    made.launch("k", (80 * MS, 80 * MS), (80 * MS, 100 * MS))
    assert replayed(store, made, {slow}) == pytest.approx(70, abs=0.1)


def test_copies_of_the_code_vanish_on_request_only(store):
    made = Made()
    copying = made.stack("load train.py:1")
    made.sample(copying, 9 * MS, 11 * MS)
    made.copy("HtoD", (10 * MS, 10 * MS), (10 * MS, 60 * MS))
    made.launch("k", (20 * MS, 20 * MS), (60 * MS, 100 * MS))
    assert replayed(store, made, {copying}) == pytest.approx(99, abs=0.1)
    assert replayed(store, made, {copying}, copies=True) == pytest.approx(58, abs=1.1)


def test_code_of_two_threads_at_one_time_is_saved_once(store):
    made = Made()
    both = made.stack("train train.py:1")
    for thread in (1, 2):
        made.sample(both, 20 * MS, 50 * MS, thread=thread)
        made.launch(
            "k", (10 * thread * MS, 10 * thread * MS), (10 * thread * MS, (10 * thread + 1) * MS), thread=thread
        )
    made.launch("k", (60 * MS, 60 * MS), (60 * MS, 100 * MS))
    assert replayed(store, made, {both}) == pytest.approx(70, abs=0.1)


def test_another_process_keeps_its_time(store):
    made = Made()
    slow = made.stack("load train.py:1")
    made.sample(slow, 10 * MS, 90 * MS)
    made.launch("k", (90 * MS, 90 * MS), (90 * MS, 100 * MS))
    made.launch("k", (5 * MS, 5 * MS), (5 * MS, 95 * MS), pid=2, device_id=1)
    assert replayed(store, made, {slow}) == pytest.approx(95, abs=0.1)


def test_a_chain_of_kernels_waits_in_its_middle_for_the_call_that_comes_late(store):
    """Five kernels one after the other; the host requests the fourth only when the third has ended."""
    made = Made()
    chain = {"first": (0, 10, 30), "second": (1, 30, 50), "third": (2, 50, 60), "fourth": (70, 70, 90)}
    for name, (call, start, end) in {**chain, "fifth": (71, 90, 100)}.items():
        made.launch(name, (call * MS, call * MS), (start * MS, end * MS))
    with Workload.open(store, publish(store, made)) as workload:
        trace = prepare(workload)
        replay = Replay(trace, [Window(0, 100 * MS)], None)
        first, second, third, fourth, fifth = (int(number) for number in trace.work.kernel)

        def wall_ms(*kernels: int, share: float = 0.5) -> float:
            return replay.wall_ns(ProgramChange(kernels=frozenset((kernel, share) for kernel in kernels))) / MS

        assert wall_ms() == 100
        assert wall_ms(first, second, third) == 100, "the late call is what the fourth kernel waits for"
        assert wall_ms(fourth) == 90 and wall_ms(fourth, fifth) == 85
        assert wall_ms(second, share=2) == 110, "the chain then ends at 80, after the late call"
        assert wall_ms(first, second, share=2) == 130


def test_a_class_of_calls_and_the_host_s_own_pauses_can_vanish_without_any_known_code(store):
    made = Made()
    made.launch("k", (10 * MS, 10 * MS), (10 * MS, 40 * MS))
    made.host("hipStreamSynchronize", 12 * MS, 41 * MS)
    made.host("hipMalloc", 45 * MS, 65 * MS)
    made.launch("k", (71 * MS, 71 * MS), (71 * MS, 100 * MS))
    with Workload.open(store, publish(store, made)) as workload:
        replay = Replay(prepare(workload), [Window(0, 100 * MS)], None)
        ms = {
            name: replay.wall_ns(ProgramChange(host=frozenset(names))) / MS
            for name, names in {
                "nothing": [],
                "wait": ["synchronisation"],
                "allocation": ["allocation"],
                "pauses": [PAUSES],
            }.items()
        }
    # Without the wait, the second launch is made before the first kernel ends, and follows it. An allocation counts as
    # a wait, because no work runs when it returns; its 20 ms vanish. The pauses are 2 + 4 + 6 ms.
    assert ms == pytest.approx({"nothing": 100, "wait": 71, "allocation": 80, "pauses": 90}, abs=0.2)
