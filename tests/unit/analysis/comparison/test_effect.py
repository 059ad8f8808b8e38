"""The verdict over run times: no difference seen where there is none, real ones found, intervals that cover."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rooflens.analysis.comparison.time_ratio import (
    ENOUGH,
    LAUNCHES_DIFFER,
    RUNS_DIFFER,
    Effect,
    ShapeTimes,
    effect,
    whole,
)  # fmt: skip
from rooflens.tests.unit.analysis.comparison.gate_rates import recorded


def judged(before: list[float] | np.ndarray, after: list[float] | np.ndarray) -> Effect:
    """Two samples of one kernel."""
    sides = [[ShapeTimes(tuple(map(float, times)), len(times))] for times in (before, after)]
    return effect(sides[0], sides[1], (len(before), len(after)))


def test_runs_of_one_build_on_an_h200_are_never_called_faster_or_slower() -> None:
    kernels = recorded("ncu").items()
    pairs = [(name, judged(a, b)) for name, runs in kernels for a, b in itertools.combinations(runs.values(), 2)]
    assert len(pairs) == 72
    assert [(name, e) for name, e in pairs if e.verdict != "inconclusive"] == []


def test_single_launches_of_one_build_rarely_differ_by_more_than_the_floor() -> None:
    wrong = total = 0
    for runs in recorded("single").values():
        for a, b in itertools.permutations(runs.values(), 2):
            total += 1
            wrong += judged(a, b).verdict != "inconclusive"
    assert total > 6000
    assert wrong / total < 0.01


def test_the_floor_of_repeated_launches_is_what_ten_runs_differ_by() -> None:
    apart = max(
        max(times) / min(times) - 1 for runs in recorded("median").values() if (times := [t[0] for t in runs.values()])
    )
    assert RUNS_DIFFER - 0.002 < apart < RUNS_DIFFER


@pytest.mark.parametrize("n", [5, 40])
def test_identical_code_with_noise_and_runs_that_differ_is_not_called_changed(n: int) -> None:
    rng = np.random.default_rng(n)
    wrong = 0
    for _ in range(60):
        sides = [1e6 * np.exp(rng.normal(rng.normal(0, 0.006), 0.02, n)) for _ in range(2)]
        wrong += judged(*sides).verdict != "inconclusive"
    assert wrong <= 2, "about 2.5 % of false verdicts"


def test_a_tenth_less_time_is_found_in_noise_and_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(7)
    found = [
        judged(1e6 * np.exp(rng.normal(0, 0.03, 20)), 1e6 / 1.1 * np.exp(rng.normal(0, 0.03, 20))) for _ in range(60)
    ]
    assert sum(e.verdict == "improved" for e in found) >= 59
    covered = sum(e.low is not None and e.high is not None and e.low <= 1.1 <= e.high for e in found)
    assert covered >= 0.9 * len(found)


def test_outliers_of_the_first_launches_do_not_make_a_difference() -> None:
    rng = np.random.default_rng(3)
    usual = 1e6 * np.exp(rng.normal(0, 0.01, 20))
    warming = np.concatenate([[9e6, 4e6], 1e6 * np.exp(rng.normal(0, 0.01, 18))])
    assert judged(warming, usual).verdict == "inconclusive"


@pytest.mark.parametrize(("ratio", "verdict"), [(1.10, "inconclusive"), (1.20, "improved"), (0.80, "regressed")])
def test_one_launch_each_needs_more_than_the_noise_floor(ratio: float, verdict: str) -> None:
    found = judged([ratio * 1e6], [1e6])
    assert (found.verdict, found.low, found.high, found.n) == (verdict, None, None, (1, 1))
    assert found.floor == LAUNCHES_DIFFER and "n=1" in found.why and "15%" in found.why


def test_few_launches_that_overlap_are_inconclusive_however_far_apart() -> None:
    assert judged([1e6, 2e6, 2e6], [1e6, 1e6, 2.1e6]).verdict == "inconclusive"
    assert judged([2e6, 2.1e6, 2.2e6], [1e6, 1.1e6, 1.2e6]).verdict == "improved"


def test_a_certain_but_tiny_difference_is_noise_between_runs() -> None:
    rng = np.random.default_rng(5)
    found = judged(1e6 * np.exp(rng.normal(0.01, 0.001, 200)), 1e6 * np.exp(rng.normal(0, 0.001, 200)))
    assert found.low is not None and found.low > 1
    assert found.verdict == "inconclusive" and "noise floor" in found.why


def test_kernels_of_microseconds_have_a_higher_floor() -> None:
    found = judged([5000.0] * 10, [4500.0] * 10)
    assert found.floor == pytest.approx(1000 / 4500) and found.verdict == "inconclusive"


def test_nothing_is_beyond_a_noise_floor_above_100_percent() -> None:
    found = judged([9000.0] * 10, [900.0] * 10)
    assert found.floor == pytest.approx(1000 / 900) and found.speedup == 10
    assert (found.verdict, found.low) == ("inconclusive", pytest.approx(10))
    assert found.why == "the times scatter too much for a verdict, with a noise floor of 111%"
    assert judged([9000.0] * 10, [1100.0] * 10).verdict == "improved", "a floor of 91 %"
    assert judged([9000.0], [900.0]).verdict == "inconclusive"


def test_equal_times_without_any_spread_have_an_interval_of_one_value() -> None:
    found = judged([2e6] * ENOUGH, [1e6] * ENOUGH)
    assert (found.low, found.high) == (pytest.approx(2), pytest.approx(2)) and found.verdict == "improved"


def test_the_same_samples_give_the_same_interval() -> None:
    times = list(np.random.default_rng(1).normal(1e6, 1e4, 30))
    first, second = judged(times, times[::-1]), judged(times, times[::-1])
    assert (first.low, first.high, first.p) == (second.low, second.high, second.p)


def test_launch_shapes_are_medians_of_their_own_and_the_rarest_that_weighs_counts() -> None:
    small, large = ShapeTimes((1e6,) * 30, 30), ShapeTimes((10e6,) * 3, 3)
    found = effect([small, large], [small, ShapeTimes((5e6,) * 3, 3)], (33, 33))
    assert found.baseline_ns == pytest.approx((30 * 1e6 + 3 * 10e6) / 33)
    assert found.speedup == pytest.approx(60 / 45) and found.n == (3, 3) and found.low is None


def test_rare_shapes_weigh_as_their_launches_do_where_all_are_one_part() -> None:
    joined = whole([ShapeTimes((1e5,) * 480, 100_000), *[ShapeTimes((1e6,) * ENOUGH, ENOUGH)] * 200])
    assert joined.launches == 101_000 and sorted(joined.times)[len(joined.times) // 2] == 1e5
    assert sum(t == 1e6 for t in joined.times) / len(joined.times) == pytest.approx(1000 / 101_000, abs=0.003)
    few = whole([ShapeTimes((1.0, 2.0), 2), ShapeTimes((3.0,), 1)])
    assert few == ShapeTimes((1.0, 2.0, 3.0), 3), "what was looked at one by one stays whole"
