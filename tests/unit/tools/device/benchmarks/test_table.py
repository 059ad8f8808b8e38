"""The table of micro-benchmarks: complete, in the names of the analysis, with work that follows from one count."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.tools.device.benchmarks.specs import ceilings, choose_specs, variants


def test_work_of_a_launch_is_what_its_instructions_move_or_do() -> None:
    h200 = {s.name: s for s in ceilings("sm_90")}
    # 132 groups x 2 warp groups x 10 rounds x 8 products of 2 x 64 x 256 x 16.
    assert h200["matrix.f16"].work_of(10, 132) == 132 * 2 * 10 * 8 * 2 * 64 * 256 * 16
    assert h200["valu.f32"].work_of(7, 3) == 3 * 256 * 7 * 512 * 2
    assert h200["issue"].work_of(7, 3) == 3 * 8 * 7 * 512
    assert h200["l2.bw"].work_of(4, 264) == 264 * 4 * h200["l2.bw"].tile_bytes
    assert h200["sweep.f32"].work_of(5, 99, point=16) == 5 * 256 * 16 * 16 * 2


@pytest.mark.parametrize("target", ["gfx90a", "sm_90"])
def test_a_stream_moves_each_buffer_once_in_every_variant(target: str) -> None:
    for spec in choose_specs(target, ["hbm"]):
        for variant in variants(spec):
            assert variant.work_of(9, 1234) == 9 * variant.tile_bytes * spec.buffers


def test_words_choose_ceilings_and_unknown_ones_are_refused_with_near_names() -> None:
    assert [s.name for s in choose_specs("sm_90", ["hbm.bw"])] == ["hbm.copy", "hbm.triad", "hbm.read", "hbm.write"]
    assert [s.name for s in choose_specs("sm_90", ["lds", "matrix.f8"])] == ["lds.bw", "matrix.f8"]
    assert choose_specs("gfx950", None) == ceilings("gfx950")
    with pytest.raises(NotFound, match=r"matrix\.f8"):
        choose_specs("sm_90", ["matrix.fp8"])
    with pytest.raises(NotFound, match="no micro-benchmarks for gfx1100"):
        ceilings("gfx1100")
