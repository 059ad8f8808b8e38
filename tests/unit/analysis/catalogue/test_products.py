"""Names of GPUs: every tool takes targets, their other names and products alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.catalogue import targets
from rooflens.analysis.store.store import Store
from rooflens.tools.compute_occupancy import compute_occupancy
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.search_metrics import search_metrics


@pytest.mark.parametrize(
    ("name", "target", "compute_units"),
    [
        ("gfx942", "gfx942", None),
        ("gfx941", "gfx942", None),
        ("cpu", "cpu", None),
        ("AMD Instinct MI250X", "gfx90a", 110),
        ("RX 7900 XTX", "gfx1100", 96),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "sm_89", 66),
        ("NVIDIA H100 80GB HBM3", "sm_90", 132),
        ("a100_40gb", "sm_80", 108),
    ],
)
def test_a_gpu_is_found_by_target_alias_and_product(name: str, target: str, compute_units: int | None) -> None:
    found, facts = targets.resolve_gpu(name)
    assert (found, facts.get("cu_per_gpu")) == (target, compute_units)


@pytest.mark.parametrize("name", ["", "MI300Y", "gfx90", "\x00", "x" * 5000])
def test_an_unknown_gpu_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(NotFound, match=r"Unknown GPU .*Targets: .*gfx942.*products: .*MI300X"):
        targets.resolve_gpu(name)


def test_every_tool_that_asks_for_a_gpu_takes_a_product(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def placed(gpu: str) -> float | None:
        return compute_occupancy(store, gpu, vgprs=68, workgroup_size=256).occupancy_pct

    assert placed("MI250X") == placed("gfx90a")
    found = search_metrics(store, "hit rate", "AMD Instinct MI300X").table.rows
    assert found and found == search_metrics(store, "hit rate", "gfx942").table.rows
    assert plan_profile(store, "H200", ["l2.hit_rate_pct"]).gpu == "sm_90"
