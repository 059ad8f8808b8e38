"""The program that check_counters profiles: it launches every kernel of a plan once and verifies the results.

    python -m rooflens.tools.device.counter_check.program DEVICE PLAN OUT

DEVICE names a GPU as in the benchmarks. PLAN is a JSON list of launches (analysis/counter_check/known_kernels.py), or
the word functional for small launches that an emulator can execute too. The code objects and results.json are written
into the folder OUT, and overwritten by every run of the program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ....analysis.base.problems import Problem
from ....analysis.base.text import count_text
from ....analysis.catalogue import targets
from ....analysis.counter_check.known_kernels import KnownLaunch, parse_plan
from ....analysis.counter_check.known_kernels import launches as launches_of
from ..benchmarks import specs
from ..benchmarks.gpu import open_device
from ..benchmarks.runtime import Runtime, settle
from .kernel_results import TYPES, explain_wrong_result

_KERNELS = Path(__file__).parent / "kernels"


def text(source: str) -> str:
    """Return a source with its headers, from the kernels here or else from the micro-benchmarks."""
    return specs.text(source, _KERNELS) if (_KERNELS / source).is_file() else specs.text(source)


def define(launches: Iterable[KnownLaunch], source: str) -> dict[str, str]:
    """Return macros that give kernels of the micro-benchmarks the names that distinguish them here."""
    return {one.original: one.name for one in launches if one.source == source and one.original}


FUNCTIONAL = "functional"
_GROUPS = 1024
"""Groups that fill a buffer."""
_ONES = 32768
"""Size of the operands in bytes."""


def launch_and_verify(runtime: Runtime, launches: list[KnownLaunch], out: Path) -> dict[str, Any]:
    """Launch everything; return by kernel whether its results are ``right`` (None if not known) and what is wrong.

    The code of every source is stored in ``out``.
    """
    modules = {}
    for source in dict.fromkeys(["memory.cu", *(launch.source for launch in launches)]):
        code = runtime.compile(text(source), define(launches, source))
        (out / f"{source}.bin").write_bytes(code)
        modules[source] = runtime.load(code)
    size = max(_ONES, *(max(launch.reads, launch.writes) for launch in launches)) + 4096
    a, ones, results = runtime.allocate(size), runtime.allocate(_ONES), runtime.allocate(size)
    fill = runtime.kernel(modules["memory.cu"], "prepare_fill", 0)
    _fill(runtime, fill, a, size, 1)
    runtime.upload(ones, bytes(_ONES))
    kernels: dict[str, Any] = {}
    for launch in launches:
        kernel = runtime.kernel(modules[launch.source], launch.name, launch.shared_bytes)
        _fill(runtime, fill, results, launch.writes, 0)
        if launch.data:
            one = _packed_one(launch.data)
            runtime.upload(ones, one * (_ONES // len(one)))
        settle(runtime)
        arguments = _arguments(launch, ones if launch.data else a, results)
        runtime.launch(kernel, launch.groups, launch.threads, launch.shared_bytes, arguments)
        settle(runtime, 5.0)
        fault = explain_wrong_result(launch, lambda offset, size: runtime.download(results + offset, size))
        right = None if fault is None else not fault
        kernels[launch.name] = {"right": right, "wrong": fault or "", **_spin_clock(runtime, launch, results)}
    return {"device": runtime.device.arch, "compiler": runtime.device.compiler, "kernels": kernels}


def _fill(runtime: Runtime, fill: Any, address: int, size: int, factor: int) -> None:
    """Set every word to its own index times ``factor``."""
    runtime.launch(fill, _GROUPS, 256, 0, (0, 0, address, size // 4, _GROUPS, factor))


def _packed_one(data: str) -> bytes:
    # FP16 operands are pairs.
    return np.ones(2 if data == "f16" else 1, TYPES[data]).tobytes()


def _arguments(launch: KnownLaunch, a: int, out: int) -> tuple[int, ...]:
    step, keep = launch.step, launch.keep
    if launch.data:
        step = keep = int.from_bytes(_packed_one(launch.data), "little")
    return a, a, out, launch.rounds, step + (launch.above << 32), keep


def _spin_clock(runtime: Runtime, launch: KnownLaunch, results: int) -> dict[str, float]:
    """Return the cycles and nanoseconds counted by a wave of a spinning kernel, if the vendor's kernel stores them."""
    if launch.name != "known_spin" or runtime.device.vendor != "nvidia":
        return {}
    words = np.frombuffer(runtime.download(results, 32), np.uint64)
    return {"cycles": float(words[1]), "ns": float(words[3])}


def main() -> int:
    """Read the plan, launch, and write the results; return 1 if something failed or its results were wrong."""
    device, plan, folder = sys.argv[1:4]
    out = Path(folder)
    try:
        runtime = open_device(device)
        results = launch_and_verify(
            runtime,
            _functional(runtime) if plan == FUNCTIONAL else parse_plan(Path(plan).read_text(encoding="utf-8")),
            out,
        )
    except Problem as problem:
        print(problem.text, file=sys.stderr)
        return 1
    (out / "results.json").write_text(json.dumps(results), encoding="utf-8")
    if plan != FUNCTIONAL:
        return 0
    bad = {name: one["wrong"] for name, one in results["kernels"].items() if one["right"] is False}
    right = sum(one["right"] is True for one in results["kernels"].values())
    print(
        f"{right} of {count_text(len(results['kernels']), 'kernel')} gave the right result, {len(bad)} a wrong one.",
        *bad.items(),
    )
    return 1 if bad else 0


def _functional(runtime: Runtime) -> list[KnownLaunch]:
    """Return small launches for a device, chosen by its own description."""
    arch = runtime.device.arch
    stated = {name: float(fact.value) for name, fact in targets.gpu(arch).facts.items()}
    stated |= {"cu_per_gpu": float(runtime.device.compute_units), "wave_size": float(runtime.device.wave_size)}
    return launches_of(arch, stated, functional=True)


if __name__ == "__main__":
    sys.exit(main())
