"""Command lines of rocprofv2: an input file a run, a kernel trace for the times first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....analysis.problems import BadArgument, Problem
from ...runner.job import Step
from ..failures import explained
from ..request import Replay, Request, left_out_notes
from . import inputs

NAME = "rocprofv2"
VENDOR = "amd"
REPLAY: Replay = "application"
LOG: str | None = None
_VERSION = re.compile(r"ROCProfiler version:\s*([\d.]+)")
_PATH = re.compile(r"[^\s*?\[\]]+")


@dataclass(frozen=True)
class Features:
    """What is known of one rocprofv2."""

    version: str | None = None


def features(help_text: str, version_text: str) -> Features:
    """The version that the text of ``--version`` tells."""
    found = _VERSION.search(version_text)
    return Features(found[1] if found else None)


def features_of(version: str | None) -> Features:
    """The features of a version known by number alone; all are driven alike."""
    return Features(version)


def steps(request: Request, features: Features, *, program: str, out: str) -> list[Step]:
    """The runs that collect ``request``; a pass leaves pmc_1/results_PID.csv in its folder.

    Raises BadArgument for what inputs.check refuses, and for a path that its shell script would split.
    """
    inputs.check(request, NAME)
    if not _PATH.fullmatch(out):
        raise BadArgument(
            f"rocprofv2 cannot write to {out[:80]!r}", "its script splits paths at spaces", "Choose another folder"
        )
    return [_step(request, program, out, "timing", ())] + [
        _step(request, program, out, f"pass_{number}", counters)
        for number, counters in enumerate(request.passes, 1)
        if counters
    ]


def notes(request: Request, features: Features) -> list[str]:
    """What a profile of this tool cannot tell."""
    return [
        "Counters are collected one kernel at a time: durations are those of the run 'timing', which has none.",
        *left_out_notes(left_out(request, features)),
    ]


def left_out(request: Request, features: Features) -> dict[str, str]:
    """Counters of the request that cannot be counted -> why."""
    return inputs.left_out(request)


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None."""
    return explained(NAME, status, stderr)


def _step(request: Request, program: str, out: str, name: str, counters: tuple[str, ...]) -> Step:
    argv, files = [program], {}
    if counters:
        files[f"{name}.txt"] = inputs.input_text(request, counters, NAME)
        argv += ["-i", f"{out}/{name}.txt"]
    else:
        argv.append("--kernel-trace")
    argv += ["-d", f"{out}/{name}"]
    # Without it the XCDs of an MI300 share one row, and counters of one channel cannot be told apart.
    env = {"ROCPROFILER_INDIVIDUAL_XCC_MODE": "1"} if request.target.startswith("gfx94") else {}
    return Step(name, (*argv, *request.command), counters, files, env, unset=("ROCP_", "ROCPROFILER_"))
