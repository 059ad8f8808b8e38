"""The check on devices that are played: the catalogue as it is holds, and every planted error is found and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from rooflens.tests.unit.tools.device.counter_check.conftest import Plant, Played


@pytest.mark.parametrize(("target", "least"), [("gfx90a", 145), ("gfx942", 150), ("gfx950", 155), ("sm_90", 145)])
def test_the_catalogue_as_it_is_holds_on_a_device_that_counts_as_documented(
    target: str, least: int, played: Callable[[str], Played]
) -> None:
    found = played(target).judgements()
    off = {name: (one.representative, one.cause) for name, one in found.items() if one.verdict == "off"}
    assert off == {}
    assert sum(one.verdict == "holds" for one in found.values()) >= least
    assert all(one.cause for one in found.values() if one.verdict == "not_determined")


AMD = {  # file -> (text, planted instead, metric that is wrong then, its factor where it is one)
    "cdna_07_wavefront.toml": [
        ('num = "4 * SQ_WAVE_CYCLES"', 'num = "SQ_WAVE_CYCLES"', "latency.wave_cycles", 0.25),
    ],
    "cdna_00_terms.toml": [
        ('"SQ_LEVEL_WAVES_ACCUM + 0 * gui"', '"2 * SQ_LEVEL_WAVES_ACCUM + 0 * gui"', "occupancy.waves", 2.0),
        ('"SQ_THREAD_CYCLES_VALU + 0', '"SQ_THREAD_CYCLES_VALU / simd_per_cu + 0', "divergence.active_threads", 0.25),
    ],
    "cdna_06_workgroup_manager.toml": [
        ('num = "100 * SQ_BUSY_CU_CYCLES"', 'num = "25 * SQ_BUSY_CU_CYCLES"', "dispatch.simd_utilization_pct", None),
        ('num = "spi_waves"', 'num = "spi_waves / wave_size"', "dispatch.waves", 1 / 64),
    ],
    "cdna_10_instruction_mix.toml": [
        ('num = "SQ_INSTS_SALU"', 'num = "SQ_INSTS_SMEM"', "salu.instructions", None),
        ('num = "SQ_INSTS_VALU_ADD_F32"', 'num = "SQ_INSTS_VALU_MUL_F32"', "valu.instructions_add_f32", None),
        ('num = "SQ_INSTS_VALU_TRANS_F32"', 'num = "64 * SQ_INSTS_VALU_TRANS_F32"', "sfu.instructions_f32", 64.0),
        ('num = "SQ_INSTS_VALU_CVT"', 'num = "SQ_INSTS_VALU_CVT / 2"', "valu.instructions_convert", 0.5),
        ('num = "TA_FLAT_READ_WAVEFRONTS_sum"', 'num = "TA_FLAT_WRITE_WAVEFRONTS_sum"',
         "vl1d.instructions_global_read", None),
        ('num = "TA_BUFFER_READ_WAVEFRONTS_sum"', 'num = "TA_BUFFER_WAVEFRONTS_sum"', "scratch.instructions_read", 2.0),
    ],
    "cdna_11_compute.toml": [
        ("2 * SQ_INSTS_VALU_FMA_F64", "SQ_INSTS_VALU_FMA_F64", "dispatch.flop_f64", None),
        (" + SQ_INSTS_VALU_MUL_F16", "", "valu.roofline_flops_f16", None),
        ('num = "512 * SQ_INSTS_VALU_MFMA_MOPS_BF16"', 'num = "256 * SQ_INSTS_VALU_MFMA_MOPS_BF16"',
         "matrix.flops_bf16", 0.5),
        ('matrix_iop = "512 *', 'matrix_iop = "1024 *', "matrix.iops_i8", 2.0),
    ],
    "cdna_12_lds.toml": [
        ('num = "SQ_INSTS_LDS"', 'num = "SQ_INSTS_LDS * wave_size"', "lds.instructions", 64.0),
        ('lds_access_cycles = "SQ_LDS_IDX_ACTIVE - SQ_LDS_BANK_CONFLICT"', 'lds_access_cycles = "SQ_LDS_IDX_ACTIVE"',
         "lds.bw_gbs", None),
    ],
    "cdna_14_scalar_cache.toml": [
        ('num = "SQC_DCACHE_REQ_READ_2"', 'num = "SQC_DCACHE_REQ"', "salu.cache_read_2dw_req", None),
    ],
    "cdna_17_l2.toml": [
        ('num = "TCC_WRITE_sum"', 'num = "TCC_READ_sum"', "l2.write_req", None),
        ('num = "TCC_ATOMIC_sum"', 'num = "TCC_ATOMIC_sum / 2"', "atomics.l2_req", 0.5),
        ('num = "l2_line_bytes * TCC_REQ_sum"', 'num = "64 * TCC_REQ_sum"', "l2.bw_gbs", 0.5),
        ('num = "fabric_write_bytes"', 'num = "fabric_read_bytes"', "fabric.write_bw_gbs", None),
    ],
}  # fmt: skip
NVIDIA = {
    "nvidia_00_terms.toml": [
        ("fadd + fmul + 2 * ffma", "fadd + fmul + ffma", "dispatch.flop_f32", None),
        ("2 * hadd + 2 * hmul + 4 * hfma", "hadd + hmul + 2 * hfma", "valu.flops_f16", 0.5),
        ('"dram__bytes_read.sum"', '"dram__bytes_write.sum"', "hbm.read_bytes", None),
        ('"smsp__inst_executed_op_local_ld.sum"', "0", "scratch.instructions", 0.5),
        ('conflicts_by_lanes = """"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"',
         'conflicts_by_lanes = """0 * "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"',
         "lds.bank_conflict_cycles", None),
    ],
    "nvidia_16_vl1d.toml": [
        ('num = "32 * l1_sectors"', 'num = "128 * l1_sectors"', "vl1d.bw_gbs", 4.0),
        ('num = "l1_read_bytes"', 'num = "l1_write_bytes"', "vl1d.l2_read_bw_gbs", None),
    ],
    "nvidia_17_l2.toml": [('num = "32 * l2_read_sectors"', 'num = "64 * l2_read_sectors"', "l2.read_bw_gbs", 2.0)],
    "nvidia_10_instruction_mix.toml": [
        ('num = "fadd / wave_size"', 'num = "fadd"', "valu.instructions_add_f32", 32.0),
        ('num = "shared_atomics"', 'num = "generic_atomics"', "atomics.instructions_lds", None),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("target", "errors"), [("gfx90a", AMD), ("sm_90", NVIDIA)], ids=["gfx90a", "sm_90"])
def test_every_planted_error_is_found_and_a_plain_factor_is_named(
    target: str, errors: Mapping[str, list[tuple[str, str, str, float | None]]], played: Callable[[str], Played],
    planted: Plant,
) -> None:  # fmt: skip
    planted({file: [(old, new) for old, new, _, _ in entries] for file, entries in errors.items()})
    found = played(target).judgements()
    wrong = [(metric, factor) for entries in errors.values() for _, _, metric, factor in entries]
    assert [metric for metric, _ in wrong if found[metric].verdict != "off"] == []
    named = {metric: found[metric].factor for metric, factor in wrong if factor}
    assert named == {metric: pytest.approx(factor, rel=0.02) for metric, factor in wrong if factor}
    assert all(found[metric].cause for metric, _ in wrong)


def test_dies_that_are_not_divided_by_are_found_and_named(played: Callable[[str], Played], planted: Plant) -> None:
    planted({"cdna_00_terms.toml": [('gui = "GRBM_GUI_ACTIVE / num_xcd"', 'gui = "GRBM_GUI_ACTIVE"')]})
    found = played("gfx942").judgements()
    assert found["dispatch.gpu_cycles"].verdict == "off"
    assert found["dispatch.gpu_cycles"].factor == pytest.approx(8, rel=0.02)
    assert "XCD" in found["dispatch.gpu_cycles"].cause
    assert found["occupancy.waves"].verdict == "off"


def test_the_formula_of_an_older_generation_for_bytes_read_is_found(
    played: Callable[[str], Played], planted: Plant
) -> None:
    """What the profilers of ROCm up to 7.2 did on MI350: half of the bytes."""
    new = '"128 * TCC_EA_RDREQ_128B_sum + 64 * TCC_EA_RDREQ_64B_sum + 32 * TCC_EA_RDREQ_32B_sum"'
    old = '"128 * TCC_BUBBLE_sum + 64 * (TCC_EA_RDREQ_sum - TCC_BUBBLE_sum - TCC_EA_RDREQ_32B_sum)"'
    planted({"cdna_00_terms.toml": [(new, old)]})
    found = played("gfx950").judgements()["fabric.read_bw_gbs"]
    assert (found.verdict, found.factor) == ("off", pytest.approx(0.5, rel=0.02))
