"""Command lines of rocprof (v1): an input file a run, times in every run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....analysis.problems import BadArgument, Problem
from ...runner.job import Step
from ..failures import explained
from ..request import Replay, Request, left_out_notes
from . import inputs

NAME = "rocprof"
VENDOR = "amd"
REPLAY: Replay = "application"
LOG: str | None = None
_VERSION = re.compile(r"ROCProfiler version:\s*([\d.]+)")
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+( [\w@%+=:,./-]+)*")


@dataclass(frozen=True)
class Features:
    """What is known of one rocprof."""

    version: str | None = None


def features(help_text: str, version_text: str) -> Features:
    """The version that the texts of ``-h`` and ``--version`` tell."""
    found = _VERSION.search(version_text) or _VERSION.search(help_text)
    return Features(found[1] if found else None)


def features_of(version: str | None) -> Features:
    """The features of a version known by number alone; all are driven alike."""
    return Features(version)


def steps(request: Request, features: Features, *, program: str, out: str) -> list[Step]:
    """The runs that collect ``request``; each leaves results.csv in its folder, which must exist.

    rocprof is a shell script that builds one command line and evaluates it, so arguments that a shell would read in
    another way are refused with BadArgument, as are a path with spaces and what inputs.check refuses.
    """
    inputs.check(request, NAME)
    for text in (*request.command, out):
        if not _SHELL_SAFE.fullmatch(text):
            raise BadArgument(
                f"rocprof would change the argument {text[:80]!r}",
                "it passes the command through a shell again, unquoted",
                "Put the command into a script and profile that, or use rocprofv3",
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
        "rocprof (v1) writes static LDS only, and one file a run: use rocprofv3 for programs of several processes.",
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
        # Besides statistics it writes what rocminfo says: the only place where rocprof tells the GPU.
        argv.append("--stats")
    argv += ["--timestamp", "on", "-o", f"{out}/{name}/results.csv"]
    return Step(name, (*argv, *request.command), counters, files, unset=("ROCP_", "ROCPROFILER_"))
