"""The command line of Nsight Systems for a timeline, where our own recorder cannot be: on other machines."""

from __future__ import annotations

from collections.abc import Sequence

from ...profiles.cupti.records import TIMING
from ..job import Step

NAME = "nsys"


def trace_step(command: Sequence[str], out: str, program: str = NAME) -> Step:
    """The step ``timing``, which leaves trace.sqlite in its folder below ``out``; that folder must exist.

    Calls of the operating system and samples of the processor are left out: nothing of them is read.
    """
    argv = [program, "profile", "--trace", "cuda,nvtx", "--sample", "none", "--cpuctxsw", "none"]
    argv += ["--force-overwrite", "true", "--export", "sqlite", "--output", f"{out}/{TIMING}/trace"]
    return Step(TIMING, (*argv, *command), gentle=True)
