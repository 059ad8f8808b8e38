"""The program that check_counters profiles: it launches every kernel of a plan once and verifies what they leave.

    python -m rooflens.tools.check.program DEVICE PLAN OUT

DEVICE is as the benchmarks name GPUs; PLAN a JSON list of launches (analysis/checking/known.py). Into the folder OUT go
the code objects and results.json, written anew by every run of the program.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...analysis.checking.known import Launch
from ...analysis.problems import Problem
from ..benchmarks.run import open_device
from ..benchmarks.runtime import Runtime, settle
from .sources import define, text

_FORMATS: dict[str, tuple[str, Any]] = {"f16": ("e", np.float16), "f32": ("f", np.float32), "f64": ("d", np.float64),
                                        "i32": ("I", np.uint32)}  # fmt: skip
_ONES = 32768
Array = npt.NDArray[Any]


def run(runtime: Runtime, launches: list[Launch], out: Path) -> dict[str, Any]:
    """Launch everything; what each kernel left, by name: ``right`` (None where nobody can tell) and what is wrong."""
    codes = _built(runtime, launches, out)
    size = max(_ONES, *(max(launch.reads, launch.writes) for launch in launches)) + 4096
    a, ones, results = runtime.allocate(size), runtime.allocate(_ONES), runtime.allocate(size)
    fill = runtime.kernel(runtime.load(codes["memory.cu"]), "prepare_fill", 0)
    _fill(runtime, fill, a, size, 1)
    runtime.upload(ones + 0, bytes(_ONES))
    modules: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for launch in launches:
        code = codes[launch.source]
        if launch.source not in modules:
            modules[launch.source] = runtime.load(code)
        kernel = runtime.kernel(modules[launch.source], launch.name, launch.shared_bytes)
        _fill(runtime, fill, results, launch.writes, 0)
        source = a
        if launch.data:
            runtime.upload(ones, _one(launch.data) * (_ONES // len(_one(launch.data))))
            source = ones
        settle(runtime)
        runtime.launch(kernel, launch.groups, launch.threads, launch.shared_bytes, _arguments(launch, source, results))
        settle(runtime, 5.0)
        found[launch.name] = _verified(runtime, launch, results)
    return {"device": runtime.device.arch, "compiler": runtime.device.compiler, "kernels": found}


def _built(runtime: Runtime, launches: list[Launch], out: Path) -> dict[str, bytes]:
    """The code of every source, kept in ``out`` too."""
    codes = {}
    for source in dict.fromkeys(["memory.cu", *(launch.source for launch in launches)]):
        codes[source] = runtime.compile(text(source), define(launches, source))
        (out / f"{source}.bin").write_bytes(codes[source])
    return codes


def _fill(runtime: Runtime, fill: Any, address: int, size: int, factor: int) -> None:
    """Every word its own index times ``factor``."""
    groups = 1024
    runtime.launch(fill, groups, 256, 0, (0, 0, address, size // 4, groups, factor))


def _one(data: str) -> bytes:
    code, _ = _FORMATS[data]
    # FP16 operands are pairs.
    return struct.pack(f"<{code}", 1) * (2 if data == "f16" else 1)


def _arguments(launch: Launch, a: int, out: int) -> tuple[int, ...]:
    step, keep = launch.step, launch.keep
    if launch.data:
        step = keep = int.from_bytes(_one(launch.data), "little")
    return a, a, out, launch.rounds, step + (launch.above << 32), keep


def _verified(runtime: Runtime, launch: Launch, results: int) -> dict[str, Any]:
    """Whether the first and the last group left what they must."""
    kind = launch.source.removesuffix(".cu")
    if launch.result is not None and launch.data:
        number = _FORMATS[launch.data][1]
        width = np.dtype(number).itemsize * (2 if launch.data == "f16" else 1)
        size = launch.threads * 16 * width
        got = _ends(runtime, results, size, launch.groups, number)
        # Of a pair of FP16 numbers, AMD's scalar instructions leave the upper one alone.
        wrong = got[:: 2 if launch.data == "f16" else 1] != number(launch.result)
    elif launch.result is not None and kind == "states":
        got = _ends(runtime, results, launch.threads * 16, launch.groups, np.uint64)
        wrong = got[::2] != launch.result
    elif launch.result is not None:
        got = _ends(runtime, results, launch.threads * 4, launch.groups, np.uint32)
        wrong = got != launch.result
    elif "apart" in launch.quantities and launch.name.startswith("known_read_"):
        got = _ends(runtime, results, launch.threads * 4, launch.groups, np.uint32)
        wrong = got != _read(launch)
    else:
        return {"right": None, **_clock(runtime, launch, results)}
    count = int(wrong.sum())
    said = f"{count} of {wrong.size} results are wrong" if count else ""
    return {"right": not said, "wrong": said, **_clock(runtime, launch, results)}


def _ends(runtime: Runtime, address: int, size: int, groups: int, number: Any) -> Array:
    first = runtime.download(address, size)
    last = runtime.download(address + (groups - 1) * size, size)
    return np.frombuffer(first + last, number)


def _read(launch: Launch) -> Array:
    """What lanes of the first and last group leave of the words that they read, one after the other."""
    size, apart = int(launch.quantities["size"]), int(launch.quantities["apart"])
    lanes = launch.groups * launch.threads
    at = np.concatenate([np.arange(launch.threads), np.arange(lanes - launch.threads, lanes)]).astype(np.uint64)
    total = np.zeros(at.size, np.uint32)
    for number in range(4 * launch.rounds):
        first = (at + np.uint64(number * lanes)) * np.uint64(apart // 4)
        for word in range(size // 4):
            total += (first + np.uint64(word)).astype(np.uint32)
    return total


def _clock(runtime: Runtime, launch: Launch, results: int) -> dict[str, float]:
    """Cycles and nanoseconds that a wave of a spinning kernel counted, where the vendor's kernel leaves them."""
    if launch.name != "known_spin" or runtime.device.vendor != "nvidia":
        return {}
    words = np.frombuffer(runtime.download(results, 32), np.uint64)
    return {"cycles": float(words[1]), "ns": float(words[3])}


def main() -> int:
    """Read the plan, launch, write the results; 1 where something could not be done."""
    device, plan, folder = sys.argv[1:4]
    out = Path(folder)
    launches = [Launch.model_validate(one) for one in json.loads(Path(plan).read_text(encoding="utf-8"))]
    try:
        found = run(open_device(device), launches, out)
    except Problem as problem:
        print(problem.text, file=sys.stderr)
        return 1
    (out / "results.json").write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
