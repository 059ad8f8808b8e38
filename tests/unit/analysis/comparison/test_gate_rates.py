"""How often the gate is wrong, with the noise of an H200: what docs/how-to/gate_in_ci.md states."""

from __future__ import annotations

from rooflens.tests.unit.analysis.comparison.gate_rates import Noise, of_recordings, simulated


def test_recorded_runs_of_one_build_pass_and_one_kernel_five_percent_slower_fails() -> None:
    nothing, slowed = of_recordings(factors=[1.05], count=3)
    assert (nothing, slowed) == ({"pass": 6}, {"fail": 72})


def test_below_the_noise_floor_nothing_is_shown_green() -> None:
    assert simulated(Noise(launches=20, spread=0.002, kernels=3), 1.0, 2, limit=0.01) == {"inconclusive": 2}


def test_at_most_one_program_in_twenty_fails_where_nothing_changed_and_five_percent_are_found() -> None:
    noise = Noise(launches=20, spread=0.005, kernels=9)
    assert simulated(noise, 1.0, 8)["fail"] <= 1, "at most 5 % of programs"
    assert simulated(noise, 1.05, 8)["fail"] >= 7


def test_noise_wider_than_the_limit_is_never_passed_in_silence() -> None:
    found = simulated(Noise(launches=5, spread=0.03, kernels=9), 1.05, 4)
    assert found["pass"] <= 1 and found["inconclusive"] + found["fail"] >= 3
