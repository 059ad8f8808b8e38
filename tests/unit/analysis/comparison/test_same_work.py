"""Whether two versions did the same work: operations decide, then what threads ask for; caching is no other work."""

from __future__ import annotations

import pytest

from rooflens.analysis.comparison.compare import ComparedPair, compare
from rooflens.analysis.comparison.sentences import summary
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import flop, launches, opened, traffic, workload

REQUESTS = {"TCP_TOTAL_ACCESSES_sum": 1e9, "SQ_INSTS_VMEM": 1e7}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("work"))


def pair(
    store: Store, before: dict[str, float], after: dict[str, float], checked: bool | None = None, **launch: int
) -> ComparedPair:
    """A kernel at 2 ms, then at 1 ms, six launches each; ``launch`` are launch columns of the second."""
    one = opened(store, launches("k", [2e6] * 6, **before))
    other = opened(store, [row | launch for row in launches("k", [1e6] * 6, **after)])
    return compare(one, other, checked=checked).pairs[0]


def times(counters: dict[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in counters.items()}


def test_equal_operations_are_the_same_work_whatever_happens_to_the_traffic(store: Store) -> None:
    found = pair(store, flop(1e10) | REQUESTS | traffic(4), flop(1e10) | times(REQUESTS, 1 / 16) | traffic(1))
    assert (found.work.answer, found.verdict) == ("yes", "improved")
    assert found.per_unit["flop"] == pytest.approx(2) and found.per_unit["hbm_bytes"] == pytest.approx(0.5)


@pytest.mark.parametrize(("factor", "answer"), [(0.7, "no"), (1.5, "probably_not")])
def test_other_amounts_of_operations_are_other_work_and_the_verdict_is_withheld(
    store: Store, factor: float, answer: str
) -> None:
    found = pair(store, flop(1e10), flop(1e10 * factor))
    assert (found.work.answer, found.verdict) == (answer, "inconclusive")
    assert "not like for like" in found.why
    assert found.effect is not None and found.effect.verdict == "improved", "the time itself did change"
    assert next(iter(found.per_unit.items())) == ("flop", pytest.approx(2 * factor))


def test_fewer_operations_may_be_operations_of_a_type_that_was_not_counted(store: Store) -> None:
    def without_matrix(counters: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in counters.items() if "MFMA" not in name}

    found = pair(store, without_matrix(flop(1e10)), without_matrix(flop(1e8)))
    assert found.work.answer == "unknown" and "not counted: matrix.f16" in found.work.why
    less = pair(
        store, without_matrix(flop(1e10)) | REQUESTS | traffic(4),
        without_matrix(flop(1e8)) | times(REQUESTS, 0.01) | traffic(0.04),
    )  # fmt: skip
    assert less.work.answer == "no", "no type of operation explains a hundredth of the data"


def test_the_same_number_of_operations_in_another_precision_is_not_the_same(store: Store) -> None:
    single = flop(0) | {"SQ_INSTS_VALU_ADD_F32": 1e10 / 64}
    found = pair(store, flop(1e10), single)
    assert found.work.answer == "unknown" and "valu.f32" in found.work.why and "accuracy" in found.work.why


def test_without_operations_equal_requests_are_the_same_work_also_with_less_traffic(store: Store) -> None:
    found = pair(store, flop(0) | REQUESTS | traffic(4), flop(0) | REQUESTS | traffic(1))
    assert (found.work.answer, found.verdict) == ("yes", "improved")


def test_fewer_requests_and_less_traffic_together_are_another_amount_of_data(store: Store) -> None:
    found = pair(store, REQUESTS | traffic(4), times(REQUESTS, 1 / 32) | traffic(4 / 64))
    assert found.work.answer == "no" and "64 times fewer bytes" in found.work.why


def test_fewer_requests_with_more_lds_may_be_reuse(store: Store) -> None:
    found = pair(store, REQUESTS | traffic(4), times(REQUESTS, 1 / 16) | traffic(1), lds_bytes=16384)
    assert (found.work.answer, found.verdict) == ("unknown", "improved")
    assert "LDS" in found.work.why


def test_far_fewer_requests_of_far_fewer_work_items_are_no_improvement(store: Store) -> None:
    found = pair(store, REQUESTS | traffic(1), times(REQUESTS, 1 / 256) | traffic(8), grid=256)
    assert (found.work.answer, found.verdict) == ("probably_not", "inconclusive")
    assert "256 times fewer" in found.work.why and "threads" in found.work.why
    wider = pair(store, REQUESTS | traffic(4), times(REQUESTS, 1 / 4) | traffic(4), grid=16384)
    assert (wider.work.answer, wider.verdict) == ("probably", "improved")
    fewer = pair(store, REQUESTS | traffic(1), times(REQUESTS, 1 / 256) | traffic(8))
    assert fewer.work.answer == "unknown", "as many work-items"


def test_fewer_requests_for_as_much_data_are_probably_the_same_work(store: Store) -> None:
    assert pair(store, REQUESTS | traffic(4), times(REQUESTS, 1 / 4) | traffic(4)).work.answer == "probably"


def test_the_extra_adds_of_a_reduction_are_no_other_work_for_the_same_data(store: Store) -> None:
    asked = flop(1e10) | REQUESTS | traffic(4)
    found = pair(store, asked, flop(1.6e10) | times(REQUESTS, 1.03) | traffic(3))
    assert (found.work.answer, found.verdict) == ("probably", "improved") and "partial results" in found.work.why
    a_tenth = pair(store, asked, flop(1.097e10) | times(REQUESTS, 1.03) | traffic(4))
    assert (a_tenth.work.answer, a_tenth.verdict) == ("probably", "improved")
    twice = pair(store, asked, flop(2.4e10) | REQUESTS | traffic(4))
    assert (twice.work.answer, twice.verdict) == ("probably_not", "inconclusive")


def test_a_check_that_passed_leaves_other_operations_a_speed_up(store: Store) -> None:
    found = pair(store, flop(1e10), flop(0.7e10), checked=True)
    assert (found.work.answer, found.verdict) == ("probably", "improved") and "check passed" in found.work.why


def test_a_check_that_passed_does_not_hide_a_smaller_problem(store: Store) -> None:
    found = pair(
        store, flop(1e10) | REQUESTS | traffic(4), flop(1e9) | times(REQUESTS, 0.1) | traffic(0.4), checked=True
    )
    assert (found.work.answer, found.verdict) == ("probably_not", "inconclusive")
    assert "another amount of data" in found.work.why


def test_a_check_that_failed_leaves_no_speed_up_whatever_the_counters_say(store: Store) -> None:
    found = pair(store, flop(1e10), flop(1e10), checked=False)
    assert (found.work.answer, found.verdict) == ("no", "inconclusive") and "failed" in found.work.why


def test_traffic_alone_decides_nothing_and_nothing_counted_is_unknown(store: Store) -> None:
    assert pair(store, traffic(4), traffic(1)).work.answer == "unknown"
    found = pair(store, {}, {})
    assert (found.work.answer, found.work.evidence) == ("unknown", [])


def test_two_ways_of_counting_are_not_compared(store: Store) -> None:
    found = pair(store, {"SQ_INSTS": 1e9}, {"SQ_INSTS_VALU": 1e9, "SQ_INSTS_SALU": 1e8})
    assert "instructions" not in {e.quantity for e in found.work.evidence}


def test_half_the_launches_with_twice_the_work_are_compared_in_total(store: Store) -> None:
    before = workload(store, launches("k", [1e6] * 12, **flop(1e9)))
    after = workload(store, launches("k", [1.5e6] * 6, **flop(2e9)))
    found = compare(Workload(store, before), Workload(store, after)).pairs[0]
    assert (found.work.answer, found.rounds, found.verdict) == ("yes", (1, 1), "improved")
    assert found.effect is not None and found.effect.speedup == pytest.approx(12 / 9)


def test_more_launches_of_the_same_work_are_compared_by_launch(store: Store) -> None:
    before = workload(store, launches("k", [1e6] * 6, **flop(1e9)))
    after = workload(store, launches("k", [0.5e6] * 30, **flop(1e9)))
    found = compare(Workload(store, before), Workload(store, after)).pairs[0]
    assert (found.work.answer, found.rounds, found.verdict) == ("yes", (6, 30), "improved")
    assert found.effect is not None and found.effect.speedup == pytest.approx(2)


def test_programs_on_processors_are_held_against_their_instructions(store: Store) -> None:
    counted = {"instructions": 1e9, "cycles": 2e9, "task-clock": 4e6}
    made = [
        workload(store, launches("app", [t] * 6, **(counted | {"cycles": c})), arch="cpu", vendor="cpu", facts={})
        for t, c in ((4e6, 2e9), (2e6, 1e9))
    ]
    found = compare(*(Workload(store, m) for m in made)).pairs[0]
    assert (found.work.answer, found.verdict) == ("yes", "improved")
    assert [t.name for t in found.terms] == ["instructions", "CPUs used", "clock", "achieved rate"]


def test_as_many_requests_for_far_more_bytes_are_not_the_same_work(store: Store) -> None:
    found = pair(store, REQUESTS | traffic(1), REQUESTS | traffic(4))
    assert (found.work.answer, found.verdict) == ("probably_not", "inconclusive")
    assert "4 times as many bytes of HBM traffic" in found.work.why
    fewer = pair(store, REQUESTS | traffic(4), REQUESTS | traffic(1))
    assert fewer.work.answer == "yes", "caches or coalescing save traffic"


def test_operations_that_moved_into_atomics_are_not_called_less_work(store: Store) -> None:
    few, many = {"TCC_ATOMIC_sum": 1e4}, {"TCC_ATOMIC_sum": 1e9}
    found = pair(store, flop(1e10) | few, flop(1e9) | many)
    assert found.work.answer == "unknown" and "l2 atomics" in found.work.why
    assert pair(store, flop(1e10) | few, flop(1e9) | few).work.answer == "no"


def test_a_comparison_starts_with_whether_its_result_may_be_published(store: Store) -> None:
    def first(before: dict[str, float], after: dict[str, float]) -> str:
        made = [opened(store, launches("k", [ns] * 6, **side)) for ns, side in ((2e6, before), (1e6, after))]
        return summary(compare(*made)).split(" k: ")[0]

    assert first(flop(1e10), flop(1e10)) == "May be published."
    assert first(flop(1e10), flop(1e8)) == "Not to be published as a speed-up."
    assert first(flop(1e10), flop(0.9e10)) == "To be published only after a check that both do the same work."
