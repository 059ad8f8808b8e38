"""The table of ceilings: which kernel measures each of them, with its source and build."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Literal

import pydantic

from ....analysis.base.problems import NotFound, Problem, near
from ....analysis.catalogue import files, targets
from .runtime import Runtime

_HERE = Path(__file__).parent
Kind = Literal["stream", "tiles", "loop", "sweep", "launch"]
Unit = Literal["GB/s", "GFLOP/s", "GIOP/s", "GIPS", "us"]


class BenchmarkSpec(pydantic.BaseModel):
    """A micro-benchmark for one target; its fields are explained at the beginning of peaks.toml."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    unit: Unit
    kind: Kind
    source: str
    kernel: str
    ceiling: str = ""
    instruction: str = ""
    count: int = 0
    lanes: int = 1
    work: float = 0
    shape: tuple[int, ...] = ()
    data: str = ""
    elements: int = 0
    threads: int = 256
    defines: dict[str, str] = {}
    groups: tuple[int, ...]
    buffers: int = 0
    region_kib: int = 0
    points: tuple[int, ...] = ()
    waves: int = 0
    tries: tuple[dict[str, str], ...] = ()

    @property
    def per_instruction(self) -> float:
        """Return the bytes or operations of one ``instruction``."""
        return 2.0 * math.prod(self.shape) if self.shape else self.work

    @property
    def shared_bytes(self) -> int:
        """Return the bytes of dynamic shared memory: for wgmma, 8 tiles each of B and of A for two warp groups."""
        return 8 * (8192 + 2 * 2048) if self.source == "wgmma.cu" else 0

    @property
    def tile_bytes(self) -> int:
        """Return the bytes of one tile: what a group of a stream, sweep or tiles kernel processes in a round."""
        loads = {"sweep": 4, "tiles": 8}.get(self.kind) or int(self.defines.get("UNROLL", "4"))
        return self.threads * 16 * loads

    def work_of(self, rounds: int, groups: int, *, point: int = 1) -> float:
        """Return the bytes or operations of a launch.

        ``rounds`` is the number of rounds of every group, or of tiles in the launch for a stream or sweep; ``point`` is
        the number of multiply-adds per word in a sweep.
        """
        times = rounds if self.kind in ("stream", "sweep") else rounds * groups
        return times * self.threads / self.lanes * self.count * point * self.per_instruction


@cache
def ceilings(target: str) -> tuple[BenchmarkSpec, ...]:
    """Return the micro-benchmarks of a target in the order in which they run; raise NotFound for other targets."""
    if not targets.gpu(target).benchmarks:
        proven = ", ".join(name for name in targets.targets() if targets.gpu(name).benchmarks)
        raise NotFound(f"There are no micro-benchmarks for {target}", "no kernels have been written for it", proven)
    table = files.load(_HERE / "peaks.toml")["peak"]
    entries = (entry for entry in table if targets.holds(entry.get("gpus"), target))
    return tuple(BenchmarkSpec.model_validate(targets.as_on_target(entry, target)) for entry in entries)


def choose_names(wanted: Iterable[str] | None, names: Sequence[str], device: str) -> set[str]:
    """Return the names that a word names or is a prefix of, before a dot; all for None.

    Raises NotFound for a word that matches none.
    """
    chosen: set[str] = set()
    for word in wanted or names:
        matches = {name for name in names if f"{name}.".startswith(f"{word}.")}
        if not matches:
            raise NotFound(
                f"There is no ceiling {word!r} to measure on {device}",
                near(word, {part for name in names for part in (name, name.split(".")[0])}),
                f"Known: {', '.join(names)}",
            )
        chosen |= matches
    return chosen


def choose_specs(target: str, wanted: Iterable[str] | None) -> tuple[BenchmarkSpec, ...]:
    """Return the micro-benchmarks for the given ceilings: names, or prefixes before the dot; None means all.

    ``hbm.bw`` is the best of the four device-memory benchmarks. Raises NotFound for an unknown name.
    """
    specs = ceilings(target)
    names = choose_names(wanted, ("hbm.bw", *(spec.name for spec in specs)), target)
    families = {"hbm"} if "hbm.bw" in names else set()
    return tuple(spec for spec in specs if spec.name in names or spec.name.split(".")[0] in families)


def variants(spec: BenchmarkSpec) -> tuple[BenchmarkSpec, ...]:
    """Return the micro-benchmark with each set of additional macros to try; only itself if there are none."""
    return tuple(_variant(spec, macros) for macros in spec.tries) or (spec,)


def _variant(spec: BenchmarkSpec, macros: dict[str, str]) -> BenchmarkSpec:
    """Apply macros; UNROLL scales the work of a round."""
    defines = spec.defines | {name: value for name, value in macros.items() if name != "THREADS"}
    scale = int(defines.get("UNROLL", "1")) / int(spec.defines.get("UNROLL", "1"))
    threads = int(macros.get("THREADS", spec.threads))
    return spec.model_copy(update={"defines": defines, "threads": threads, "count": round(spec.count * scale)})


_KERNELS = _HERE / "kernels"
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


@cache
def text(name: str, folder: Path = _KERNELS) -> str:
    """Return a source file of kernels/, or of another folder, with our headers inserted at their first #include."""
    return _inline_headers(folder / name, set())


@cache
def version() -> str:
    """Return a short hash of all kernels and the table: measurements of different versions are not comparable."""
    digest = hashlib.sha256()
    for path in [*sorted(_KERNELS.iterdir()), _HERE / "peaks.toml"]:
        if path.suffix in (".cu", ".h", ".toml"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _inline_headers(path: Path, seen: set[str]) -> str:
    def header(match: re.Match[str]) -> str:
        if match[1] in seen:
            return ""
        seen.add(match[1])
        return _inline_headers(_KERNELS / match[1], seen)

    return _INCLUDE.sub(header, path.read_text(encoding="utf-8").replace("#pragma once\n", ""))


Build = tuple[str, tuple[tuple[str, str], ...]]
"""A source file and its macros."""


def build_of(spec: BenchmarkSpec) -> Build:
    """Return the source and the macros of a micro-benchmark."""
    macros = dict(spec.defines)
    if spec.source in ("hbm.cu", "cache.cu", "sweep.cu"):
        macros["THREADS"] = str(spec.threads)
    return spec.source, tuple(sorted(macros.items()))


def compile_all(runtime: Runtime, builds: Iterable[Build]) -> dict[Build, bytes | Problem]:
    """Return the machine code of every source and set of macros, or the problem that prevented it."""

    def one(build: Build) -> bytes | Problem:
        try:
            return runtime.compile(text(build[0]), dict(build[1]))
        except Problem as problem:
            return problem

    ordered = sorted(builds)
    with ThreadPoolExecutor(min(len(ordered), os.cpu_count() or 1)) as pool:
        return dict(zip(ordered, pool.map(one, ordered), strict=True))
