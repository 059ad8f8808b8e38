"""Counters that rocprof derives itself give figures by AMD's definitions where those behind them are missing."""

from __future__ import annotations

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.workload import Workload
from rooflens.tests.made.rocprofv3 import GPU, Launch, Writer, run
from rooflens.tests.support.figures import evaluate

APU = GPU | {
    "name": "gfx1151", "product_name": "AMD Radeon 8060S", "num_xcc": 1, "cu_count": 40, "simd_count": 80,
    "simd_per_cu": 2, "wave_front_size": 32, "max_waves_per_simd": 16, "gfx_target_version": 110501,
}  # fmt: skip


@pytest.fixture
def profiled(bench, tmp_path):
    """Imports launches of 15.16 ms, each with its own counters; returns the workload."""

    def profiled(*launches: dict[str, float], gpu: dict = GPU, durations: tuple[int, ...] = ()) -> Workload:
        times = durations or (15_160_000,) * len(launches)
        made = [
            Launch("decode", (262144, 1, 1), duration=t, counters={c: [v] for c, v in counters.items()})
            for t, counters in zip(times, launches, strict=True)
        ]
        writer = Writer(tmp_path / "run")
        file = writer.counters("derived", run(*made), agents=False)
        writer.agents("derived", gpu)
        return Workload.open(bench.store, bench.load(file).workload)

    return profiled


def values(workload: Workload, *names: str) -> list[float | None]:
    """The figures of a workload in the order of ``names``."""
    found = {f.name: f.value for f in evaluate(workload.store, workload.manifest, list(names))}
    return [found[name] for name in names]


def first_verdict(workload: Workload) -> Diagnosis:
    return diagnose(workload)[0][0]


def test_sizes_in_kib_give_bytes_and_bandwidth(profiled):
    workload = profiled({"FETCH_SIZE": 22_660_092.0, "WRITE_SIZE": 1024.0})
    read, written, bandwidth = values(workload, "hbm.read_bytes", "hbm.write_bytes", "hbm.read_bw_gbs")
    assert (read, written) == (22_660_092 * 1024, 1024 * 1024)
    assert bandwidth == pytest.approx(1530.6, abs=0.1)
    (figure,) = evaluate(workload.store, workload.manifest, ["hbm.read_bw_gbs"])
    assert "share of local memory was not counted" in str(figure)


@pytest.mark.parametrize(
    ("gpu", "counters", "figures"),
    [
        (GPU, {"FetchSize": 1.0, "WriteSize": 2.0}, {"hbm.read_bytes": 1024, "hbm.write_bytes": 2048}),
        # Releases of the profiler count its reads of 128 bytes as 64.
        (GPU | {"name": "gfx950", "gfx_target_version": 90500}, {"FETCH_SIZE": 1.0, "WRITE_SIZE": 2.0},
         {"hbm.read_bytes": None, "hbm.write_bytes": 2048}),
        (GPU, {"VALUBusy": 40.0, "VALUUtilization": 50.0, "L2CacheHit": 75.0, "MfmaUtil": 12.0,
               "MeanOccupancyPerCU": 8.0, "GPUBusy": 99.0, "MemUnitBusy": 90.0, "MemUnitStalled": 20.0,
               "WriteUnitStalled": 3.0, "LDSBankConflict": 7.0, "ALUStalledByLDS": 5.0, "SALUBusy": 6.0,
               "MeanOccupancyPerActiveCU": 9.0, "Wavefronts": 4096.0, "VALUInsts": 55.0, "SALUInsts": 11.0},
         {"valu.utilization_pct": 40, "divergence.active_threads": 32, "l2.hit_rate_pct": 75,
          "matrix.utilization_pct": 12, "occupancy.waves": 8 * 304, "dispatch.gpu_active_pct": 99,
          "vl1d.memory_unit_busy_pct": 90, "vl1d.memory_unit_stalled_pct": 20, "l2.write_unit_stalled_pct": 3,
          "lds.bank_conflict_time_pct": 7, "lds.alu_stalled_pct": 5, "salu.arithmetic_busy_pct": 6,
          "occupancy.waves_per_busy_cu": 9, "dispatch.sequencer_waves": 4096, "valu.average_instructions": 55,
          "salu.average_instructions": 11}),
        # Of 32 slots per compute unit; and the counted hits come before the derived rate.
        (GPU, {"OccupancyPercent": 50.0, "TCC_HIT_sum": 30.0, "TCC_MISS_sum": 10.0, "L2CacheHit": 20.0},
         {"occupancy.waves": 16 * 304, "l2.hit_rate_pct": 75}),
        (APU, {"FETCH_SIZE": 1000.0, "WRITE_SIZE": 10.0, "L2CacheHit": 40.0, "LDSBankConflict": 25.0,
               "WAVE_DEP_WAIT": 60.0, "WAVE_ISSUE_WAIT": 20.0, "OccupancyPercent": 70.0, "MemUnitBusy": 99.6},
         {"hbm.read_bytes": 1_024_000, "hbm.write_bytes": 10_240, "l2.hit_rate_pct": 40,
          "lds.bank_conflict_rate_pct": 25, "latency.dependency_wait_pct": 60, "latency.issue_wait_pct": 20,
          "occupancy.filled_pct": 70, "vl1d.memory_unit_busy_pct": 99.6}),
    ],
    ids=["older names", "gfx950", "shares", "slots of waves", "RDNA"],
)  # fmt: skip
def test_derived_counters_give_figures_by_the_definitions_of_the_profiler(profiled, gpu, counters, figures):
    assert values(profiled(counters, gpu=gpu), *figures) == pytest.approx(list(figures.values()))


def test_shares_are_weighted_by_time_and_counted_cycles_are_never_divided_by_it(profiled):
    """Busy cycles without the cycles that they are a share of give no figure, and the reason names what is missing."""
    workload = profiled(
        {"VALUBusy": 10.0, "MemUnitBusy": 90.0}, {"VALUBusy": 90.0, "MemUnitBusy": 10.0}, durations=(3000, 1000)
    )
    assert values(workload, "valu.utilization_pct", "vl1d.memory_unit_busy_pct") == pytest.approx([30, 70])
    workload = profiled({"SQ_ACTIVE_INST_VALU": 1000.0, "TCC_HIT_sum": 10.0})
    assert values(workload, "valu.utilization_pct", "l2.hit_rate_pct") == [None, None]
    (figure,) = evaluate(workload.store, workload.manifest, ["valu.utilization_pct"])
    assert "GRBM_GUI_ACTIVE" in str(figure)


def test_no_derived_counter_is_ever_requested():
    derived = [m for m in catalog.metrics("gfx942") if m.table == "40.9"]
    assert len(derived) == 10 and all(catalog.counters("gfx942", m) == [] for m in derived)
    asked = catalog.counters("gfx942", catalog.by_name("gfx942")["hbm.read_bytes"])
    assert "FETCH_SIZE" not in asked and "TCC_EA0_RDREQ_sum" in asked


def test_memory_is_named_by_the_bytes_alone(profiled):
    kib = 4000 * 15_160_000 / 1024
    for counters in ({"FETCH_SIZE": kib, "WRITE_SIZE": 100.0}, {"FETCH_SIZE": kib}):
        verdict = first_verdict(profiled(counters)).verdict
        assert (verdict.bound, verdict.subsystem) == ("memory", "hbm")
    assert first_verdict(profiled({"FETCH_SIZE": 22_660_092.0})).verdict.bound == "unknown", "reads alone that are few"


def test_a_memory_unit_that_is_busy_and_held_up_is_a_limit(profiled):
    held_up = first_verdict(profiled({"MemUnitBusy": 96.0, "MemUnitStalled": 30.0}))
    assert held_up.verdict.subsystem == "vl1d" and "held up in 30 %" in held_up.findings[0].claim
    busy = first_verdict(profiled({"MemUnitBusy": 96.0, "MemUnitStalled": 1.0}))
    assert busy.verdict.bound == "unknown"
    assert any("whether it works or waits" in f.claim for f in busy.findings)


def test_an_apu_near_the_bandwidth_of_its_memory_is_limited_by_it(profiled):
    kib = 228 * 15_160_000 / 1024
    near = first_verdict(profiled({"FETCH_SIZE": kib, "WRITE_SIZE": 10.0, "MemUnitBusy": 99.6}, gpu=APU))
    assert (near.verdict.bound, near.verdict.subsystem) == ("memory", "hbm")
    cached = first_verdict(profiled({"FETCH_SIZE": 2 * kib, "WRITE_SIZE": 10.0, "MemUnitBusy": 99.6}, gpu=APU))
    assert cached.verdict.subsystem != "hbm"
    impossible = first_verdict(profiled({"FETCH_SIZE": kib, "MemUnitBusy": 860_299.5}, gpu=APU))
    assert impossible.verdict.bound == "unknown", "on some releases this counter of gfx1151 is not a share at all"
