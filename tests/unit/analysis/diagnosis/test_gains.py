"""The bounds and expected gains of kinds of changes, compared with the measured gains of such changes."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

import pytest

from rooflens.analysis.catalogue import rules
from rooflens.analysis.diagnosis.findings import Diagnosis
from rooflens.analysis.diagnosis.gains import expected_gain, least_of, speedup_bound
from rooflens.analysis.diagnosis.kernel_figures import Case, DiagnosisSubject
from rooflens.analysis.rooflines.limits import KernelLimits
from rooflens.analysis.rooflines.loads import Share
from rooflens.tests import ROOT

sys.path.insert(0, str(ROOT / "eval"))
from interventions import diagnoses, scoring

CHANGE_OF = {
    "unit_stride": "coalescing", "in_order": "coalescing", "more_in_flight": "in_flight",
    "independent_chains": "independent_instructions", "more_groups": "larger_grid", "whole_grid": "balanced_work",
    "less_lds": "less_lds", "balanced_lanes": "full_waves", "sorted_lanes": "full_waves",
    "balanced_groups": "balanced_work", "balanced_waves": "balanced_work", "padded": "padding",
    "spread_atomics": "fewer_atomics", "private_atomics": "fewer_atomics", "no_spills": "no_spills",
    "device_memory": "local_memory",
}  # fmt: skip
"""The fixes of the recorded kernels that keep their work, with the kind of change that each is."""


def measured(found: dict[str, Diagnosis]) -> Iterator[tuple[str, str, float, float | None, float]]:
    """Kernel, fix, its measured gain, and the bound and the expected gain of the change that it is."""
    for truth in scoring.truths(diagnoses.TIMES):
        gains = {gain.change: gain for gain in found[truth.kernel].changes}
        for one in truth.measured:
            if one.fix and (gain := gains.get(CHANGE_OF.get(one.what, ""))):
                yield truth.kernel, one.what, one.gain, gain.at_most, gain.expected


def test_no_bound_of_a_change_is_below_what_that_change_gained(found: dict[str, Diagnosis]) -> None:
    checked = list(measured(found))
    assert {what for _, what, *_ in checked} == set(CHANGE_OF)
    assert len(checked) > 300
    below = [one for one in checked if one[3] is not None and one[2] > one[3] * (1 + scoring.SPREAD)]
    assert not below


def test_the_expected_gain_is_nearer_to_the_measured_one_than_the_bound(found: dict[str, Diagnosis]) -> None:
    helped = [(gain, most, expected) for _, _, gain, most, expected in measured(found) if most and gain >= 1.15]
    assert all(expected <= most + 1e-9 for _, most, expected in helped)
    nearer = sum(abs(expected - gain) < abs(most - gain) for gain, most, expected in helped)
    assert nearer > 0.5 * len(helped)


def test_expected_gains_are_on_average_a_fifth_above_the_measured_ones(
    found: dict[str, Diagnosis],
) -> None:
    """A kernel with several busy units gains little from relieving one: without that, the mean ratio was 1.35."""
    ratios = [expected / max(gain, 1.0) for _, _, gain, _, expected in measured(found)]
    assert len(ratios) > 380 and statistics.geometric_mean(ratios) < 1.25
    assert sum(ratio > 2 for ratio in ratios) < 0.12 * len(ratios)


def test_each_advice_names_a_known_change_and_carries_its_gain(found: dict[str, Diagnosis]) -> None:
    known = {change.name for target in ("sm_90", "gfx90a", "gfx1150") for change in rules.changes(target)}
    every = rules.signals_and_rules()[1]
    assert {a.change or r.change for r in every for a in r.advice} - {None} <= known
    told = [str(a) for one in found.values() for f in one.findings for a in f.advice if a.gain]
    assert len(told) > 300 and all("expected" in text or "most of its time" in text for text in told)


@pytest.mark.parametrize(
    ("target", "lanes", "bound"), [("sm_90", None, 1.11), ("sm_90", 55.0, 2.02), ("gfx942", 55.0, 2.02)]
)
def test_the_bound_of_a_vector_pipe_includes_what_idle_lanes_waste(
    target: str, lanes: float | None, bound: float
) -> None:
    """A kernel whose pipe is 90 % busy with 55 % of the lanes became 1.7 times as fast with all lanes on one path."""
    shares = {name: Share(value) for name, value in {"valu": 0.3, "valu.issue": 0.9, "hbm": 0.2}.items()}
    view = KernelLimits("k", None, 1, 1e6, shares, {}, [], [], "compute", "valu", "", None)
    subject = DiagnosisSubject(1, "1", "k", None, 1, {}, {}, None)
    case = Case("w", target, subject, {"load.valu": 90.0, "filled.lanes": lanes}, frozenset(), view, {})
    (rule,) = [rule for rule in rules.rules(target) if rule.id == "valu.pipe"]
    assert speedup_bound(rule, case) == pytest.approx(bound, rel=0.01)


def test_the_expected_gain_is_amdahls_law_over_the_part_that_is_addressed() -> None:
    assert expected_gain(50, 2) == pytest.approx(4 / 3)
    assert expected_gain(75, None) == pytest.approx(4)
    assert least_of(None, 3.0, 2.0) == 2 and least_of(0.5) == 1 and least_of(None) is None
