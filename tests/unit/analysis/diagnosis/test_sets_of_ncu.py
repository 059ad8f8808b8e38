"""Profiles taken as people take them (ncu without options) against the counters of rooflens.

The recordings are those of eval/interventions: the same 64 kernels on an H200, counted twice.
"""

from __future__ import annotations

import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored

RECORDINGS = ROOT / "eval" / "interventions"
POINTS = 4.0
"""Loads may differ by this between two runs of one kernel under the profiler, in percent of what the unit sustains."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Diagnosis]]:
    store = Store(tmp_path_factory.mktemp("sets"))
    for name in ("own", "basic"):
        stored(store, RECORDINGS / f"h200_set_{name}.csv.gz", name)
    return {name: {d.kernel: d for d in diagnose(Workload.open(store, name))[0]} for name in ("own", "basic")}


def loads_of(diagnosis: Diagnosis) -> dict[str, float]:
    """The loads that the units' own counters show, by unit."""
    return {
        load.unit: load.cycles_pct for load in diagnosis.units if load.cycles_pct is not None and not load.is_deduced
    }


def test_the_set_without_options_shows_the_same_loads_as_our_counters(
    verdicts: dict[str, dict[str, Diagnosis]],
) -> None:
    compared, far = 0, []
    for kernel, ours in verdicts["own"].items():
        expected, told = loads_of(ours), loads_of(verdicts["basic"][kernel])
        for unit in expected.keys() & told.keys():
            compared += 1
            if abs(expected[unit] - told[unit]) > POINTS:
                far.append((kernel, unit, expected[unit], told[unit]))
    assert compared > 400
    assert len(far) <= compared // 100, far


def test_a_load_that_is_deduced_as_a_most_is_not_exceeded(verdicts: dict[str, dict[str, Diagnosis]]) -> None:
    bounds = [
        (kernel, load.unit, load.pct, loads_of(ours)[load.unit])
        for kernel, ours in verdicts["own"].items()
        for load in verdicts["basic"][kernel].units
        if load.is_deduced and str(load.reason) == "at most" and load.unit in loads_of(ours)
    ]
    assert bounds and all(pct is not None for *_, pct, _ in bounds)
    assert [one for one in bounds if one[3] > (one[2] or 0.0) + POINTS] == []


def test_a_unit_at_its_limit_is_named_without_any_option_of_ncu(verdicts: dict[str, dict[str, Diagnosis]]) -> None:
    ours, told = verdicts["own"], verdicts["basic"]
    units = ("hbm", "l2", "vl1d", "matrix", "valu")
    sure = [kernel for kernel, one in ours.items() if one.verdict.confidence >= 0.9 and one.verdict.subsystem in units]
    same = [kernel for kernel in sure if told[kernel].verdict.subsystem == ours[kernel].verdict.subsystem]
    assert len(sure) > 20
    assert len(same) >= 0.65 * len(sure), "the others need sectors or stall reasons, which this set does not count"
    assert sum(one.verdict.subsystem == "unknown" for one in told.values()) <= 6


def test_the_tag_stage_of_l1_is_not_idle_where_only_the_data_stage_was_counted(
    verdicts: dict[str, dict[str, Diagnosis]],
) -> None:
    """Scattered hits of this kernel fill the tag stage to 80 %, the data stage to 10 %."""
    assert loads_of(verdicts["own"]["s9k026"])["vl1d"] == pytest.approx(80, abs=1)
    assert "vl1d" not in loads_of(verdicts["basic"]["s9k026"])


def test_busy_cycles_that_may_be_waste_bound_no_speed_up(verdicts: dict[str, dict[str, Diagnosis]]) -> None:
    """The set basic counts neither bank conflicts nor unused sectors: a full memory unit says nothing of the gain."""
    limited = [d for d in verdicts["basic"].values() if d.verdict.subsystem in ("hbm", "l2", "vl1d", "lds")]
    assert len(limited) >= 20
    assert all(one.verdict.speedup_bound is None for one in limited)
