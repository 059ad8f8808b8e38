"""The diagnosis rules: every one is complete, names what exists, and leaves unknown what is not measured."""

from __future__ import annotations

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue import rules
from rooflens.analysis.catalogue.formula import compares_quantities, paths, thresholds
from rooflens.analysis.engine.expressions import evaluate

SIGNALS, RULES = rules.signals_and_rules()
TARGETS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1151", "sm_90")


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_claim_shows_is_known_on_the_target(target: str) -> None:
    for rule in rules.rules(target):
        assert rules.usable(target, rule.when), rule.id
        assert set(rule.claim_names) <= {n for e in rule.expressions for n in paths(e)} | set(rules.signals(target)), (
            rule.id
        )


def test_every_name_of_every_rule_exists_on_some_target() -> None:
    known = {n for t in TARGETS for n in (*catalog.by_name(t), *rules.signals(t))}
    for rule in RULES:
        for name in (n for e in rule.expressions for n in paths(e)):
            plain = name.removeprefix(rules.PEAK)
            assert plain in known or name.startswith(rules.FACT), (rule.id, name)


@pytest.mark.parametrize("target", TARGETS)
def test_without_any_figure_every_condition_is_unknown(target: str) -> None:
    wanted = [r.when for r in rules.rules(target)]
    assert set(evaluate(target, [{}], wanted)[0].values()) == {None}


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_are_decided_one_by_one_and_what_is_no_number_is_unknown(target: str) -> None:
    name = next(n for n in rules.all_metrics(target) if n in catalog.by_name(target))
    values = [2.0, None, 0.1 + 0.2, float("nan"), -1e300]
    decided = evaluate(target, [{name: value} for value in values], [name, f"{name} > 1"])
    assert [d[name] for d in decided] == [2.0, None, 0.1 + 0.2, None, -1e300]
    assert [d[f"{name} > 1"] for d in decided] == [1.0, None, 0.0, None, 0.0]


def test_thresholds_are_read_from_the_condition_itself() -> None:
    assert thresholds("hbm.x >= 60 AND (a.b < 5 OR 10 * c.d > e.f)") == {"hbm.x": ">= 60", "a.b": "< 5"}
    assert paths("100 * hbm.x / pct_of_peak.l2.bw_gbs") == ["hbm.x", "pct_of_peak.l2.bw_gbs"]


def test_nothing_against_nothing_is_no_comparison() -> None:
    assert compares_quantities("hbm.x > 1 AND 10 * (a.b + c.d) >= l2.misses")
    assert not compares_quantities("10 * (a.b + c.d) > l2.misses AND hbm.x >= 60 AND a.b < c.d")


def test_kernels_of_libraries_have_advice_for_their_callers() -> None:
    """Names as Nsight Compute and rocprofv3 print them."""
    names = {
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4_alignc4": "TF32",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params)": "TF32",
        "ampere_sgemm_128x64_nn": "TF32",
        "Cijk_Ailk_Bljk_SB_MT128x64x8_MI32x32x1x2_SE_1LDSB0": "a kernel of a library",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x64x8_SE": "a kernel of a library",
        "rocblas_dgemm_4096": "in FP64",
        "Cijk_Ailk_Bljk_DB_MT64x64x16": "in FP64",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": "a kernel of a library",
        "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(float)>": "Avoid this copy",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >": "Fuse",
        "void at::native::indexing_backward_kernel<float, 4>(long const*)": "index",
    }
    for name, text in names.items():
        library = rules.library_kernel(name)
        assert library and text in library.advice[0].do, name
    assert not any(
        rules.library_kernel(name)
        for name in ("tile_gemm", "my_sgemm_128", "tiled_dgemm", "compute_grad_weight", "void stencil<float>(float*)")
    )
