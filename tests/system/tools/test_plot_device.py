"""The measured roof: drawn for a device by itself, and behind the kernels of its workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.plot import roofline
from rooflens.analysis.plot.roofline_content import RooflinePicture, of_device
from rooflens.analysis.plot.style import render
from rooflens.analysis.store import measured_ceilings as peaks
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.pictures import collisions, outside
from rooflens.tests.support.rooflines import publish
from rooflens.tools.plot import RooflineOptions, measured_device, plot, roofline_drawing

GPU = {
    "vendor": "amd", "device_uuid": "GPU-1111222233334444", "device": "AMD Instinct MI250X", "gpu": "gfx90a",
    "partition": "SPX/NPS1", "compute_units": 110, "mode": "full", "status": "ok", "run_id": "run-1",
    "measured_at": "2026-11-20T10:00:00Z",
}  # fmt: skip
HOST = {**GPU, "vendor": "cpu", "device_uuid": "host-0123456789abcdef", "gpu": "cpu", "device": "A processor"}
SWEEP = ((0.25, 300.0), (4.0, 4900.0), (16.0, 15000.0), (64.0, 20500.0))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with the ceilings of a GPU and of the machine that it is in."""
    found = Store(tmp_path)
    peaks.save(
        found,
        [
            *({**GPU, "ceiling": n, "unit": "GB/s", "value": v} for n, v in (("hbm.bw", 1400.0), ("hbm.copy", 1300.0))),
            {**GPU, "ceiling": "valu.f32", "unit": "GFLOP/s", "value": 21000.0},
            {**GPU, "ceiling": "launch.latency", "unit": "us", "value": 6.0},
            *({**GPU, "ceiling": "sweep.f32", "unit": "GFLOP/s", "intensity": x, "value": y} for x, y in SWEEP),
        ],
    )
    host: list[tuple[str, str, float]] = [
        ("host.dram.read", "GB/s", 29.0), ("host.dram.copy", "GB/s", 25.0), ("host.l1d.copy", "GB/s", 800.0),
        ("host.fma.f32", "GFLOP/s", 380.0),
    ]  # fmt: skip
    peaks.save(found, [{**HOST, "ceiling": n, "unit": u, "value": v} for n, u, v in host])
    return found


def values(scene: RooflinePicture) -> dict[str, float]:
    return {roof.name: roof.value for roof in scene.roofs}


def test_a_device_has_a_picture_of_its_own_with_the_best_way_to_use_each_level(store: Store) -> None:
    scene, facts = of_device(measured_device(store, "GPU-1111"))
    assert values(scene) == {"hbm.bw": 1400.0, "valu.f32": 21000.0}, "a time is no roof, and copy is no level"
    assert list(scene.sweeps) == [list(SWEEP)] and any("4 FLOP/B" in fact for fact in facts)
    drawn = render(lambda: roofline.draw(scene), 800)
    assert not collisions(drawn) and not outside(drawn)
    assert b'id="sweep-0"' in drawn.svg and b"kernel (size" not in drawn.svg


def test_the_host_is_drawn_as_host(store: Store) -> None:
    result = plot(store, "roofline", "cpu")
    assert result.workload == HOST["device_uuid"] and "not of a GPU" in result.description
    assert "dram.bw: 29" in result.description and Path(result.png_path).read_bytes() == result.image


def test_a_full_measurement_is_drawn_rather_than_a_newer_quick_one(store: Store) -> None:
    newer = {**GPU, "ceiling": "hbm.bw", "unit": "GB/s", "value": 1000.0, "mode": "quick"}
    peaks.save(store, [{**newer, "measured_at": "2026-11-21T10:00:00Z"}])
    assert values(of_device(measured_device(store, "GPU-1111222233334444"))[0])["hbm.bw"] == 1400.0


def test_the_measured_roof_stands_behind_the_kernels_of_its_device_alone(store: Store) -> None:
    counts = {"SQ_INSTS_VALU_FMA_F32": 1e6, "TCC_EA_RDREQ_sum": 1e6, "duration_ns": 1e5}
    mine = publish(store, [{"kernel": "k", **counts}], device="AMD Instinct MI250X", device_uuid=GPU["device_uuid"])
    with Workload(store, mine) as workload:
        measured = roofline_drawing(workload, None, RooflineOptions(source="empirical"))
        stated = roofline_drawing(workload, None, RooflineOptions(source="theoretical"))
    assert [sum("crosses" in fact for fact in drawn.facts) for drawn in (measured, stated)] == [1, 0]
    assert [len(drawn.content.sweeps) for drawn in (measured, stated)] == [1, 0]
