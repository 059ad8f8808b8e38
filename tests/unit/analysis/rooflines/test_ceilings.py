"""Ceilings: data sheets reproduced from clock x units x rate, and measured ones kept to their device."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis import workload as database
from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.catalogue.targets import identify, product, products
from rooflens.analysis.catalogue.work_formulas import work_formulas
from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.rooflines import ceilings
from rooflens.analysis.store import measured_ceilings
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.rooflines import MI250X, MI300X, publish, scene

SAMPLE = ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"

# Peaks as the makers print them (TFLOP/s, TOP/s), per device as software sees it; bandwidth in GB/s.
PRINTED = {
    "mi50": {"hbm.bw": 1024, "valu.f32": 13.2, "valu.f64": 6.6, "valu.f16_packed": 26.5},
    "mi60": {"hbm.bw": 1024, "valu.f32": 14.7, "valu.f64": 7.4, "valu.f16_packed": 29.5, "issue": 115.2},
    "radeon_vii": {"hbm.bw": 1024, "valu.f32": 13.8, "valu.f64": 3.46},
    "radeon_pro_vii": {"hbm.bw": 1024, "valu.f32": 13.1, "valu.f64": 6.5},
    "mi100": {"hbm.bw": 1228.8, "valu.f32": 23.1, "valu.f64": 11.5, "matrix.f16": 184.6, "matrix.bf16": 92.3,
              "matrix.f32": 46.1, "matrix.i8": 184.6, "issue": 180.24},
    "mi210": {"hbm.bw": 1638.4, "valu.f32": 22.6, "valu.f64": 22.6, "matrix.f64": 45.3, "matrix.bf16": 181.0},
    "mi250": {"hbm.bw": 1638.4, "valu.f64": 22.6, "matrix.f16": 181.0},
    "mi250x": {"hbm.bw": 1638.4, "valu.f32": 23.9, "valu.f32_packed": 47.9, "valu.f64": 23.9, "matrix.f64": 47.9,
               "matrix.f32": 47.9, "matrix.f16": 191.5, "matrix.bf16": 191.5, "matrix.i8": 191.5},
    "mi300a": {"hbm.bw": 5324.8, "valu.f32_packed": 122.6, "valu.f64": 61.3, "matrix.f64": 122.6, "matrix.f16": 980.6,
               "matrix.f8": 1961.2},
    "mi300x": {"hbm.bw": 5324.8, "valu.f32_packed": 163.4, "valu.f64": 81.7, "matrix.f64": 163.4, "matrix.xf32": 653.7,
               "matrix.f16": 1307.4, "matrix.bf16": 1307.4, "matrix.f8": 2614.9, "matrix.i8": 2614.9},
    "mi325x": {"hbm.bw": 6000, "valu.f64": 81.7, "matrix.f8": 2614.9},
    "mi350x": {"hbm.bw": 8000, "valu.f64": 72.1, "matrix.f64": 72.1, "matrix.f16": 2306.9, "matrix.f6f4": 9227.5},
    "mi355x": {"hbm.bw": 8000, "valu.f64": 78.6, "matrix.f64": 78.6, "matrix.f16": 2516.6, "matrix.f6f4": 10066.3},
    "mi308x": {"hbm.bw": 5324.8},
    "rx_7900_xtx": {"hbm.bw": 960, "valu.f32_packed": 61.4},
    "rx_7900_xt": {"hbm.bw": 800, "valu.f32_packed": 51.6},
    "pro_w7900": {"hbm.bw": 864, "valu.f32_packed": 61.3},
    "rx_7800_xt": {"hbm.bw": 624, "valu.f32_packed": 37.3},
    "rx_7700_xt": {"hbm.bw": 432, "valu.f32_packed": 35.17},
    "rx_7600": {"hbm.bw": 288, "valu.f32_packed": 21.75},
    "rx_9070_xt": {"hbm.bw": 640, "valu.f32_packed": 48.7},
    "rx_9070": {"hbm.bw": 640, "valu.f32_packed": 36.1},
    "ai_pro_r9700": {"hbm.bw": 640, "valu.f32_packed": 47.8},
    "rx_9060_xt": {"hbm.bw": 320, "valu.f32_packed": 25.6},
    "radeon_8050s": {"hbm.bw": 256},
    "radeon_8060s": {"hbm.bw": 256, "valu.f32_packed": 29.7},
    "v100": {"hbm.bw": 900, "valu.f32": 15.7, "valu.f64": 7.8, "matrix.f16": 125.3, "issue": 489.6},
    "a100": {"hbm.bw": 2039, "valu.f32": 19.5, "valu.f64": 9.7, "valu.f16_packed": 78.0, "matrix.f16": 311.9,
             "matrix.tf32": 155.9, "matrix.f64": 19.5, "matrix.i8": 623.7},
    "a100_40gb": {"hbm.bw": 1555, "valu.f32": 19.5},
    "h100": {"hbm.bw": 3350, "valu.f32": 66.9, "valu.f64": 33.5, "valu.f16_packed": 133.8, "matrix.f16": 989.4,
             "matrix.tf32": 494.7, "matrix.f64": 66.9, "matrix.f8": 1978.9},
    "h200": {"hbm.bw": 4814.304, "valu.f32": 66.9, "matrix.bf16": 989.4, "matrix.i8": 1978.9},
    "t4": {"hbm.bw": 320, "matrix.f16": 65, "matrix.i8": 130},
    "rtx_2060_super": {"hbm.bw": 448, "valu.f32": 7.2, "matrix.f16": 57.4},
    "rtx_2080_ti": {"hbm.bw": 616, "valu.f32": 13.4, "matrix.f16": 107.6},
    "a30": {"hbm.bw": 933, "valu.f32": 10.3, "matrix.bf16": 165},
    "a10": {"hbm.bw": 600, "valu.f32": 31.2, "matrix.bf16": 125},
    "a10g": {"hbm.bw": 600, "valu.f32": 35, "matrix.bf16": 70, "matrix.i8": 140},
    "a40": {"hbm.bw": 696, "valu.f32": 37.4, "matrix.bf16": 149.7, "matrix.tf32": 74.8},
    "rtx_a6000": {"hbm.bw": 768, "valu.f32": 38.7, "matrix.f16": 154.8},
    "rtx_3060": {"hbm.bw": 360, "valu.f32": 12.7},
    "rtx_3060_ti": {"hbm.bw": 448, "valu.f32": 16.2},
    "rtx_3070": {"hbm.bw": 448, "valu.f32": 20.3, "matrix.f16": 81.3, "matrix.bf16": 40.6, "matrix.i8": 162.6},
    "rtx_3070_ti": {"hbm.bw": 608, "valu.f32": 21.7},
    "rtx_3080": {"hbm.bw": 760, "valu.f32": 29.8, "matrix.f16": 119, "matrix.bf16": 59.5, "matrix.tf32": 29.8},
    "rtx_3080_12gb": {"hbm.bw": 912, "valu.f32": 30.6},
    "rtx_3080_ti": {"hbm.bw": 912, "valu.f32": 34.1},
    "rtx_3090": {"hbm.bw": 936, "valu.f32": 35.6, "matrix.f16": 142, "matrix.bf16": 71, "matrix.i8": 284},
    "rtx_3090_ti": {"hbm.bw": 1008, "valu.f32": 40.0},
    "l4": {"hbm.bw": 300, "valu.f32": 30.3, "matrix.bf16": 121, "matrix.f8": 242.5},
    "l40": {"hbm.bw": 864, "valu.f32": 90.5, "matrix.bf16": 181.05, "matrix.f8": 362.1},
    "l40s": {"hbm.bw": 864, "valu.f32": 91.6, "matrix.f8": 733},
    "rtx_6000_ada": {"hbm.bw": 960, "valu.f32": 91.1, "matrix.f8": 728.5},
    "rtx_4060": {"hbm.bw": 272, "valu.f32": 15.1},
    "rtx_4060_ti": {"hbm.bw": 288, "valu.f32": 22.1},
    "rtx_4070": {"hbm.bw": 504, "valu.f32": 29.1},
    "rtx_4070_super": {"hbm.bw": 504, "valu.f32": 35.5},
    "rtx_4070_ti": {"hbm.bw": 504, "valu.f32": 40.1},
    "rtx_4070_ti_super": {"hbm.bw": 672, "valu.f32": 44.1},
    "rtx_4080": {"hbm.bw": 716.8, "valu.f32": 48.7},
    "rtx_4080_super": {"hbm.bw": 736, "valu.f32": 52.2},
    "rtx_4090": {"hbm.bw": 1008, "valu.f32": 82.6, "valu.f64": 1.29, "matrix.f16": 330.3, "matrix.bf16": 165.2,
                 "matrix.tf32": 82.6, "matrix.f8": 330.3, "matrix.i8": 660.6},
    "h100_pcie": {"hbm.bw": 2039, "valu.f32": 51.2, "matrix.bf16": 756},
    "h100_nvl": {"hbm.bw": 3938, "valu.f32": 60.3, "matrix.bf16": 835},
    "gh200": {"hbm.bw": 4000, "valu.f32": 67, "matrix.bf16": 990},
    "gh200_144g": {"hbm.bw": 4900, "valu.f32": 67, "matrix.f8": 1979},
    "b200": {"hbm.bw": 7672, "matrix.bf16": 2250, "matrix.tf32": 1125, "matrix.f8": 4500, "matrix.f4": 9000},
    "gb200": {"hbm.bw": 8000, "valu.f32": 80, "matrix.bf16": 2500, "matrix.f8": 5000, "matrix.f4": 10000},
    "rtx_5060": {"hbm.bw": 448, "valu.f32": 19.2},
    "rtx_5060_ti": {"hbm.bw": 448, "valu.f32": 23.7},
    "rtx_5070": {"hbm.bw": 672, "valu.f32": 30.9},
    "rtx_5070_ti": {"hbm.bw": 896, "valu.f32": 43.9},
    "rtx_5080": {"hbm.bw": 960, "valu.f32": 56.3},
    "rtx_5090": {"hbm.bw": 1792, "valu.f32": 104.8, "matrix.f16": 419, "matrix.bf16": 209.5, "matrix.tf32": 104.8,
                 "matrix.f8": 419, "matrix.f4": 1676, "matrix.i8": 838},
    "rtx_pro_6000": {"hbm.bw": 1792, "valu.f32": 126},
}  # fmt: skip
HBM_AND_FP32 = [(0, "hbm.bw", "GB/s", 1380.0), (0, "valu.f32", "GFLOP/s", 20900.0)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def theory(key: str) -> ceilings.Ceilings:
    con = database.connect()
    try:
        sheet = product(key)
        formulas = work_formulas("gfx908" if sheet.target == "gfx906" else sheet.target)
        facts = {name: fact.value for name, fact in (formulas.facts | sheet.all_facts).items()}
        return ceilings.from_facts(con, formulas, facts, sheet.title)
    finally:
        con.close()


def test_every_product_has_printed_peaks_here() -> None:
    assert PRINTED.keys() == products().keys()


@pytest.mark.parametrize("key", PRINTED)
def test_theory_reproduces_the_data_sheet(key: str) -> None:
    known = theory(key)
    for name, printed in PRINTED[key].items():
        scale = 1.0 if name in ("hbm.bw", "issue") else 1000.0
        assert known.value(name) == pytest.approx(printed * scale, rel=0.005 if scale == 1000 else 1e-12), name
    assert known.kind == "theoretical" and all(":" in c.source for c in known.known.values())


@pytest.mark.parametrize("key", PRINTED)
def test_every_fact_has_unit_and_source_and_only_what_ran_claims_hardware(key: str) -> None:
    found = product(key)
    assert found.validated_on_hardware == (key == "h200"), "the recording of the example program is of one H200"
    assert all(fact.unit and len(fact.source) > 15 and fact.value > 0 for fact in found.facts.values())


def test_metrics_and_rooflines_hold_an_h200_against_one_bandwidth(store: Store) -> None:
    """The device's own clock and bus width; the sheet that stands in for them says the same, not rounded."""
    stored(store, SAMPLE, "h200")
    with Workload.open(store, "h200") as workload:
        view = FigureRequest(kernel=list(workload.kernels)[:1])
        of_metrics = {f.peak for f in figures(workload, ["hbm.bw_gbs", "hbm.read_bw_gbs"], view)}
        assert (
            of_metrics == {ceilings.theoretical_ceilings(workload).value("hbm.bw")} == {theory("h200").value("hbm.bw")}
        )


def test_rates_the_hardware_lacks_have_no_ceiling() -> None:
    assert theory("mi100").value("matrix.f64") is None and "matrix.f64" not in theory("mi100").missing
    assert theory("h100").value("l2.bw") is None, "not published"
    assert theory("h200").value("l2.bw") == pytest.approx(1.710 * 6016), "from the peak that the profiler states"
    with pytest.raises(NotFound, match="mi300x"):
        product("mi300")


@pytest.mark.parametrize(("device", "target", "units", "expected"), [
    ("MI300X_A1", "gfx942", 304.0, "mi300x"), ("AMD Instinct MI250X", "gfx90a", 110.0, "mi250x"),
    ("MI200", "gfx90a", 104.0, None), ("MI300X", "gfx942", 38.0, None), ("MI250X/MI250", "gfx90a", 104.0, "mi250"),
    ("NVIDIA H200", "sm_90", 132.0, "h200"), ("NVIDIA A100-SXM4-40GB", "sm_80", 108.0, "a100_40gb"),
    (None, "gfx942", 304.0, None),
])  # fmt: skip
def test_products_are_identified_beyond_doubt_or_not_at_all(
    device: str | None, target: str, units: float, expected: str | None
) -> None:
    found = identify(device, target, {"cu_per_gpu": units})
    assert (found.key if found else None) == expected


def test_the_data_sheet_fills_gaps_and_corrects_the_memory(store: Store) -> None:
    facts = MI300X | {"cu_per_gpu": 228.0, "num_hbm_channels": 96.0, "total_l2_chan": 96.0, "num_xcd": 6.0}
    del facts["max_sclk"]
    manifest = publish(store, [{"kernel": "k"}], arch="gfx942", facts=facts, device="MI300A_A1")
    known = scene(store, manifest).ceilings
    assert (known.value("hbm.bw"), known.value("valu.f64")) == (5324.8, pytest.approx(61286.4))
    notes = " ".join(map(str, known.notes))
    assert "max_sclk" in notes and "num_hbm_channels = 96" in notes and "theoretical" in notes


def test_an_unknown_clock_leaves_ceilings_out_and_is_named(store: Store) -> None:
    manifest = publish(store, [{"kernel": "k"}], arch="gfx950", facts={"cu_per_gpu": 128.0}, device="MI350")
    known = scene(store, manifest).ceilings
    assert known.known == {} and known.missing["valu.f32"].text == "max_sclk unknown"


def test_measured_ceilings_come_from_device_0_and_never_mix_with_theory(store: Store) -> None:
    rows = [*HBM_AND_FP32, (1, "hbm.bw", "GB/s", 1300.0), (1, "valu.f64", "GFLOP/s", 19000.0)]
    known = scene(store, publish(store, [{"kernel": "k"}], ceilings=rows)).ceilings
    assert {c.kind for c in known.known.values()} == {"empirical"}
    assert (known.value("hbm.bw"), known.value("valu.f64"), known.value("l2.bw")) == (1380.0, None, None)
    assert known.missing["valu.f64"].text == "not measured" and any("devices 0, 1" in n.text for n in known.notes)
    assert known.value("valu.f16") == 20900.0, "an unpacked FP16 instruction issues like one of FP32"
    assert known.value("valu.issue") == pytest.approx(20900 / 128) and known.value("valu.i32") == 10450.0


def test_bf16_has_its_own_measured_ceiling(store: Store) -> None:
    rows = [(0, "matrix.f16", "GFLOP/s", 165000.0), (0, "matrix.bf16", "GFLOP/s", 170500.0)]
    known = scene(store, publish(store, [{"kernel": "k"}], ceilings=rows)).ceilings
    assert (known.value("matrix.bf16"), known.value("matrix.f16")) == (170500.0, 165000.0)


def test_ceilings_of_another_workload_are_flagged_by_device_and_age(store: Store) -> None:
    publish(
        store, [{"kernel": "k"}], name="old", ceilings=HBM_AND_FP32, device="MI250X", host="a", measured_at="2022-09-28"
    )
    mine = publish(store, [{"kernel": "k"}], device="MI250X", host="b")
    known = scene(store, mine).ceilings
    assert known.kind == "empirical" and known.value("hbm.bw") == 1380.0
    assert any("ANOTHER device" in n.text for n in known.notes) and any("STALE" in n.text for n in known.notes)
    same = publish(store, [{"kernel": "k"}], device="MI250X", host="a")
    notes = " ".join(map(str, scene(store, same).ceilings.notes))
    assert "the same machine" in notes and "ANOTHER" not in notes


def test_a_ceiling_that_was_suspect_when_measured_says_why(store: Store) -> None:
    kept = {"device_uuid": "GPU-1", "device": "MI250X", "gpu": "gfx90a", "mode": "full", "unit": "GFLOP/s"}
    hot = {"status": "suspect", "reason": "the clock was limited by heat", "measured_at": "2026-11-20T10:00:00Z"}
    names = ("valu.f32", "valu.f64", "matrix.f16", "matrix.f64")
    measured_ceilings.save(store, [{**kept, **hot, "ceiling": name, "value": 9000.0} for name in names])
    mine = publish(store, [{"kernel": "k"}], device="MI250X", device_uuid="GPU-1")
    notes = " ".join(map(str, scene(store, mine).ceilings.notes))
    assert "valu.f32 (the clock was limited by heat)" in notes and "and 1 more" in notes


def test_ceilings_of_another_product_are_never_used(store: Store) -> None:
    publish(store, [{"kernel": "k"}], name="big", ceilings=HBM_AND_FP32, device="MI250X")
    small = publish(store, [{"kernel": "k"}], facts=MI250X | {"cu_per_gpu": 104.0}, device="MI210")
    assert scene(store, small).ceilings.kind == "theoretical"


def test_dates_as_profilers_print_them_are_read(store: Store) -> None:
    old = "Wed Sep 28 19:50:13 2022 ()"
    publish(store, [{"kernel": "k"}], name="old", ceilings=HBM_AND_FP32, measured_at=old)
    assert any("STALE" in n.text for n in scene(store, publish(store, [{"kernel": "k"}])).ceilings.notes)


def test_ceilings_by_hand_count_first_and_are_checked(store: Store) -> None:
    manifest = publish(store, [{"kernel": "k"}], ceilings=HBM_AND_FP32)
    known = scene(store, manifest, by_hand={"hbm": 1500.0, "valu.f32": 22000.0}).ceilings
    assert (known.value("hbm.bw"), known.value("valu.issue")) == (1500.0, pytest.approx(22000 / 128))
    assert known.known["hbm.bw"].source == "given by the caller" and known.kind == "empirical"
    assert known.known["valu.issue"].derived_from == "valu.f32" and known.known["hbm.bw"].derived_from is None
    with pytest.raises(BadArgument, match="hbm.bw"):
        scene(store, manifest, by_hand={"hbm.bandwidth": 1.0})
    with pytest.raises(BadArgument, match="positive"):
        scene(store, manifest, by_hand={"hbm.bw": 0.0})
    with pytest.raises(BadArgument, match="never mixed"):
        scene(store, manifest, source="theoretical", by_hand={"hbm.bw": 1.0})
