"""Which launches are counted: within a budget fewer launches of each configuration, then fewer kernels."""

from __future__ import annotations

import pytest

from rooflens.analysis.planning.sampling import ConfigurationTime, Cost, choose_launches, least_choice

STEP = [
    *(ConfigurationTime("gemm", 100, 4e6) for _ in range(2)),
    *(ConfigurationTime("copy", 50, 2e5) for _ in range(10)),
    ConfigurationTime("norm", 100, 9e5),
    ConfigurationTime("softmax", 40, 8e5),
    ConfigurationTime("fill", 1, 10.0),
]
"""Two kernels with several configurations, two with one, and one that takes no time."""
RUN_S = 10.0


def test_every_launch_is_counted_where_that_adds_next_to_nothing() -> None:
    chosen = choose_launches(STEP, None, Cost(RUN_S, 0.0005), 100)
    assert (chosen.counted, chosen.skip) == (sum(c.launches for c in STEP), 0)
    assert len(chosen.kernels) == 5 and chosen.launches_pct == 100


def test_five_of_each_are_counted_where_they_fit() -> None:
    chosen = choose_launches(STEP, None, Cost(RUN_S, 0.4), 60)
    assert (chosen.launches, chosen.counted, chosen.time_pct) == (5, 5 * 14 + 1, 100)
    assert chosen.estimate_s == pytest.approx(RUN_S + 0.4 * 71)


def test_a_number_that_was_asked_for_is_taken_also_where_all_would_be_cheap() -> None:
    assert choose_launches(STEP, 2, Cost(RUN_S, 0.0005), 60).launches == 2


def test_the_first_launch_is_passed_over_where_every_configuration_has_enough() -> None:
    several = [c for c in STEP if c.launches > 5]
    assert choose_launches(several, 5, Cost(RUN_S, 0.01), 60).skip == 1
    assert choose_launches(STEP, 5, Cost(RUN_S, 0.01), 60).skip == 0, "fill is launched once"


def test_kernels_that_take_no_time_are_left_out_first() -> None:
    chosen = choose_launches(STEP, None, Cost(RUN_S, 0.5), RUN_S + 0.5 * 70)
    assert "fill" not in chosen.kernels and chosen.launches == 5
    assert chosen.time_pct is not None and chosen.time_pct >= 90


@pytest.mark.parametrize(("launches_s", "each"), [(0.5, 3), (0.8, 2), (1.6, 1)])
def test_then_fewer_launches_of_each_are_counted(launches_s: float, each: int) -> None:
    chosen = choose_launches(STEP, None, Cost(RUN_S, launches_s), 35)
    assert chosen.launches == each and chosen.estimate_s <= 35
    assert {"gemm", "copy", "norm"} <= set(chosen.kernels)


def test_then_kernels_that_tell_little_for_what_they_cost_are_left_out() -> None:
    many = [*STEP, *(ConfigurationTime(f"small{i}", 10, 1e5) for i in range(30))]
    chosen = choose_launches(many, None, Cost(RUN_S, 1.0), RUN_S + 15)
    assert {"gemm", "copy", "norm"} <= set(chosen.kernels)
    assert chosen.counted <= 15
    assert choose_launches(many, None, Cost(RUN_S, 1.0), RUN_S + 4).kernels == ("gemm", "norm", "softmax")


def test_the_longest_kernel_does_not_take_the_whole_of_a_small_budget() -> None:
    many = [
        *(ConfigurationTime("norm", 50, 1e6) for _ in range(9)),
        *(ConfigurationTime(f"conv{i}", 8, 2e6) for i in range(20)),
    ]
    chosen = choose_launches(many, None, Cost(RUN_S, 0.5), RUN_S + 0.5 * 10)
    assert "norm" not in chosen.kernels and chosen.configurations == 10
    assert "norm" in choose_launches(many, None, Cost(RUN_S, 0.5), RUN_S + 0.5 * 14).kernels


def test_a_budget_that_nothing_fits_into_still_counts_the_longest_kernel() -> None:
    chosen = choose_launches(STEP, None, Cost(RUN_S, 1.0), 1)
    assert chosen.kernels == ("gemm",) and chosen.launches == 1
    assert chosen.estimate_s > 1


def test_without_times_all_kernels_weigh_the_same() -> None:
    chosen = choose_launches(
        [ConfigurationTime("a", 3, 0.0), ConfigurationTime("b", 3, 0.0)], None, Cost(RUN_S, 5.0), 5
    )
    assert chosen.time_pct is None and len(chosen.kernels) == 1


def test_the_budget_that_it_takes_to_count_what_matters_is_known() -> None:
    many = [*STEP, *(ConfigurationTime(f"small{i}", 10, 1e6) for i in range(30))]
    cost = Cost(RUN_S, 1.0)
    least = least_choice(many, cost)
    assert least.time_pct is not None and least.time_pct >= 90 and least.launches == 1
    assert choose_launches(many, None, cost, least.estimate_s).time_pct == pytest.approx(least.time_pct)
    short = choose_launches(many, None, cost, least.estimate_s - 5).time_pct
    assert short is not None and short < 90
