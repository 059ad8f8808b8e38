"""The loads of units: one view behind the roofline, the diagnosis and their words, so that they cannot contradict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.catalogue import rules
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.rooflines import inputs, limits
from rooflens.analysis.rooflines.limits import KernelLimits, decide_bound
from rooflens.analysis.rooflines.loads import Load, Share, loads_of_units, loads_text, units_at_limit
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT, SHARED
from rooflens.tests.support.recordings import stored
from rooflens.tools.compute_roofline import compute_roofline

SAMPLES = sorted(p for p in (ROOT / "server" / "samples").iterdir() if p.is_dir())
_GATES = {rule.falsify for rule in rules.signals_and_rules()[1] if rule.kind == "gate"}
"""What marks the verdict on a kernel that does next to nothing: what bounds it is then no unit, whatever the loads."""
_LIMIT_WORDS = re.compile(r"(Device memory|LDS \(shared memory\)|L2|The vector L1) is used to ([\d.]+) %")
_UNITS = {"Device memory": "hbm", "LDS (shared memory)": "lds", "L2": "l2", "The vector L1": "vl1d"}


RECORDED = [SHARED / path for path in (
    "workloads/mixbench/MI100", "workloads/mixbench/MI200", "workloads/vcopy/MI300X_A1_rocpd", "workloads/vcopy/MI350",
    "workloads38/vcopy__RDNA35_HALO",
)]  # fmt: skip
"""One recording of each architecture of AMD; tests/oracle reads those of all programs."""
HERE = [SAMPLES[0].with_name("yax_before"), SAMPLES[0].with_name("h200_kernels"), RECORDED[-1]]


@pytest.mark.parametrize("path", HERE, ids=lambda p: "/".join(p.parts[-2:]))
def test_roofline_and_diagnosis_say_the_same_of_recorded_kernels(path: Path, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip(f"needs {path}")
    check_agreement(path, tmp_path)


def check_agreement(path: Path, folder: Path) -> None:
    """Hold the diagnosis of every kernel of a profile against its roofline."""
    store = Store(folder)
    recording = path / "kernels.csv.gz"
    stored(store, recording if recording.exists() else path, "w")
    workload = Workload.open(store, "w")
    try:
        found, _ = diagnose(workload, limit=60)
    except Problem as problem:
        pytest.skip(f"nothing to diagnose: {problem}")
    views = {
        one.kernel: one
        for one in limits.limits_of_kernels(inputs.prepare_inputs(workload, inputs.RooflineRequest(limit=200)))
    }
    for one in found:
        agree(one, views[one.kernel])


def agree(one: Diagnosis, view: KernelLimits) -> None:
    assert one.loads == loads_text(view.loads)
    known = {load.unit: load.pct for load in view.loads}
    for finding in one.findings:
        for unit, said in _LIMIT_WORDS.findall(finding.claim):
            assert float(said) == pytest.approx(known[_UNITS[unit]], rel=0.01), finding.claim
    gated = one.findings and one.findings[0].falsify in _GATES
    if not gated and view.bound != "unknown" and one.verdict.subsystem != "unknown":
        assert one.verdict.bound == view.bound, (one.kernel, one.verdict, view.why)
    if view.bound == "latency":
        assert not [load for load in view.loads if load.is_at_limit and load.words not in view.why]
    if view.reached and view.bound != "unknown":
        assert view.limiter == view.reached[0].subsystem and view.reached[0].words in view.why


def test_the_roofline_shows_the_line_that_heads_the_diagnosis(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz", "w")
    pipes = compute_roofline(store, "w", "stream_add").pipes
    (one,), _ = diagnose(Workload.open(store, "w"), kernel="stream_add")
    row = dict(zip(pipes.columns, pipes.rows[0], strict=True))
    assert row["loads"] == one.loads and row["bound"] == one.verdict.bound == "memory"
    assert one.loads.startswith("device memory 77.7 %, L2 81.6 % (busy cycles; "), one.loads
    with Workload.open(store, "w") as workload:
        least = limits.roof_shares(workload)
    assert [round(least[name], 3) for name in least if name.startswith(("stream_add", "small_grid"))] == [0.776, 0.005]


def told(unit: str, **parts: float) -> Load:
    """The load of one unit on Hopper from counters (cycles, percent) and work (a share of the run time)."""
    work = {unit: Share(parts["work"])} if "work" in parts else {}
    signals = {f"load.{unit}": parts.get("cycles")}
    return next(load for load in loads_of_units("sm_90", signals, work, {}, {}) if load.unit == unit)


def test_where_cycles_and_work_differ_both_are_told() -> None:
    """63 % of cycles beside 43 % by bytes in one row, without a word, was taken for a contradiction."""
    assert told("l2", cycles=63.5, work=0.432).words == "L2 63.5 % (busy cycles; its counted work needs 43.2 %)"
    assert told("l2", cycles=63.5, work=0.6).words == "L2 63.5 %"
    assert told("l2", cycles=50.0, work=0.62).pct == 62.0, "a ceiling below the peak: the fuller of the two"
    assert told("l2").words == "L2 ?" and told("l2").status == "not_collected"


def test_work_alone_is_a_lower_bound_for_a_unit_with_counters_of_its_own() -> None:
    assert told("l2", work=0.3).value_for_rules is None, "stalls may come on top"
    assert told("l2", work=0.7).value_for_rules == 70.0
    assert told("l2", cycles=30.0, work=0.3).value_for_rules == 30.0


def test_what_cannot_be_is_called_so_and_decides_nothing() -> None:
    wrong = told("hbm", cycles=140.0, work=1.2)
    assert wrong.status == "impossible" and "impossible" in wrong.words
    bound, limiter, why = decide_bound([wrong], units_at_limit("sm_90", [{}], [[wrong]])[0])
    assert (bound, limiter) == ("unknown", None) and "wrong" in why


def test_a_busy_l2_is_no_limit_of_its_own_while_memory_keeps_it_busy() -> None:
    """Misses keep L2 as busy as the memory behind it: 62 beside 45 % is no limit of L2, and is said not to be."""
    every = [told("hbm", cycles=45.0, work=0.45), told("l2", cycles=62.0, work=0.6)]
    bound, limiter, why = decide_bound(every, units_at_limit("sm_90", [{}], [every])[0])
    assert (bound, limiter) == ("latency", "latency")
    assert "device memory 45 %" in why and "L2 62 % serves the requests of another unit" in why
