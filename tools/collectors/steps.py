"""What it takes to profile a command: a request, and the application runs (steps) by which one profiler answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Replay = Literal["application", "kernel"]


@dataclass(frozen=True)
class Request:
    """What to profile, independent of the profiler and of the machine."""

    command: tuple[str, ...]
    """Argument list of the program; never a shell line."""
    passes: tuple[tuple[str, ...], ...] = ()
    """Counters of each run, as the target spells them; empty where only times are wanted."""
    kernel: str | None = None
    """Regular expression on the kernel name; only these kernels are counted."""
    launches: tuple[int, int] | None = None
    """First and last launch to count, from 1: of each matching kernel (AMD), of all matching launches (NVIDIA)."""
    replay: Replay = "application"
    repeats: int = 1
    """Runs of the program under a profiler of processors, which has no launches to repeat."""
    target: str = ""
    """GPU target such as gfx942, whose counter names and limits hold for ``passes``; empty where not known."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Known facts of the device, under the catalogue's names: counters per L2 channel need num_xcd, total_l2_chan."""


@dataclass(frozen=True)
class Step:
    """One run of the application: what to start, what to write before, and what it will have measured."""

    name: str
    """Of the run and of its folder below the output folder, such as ``timing`` or ``pass_1``."""
    argv: tuple[str, ...]
    """The whole argument list, profiler first; paths are below the output folder given to the builder."""
    counters: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Input files to write before the run: path relative to the output folder -> text."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables to set for this run."""
    unset: tuple[str, ...] = ()
    """Prefixes of variables that the run must not inherit, such as ``ROCPROF_``."""
