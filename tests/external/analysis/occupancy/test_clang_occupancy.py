"""Compiler mode of compute_occupancy equals what clang states of kernels that it compiles here."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.tests.external.analysis.occupancy import clang_occupancy as clang
from rooflens.tests.unit.analysis.occupancy.test_occupancy import above, differing

pytestmark = pytest.mark.skipif(clang.CLANG is None, reason=clang.MISSING)


@pytest.mark.parametrize("target", ["gfx908", "gfx950", "gfx1201"])
def test_compiler_mode_equals_clang_on_fresh_kernels(target: str) -> None:
    rows = clang.compiled(target, clang.random_kernels(target, 40, seed=1))
    assert differing(rows) == []
    assert above(rows) == []


@pytest.mark.parametrize(
    ("target", "options", "kind"),
    [
        ("gfx1030", ["-mwavefrontsize64"], {"wave_size": 64}),
        ("gfx1100", ["-mcumode"], {"cu_mode": True}),
        ("gfx1201", ["-mcumode", "-mwavefrontsize64"], {"cu_mode": True, "wave_size": 64}),
    ],
)
def test_other_modes_of_rdna_equal_clang_too(target: str, options: list[str], kind: dict[str, Any]) -> None:
    rows = clang.compiled(target, clang.random_kernels(target, 40, seed=2), *options)
    assert differing(rows, **kind) == []
    assert above(rows, **kind) == []
