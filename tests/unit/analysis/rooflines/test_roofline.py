"""Rooflines: the rules of counting, and the verdict from all pipes together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.notes import Reason
from rooflens.analysis.base.problems import BadArgument, BadInput
from rooflens.analysis.rooflines.roofline import build_roofline
from rooflens.analysis.store.store import Store
from rooflens.tests.support.rooflines import MI250X, MI300X, points, publish, scene

BENCH = [(0, "hbm.bw", "GB/s", 1400.0), (0, "l2.bw", "GB/s", 5000.0), (0, "vl1d.bw", "GB/s", 9200.0),
         (0, "lds.bw", "GB/s", 18000.0), (0, "valu.f32", "GFLOP/s", 21000.0), (0, "valu.f64", "GFLOP/s", 20000.0),
         (0, "matrix.bf16", "GFLOP/s", 170000.0), (0, "matrix.f16", "GFLOP/s", 165000.0),
         (0, "matrix.f32", "GFLOP/s", 41000.0), (0, "matrix.f64", "GFLOP/s", 41000.0),
         (0, "matrix.i8", "GIOP/s", 166000.0)]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


# -- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10])
def test_the_rate_of_identical_dispatches_does_not_depend_on_their_number(store: Store, n: int) -> None:
    row = {"kernel": "k", "duration_ns": 1000.0, "SQ_INSTS_VALU_FMA_F32": 100.0, "TCC_EA_RDREQ_sum": 200.0}
    point = points(scene(store, publish(store, [row] * n)))["k", "hbm", "flop"]
    assert (point.performance, point.intensity, point.n) == (12.8, 1.0, n)
    assert (point.operations, point.bytes, point.time_ns) == (12800.0 * n, 12800.0 * n, 1000.0 * n)


COUNTED = [
    ("gfx90a", "VALU_ADD_F16", "valu.f16", 64),
    ("gfx90a", "VALU_MUL_F32", "valu.f32", 64),
    ("gfx90a", "VALU_FMA_F64", "valu.f64", 128),
    ("gfx90a", "VALU_MFMA_MOPS_BF16", "matrix.bf16", 512),
    ("gfx942", "VALU_MFMA_MOPS_XF32", "matrix.xf32", 512),
    ("gfx942", "VALU_MFMA_MOPS_F8", "matrix.f8", 512),
    ("gfx950", "VALU_MFMA_MOPS_F6F4", "matrix.f6f4", 512),
]


@pytest.mark.parametrize(("arch", "counter", "operation", "work"), COUNTED)
def test_each_counter_alone_gives_its_known_work(
    store: Store, arch: str, counter: str, operation: str, work: int
) -> None:
    facts = MI300X if arch != "gfx90a" else MI250X
    found = scene(store, publish(store, [{"kernel": "k", f"SQ_INSTS_{counter}": 10.0}], arch=arch, facts=facts))
    assert points(found)["k", "hbm", "flop"].operations == 10 * work
    (rate,) = build_roofline(found, (), None).rates
    assert (rate.operation, rate.operations) == (operation, 10 * work)
    assert points(found, operation)["k", "hbm", operation].operations == 10 * work
    assert points(found, operation.split(".")[1])["k", "hbm", operation.split(".")[1]].operations == 10 * work


def test_integers_are_their_own_kind_and_no_flop(store: Store) -> None:
    row = {"kernel": "k", "SQ_INSTS_VALU": 900.0, "SQ_INSTS_VALU_INT32": 100.0, "SQ_INSTS_VALU_MFMA_MOPS_I8": 10.0,
           "TCC_EA_RDREQ_sum": 10.0}  # fmt: skip
    made = points(scene(store, publish(store, [row])))
    assert made["k", "hbm", "flop"].operations == 0 and made["k", "hbm", "flop"].intensity == 0
    integer = made["k", "hbm", "iop"]
    assert (integer.operations, integer.unit, integer.intensity) == (6400 + 5120, "GIOP/s", 11520 / 640)


def test_missing_matrix_counters_are_named_and_not_zero(store: Store) -> None:
    missing = ["SQ_INSTS_VALU_MFMA_MOPS_F8"]
    row = {"kernel": "k", "SQ_INSTS_VALU_FMA_F32": 10.0, "SQ_INSTS_MFMA": 5.0}
    found = scene(store, publish(store, [row], arch="gfx942", facts=MI300X, without=missing))
    point = points(found)["k", "hbm", "flop"]
    assert (point.operations, point.status) == (1280, "suspect") and "not counted: matrix.f8" in str(point.reason)
    missing_f8 = Reason("no_counter", "counter SQ_INSTS_VALU_MFMA_MOPS_F8 missing")
    assert build_roofline(found, (), None).not_counted == {"matrix.f8": missing_f8}
    assert point.bound == "unknown", "the uncounted work may be what takes the time"


def test_a_kernel_without_matrix_instructions_needs_no_matrix_counters(store: Store) -> None:
    row = {"kernel": "k", "SQ_INSTS_VALU_FMA_F32": 10.0}
    found = scene(store, publish(store, [row], arch="gfx942", facts=MI300X, without=["SQ_INSTS_VALU_MFMA_MOPS_F8"]))
    assert points(found)["k", "hbm", "flop"].status == "ok"
    assert build_roofline(found, (), None).not_counted == {}


def test_figures_come_from_the_dispatches_that_have_all_their_counters(store: Store) -> None:
    whole = {"kernel": "k", "duration_ns": 1000.0, "SQ_INSTS_VALU_ADD_F32": 100.0, "TCC_EA_RDREQ_sum": 100.0}
    part = whole | {"duration_ns": 9000.0, "TCC_EA_RDREQ_sum": None}
    made = points(scene(store, publish(store, [whole, part])))
    assert (made["k", "hbm", "flop"].n, made["k", "hbm", "flop"].time_ns, made["k", "hbm", "flop"].intensity) == (
        1,
        1000,
        1,
    )
    assert (made["k", "vl1d", "flop"].n, made["k", "vl1d", "flop"].operations) == (2, 12800)


def test_unequal_dispatches_weigh_by_their_work(store: Store) -> None:
    rows = [{"kernel": "k", "duration_ns": t, "SQ_INSTS_VALU_ADD_F32": f, "TCC_EA_RDREQ_sum": b}
            for t, f, b in [(100.0, 100.0, 100.0), (900.0, 0.0, 300.0)]]  # fmt: skip
    manifest = publish(store, rows)
    point = points(scene(store, manifest))["k", "hbm", "flop"]
    assert (point.intensity, point.performance) == (0.25, 6.4)
    single = build_roofline(scene(store, manifest, by="dispatch"), ("hbm",), None).points
    assert [(p.dispatch, p.datatype, p.performance) for p in single] == [(1, "flop", 0.0), (0, "flop", 64.0)]
    filtered = points(scene(store, manifest, dispatches="0"))["k", "hbm", "flop"]
    assert (filtered.n, filtered.intensity) == (1, 1.0)


@pytest.mark.parametrize(("arch", "line", "width"), [("gfx90a", 64, 64), ("gfx942", 128, 128), ("gfx950", 128, 128)])
def test_bytes_of_a_level_follow_the_target(store: Store, arch: str, line: int, width: int) -> None:
    prefix = "TCC_EA" if arch == "gfx90a" else "TCC_EA0"
    reads = {
        "gfx90a": {"TCC_EA_RDREQ_sum": 7.0, "TCC_EA_RDREQ_32B_sum": 1.0},
        "gfx942": {"TCC_EA0_RDREQ_sum": 7.0, "TCC_BUBBLE_sum": 2.0, "TCC_EA0_RDREQ_32B_sum": 1.0},
        "gfx950": {"TCC_EA0_RDREQ_128B_sum": 2.0, "TCC_EA0_RDREQ_64B_sum": 4.0, "TCC_EA0_RDREQ_32B_sum": 1.0},
    }[arch]
    hbm = {"gfx90a": 6 * 64 + 32, "gfx942": 2 * 128 + 4 * 64 + 32, "gfx950": 2 * 128 + 4 * 64 + 32}[arch]
    row = {"kernel": "k", "TCP_TOTAL_CACHE_ACCESSES_sum": 10.0, "TCP_TCC_READ_REQ_sum": 5.0,
           "TCP_TCC_WRITE_REQ_sum": 3.0, "SQ_LDS_IDX_ACTIVE": 20.0, "SQ_LDS_BANK_CONFLICT": 4.0,
           f"{prefix}_WRREQ_sum": 3.0, f"{prefix}_WRREQ_64B_sum": 1.0, **reads}  # fmt: skip
    made = points(scene(store, publish(store, [row], arch=arch, facts=MI300X)))
    got = {level: made["k", level, "flop"].bytes for level in ("hbm", "l2", "vl1d", "lds")}
    assert got == {"hbm": hbm + 64 + 2 * 32, "l2": 5 * width + 3 * 64, "vl1d": 10 * line, "lds": 16 * 32 * 4}


def test_without_the_size_counters_hbm_bytes_of_gfx950_are_a_range(store: Store) -> None:
    row = {"kernel": "k", "SQ_INSTS_VALU_ADD_F32": 1.0, "TCC_EA0_RDREQ_sum": 100.0, "TCC_EA0_RDREQ_32B_sum": 20.0}
    without = ["TCC_EA0_RDREQ_128B_sum", "TCC_EA0_RDREQ_64B_sum"]
    point = points(scene(store, publish(store, [row], arch="gfx950", facts=MI300X, without=without)))[
        "k", "hbm", "flop"
    ]
    assert (point.bytes, point.intensity, point.status) == (None, None, "not_collected")
    assert "between 5760 and 10880" in str(point.reason) and "TCC_EA0_RDREQ_128B_sum missing" in str(point.reason)
    assert point.performance == 0.064, "the rate needs no bytes"


def test_negative_bytes_are_impossible_and_decide_nothing(store: Store) -> None:
    row = {"kernel": "k", "SQ_INSTS_VALU_ADD_F32": 1.0, "TCC_EA_RDREQ_sum": 1.0, "TCC_EA_RDREQ_32B_sum": 100.0}
    point = points(scene(store, publish(store, [row])))["k", "hbm", "flop"]
    assert (point.status, point.bound) == ("impossible", "unknown") and "negative" in str(point.reason)


def test_an_untimed_profile_has_intensities_but_no_rates(store: Store) -> None:
    row = {"kernel": "k", "duration_ns": None, "SQ_INSTS_VALU_ADD_F32": 1.0, "TCC_EA_RDREQ_sum": 1.0}
    point = points(scene(store, publish(store, [row])))["k", "hbm", "flop"]
    assert (point.intensity, point.performance, point.status, point.bound) == (1.0, None, "not_collected", "unknown")


# -- roofs and verdict --------------------------------------------------------------------------


def test_attainable_is_the_classical_roof_for_one_type(store: Store) -> None:
    rows = [{"kernel": k, "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": f, "TCC_EA_RDREQ_sum": 1e5}
            for k, f in [("left", 1e4), ("right", 1e6)]]  # fmt: skip
    found = scene(store, publish(store, rows, ceilings=BENCH))
    made = points(found)
    assert made["left", "hbm", "flop"].attainable == pytest.approx(0.2 * 1400)
    assert made["right", "hbm", "flop"].attainable == 21000
    assert found.ceilings.ridge("valu.f32", "hbm") == 15


def test_each_type_has_its_own_ceiling_and_types_of_a_pipe_add_up(store: Store) -> None:
    row = {"kernel": "k", "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1e5, "SQ_INSTS_VALU_FMA_F64": 1e5,
           "SQ_INSTS_VALU_MFMA_MOPS_BF16": 1e6}  # fmt: skip
    made = points(scene(store, publish(store, [row], ceilings=BENCH)), "all")
    f32, f64, bf16 = 128e5, 128e5, 512e6
    vector, matrix = f32 / 21000 + f64 / 20000, bf16 / 170000
    total = made["k", "hbm", "flop"]
    assert total.attainable == pytest.approx((f32 + f64 + bf16) / max(vector, matrix))
    assert made["k", "hbm", "valu.f64"].attainable == 20000 and made["k", "hbm", "matrix.bf16"].attainable == 170000


def test_the_limiter_is_the_pipe_or_level_that_needs_most_of_the_time(store: Store) -> None:
    base = {"duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1e3}
    rows = [
        {**base, "kernel": "stream", "TCC_EA_RDREQ_sum": 0.9 * 1e4 * 1400 / 64},
        {**base, "kernel": "cached", "TCP_TCC_READ_REQ_sum": 0.8 * 1e4 * 5000 / 64, "TCC_EA_RDREQ_sum": 100.0},
        {**base, "kernel": "tiled", "SQ_LDS_IDX_ACTIVE": 0.7 * 1e4 * 18000 / 128},
        {**base, "kernel": "fma", "SQ_INSTS_VALU_FMA_F32": 0.9 * 1e4 * 21000 / 128},
        {**base, "kernel": "gemm", "SQ_INSTS_VALU_MFMA_MOPS_F16": 0.9 * 1e4 * 165000 / 512, "SQ_INSTS_MFMA": 1.0,
         "SQ_INSTS_VALU": 1.0},
        {**base, "kernel": "waits", "TCC_EA_RDREQ_sum": 0.3 * 1e4 * 1400 / 64},
        {**base, "kernel": "integer", "SQ_INSTS_VALU_FMA_F32": 0.0, "SQ_INSTS_VALU_INT32": 0.9 * 1e4 * 10500 / 64},
        {**base, "kernel": "slow", "SQ_ACTIVE_INST_VALU": 0.97 * 110 * 1e4, "GRBM_GUI_ACTIVE": 1e4},
        {**base, "kernel": "moves", "SQ_INSTS_VALU": 0.9 * 1e4 * 21000 / 128},
    ]  # fmt: skip
    made = points(scene(store, publish(store, rows, ceilings=BENCH)))
    assert {k: (made[k, "hbm", "flop"].bound, made[k, "hbm", "flop"].limiter) for k in [r["kernel"] for r in rows]} == {
        "stream": ("memory", "hbm"), "cached": ("memory", "l2"), "tiled": ("memory", "lds"), "fma": ("compute", "valu"),
        "gemm": ("compute", "matrix"), "waits": ("latency", "latency"), "integer": ("compute", "valu"),
        "slow": ("compute", "valu"), "moves": ("compute", "valu"),
    }  # fmt: skip
    assert made["stream", "l2", "flop"].bound == "memory", "the verdict is the kernel's, at every level"


def test_a_missing_level_makes_the_verdict_unknown_unless_another_is_saturated(store: Store) -> None:
    rows = [{"kernel": "idle", "duration_ns": 1e4}, {"kernel": "fma", "duration_ns": 1e4,
            "SQ_INSTS_VALU_FMA_F32": 0.9 * 1e4 * 21000 / 128}]  # fmt: skip
    made = points(scene(store, publish(store, rows, ceilings=BENCH, without=["TCC_EA_RDREQ_sum"])))
    assert made["idle", "l2", "flop"].bound == "unknown" and made["fma", "l2", "flop"].bound == "compute"


def test_above_a_recorded_ceiling_is_allowed_above_theory_is_impossible(store: Store) -> None:
    rows = [{"kernel": k, "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": share * 1e4 * 23936 / 128}
            for k, share in [("fast", 0.95), ("boost", 1.03), ("wrong", 2.0)]]  # fmt: skip
    manifest = publish(store, rows, ceilings=BENCH)
    made = points(scene(store, manifest))
    fast, boost, wrong = (made[k, "hbm", "flop"] for k in ("fast", "boost", "wrong"))
    assert fast.pct_of_attainable and fast.pct_of_attainable > 100 and fast.status == "ok"
    assert "recorded ceiling, which is a lower bound" in str(fast.reason)
    assert (boost.status, wrong.status) == ("suspect", "impossible") and "replays were mixed" in str(wrong.reason)
    assert wrong.bound == "unknown", "what cannot be decides nothing"
    by_theory = points(scene(store, manifest, source="theoretical"))["wrong", "hbm", "flop"]
    assert (by_theory.status, by_theory.bound) == ("impossible", "unknown")


@pytest.mark.parametrize(("share", "status", "bound"), [(1.5, "suspect", "memory"), (3.5, "impossible", "unknown")])
def test_the_infinity_cache_can_beat_hbm_but_not_itself(store: Store, share: float, status: str, bound: str) -> None:
    row = {"kernel": "k", "duration_ns": 1e6, "TCC_EA0_RDREQ_sum": share * 5324.8e6 / 64}
    made = points(scene(store, publish(store, [row], arch="gfx942", facts=MI300X, device="MI300X")))
    assert (made["k", "hbm", "flop"].status, made["k", "hbm", "flop"].bound) == (status, bound)
    assert "Infinity Cache" in str(made["k", "hbm", "flop"].reason) or status == "impossible"


@pytest.mark.parametrize(("arch", "status"), [("gfx90a", "impossible"), ("gfx942", "suspect")])
def test_dual_issue_can_double_the_vector_rate_where_it_exists(store: Store, arch: str, status: str) -> None:
    row = {"kernel": "k", "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1.5 * 1e4 * 23936 / 128}
    point = points(scene(store, publish(store, [row], arch=arch)))["k", "l2", "flop"]
    assert point.status == status


def test_datatypes_that_the_gpu_does_not_count_are_refused_with_the_known_ones(store: Store) -> None:
    found = scene(store, publish(store, [{"kernel": "k"}]))
    with pytest.raises(BadArgument, match="bf16"):
        points(found, "fp8")
    assert points(found, "FP32")["k", "hbm", "f32"].operations == 0


def test_an_unknown_target_is_refused(store: Store) -> None:
    manifest = publish(store, [{"kernel": "k"}])
    with pytest.raises(BadInput, match="gfx1030"):
        scene(store, manifest.model_copy(update={"arch": "gfx1030"}))


# -- instruction roofline -----------------------------------------------------------------------


def test_transactions_and_walls_of_the_instruction_roofline(store: Store) -> None:
    row = {"kernel": "k", "duration_ns": 1e4, "SQ_INSTS_VALU": 3000.0, "SQ_INSTS_SALU": 200.0, "SQ_INSTS_VMEM": 100.0,
           "TCP_TOTAL_CACHE_ACCESSES_sum": 6400.0, "TCP_TCC_READ_REQ_sum": 1600.0, "TCC_EA_RDREQ_sum": 800.0,
           "SQ_INSTS_LDS": 50.0, "SQ_LDS_IDX_ACTIVE": 400.0, "SQ_LDS_BANK_CONFLICT": 300.0}  # fmt: skip
    levels = ("hbm", "l2", "vl1d", "lds")
    roofline = build_roofline(scene(store, publish(store, [row])), levels, kind="instruction")
    made, walls = roofline.points, roofline.walls
    assert {p.level: p.per_transaction for p in made} == {"hbm": 4.0, "l2": 2.0, "vl1d": 0.5, "lds": 8.0}
    assert {w.kind: w.value for w in walls} == {"memory": 64.0, "bank conflict": 4.0}
    assert "scattered" in walls[0].reading and "75 %" in walls[1].reading
    assert made[0].bound == roofline.limits[0].bound == "latency"


# -- collecting ---------------------------------------------------------------------------------
