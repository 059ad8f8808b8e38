"""Machine code for the micro-benchmarks of a run: each source with each set of macros, compiled side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ...analysis.problems import Problem
from . import sources
from .runtime import Runtime
from .table import Spec

Build = tuple[str, tuple[tuple[str, str], ...]]
"""A source file and its macros."""


def build_of(spec: Spec) -> Build:
    """The source and the macros of a micro-benchmark."""
    macros = dict(spec.defines)
    if spec.source in ("hbm.cu", "cache.cu", "sweep.cu"):
        macros["THREADS"] = str(spec.threads)
    return spec.source, tuple(sorted(macros.items()))


def compiled(runtime: Runtime, builds: Iterable[Build]) -> dict[Build, bytes | Problem]:
    """Machine code, or why there is none, of every source and set of macros."""

    def one(build: Build) -> bytes | Problem:
        try:
            return runtime.compile(sources.text(build[0]), dict(build[1]))
        except Problem as problem:
            return problem

    listed = sorted(builds)
    with ThreadPoolExecutor(min(len(listed), os.cpu_count() or 1)) as pool:
        return dict(zip(listed, pool.map(one, listed), strict=True))
