"""Rooflines of NVIDIA GPUs: points by hand from the profiler's columns and from kernels whose work is known."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rooflens.analysis.rooflines.inputs import RooflineInputs
from rooflens.analysis.rooflines.roofline import RooflinePoint, build_roofline
from rooflens.analysis.store.store import Store
from rooflens.tests import DATA
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.rooflines import points, scene

Labelled = tuple[Store, RooflineInputs, dict[tuple[str, str, str], RooflinePoint], dict[str, dict[str, float]]]
UNITS = {"ms": 1e6, "us": 1e3, "ns": 1.0, "Gbyte": 1e9, "Mbyte": 1e6, "Kbyte": 1e3, "byte": 1.0}
PER_CYCLE = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"


def short(kernel: str) -> str:
    return kernel.split("(")[0].removeprefix("void ")


@pytest.fixture(scope="module")
def labelled(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    """The labelled recording: its store, scene and points, and the profiler's columns in base units by kernel."""
    file = shared / "ncu" / "h200_labelled_raw.csv"
    store = Store(tmp_path_factory.mktemp("labelled"))
    stored(store, file, "w")
    head, units, *rows = csv.reader(file.open(encoding="utf-8"))
    columns = {}
    for row in rows:
        numbers = {}
        for name, unit, text in zip(head, units, row, strict=True):
            try:
                numbers[name] = float(text.replace(",", "")) * UNITS.get(unit, 1.0)
            except ValueError:
                continue
        columns[short(row[head.index("Kernel Name")])] = numbers
    found = scene(store, store.resolve("w"), source="theoretical")
    made = {(short(k), level, datatype): p for (k, level, datatype), p in points(found).items()}
    return store, found, made, columns


HBM = 2 * 3201 * 6016 / 8 / 1000
"""GB/s by the memory clock and bus width that the profile states, as the metrics have it; the data sheet says 4,800."""


def flop32(row: dict[str, float]) -> float:
    cycles = row["smsp__cycles_elapsed.avg"]
    each = {op: row[PER_CYCLE.format(op)] * cycles for op in ("fadd", "fmul", "ffma", "hadd", "hmul", "hfma")}
    return each["fadd"] + each["fmul"] + 2 * each["ffma"] + 2 * each["hadd"] + 2 * each["hmul"] + 4 * each["hfma"]


def test_ceilings_are_those_of_the_device_as_stated_and_of_the_data_sheet(labelled: Labelled) -> None:
    known = labelled[1].ceilings
    assert known.device == "NVIDIA H200 (sm_90)"
    expected = {
        "hbm.bw": HBM, "l2.bw": 1.71 * 6016, "vl1d.bw": 132 * 128 * 1.98, "lds.bw": 132 * 128 * 1.98,
        "valu.f32": 66908,
        "valu.f64": 33454, "valu.f16": 133816, "matrix.f16": 989430, "matrix.bf16": 989430, "matrix.tf32": 494715,
        "matrix.f64": 66908, "matrix.f8": 1978860, "issue": 1045.44,
    }  # fmt: skip
    for name, value in expected.items():
        assert known.value(name) == pytest.approx(value, rel=1e-4), name


def test_matrix_addition_lies_where_arithmetic_by_hand_puts_it(labelled: Labelled) -> None:
    """4096 x 4096 FP64 additions: 16 bytes read and 8 written for each, but for what is still in L2 at the end."""
    _, _, made, columns = labelled
    row, point = columns["matrix_add_row"], made["matrix_add_row", "hbm", "flop"]
    additions = 4096 * 4096
    assert point.operations == pytest.approx(additions, rel=1e-6)
    assert point.bytes == row["dram__bytes_read.sum"] + row["dram__bytes_write.sum"]
    assert 1 / 24 < point.intensity < 1 / 16
    assert made["matrix_add_row", "l2", "flop"].intensity == pytest.approx(1 / 24, rel=1e-6)
    assert made["matrix_add_row", "vl1d", "flop"].intensity == pytest.approx(1 / 24, rel=1e-6)
    assert made["matrix_add_col", "vl1d", "flop"].intensity == pytest.approx(1 / 48, rel=1e-4), "half of each sector"
    assert point.performance == pytest.approx(additions / row["gpu__time_duration.sum"], rel=1e-6)
    assert point.attainable == pytest.approx(point.intensity * HBM)
    assert (point.bound, point.limiter, point.status) == ("memory", "hbm", "ok")


@pytest.mark.parametrize(("kernel", "intensity"), [("fma_sweep<20>", 2 * 20 / 4), ("fma_sweep<256>", 2 * 256 / 4)])
def test_the_sweep_has_the_intensity_that_it_was_written_for(labelled: Labelled, kernel: str, intensity: float) -> None:
    _, _, made, columns = labelled
    for level in ("hbm", "l2", "vl1d"):
        assert made[kernel, level, "flop"].intensity == pytest.approx(intensity, rel=0.005)
    point, row = made[kernel, "hbm", "flop"], columns[kernel]
    assert point.performance == pytest.approx(flop32(row) / row["gpu__time_duration.sum"], rel=1e-6)
    assert point.bandwidth == pytest.approx(row["dram__bytes.sum.per_second"] * 1e3, rel=0.01), "printed in Tbyte/s"


def test_arithmetic_kernels_are_bound_by_their_pipes(labelled: Labelled) -> None:
    _, _, made, columns = labelled
    row, point = columns["fp32_fma"], made["fp32_fma", "hbm", "flop"]
    assert point.operations == pytest.approx(flop32(row), rel=1e-6)
    assert (point.bound, point.limiter) == ("compute", "valu") and point.performance == pytest.approx(63940, rel=1e-3)
    row, point = columns["tensor_f16"], made["tensor_f16", "hbm", "flop"]
    assert point.operations == pytest.approx(row["sm__ops_path_tensor_src_fp16.sum"] + flop32(row), rel=1e-6)
    assert (point.bound, point.limiter) == ("compute", "matrix") and point.status == "ok"
    assert point.pct_of_attainable == pytest.approx(100 * point.performance / 989430, rel=1e-3)


def test_a_copy_has_no_operations_and_is_judged_by_bandwidth(labelled: Labelled) -> None:
    _, _, made, columns = labelled
    point, row = made["hbm_copy", "hbm", "flop"], columns["hbm_copy"]
    assert (point.operations, point.intensity, point.bound, point.limiter) == (0, 0, "memory", "hbm")
    moved = row["dram__bytes_read.sum"] + row["dram__bytes_write.sum"]
    assert point.bandwidth == pytest.approx(moved / row["gpu__time_duration.sum"], rel=1e-9)
    assert point.pct_of_bandwidth == pytest.approx(100 * point.bandwidth / HBM)


def test_constants_loaded_as_halves_are_doubted_and_real_halves_are_not(labelled: Labelled, tmp_path: Path) -> None:
    doubted = labelled[2]["low_occupancy_shared", "hbm", "flop"]
    assert doubted.status == "suspect" and "61.0% of the operations are HFMA2" in str(doubted.reason)
    store = Store(tmp_path / "store")
    stored(store, DATA / "h200_own_counters.csv.gz", "w")
    made = {(short(k), level): p for (k, level, _), p in points(scene(store, store.resolve("w"))).items()}
    assert made["half2fma", "hbm"].status == "ok" and made["half2fma", "hbm"].reason is None
    assert made["half2fma", "hbm"].pct_of_attainable == pytest.approx(80, abs=1)
    assert made["wm", "hbm"].limiter == "matrix" and made["conflict", "lds"].limiter == "lds"
    assert made["copy4", "hbm"].limiter == "hbm"


def test_units_of_the_vector_pipe_work_side_by_side(labelled: Labelled) -> None:
    """FP32 and FP64 have units of their own, so their least times do not add up."""
    from rooflens.analysis.rooflines.limits import least_time_ns

    found = labelled[1]
    both = [o for o in found.formulas.operation if o.name in ("valu.f32", "valu.f64")]
    assert least_time_ns(both, {"valu.f32": 66908.16, "valu.f64": 33454.08}, found.ceilings) == pytest.approx(1)
    shared = [o for o in found.formulas.operation if o.name in ("valu.f32", "valu.f16")]
    assert least_time_ns(shared, {"valu.f32": 66908.16, "valu.f16": 133816.32}, found.ceilings) == pytest.approx(2)


def test_the_instruction_roofline_counts_warp_instructions(labelled: Labelled) -> None:
    _, found, _, columns = labelled
    roofline = build_roofline(found, ("hbm", "vl1d"), kind="instruction")
    made, walls = roofline.points, roofline.walls
    by = {(short(p.kernel), p.level): p for p in made}
    row, point = columns["fp32_fma"], by["fp32_fma", "hbm"]
    assert point.performance == pytest.approx(row["smsp__inst_executed.sum"] / row["gpu__time_duration.sum"], rel=1e-9)
    assert point.pct_of_peak == pytest.approx(100 * (point.performance or 0) / 1045.44)
    ranks = {short(p.kernel): p.rank for p in made}
    of = {(w.rank, w.kind): w for w in walls}
    assert of[ranks["strided_read"], "memory"].value == pytest.approx(32)
    assert "a sector for each lane" in of[ranks["strided_read"], "memory"].walls
    assert of[ranks["matrix_add_row"], "memory"].reading.startswith("8 sectors per global or local memory request")
    assert of[ranks["shared_conflict"], "bank conflict"].value == pytest.approx(32, rel=0.02)
