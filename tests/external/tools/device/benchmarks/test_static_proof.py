"""On AMD nothing could be run: the machine code of every kernel shows that it does what its ceiling counts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.tests.external.tools.device.benchmarks.proof import complaints, hot_loop, instructions, objdump
from rooflens.tools.device.benchmarks import hip
from rooflens.tools.device.benchmarks import specs as table
from rooflens.tools.device.benchmarks.measure import kernel_name
from rooflens.tools.device.benchmarks.specs import BenchmarkSpec, build_of, ceilings

ARCHS = ("gfx908", "gfx950")
"""The first and the last; gfx90a has its proof by hiprtc."""


def _compiled(arch: str, source: str, defines: dict[str, str], folder: Path) -> Path:
    objdump()
    try:
        image = _image(arch, source, tuple(defines.items()), hip._OPTIONS)
    except MissingTool as problem:
        pytest.skip(f"needs a clang for {arch} (apt-get install clang-22 lld-22 llvm-22): {problem.why[:200]}")
    path = folder / f"{arch}.co"
    path.write_bytes(image)
    return path


@cache
def _image(arch: str, source: str, defines: tuple[tuple[str, str], ...], options: tuple[str, ...]) -> bytes:
    """Several micro-benchmarks are kernels of one build."""
    return hip.by_clang(arch, source, dict(defines)).image


def _proved(
    spec: BenchmarkSpec, arch: str, folder: Path, change: dict[str, str] | None = None, **defines: str
) -> list[str]:
    """Complaints about all kernels of a micro-benchmark; ``change`` replaces text of its source."""
    text = table.text(spec.source)
    for old, new in (change or {}).items():
        assert old in text
        text = text.replace(old, new)
    code = _compiled(arch, text, dict(build_of(spec)[1]) | defines, folder)
    said = []
    for point in spec.points or (1,):
        # Up to 8 multiply-adds a word are unrolled, more are a loop of 8.
        count = spec.count * min(point, 8) if spec.points else None
        said += complaints(code, arch, spec, kernel_name(spec, point), count=count)
    return said


@pytest.mark.parametrize("arch", ARCHS)
def test_every_hot_loop_holds_exactly_the_intended_instructions(arch: str, tmp_path: Path) -> None:
    specs = [spec for spec in ceilings(arch) if spec.instruction]
    assert {"hbm.copy", "hbm.triad", "hbm.read", "hbm.write", "l2.bw", "vl1d.bw", "lds.bw", "valu.f32", "valu.i32"} <= {
        spec.name for spec in specs
    }
    assert {spec.name: said for spec in specs if (said := _proved(spec, arch, tmp_path))} == {}


@pytest.mark.parametrize("arch", ARCHS)
def test_work_of_a_matrix_instruction_is_that_of_the_shape_in_its_name(arch: str) -> None:
    for spec in ceilings(arch):
        if spec.shape:
            m, n, k = map(int, re.search(r"_(\d+)x(\d+)x(\d+)", spec.instruction).groups())  # type: ignore[union-attr]
            assert spec.per_instruction == 2 * m * n * k
            assert spec.work_of(3, 5) == 3 * 5 * 4 * 16 * 2 * m * n * k


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("options", [(), ("-mllvm", "-amdgpu-kernarg-preload-count=16")], ids=["plain", "preload"])
def test_writes_to_lds_are_waited_for_before_the_barrier(
    arch: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A barrier waits for waves, not for their writes; loads of preloaded arguments need no wait that would hide it."""
    monkeypatch.setattr(hip, "_OPTIONS", (*hip._OPTIONS, *options))
    source, defines = build_of(_spec(arch, "lds.bw"))
    lines = instructions(_compiled(arch, table.text(source), dict(defines), tmp_path), arch, "lds_read")
    barrier = lines.index("s_barrier")
    written = max(i for i in range(barrier) if lines[i].startswith("ds_write"))
    waits = [line for line in lines[written:barrier] if line.startswith("s_waitcnt") and "lgkmcnt(0)" in line]
    assert waits, lines[written : barrier + 1]


def _spec(arch: str, name: str) -> BenchmarkSpec:
    return next(spec for spec in ceilings(arch) if spec.name == name)


@pytest.mark.parametrize(
    ("name", "change", "defines", "said"),
    [
        ("matrix.f16", {"if (keep == 1) {": "if (false) {"}, {}, "no loop holds the payload"),
        ("matrix.f16", {}, {"CHAINS": "16"}, "waves per SIMD"),
        ("hbm.copy", {}, {"UNROLL": "8"}, "16 payload instructions instead of 8"),
    ],
    ids=["dead product", "chains", "unroll"],
)  # fmt: skip
def test_a_kernel_that_would_measure_something_else_is_refused(
    name: str, change: dict[str, str], defines: dict[str, str], said: str, tmp_path: Path
) -> None:
    spec = _spec("gfx950", name)
    assert _proved(spec, "gfx950", tmp_path) == []
    assert said in "; ".join(_proved(spec, "gfx950", tmp_path, change, **defines))


def test_hiprtc_kernels_meet_the_same_proof(hip_libraries: None, tmp_path: Path) -> None:
    """One micro-benchmark of a source for memory, and one for arithmetic."""
    path = tmp_path / "hiprtc.co"
    for spec in (_spec("gfx90a", "hbm.copy"), _spec("gfx90a", "valu.f32")):
        build = build_of(spec)
        path.write_bytes(hip.by_hiprtc("gfx90a", table.text(build[0]), dict(build[1])).image)
        for point in spec.points or (1,):
            count = spec.count * min(point, 8) if spec.points else None
            loop = hot_loop(path, "gfx90a", kernel_name(spec, point), spec.instruction)
            assert loop.payload == (spec.count if count is None else count), spec.name
