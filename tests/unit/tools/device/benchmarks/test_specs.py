"""Operands and expected results on the host, against other definitions of the formats and of a fused multiply-add."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.tools.device.benchmarks import data
from rooflens.tools.device.benchmarks.specs import BenchmarkSpec, ceilings, choose_specs, variants

_MATRICES = [
    pytest.param(spec, id=f"{target} {spec.name}")
    for target in ("gfx908", "gfx90a", "gfx942", "gfx950", "sm_80", "sm_86", "sm_89", "sm_90")
    for spec in ceilings(target)
    if spec.shape
]


def test_small_formats_have_the_values_of_their_standards() -> None:
    codes = np.arange(256, dtype=np.uint8)
    f8, fnuz, f6, f4 = (codes.view(data.TYPES[name]).astype(float) for name in ("f8", "f8_fnuz", "f6", "f4"))
    assert np.nanmax(f8) == 448 and math.isnan(f8[0x7F]) and f8[0x38] == 1 and f8[1] == 2.0**-9
    assert np.nanmax(fnuz) == 240 and math.isnan(fnuz[0x80]) and fnuz[0x40] == 1 and fnuz[0xC0] == -1
    assert sorted(f4[:8]) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert f6[:32].max() == 7.5 and f6[1] == 0.125


@pytest.mark.parametrize("name", list(data.BITS))
@pytest.mark.parametrize("exact", [True, False])
def test_operands_are_never_zero_and_codes_mean_their_values(name: str, exact: bool) -> None:
    codes, values = data.random_numbers(name, 4096, 1, exact=exact)
    assert np.all(values != 0) and np.all(np.isfinite(values)) and len(np.unique(values)) > 3
    assert np.array_equal(codes.view(data.TYPES[name]).astype(float), values)
    if name == "bf16":
        assert np.array_equal((codes.astype(np.uint32) << 16).view(np.float32), values)


def test_six_bit_codes_are_packed_from_the_lowest_bit() -> None:
    raw = data.pack_codes("f6", np.array([[1, 2, 3, 63]], np.uint8), 32)
    assert int.from_bytes(raw, "little") == 1 | 2 << 6 | 3 << 12 | 63 << 18 and len(raw) == 32


@pytest.mark.parametrize("spec", _MATRICES)
def test_products_in_any_order_pass_and_one_wrong_element_does_not(spec: BenchmarkSpec) -> None:
    given = data.operands(spec, 7, exact=True)
    parts, number = spec.threads // spec.lanes, data.side_by_side(spec)
    times = 3 if spec.source == "wgmma.cu" else 3 * spec.count // number
    kind = np.int32 if spec.data == "i8" else np.float64 if spec.data == "f64" else np.float32
    rng = np.random.default_rng(3)
    m, n = spec.shape[:2]
    results = np.empty((number, m * n // spec.lanes, parts, spec.lanes), kind)
    for part in range(parts):
        whole = rng.permutation(given.products[part % len(given.products)].ravel()) * times
        results[:, :, part] = whole.reshape(-1, spec.lanes)
    assert data.wrong_products(spec, given, results.tobytes(), 3) == ""
    results[number - 1, 0, parts - 1, 5] += 1
    assert "are not those of A B" in data.wrong_products(spec, given, results.tobytes(), 3)


def _rounded(value: Fraction, digits: int) -> float:
    """To ``digits`` binary digits, ties to even."""
    if value == 0:
        return 0.0
    scale = Fraction(2) ** (digits - 1 - math.floor(math.log2(abs(value))))
    return float(Fraction(round(value * scale)) / scale)


@pytest.mark.parametrize(("kind", "digits"), [("f32", 24), ("f64", 53), ("f16x2", 11), ("bf16x2", 8)])
def test_a_chain_rounds_once_a_step(kind: str, digits: int) -> None:
    starts, factors = (data.numbers(kind, raw) for raw in data.chains(kind, 64, 5))
    random.seed(1)
    for lane in range(20):
        x, y, z = starts[lane, 0].item(), factors[lane, 0].item(), factors[64 + lane, 0].item()
        wanted = x
        for _ in range(12):
            wanted = _rounded(Fraction(wanted) * Fraction(y) + Fraction(z), digits)
        assert data.run_chain(kind, x, y, z, 12) == wanted


def test_integer_chains_wrap_and_take_24_bits_where_the_instruction_does() -> None:
    assert data.run_chain("i32", 0xFFFFFFFF, 2, 5, 1) == 3
    assert data.run_chain("u24", 0x1000003, 0xFF000002, 5, 1) == 11


def test_noise_is_the_kernels_function_word_by_word() -> None:
    for index in (0, 1, 12345, 2**29 - 1):
        i = (index + 7) & 0xFFFFFFFF
        i = (i ^ i >> 16) * 0x7FEB352D & 0xFFFFFFFF
        i = (i ^ i >> 15) * 0x846CA68B & 0xFFFFFFFF
        assert data.noise(index, 1, 7)[0] == ((i ^ i >> 16) >> 9 | 0x3F800000)
    found = data.noise(0, 1 << 16, 1).view(np.float32)
    assert found.min() >= 1 and found.max() < 2 and abs(found.mean() - 1.5) < 0.01


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
