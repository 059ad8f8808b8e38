"""The machine code for NVIDIA, where its compiler and disassembler are installed: the same counts as on AMD."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.tests.support.benchmarked_gpu import DEVICE
from rooflens.tools.device.benchmarks import specs
from rooflens.tools.device.benchmarks.cuda import Cuda
from rooflens.tools.device.benchmarks.measure import kernel_name
from rooflens.tools.device.benchmarks.specs import BenchmarkSpec, build_of, ceilings, variants


def _nvdisasm() -> str:
    if found := shutil.which("nvdisasm"):
        return found
    packages = importlib.util.find_spec("nvidia")
    folders = packages.submodule_search_locations or [] if packages else []
    places = [hit for folder in folders for hit in Path(folder).rglob("nvdisasm")]
    if not places:
        pytest.skip("needs nvdisasm: pip install nvidia-cuda-nvdisasm")
    return str(places[0])


def _compiler(arch: str) -> Cuda:
    """NVRTC needs no GPU: a Cuda that is not open, but knows its target."""
    nvrtc: Any = pytest.importorskip("cuda.bindings.nvrtc", reason='needs NVRTC: pip install "rooflens[cuda]"')
    cuda = Cuda.__new__(Cuda)
    cuda._nvrtc = nvrtc
    cuda.device = replace(DEVICE, vendor="nvidia", arch=arch)
    try:
        cuda.compile(specs.text("launch.cu"), {})
    except MissingTool as problem:
        pytest.skip(problem.text)
    return cuda


def _loops(text: str, kernel: str) -> list[list[str]]:
    """The bodies of all backward branches of a kernel."""
    section = re.search(rf"^\.text\.{kernel}:\n(.*?)(?=^\.text\.|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, kernel
    labels: dict[str, int] = {}
    found: list[str] = []
    bodies = []
    for line in section[1].splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(found)
        if code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(.*?);", line):
            found.append(code[1])
            target = re.search(r"BRA .*?(\.L_x_\d+)", code[1])
            if target and labels.get(target[1], len(found)) < len(found) - 1:
                bodies.append(found[labels[target[1]] :])
    return bodies


def test_hot_loops_hold_the_counted_instructions_and_no_spills(tmp_path: Path) -> None:
    """The first and the last variant of each micro-benchmark, and the least and the most operations for a word.

    Variants that differ in hints to caches and in threads, which change no loop, are proved with the build of one.
    """
    compiler, disassembler = _compiler("sm_90"), _nvdisasm()
    texts: dict[object, str] = {}
    known = [list(variants(s)) for s in ceilings("sm_90") if s.instruction]
    for spec in (v for found in known for v in (found[0], *found[1:][-1:])):
        source, defines = build_of(spec)
        build = source, *(pair for pair in defines if pair[0] not in ("LOAD", "STORE", "THREADS"))
        if build not in texts:
            path = tmp_path / "kernel.cubin"
            path.write_bytes(compiler.compile(specs.text(source), dict(defines)))
            texts[build] = subprocess.run(
                [disassembler, "-c", "-ndf", str(path)], capture_output=True, text=True, check=True
            ).stdout
        for point in (spec.points[0], spec.points[-1]) if spec.points else (1,):
            _prove(spec, _loops(texts[build], kernel_name(spec, point)), spec.count * min(point, 8))


def _prove(spec: BenchmarkSpec, loops: list[list[str]], wanted: int) -> None:
    counts = [sum(bool(re.match(spec.instruction, i + " ")) for i in loop) for loop in loops]
    # The compiler may unroll further: two or four rounds in one.
    assert counts and max(counts) % wanted == 0 and max(counts), (spec.name, spec.defines, counts)
    hot = loops[counts.index(max(counts))]
    assert not [i for i in hot if i.startswith(("LDL", "STL"))], spec.name
