"""Run the table of ceilings on one device."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ....analysis.base.problems import BadArgument, LimitExceeded, MissingTool, NotFound, Problem, join_sentences
from ....analysis.base.text import count_text
from . import cuda, hip, kernel_results
from .measure import (
    FILL_UNROLL,
    FULL,
    QUICK,
    LaunchEffort,
    Memory,
    ReadyKernel,
    allocate,
    best,
    fill,
    kernel_name,
    launch_times,
)
from .outcomes import (
    CeilingOutcome,
    CeilingProgress,
    Mode,
    best_of_memory,
    compare_caches,
    held_back,
    judge_outcome,
    sampled,
    theory,
)
from .runtime import OpenGpu, Runtime
from .specs import BenchmarkSpec, Build, build_of, choose_specs, compile_all, variants, version

_FILL: Build = ("hbm.cu", (("UNROLL", str(FILL_UNROLL)),))
_MEMORY_SHARE = 5
"""Each of the three buffers uses at most one part in this many of the free memory."""
_CACHES = 4
"""Buffers are at least this many times as large as the last-level cache."""


@dataclass(frozen=True)
class BenchmarkScale:
    """Budget of a mode: bytes per buffer, effort per ceiling (None: only check), launches, total seconds."""

    size: int
    effort: LaunchEffort | None
    launches: int
    limit_s: float


class BenchmarkSession:
    """One benchmark run on an open device."""

    def __init__(
        self,
        runtime: Runtime,
        specs: tuple[BenchmarkSpec, ...],
        scale: BenchmarkScale,
        progress: CeilingProgress,
        cancelled: Callable[[], bool],
    ) -> None:
        self._runtime, self._specs, self._scale = runtime, specs, scale
        self._progress, self._cancelled = progress, cancelled
        self._total = sum(max(1, len(spec.points)) for spec in specs)
        self._theory = theory(runtime.device)
        self._done: list[CeilingOutcome] = []
        self._until = time.monotonic() + scale.limit_s
        self._stop = ""
        self._codes: dict[Build, bytes | Problem] = {}
        self._modules: dict[Build, Any] = {}
        self._memory: Memory
        self._launches: dict[str, tuple[float, ...]] = {}

    def outcomes(self) -> list[CeilingOutcome]:
        """Compile everything, then run every micro-benchmark."""
        builds = {_FILL, *(build_of(v) for spec in self._specs for v in variants(spec))}
        self._codes = compile_all(self._runtime, builds)
        self._memory = allocate(self._runtime, self._size())
        fill(self._runtime, self._kernel(_FILL, "hbm_fill"), self._memory)
        for spec in self._specs:
            for point in spec.points or (1,):
                intensity = spec.work * point / 4 if spec.points else None
                name = spec.name if intensity is None else f"{spec.name}.{intensity:g}"
                self._progress(name, len(self._done), self._total, None)
                blank = CeilingOutcome(
                    name,
                    spec.unit,
                    "ok",
                    intensity=intensity,
                    kernel=kernel_name(spec, point),
                    workgroup_size=spec.threads,
                    method=f"rooflens: {spec.title}",
                )
                outcome = self._skipped_outcome(blank) or self._run_point(spec, blank, point)
                self._done.append(outcome)
                self._progress(name, len(self._done), self._total, outcome)
        outcomes = compare_caches(self._done)
        top = best_of_memory(outcomes)
        return [*outcomes, top] if top else outcomes

    def _run_point(self, spec: BenchmarkSpec, blank: CeilingOutcome, point: int) -> CeilingOutcome:
        """Run one micro-benchmark: check the results of all variants, then measure and judge the best one."""
        try:
            ready = []
            for variant in variants(spec):
                kernel = self._kernel(build_of(variant), kernel_name(variant, point), variant.shared_bytes)
                ready.append(ReadyKernel(self._runtime, variant, kernel, self._memory, point))
            blank = replace(blank, compiler=made_by(self._runtime.device))
            for one in ready:
                if wrong := kernel_results.wrong_results(one, one.grid(spec.groups[0])):
                    return replace(blank, status="failed", check=wrong, reason=f"its results are wrong: {wrong}")
            blank = replace(blank, check="results are right")
            if self._scale.effort is None:
                return replace(blank, reason="only the results were checked; nothing was timed")
            if spec.kind == "launch":
                if not self._launches:
                    self._launches = launch_times(ready[0], self._scale.launches)
                times = self._launches[spec.name]
                method = f"{blank.method}, kernels {version()}, {len(times)} times, median"
                return replace(sampled(blank, times), grid=1, method=method)
            return self._measure(ready, blank, self._scale.effort)
        except Problem as problem:
            if isinstance(problem, LimitExceeded):
                self._stop = problem.what
            return replace(blank, status="failed", reason=problem.text)
        except RuntimeError as error:
            # Runtime bindings raise RuntimeError for a function that an older library lacks.
            return replace(blank, status="failed", reason=f"The GPU runtime failed: {error}")

    def _kernel(self, build: Build, name: str, shared_bytes: int = 0) -> Any:
        """Return a kernel of a build, whose module is loaded once; raise the problem that its compiler reported."""
        if build not in self._modules:
            code = self._codes[build]
            if isinstance(code, Problem):
                raise code
            self._modules[build] = self._runtime.load(code)
        return self._runtime.kernel(self._modules[build], name, shared_bytes)

    def _measure(self, ready: list[ReadyKernel], blank: CeilingOutcome, effort: LaunchEffort) -> CeilingOutcome:
        fastest, timing = best(ready, effort)
        sizes = (
            f"{count_text(len(timing.samples), 'launch')} of {count_text(timing.rounds, 'round')}, "
            f"{count_text(timing.groups, 'group')}"
        )
        outcome = replace(
            sampled(blank, timing.rates),
            clock_mhz=timing.clock_mhz,
            grid=timing.groups,
            workgroup_size=fastest.spec.threads,
            work_per_launch=timing.work,
            method=f"{blank.method}, kernels {version()}, {sizes}, median of device events",
            reason="" if timing.steady else "the median was still changing when the time was up",
        )
        theory_at_clock = theory(self._runtime.device, timing.clock_mhz) if timing.clock_mhz else None
        return held_back(judge_outcome(outcome, fastest.spec, self._theory, theory_at_clock), timing.state)

    def _skipped_outcome(self, blank: CeilingOutcome) -> CeilingOutcome | None:
        """Return the outcome of a benchmark that is not run at all, or None."""
        if not self._stop and self._cancelled():
            self._stop = "cancelled"
        if not self._stop and time.monotonic() > self._until:
            self._stop = f"the {self._scale.limit_s:.0f} s of this mode were used up"
        return replace(blank, status="skipped", reason=self._stop) if self._stop else None

    def _size(self) -> int:
        """Return the size of one buffer in bytes, a whole number of MiB."""
        device = self._runtime.device
        size = self._scale.size
        if self._scale.effort is not None:
            size = max(size, _CACHES * (device.l2_bytes or 0))
        return max(1 << 20, min(size, device.free_bytes // _MEMORY_SHARE) >> 20 << 20)


def made_by(gpu: OpenGpu) -> str:
    """Describe what compiled the kernels and what runs them."""
    return ", ".join(word for word in (gpu.compiler, gpu.runtime) if word)


_OPEN: dict[str, tuple[Callable[[], int], Callable[[int], Runtime]]] = {
    "nvidia": (cuda.count, cuda.Cuda),
    "amd": (hip.count, hip.Hip),
}


def describe(device: str | int | None = None) -> OpenGpu:
    """Return the GPU that ``open_device`` would open."""
    return open_device(device).device


def open_device(device: str | int | None = None) -> Runtime:
    """Open a GPU: an index (NVIDIA's come first), "amd", "nvidia:1", a UUID, or None for the first one.

    Raises MissingTool if no runtime works, with the reason for each, and NotFound if there is no such GPU.
    """
    word = "" if device is None else str(device).strip()
    match = re.fullmatch(r"(?:(amd|nvidia):?)?(\d+)?", word)
    vendors = [match[1]] if match and match[1] else list(_OPEN)
    answers, uuids = [], []
    for vendor in vendors:
        count, open_runtime = _OPEN[vendor]
        try:
            number = count()
        except MissingTool as problem:
            answers.append(join_sentences(f"{vendor}: {problem.why}", problem.fix))
            continue
        if match and (index := int(match[2] or 0)) < number:
            return open_runtime(index)
        for index in [] if match else range(number):
            runtime = open_runtime(index)
            if runtime.device.uuid == word:
                return runtime
            uuids.append(runtime.device.uuid)
        answers.append(f"{vendor}: {number} GPUs")
    found = join_sentences(*answers)
    if uuids or word:
        advice = f"UUIDs: {', '.join(uuids)}" if uuids else "rooflens doctor shows the devices of this machine"
        raise NotFound(f"There is no GPU {word!r} to measure", found, advice)
    raise MissingTool("There is no GPU to measure", found, "rooflens doctor shows the devices")


SCALES: dict[Mode, BenchmarkScale] = {
    "full": BenchmarkScale(2 << 30, FULL, 400, 240.0),
    "quick": BenchmarkScale(1 << 30, QUICK, 100, 45.0),
    "functional": BenchmarkScale(1 << 20, None, 0, 1800.0),
}


def measure_ceilings(
    device: str | int | None,
    wanted: list[str] | None,
    mode: Mode,
    *,
    progress: CeilingProgress = lambda name, number, total, outcome: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[CeilingOutcome]:
    """Measure (or in mode functional only check) the wanted ceilings of a GPU; None means all.

    ``progress`` receives each ceiling's name, number and the total before the measurement, and its outcome afterwards.
    A failure is an outcome with its reason. Outcomes are in the order of the table, followed by ``hbm.bw``.

    Raises NotFound for an unknown device, target or ceiling, and MissingTool if no runtime or compiler works.
    """
    if mode not in SCALES:
        raise BadArgument(f"There is no mode {mode!r}", "", f"Modes: {', '.join(SCALES)}")
    runtime = open_device(device)
    return BenchmarkSession(
        runtime, choose_specs(runtime.device.arch, wanted), SCALES[mode], progress, cancelled
    ).outcomes()
