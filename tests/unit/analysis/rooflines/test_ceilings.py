"""Ceilings: data sheets reproduced from clock x units x rate, and measured ones kept to their device."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.catalogue.targets import identify, product
from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.rooflines import ceilings
from rooflens.analysis.store import measured_ceilings
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import DATA, ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.rooflines import MI300X, publish, scene, theory

SAMPLE = ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"

PRINTED: dict[str, dict[str, float]] = {}
"""Peaks as the makers print them (TFLOP/s, TOP/s), per device as software sees it; bandwidth in GB/s."""
for row in csv.DictReader((DATA / "printed_peaks.csv").read_text().splitlines()):
    PRINTED.setdefault(row["product"], {})[row["ceiling"]] = float(row["printed"])
HBM_AND_FP32 = [(0, "hbm.bw", "GB/s", 1380.0), (0, "valu.f32", "GFLOP/s", 20900.0)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_theory_reproduces_every_data_sheet() -> None:
    for key, peaks in PRINTED.items():
        known = theory(key)
        for name, printed in peaks.items():
            scale = 1.0 if name in ("hbm.bw", "issue") else 1000.0
            expected = pytest.approx(printed * scale, rel=0.005 if scale == 1000 else 1e-12)
            assert known.value(name) == expected, (key, name)
        assert known.kind == "theoretical" and all(":" in c.source for c in known.known.values()), key


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
