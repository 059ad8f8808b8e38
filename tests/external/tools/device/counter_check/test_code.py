"""The machine code of the known kernels does what the table states: their loops hold the stated instructions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.analysis.catalogue import targets
from rooflens.analysis.counter_check import known_kernels
from rooflens.tests.external.tools.device.benchmarks.proof import hot_loop, objdump
from rooflens.tools.device.benchmarks import cuda, hip
from rooflens.tools.device.counter_check import disassembly, program

AMD = ("gfx942", "gfx1151")
UNITS = {"gfx942": 304, "gfx1151": 40, "sm_90": 132}
LOOPS = {  # kernel -> instruction of its loop, how often
    "known_add_f32": (r"v_add_f32", 128), "known_mul_f32": (r"v_mul_f32", 128), "known_fma_f32": (r"v_fma_f32", 128),
    "known_add_f64": (r"v_add_f64", 128), "known_mul_f64": (r"v_mul_f64", 128), "known_fma_f64": (r"v_fma_f64", 128),
    "known_add_f16": (r"v_add_f16", 128), "known_mul_f16": (r"v_mul_f16", 128), "known_fma_f16": (r"v_fma_f16", 128),
    "known_mad_i32": (r"v_mad_u32_u24", 128), "known_special_f32": (r"v_rcp_(iflag_)?f32", 128),
    "known_special_f16": (r"v_rcp_f16", 128), "known_special_f64": (r"v_rcp_f64", 128),
    "known_pairs_f16": (r"v_pk_fma_f16", 128), "known_pairs_f32": (r"v_pk_fma_f32", 128),
    "known_convert": (r"v_cvt_(f32_i32|i32_f32)", 256), "known_half": (r"v_fma_f32", 128),
    "known_scalar": (r"s_add_u32 ", 128), "known_read_4": (r"global_load_(dword|b32) ", 4),
    "known_read_8": (r"global_load_(dwordx2|b64)", 4), "known_read_16": (r"global_load_(dwordx4|b128)", 4),
    "known_read_every_128": (r"global_load_(dword|b32) ", 4), "known_write_4": (r"global_store_(dword|b32) ", 4),
    "known_write_16": (r"global_store_(dwordx4|b128)", 4), "known_copy_16": (r"global_(load|store)_(dwordx4|b128)", 8),
    "known_reread_vl1d": (r"global_load_(dword|b32) ", 8), "known_reread_l2": (r"global_load_(dwordx4|b128)", 4),
    "known_add": (r"global_atomic_add", 4), "known_add_fetch": (r"global_atomic_add", 4),
    "known_scratch": (r"(buffer|scratch)_(load|store)_(dword|b32)", 16),
    "known_scalar_read": (r"s_load_(dword|b)", 5), "known_lds_read_4": (r"ds_(read|load)_b32", 8),
    "known_lds_write": (r"ds_(write|store)_b32", 8), "known_lds_add": (r"ds_add_u32", 8),
}  # fmt: skip
SASS = {
    "known_fma_f32": ("FFMA", 128), "known_add_f16": ("HADD2", 64), "known_bits": ("LOP3", 128),
}  # fmt: skip


def _launches(arch: str) -> list[known_kernels.KnownLaunch]:
    facts = {name: fact.value for name, fact in targets.gpu(arch).facts.items()}
    return known_kernels.launches(arch, {**facts, "cu_per_gpu": UNITS[arch]})


@cache
def _compiled(arch: str, source: str) -> bytes:
    return hip.by_clang(arch, program.text(source), program.define(_launches(arch), source)).image


@pytest.mark.parametrize("arch", AMD)
def test_every_kernel_compiles_for_amd_and_its_loop_holds_the_stated_instructions(arch: str, tmp_path: Path) -> None:
    objdump()
    launches = {launch.name: launch for launch in _launches(arch)}
    wrong = {}
    for source in dict.fromkeys(launches[name].source for name in LOOPS if name in launches):
        path = tmp_path / f"{source}.co"
        try:
            path.write_bytes(_compiled(arch, source))
        except MissingTool as problem:
            pytest.skip(f"needs a clang for {arch} (apt-get install clang-22 lld-22 llvm-22): {problem.why[:200]}")
        for name, (instruction, count) in LOOPS.items():
            if name in launches and launches[name].source == source:
                found = hot_loop(path, arch, name, instruction).payload
                if found != count:
                    wrong[name] = found
    assert wrong == {}
    assert {name for name in LOOPS if name in launches} >= {"known_fma_f32", "known_read_16", "known_lds_read_4"}


def test_the_disassembly_of_the_code_for_nvidia_agrees_with_the_table(tmp_path: Path) -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason='needs NVRTC: pip install "rooflens[cuda]"')
    if disassembly.disassembler() is None:
        pytest.skip("needs nvdisasm: pip install nvidia-cuda-nvdisasm")
    launches = _launches("sm_90")
    source = "arithmetic.cu"
    path = tmp_path / f"{source}.bin"
    kept = [*SASS, "known_half"]
    text = "".join(
        line
        for line in program.text(source).splitlines(keepends=True)
        if not line.startswith(("PLAIN(", "CHAIN(")) or any(f"({name}," in line for name in kept)
    )
    try:
        path.write_bytes(cuda.compile_for(nvrtc, "sm_90", text, program.define(launches, source)))
    except MissingTool as problem:
        pytest.skip(problem.text)
    codes = disassembly.read(path)
    found = {name: sum(bool(re.match(word, i)) for i in codes[name].loop) for name, (word, _) in SASS.items()}
    assert found == {name: count for name, (_, count) in SASS.items()}
    told = disassembly.code_quantities(
        tmp_path, [one for one in launches if one.name in ("known_fma_f32", "known_half")]
    )
    fma = next(launch for launch in launches if launch.name == "known_fma_f32")
    assert 1 < told["known_fma_f32"]["instructions"] / fma.quantities["chain_instructions"] < 1.05
    assert "known_half" not in told, "some of its lanes skip the loop, which the code alone does not tell"


def test_functional_launches_are_small_enough_for_an_emulator() -> None:
    for arch in ("gfx90a", "gfx950"):
        facts = {name: fact.value for name, fact in targets.gpu(arch).facts.items()}
        for launch in known_kernels.launches(arch, {**facts, "cu_per_gpu": 304}, functional=True):
            assert launch.groups <= 64, launch.name
            assert launch.reads + launch.writes < 16 << 20, launch.name
