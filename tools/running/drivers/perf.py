"""The perf stat driver: one step for each start of the program, which counts all events at once."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ....analysis.base.notes import Note
from ...device.machine.model import Vendor
from ...device.machine.profilers import ProfilerProgram
from ..job import Step
from ..known_failures import version_numbers
from ..request import ProfileRequest, Replay, refuse_unsupported
from ..wording import note, problem

NAME = "perf"
VENDOR: Vendor = "cpu"
REPLAY: Replay = "application"
RANGES = False
LOG: str | None = None
FILE_OPTION: str | None = "-o"
NAMES_DEVICE = True
PROGRAM = ProfilerProgram(
    NAME,
    VENDOR,
    ("usr/bin", "usr/local/bin"),
    r"perf version\s+(\d[\w.]*)",
    "Install perf (package linux-tools or perf)",
    must_answer=True,
)
_ELAPSED = "duration_time"
_ALWAYS = (_ELAPSED, "task-clock")
_VERSION = re.compile(r"perf version (\d+\.\d+)")
_EVENT = re.compile(r"(?!.*\.(c|o|bpf)([:,/]|$))\w[\w.:/=,@-]*")
"""perf before 6.8 compiles and loads what ends in .c, .o or .bpf as a BPF program."""
_TOOL_EVENTS = (5, 2)
_MOST_RUNS = 100


@dataclass(frozen=True)
class PerfFeatures:
    """What is known about an installed perf."""

    times_as_events: bool = True
    """Whether it supports duration_time; without it, only the text output contains the elapsed time."""


def features(help_text: str, version_text: str) -> PerfFeatures:
    """Return the features of the version found in the output of ``--version``."""
    stated = _VERSION.search(version_text)
    return PerfFeatures(version_numbers(stated[1]) >= _TOOL_EVENTS) if stated else PerfFeatures()


def features_of(version: str | None) -> PerfFeatures:
    """Return the features of a version that is known only by number, such as 6.1."""
    if version is None:
        return PerfFeatures()
    parts = re.match(r"(\d+)\.(\d+)", version)
    if not parts:
        raise problem("bad_perf_version", version=version)
    return features("", f"perf version {parts[0]}")


def steps(request: ProfileRequest, features: PerfFeatures, *, program: str, out: str) -> list[Step]:
    """Return one step for each repeat, ``run_1`` and so on, so that the spread between runs stays visible.

    Each writes stat.csv (stat.txt with an old perf) into its folder, which must exist. perf itself reports events that
    the machine does not support, and multiplexes events if there are not enough counters.
    """
    refuse_unsupported(request, NAME, ("application",), ("timeline", "hotspots", "attach"), ("kernel", "launches"))
    if not 1 <= request.repeats <= _MOST_RUNS:
        raise problem("bad_repeats", request=request, most_runs=_MOST_RUNS)
    events = tuple(dict.fromkeys(c for counters in request.passes for c in counters))
    if bad := [e for e in events if not _EVENT.fullmatch(e)]:
        raise problem("bad_perf_event", bad=bad[0][:80])
    always = _ALWAYS if features.times_as_events else _ALWAYS[1:]
    counters = (*events, *(e for e in always if e not in events))
    separator, form = (("-x", ","), "csv") if features.times_as_events else ((), "txt")
    # The machine-readable output does not name the program; arguments are omitted because they may contain secrets.
    name = shlex.quote(request.command[0].rsplit("/", 1)[-1])
    return [
        Step(
            run,
            (
                *(program, "stat", *separator, "-o", f"{out}/{run}/stat.{form}"),
                *("-e", ",".join(counters), "--", *request.command),
            ),
            counters,
            {f"{run}/command.txt": f"{name}\n"},
            # With a decimal comma, a number would be split into two fields.
            env={"LC_NUMERIC": "C"},
            unset=("LC_ALL",),
        )
        for run in (f"run_{n}" for n in range(1, request.repeats + 1))
    ]


def notes(request: ProfileRequest, features: PerfFeatures) -> list[Note]:
    """Return a note on how the values are obtained."""
    return [note("whole_program")]


def left_out(request: ProfileRequest, features: PerfFeatures) -> dict[str, str]:
    """Return nothing: perf itself reports events that it does not support."""
    return {}
