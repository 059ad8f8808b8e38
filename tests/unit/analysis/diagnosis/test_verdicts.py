"""Verdicts on kernels with measured interventions: uneven work, gathers, bounds of their own, and what comes next."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import rules
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.diagnosis.gains import program_bound
from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile

sys.path.insert(0, str(ROOT / "eval"))
from interventions import diagnoses, scoring, suite

TRUTHS = {t.kernel: t for t in scoring.truths(diagnoses.TIMES) if t.half == "tuning"}
DRAWN = dict(zip(suite.names("tuning"), suite.suite("tuning"), strict=True))


def family(name: str) -> list[str]:
    return [kernel for kernel, truth in TRUTHS.items() if truth.family == name]


def first(one: Diagnosis) -> str:
    return one.findings[0].claim


@pytest.mark.parametrize("kernel", family("skewed work-groups")[:1])
def test_work_that_is_uneven_between_work_groups_is_a_verdict_of_its_own(
    kernel: str, found: dict[str, Diagnosis]
) -> None:
    """Balanced, these are 8 to 57 times as fast; raising the resident waves would bring nothing."""
    one, gain = found[kernel], TRUTHS[kernel].gain_for("dispatch", fix=True)
    assert gain > 8 and one.verdict.subsystem == "dispatch"
    assert "uneven work" in first(one)
    assert any("split long rows" in a.do for a in one.findings[0].advice)
    assert one.verdict.speedup_bound is not None and one.verdict.speedup_bound * 1.1 > gain


def test_even_work_is_never_called_uneven(found: dict[str, Diagnosis]) -> None:
    for kernel, truth in TRUTHS.items():
        if truth.family != "skewed work-groups":
            assert "uneven work" not in " ".join(f.claim for f in found[kernel].findings), kernel


def test_a_last_round_is_the_verdict_where_whole_rounds_are_faster(found: dict[str, Diagnosis]) -> None:
    """Also beside a unit that is nearly full while the SMs work."""
    named = [k for k in TRUTHS if any("rounds of thread blocks" in f.claim for f in found[k].findings[:1])]
    assert len(named) >= 4 and all(TRUTHS[k].gain_for("dispatch", fix=True) >= scoring.HELPS for k in named)


def test_waiting_for_data_is_named_by_the_level_that_answers_where_enough_warps_reside(
    found: dict[str, Diagnosis],
) -> None:
    """Their data nearer is worth as much as more loads in flight; no level is at its limit."""
    named = [k for k in TRUTHS if "latency, not bandwidth, is the limit" in first(found[k])]
    assert len(named) >= 4
    for kernel in named:
        truth, verdict = TRUTHS[kernel], found[kernel].verdict
        assert verdict.bound == "latency" and verdict.confidence < 0.8
        nearer = max(m.gain for m in truth.measured if m.what in ("in_l1", "in_l2"))
        assert nearer > 0.9 * truth.gain_for("latency", fix=True), kernel


def test_scattered_accesses_that_are_waited_for_go_before_too_few_warps(found: dict[str, Diagnosis]) -> None:
    """More work-groups bring these next to nothing, and unit stride much."""
    named = [k for k in TRUTHS if "per load, and warps wait for them" in first(found[k])]
    assert named
    for kernel in named:
        assert found[kernel].verdict.subsystem in ("vl1d", "l2", "hbm")
        assert scoring.names_the_best(TRUTHS[kernel], found[kernel].verdict.subsystem), kernel


def test_waiting_at_barriers_for_what_waits_for_data_is_not_the_barriers(found: dict[str, Diagnosis]) -> None:
    """Where the run without its barriers is no faster, the barrier is no verdict, however long warps wait there."""
    useless = [k for k in TRUTHS if any(m.what == "no_barrier" and m.gain < 1.1 for m in TRUTHS[k].measured)]
    assert len(useless) >= 5
    assert [k for k in useless if found[k].verdict.subsystem == "barrier"] == []


def test_an_indirect_gather_is_not_told_to_swap_its_loops(found: dict[str, Diagnosis]) -> None:
    indirect = [k for k in family("gather") if DRAWN[k].demand.access == "INDIRECT"]
    assert indirect
    for kernel in indirect:
        text = " ".join(f.claim + " ".join(a.do for a in f.advice) for f in found[kernel].findings)
        assert "indirect" in text and "indices smaller" in text, kernel


@pytest.mark.parametrize("name", ["stride", "memory", "stores"])
def test_strides_and_dense_accesses_are_not_taken_for_gathers(name: str, found: dict[str, Diagnosis]) -> None:
    for kernel in family(name):
        assert "indirect" not in " ".join(f.claim for f in found[kernel].findings), kernel


def test_barriers_cannot_free_more_than_the_time_waited_at_them(found: dict[str, Diagnosis]) -> None:
    bounded = 0
    for one in found.values():
        for finding in (f for f in one.findings if f.subsystem == "barrier"):
            share = next(e.value for e in finding.evidence if e.metric == "barrier.stall_pct")
            assert share is not None and finding.speedup_bound is not None
            assert finding.speedup_bound <= max(1.0, 100 / (100 - share)) + 1e-9
            bounded += 1
    assert bounded >= 3


def test_nothing_is_said_of_a_share_of_next_to_nothing(found: dict[str, Diagnosis]) -> None:
    for kernel in family("hardly anything"):
        one = found[kernel]
        assert one.verdict.subsystem == "dispatch" and one.verdict.confidence <= 0.5, kernel
        assert len(one.findings) == 1


def test_the_whole_program_gains_as_amdahl_says() -> None:
    assert program_bound(50.0, 2.0) == pytest.approx(4 / 3)
    assert program_bound(100.0, 3.0) == pytest.approx(3.0)
    assert program_bound(1.0, 1000.0) == pytest.approx(1 / 0.99001)
    assert program_bound(None, 2.0) is None and program_bound(50.0, None) is None


def test_work_that_falls_evenly_on_the_xcds_is_no_verdict(shared: Path, tmp_path: Path) -> None:
    """Requests of a copy hardly differ between the eight XCDs."""
    store = Store(tmp_path)
    stored(store, shared / "workloads" / "vcopy" / "MI300X_A1", "vcopy")
    view = FigureRequest(by_kernel=True, quartiles=False)
    with Workload.open(store, "vcopy") as workload:
        shares = {f.kernel: f.value for f in figures(workload, ["dispatch.xcd_imbalance_pct"], view)}
        sums = workload.cursor.execute(
            f"SELECT kernel, sum(most), sum(mean) FROM (SELECT dispatch_id, max(s) AS most, avg(s) AS mean FROM "
            f"(SELECT dispatch_id, xcd, sum(value) AS s FROM {workload.relation('counter_instances')} "
            f"WHERE counter = 'TCC_REQ' GROUP BY ALL) GROUP BY dispatch_id) "
            f"JOIN {workload.relation('dispatches')} USING (dispatch_id) GROUP BY kernel"
        ).fetchall()
        claims = " ".join(f.claim for d in diagnose(workload)[0] for f in d.findings)
    assert shares == {kernel: pytest.approx(100 * (1 - mean / most)) for kernel, most, mean in sums}
    assert shares and all(value is not None and 0 <= value < 1 for value in shares.values())
    rule = next(r for r in rules.rules("gfx942") if r.id == "dispatch.xcds")
    assert rule.optional and "XCDs" not in claims


def test_few_threads_are_the_verdict_where_arithmetic_is_half_idle(
    found: dict[str, Diagnosis],
) -> None:
    """Pipes that are 40 to 50 % used for want of warps are not what limits the kernel."""
    named = [k for k in TRUTHS if "Too few threads" in first(found[k])]
    named += [k for k in TRUTHS if "too few independent instructions" in first(found[k])]
    assert len(named) >= 5
    assert all(TRUTHS[k].gain_for("occupancy", fix=True) >= scoring.HELPS for k in named)


def test_of_memory_and_arithmetic_equally_full_memory_is_the_limit(found: dict[str, Diagnosis]) -> None:
    """Memory reaches less of its peak than pipes: without stores these are 1.3 to 1.6 times as fast."""
    for kernel in ("s1k155", "s1k164", "s1k167"):
        assert found[kernel].verdict.subsystem == "hbm", kernel
        assert TRUTHS[kernel].gain_for("hbm", fix=False) >= scoring.HELPS


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diagnosis]:
    """Kernels of later seeds on which the rules were wrong when they were recorded."""
    wanted = {"s3k153", "s3k160", "s4k089", "s5k156"}
    folder = tmp_path_factory.mktemp("later")
    with gzip.open(diagnoses.LATER_COUNTERS, "rt", newline="") as text:
        names, units, *rows = list(csv.reader(text))
    at = names.index("Kernel Name")
    with (folder / "few.csv").open("w", newline="") as few:
        csv.writer(few, quoting=csv.QUOTE_ALL).writerows([names, units, *(row for row in rows if row[at] in wanted)])
    store = Store(folder / "store")
    import_profile(store, str(folder / "few.csv"), name="later")
    return {d.kernel: d for d in diagnose(Workload.open(store, "later"))[0]}


LATER_TRUTHS = {t.kernel: t for t in scoring.truths(diagnoses.LATER_TIMES)}


def test_atomics_on_one_line_are_seen_among_scattered_loads(later: dict[str, Diagnosis]) -> None:
    """They are 3 % of the requests, since each gather is 32 of them, and all of the time: 2.9 times as fast without."""
    assert later["s3k153"].verdict.subsystem == "atomics"


def test_lanes_that_work_alone_are_the_verdict_where_waves_wait_for_them(later: dict[str, Diagnosis]) -> None:
    one, gain = later["s4k089"].verdict, LATER_TRUTHS["s4k089"].gain_for("divergence", fix=True)
    assert one.subsystem == "divergence" and one.speedup_bound is not None
    assert 17 < gain < one.speedup_bound


def test_full_shared_memory_goes_before_the_waits_of_atomics(later: dict[str, Diagnosis]) -> None:
    assert later["s5k156"].verdict.subsystem == "lds"


def test_issue_slots_beside_busy_tensor_cores_are_no_sure_verdict(later: dict[str, Diagnosis]) -> None:
    assert later["s3k160"].verdict.confidence < scoring.SURE


def test_advice_for_a_grid_that_does_not_fill_the_device_is_a_larger_grid(found: dict[str, Diagnosis]) -> None:
    named = [k for k in TRUTHS if "as the grid fills the device" in " ".join(f.claim for f in found[k].findings)]
    assert len(named) >= 5
    for kernel in named:
        (occupancy,) = (f for f in found[kernel].findings if f.subsystem == "occupancy")
        assert "larger_grid" in [advice.change for advice in occupancy.advice], kernel
        assert not any("compute_occupancy" in advice.do for advice in occupancy.advice), kernel
