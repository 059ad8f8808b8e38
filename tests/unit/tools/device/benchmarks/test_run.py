"""A whole run on a stand-in GPU: what is measured, and what becomes of wrong results, hangs and absurd clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.launches.device_clocks import ClockState
from rooflens.tests.support.benchmarked_gpu import DEVICE, StandIn
from rooflens.tools.device.benchmarks import gpu as run
from rooflens.tools.device.benchmarks import outcomes, runtime
from rooflens.tools.device.benchmarks.gpu import BenchmarkScale, BenchmarkSession
from rooflens.tools.device.benchmarks.measure import LaunchEffort
from rooflens.tools.device.benchmarks.outcomes import CeilingOutcome
from rooflens.tools.device.benchmarks.specs import choose_specs
from rooflens.tools.device.machine import sensors
from rooflens.tools.device.machine.sensors import SensorReading

_RATES = {"hbm_copy": 1300.0, "hbm_triad": 1350.0, "hbm_read": 1400.0, "hbm_write": 1200.0, "fma_f32": 20_000.0}
_TIMED = BenchmarkScale(1 << 20, LaunchEffort(0.01, 5, 12, 0.2), 4, 60.0)
_CHECKED = run.SCALES["functional"]


def _run(
    gpu: StandIn, wanted: list[str], scale: BenchmarkScale = _TIMED, cancel_after: int = 1000
) -> dict[str, CeilingOutcome]:
    told: list[str] = []

    def progress(name: str, number: int, total: int, outcome: CeilingOutcome | None) -> None:
        told.append(name)
        assert number <= total

    session = BenchmarkSession(
        gpu, choose_specs("gfx90a", wanted), scale, progress, lambda: len(told) >= 2 * cancel_after
    )
    found = {o.ceiling: o for o in session.outcomes()}
    assert told == [name for name in found if name != "hbm.bw" for _ in range(2)]
    return found


def test_rates_are_those_of_the_device_and_come_with_theory_and_size() -> None:
    found = _run(StandIn(gbs=_RATES), ["hbm", "valu.f32"])
    assert {name: round(o.value or 0) for name, o in found.items()} == {
        "hbm.copy": 1300, "hbm.triad": 1350, "hbm.read": 1400, "hbm.write": 1200, "valu.f32": 20_000, "hbm.bw": 1400,
    }  # fmt: skip
    copy = found["hbm.copy"]
    assert (copy.status, copy.unit, copy.check) == ("ok", "GB/s", "results are right")
    assert copy.work_per_launch == 2 << 20
    assert copy.theoretical == pytest.approx(1638.4, abs=0.1)
    assert copy.pct_of_theoretical == pytest.approx(100 * 1300 / 1638.4, abs=0.1)
    assert copy.n >= 5 and copy.p05 == pytest.approx(copy.value) == pytest.approx(copy.p95)
    assert found["hbm.bw"].method.startswith("hbm.read, the highest of 4 ways")
    assert found["valu.f32"].unit == "GFLOP/s"


def test_a_kernel_with_wrong_results_or_that_no_compiler_takes_has_no_rate() -> None:
    gpu = StandIn(gbs=_RATES, broken=frozenset({"hbm_copy"}), refuses="fma_f32")
    found = _run(gpu, ["hbm.copy", "hbm.read", "valu.f32"])
    assert (found["valu.f32"].status, "stand-in refuses" in found["valu.f32"].reason) == ("failed", True)
    assert (found["hbm.copy"].status, found["hbm.copy"].value) == ("failed", None)
    assert "4 of 16384 words" in found["hbm.copy"].reason
    assert found["hbm.bw"].method.startswith("hbm.read, the highest of 1 way")


def test_a_rate_above_theory_is_impossible_and_without_time_there_is_none() -> None:
    found = _run(
        StandIn(gbs=_RATES | {"hbm_copy": 1e6, "hbm_write": float("inf")}), ["hbm.copy", "hbm.read", "hbm.write"]
    )
    assert found["hbm.write"].status == "failed" and "measure no time" in found["hbm.write"].reason
    assert found["hbm.copy"].status == "impossible"
    assert found["hbm.copy"].value == pytest.approx(1e6)
    assert found["hbm.bw"].ceiling == "hbm.bw" and found["hbm.bw"].value == pytest.approx(1400)


def test_a_hanging_launch_ends_at_its_deadline_and_skips_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "MARGIN_S", 0.05)
    found = _run(StandIn(gbs=_RATES, hangs_at="hbm_triad"), ["hbm"])
    assert found["hbm.copy"].status == "ok"
    assert found["hbm.triad"].status == "failed" and "did not finish a launch" in found["hbm.triad"].reason
    assert {found[name].status for name in ("hbm.read", "hbm.write")} == {"skipped"}


def test_mode_functional_checks_results_and_times_nothing() -> None:
    gpu = StandIn(gbs=_RATES)
    found = _run(gpu, ["hbm", "valu.f32"], _CHECKED)
    assert {o.status for o in found.values()} == {"ok"}
    assert all(o.value is None and o.check == "results are right" for o in found.values())
    assert "hbm.bw" not in found
    assert gpu.top < 5 << 20


def test_cancel_stops_before_the_next_ceiling() -> None:
    found = _run(StandIn(gbs=_RATES), ["hbm"], cancel_after=1)
    assert found["hbm.copy"].status == "ok"
    assert [o.status for name, o in found.items() if name not in ("hbm.copy", "hbm.bw")] == ["skipped"] * 3
    assert found["hbm.read"].reason == "cancelled"


def test_an_unknown_mode_is_refused_with_the_modes() -> None:
    with pytest.raises(BadArgument, match="full, quick, functional"):
        run.measure_ceilings(None, None, "fast")  # type: ignore[arg-type]


def test_an_l2_rate_near_that_of_l1_is_suspect() -> None:
    l2, l1 = (
        CeilingOutcome("l2.bw", "GB/s", "ok", value=28_000.0),
        CeilingOutcome("vl1d.bw", "GB/s", "ok", value=33_000.0),
    )
    assert [o.status for o in outcomes.compare_caches([l2, l1])] == ["suspect", "ok"]
    assert [o.status for o in outcomes.compare_caches([replace(l2, value=9_000.0), l1])] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("causes", "status", "told"),
    [
        ({"temperature": 0.8}, "suspect", "limited by heat in 80 % of the samples"),
        ({"power": 1.0}, "ok", "limited by its power limit"),
        ({"power": 1.0, "hardware": 0.2}, "suspect", "and a slowdown requested by the hardware in 20 %"),
        ({}, "ok", ""),
    ],
)
def test_a_ceiling_taken_while_heat_or_hardware_held_the_clock_is_suspect(
    causes: dict[str, float], status: str, told: str
) -> None:
    found = outcomes.held_back(
        CeilingOutcome("valu.f32", "GFLOP/s", "ok", value=1.0), ClockState(50, 1200.0, 300.0, 95.0, causes)
    )
    assert found.status == status and told in found.reason and bool(found.reason) == bool(told)
    impossible = CeilingOutcome("valu.f32", "GFLOP/s", "impossible", reason="above theory")
    assert outcomes.held_back(impossible, ClockState(5, None, None, None, causes)).status == "impossible"
    assert outcomes.held_back(impossible, None) == impossible


def test_a_run_keeps_clock_power_and_cause_with_its_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    hot = SensorReading(clock_mhz=1200.0, power_w=300.0, temperature_c=95.0, held_back=frozenset({"temperature"}))
    monkeypatch.setattr(sensors, "reader", lambda vendor, pci, sysfs: lambda: hot)
    found = _run(StandIn(gbs=_RATES), ["valu.f32"])["valu.f32"]
    assert (found.clock_mhz, found.power_w, found.temperature_c, found.held_back) == (
        1200.0,
        300.0,
        95.0,
        "temperature",
    )
    assert found.status == "suspect" and "heat" in found.reason


def test_tensor_rates_above_the_quoted_peak_are_believed_up_to_the_boost_clock() -> None:
    h200 = replace(DEVICE, vendor="nvidia", name="NVIDIA H200", arch="sm_90", compute_units=132, clock_max_mhz=1980.0)
    theory, slow = outcomes.theory(h200), outcomes.theory(h200, 1500.0)
    spec = next(s for s in choose_specs("sm_90", ["matrix.i8"]))
    for value, status in ((1.95e6, "ok"), (2.1e6, "ok"), (2.3e6, "impossible")):
        outcome = outcomes.judge_outcome(CeilingOutcome(spec.name, spec.unit, "ok", value=value), spec, theory, slow)
        assert outcome.status == status
    assert outcome.pct_at_clock == pytest.approx(100 * 2.3e6 / (1500 * 132 * 8192 / 1000))
