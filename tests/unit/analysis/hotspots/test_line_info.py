"""Which compiler flag is told where code has no lines: by how kernels of that name and program are built."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rooflens.analysis.base.notes import Note
from rooflens.analysis.hotspots.code import CODE, advice
from rooflens.analysis.store.manifest import Manifest

PYTHON = "python3 train.py --epochs 2"


def advised(vendor: str, lacking: Mapping[str, float], command: str | None) -> list[Note]:
    return advice(Manifest(name="x", format="any", vendor=vendor, command=command), lacking, 1)


def told(vendor: str, kernel: str, command: str | None) -> str:
    (note,) = advised(vendor, {kernel: 100.0}, command)
    assert note.code == CODE and "100 % of the samples" in note.text
    return note.text


@pytest.mark.parametrize(
    ("vendor", "kernel", "command", "flag"),
    [
        ("nvidia", "saxpy(int, float *)", "./app -n 8", "nvcc -lineinfo"),
        ("nvidia", "saxpy(int, float *)", None, "CMAKE_CUDA_FLAGS=-lineinfo"),
        ("amd", "saxpy(int, float*)", "./app", "hipcc -gline-tables-only"),
        ("nvidia", "my_kernel(float *)", PYTHON, 'extra_cuda_cflags=["-lineinfo"]'),
        ("nvidia", "my_kernel(float *)", "/opt/venv/bin/torchrun --nproc-per-node 2 x", "NVCC_APPEND_FLAGS=-lineinfo"),
        ("amd", "my_kernel(float*)", PYTHON, 'extra_cuda_cflags=["-gline-tables-only"]'),
        ("nvidia", "triton_poi_fused_add_0", PYTHON, "unset TRITON_DISABLE_LINE_INFO"),
        ("amd", "triton_red_fused_native_layer_norm_3", PYTHON, "TORCHINDUCTOR_CACHE_DIR"),
        ("nvidia", "cudapy::__main__::add[abi:v1](Array<float, 1, C>)", PYTHON, "lineinfo=True"),
        ("nvidia", "void at::native::vectorized_elementwise_kernel<4, float>(int)", PYTHON, "build of PyTorch"),
        ("nvidia", "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", PYTHON, "Libraries of the vendor"),
    ],
)
def test_the_flag_is_that_of_the_way_a_kernel_was_built(
    vendor: str, kernel: str, command: str | None, flag: str
) -> None:
    assert flag in told(vendor, kernel, command)


def test_a_page_whose_instructions_have_lines_needs_nothing() -> None:
    page = Manifest(name="x", format="ncu", vendor="nvidia")
    assert advice(page, {"a(int)": 0.0}, 0) == []
    (note,) = advice(page, {"a(int)": 40.0}, 0)
    assert "import the report" in note.text


def test_long_names_and_command_lines_cost_nothing() -> None:
    assert advised("nvidia", {"a" * 1_000_000: 100.0}, "x " * 1_000_000)


def test_kernels_built_alike_share_a_note_and_small_shares_are_left_out() -> None:
    shares = {"a(int)": 5.0, "b(int)": 30.0, "nvjet_x": 50.0, "c(int)": 0.4}
    first, second = (note.text for note in advised("nvidia", shares, "./app"))
    assert first.startswith("50 % of the samples have no source line: nvjet_x (")
    assert second.startswith("35 % of the samples have no source line: b and 1 more kernels (")
    assert advised("nvidia", {}, "./app") == [] == advised("cpu", {"a": 100.0}, "./app")
