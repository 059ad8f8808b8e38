"""Command lines of perf stat: a step for each start of the program, all events at once."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadArgument, Problem
from ..job import Step
from ..known_failures import explain_failure
from ..request import ProfileRequest, Replay, refuse, refuse_attaching, refuse_hotspots, refuse_replay, refuse_tracing

NAME = "perf"
VENDOR = "cpu"
REPLAY: Replay = "application"
RANGES = False
LOG: str | None = None
_ELAPSED = "duration_time"
_ALWAYS = (_ELAPSED, "task-clock")
_VERSION = re.compile(r"perf version (\d+)\.(\d+)")
_EVENT = re.compile(r"[\w][\w.:/=,@-]*")
_TOOL_EVENTS = (5, 2)
_MOST_RUNS = 100


@dataclass(frozen=True)
class PerfFeatures:
    """What is known of one perf."""

    times_as_events: bool = True
    """Knows duration_time; without it the elapsed time stands in the text output alone."""


def features(help_text: str, version_text: str) -> PerfFeatures:
    """The features of the version that the text of ``--version`` tells."""
    stated = _VERSION.search(version_text)
    return PerfFeatures((int(stated[1]), int(stated[2])) >= _TOOL_EVENTS) if stated else PerfFeatures()


def features_of(version: str | None) -> PerfFeatures:
    """The features of a version known by number alone, such as 6.1."""
    if version is None:
        return PerfFeatures()
    parts = re.match(r"(\d+)\.(\d+)", version)
    if not parts:
        raise BadArgument(f"{version!r} is no version of perf", "", "Give it as 6.1, or leave it out")
    return features("", f"perf version {parts[0]}")


def steps(request: ProfileRequest, features: PerfFeatures, *, program: str, out: str) -> list[Step]:
    """One step for each repeat, ``run_1`` and so on, so that the spread between runs stays visible.

    Each leaves stat.csv (stat.txt of an old perf) in its folder, which must exist. Events that the machine does not
    have are reported by perf itself; the processor's counters are shared out when there are too few.
    """
    refuse(request, NAME, "kernel", "launches")
    refuse_replay(request, NAME, "application")
    refuse_tracing(
        request, NAME, "perf stat counts; it does not say when a program did what",
        "Leave timeline out; of a PyTorch program on the processor, import the Chrome trace of torch.profiler",
    )  # fmt: skip
    refuse_hotspots(
        request, NAME, "perf stat counts whole programs", "Leave hotspots out; perf record samples a processor by hand"
    )
    refuse_attaching(request, NAME, "perf is driven here with programs that it starts")
    if not 1 <= request.repeats <= _MOST_RUNS:
        raise BadArgument(f"repeats={request.repeats} is out of range", f"1 to {_MOST_RUNS} runs are possible")
    events = tuple(dict.fromkeys(c for counters in request.passes for c in counters))
    if bad := [e for e in events if not _EVENT.fullmatch(e)]:
        raise BadArgument(f"{bad[0][:80]!r} is no event of perf", "", "perf list shows the events of this machine")
    always = _ALWAYS if features.times_as_events else _ALWAYS[1:]
    counters = (*events, *(e for e in always if e not in events))
    return [_step(request, features, program, out, f"run_{n}", counters) for n in range(1, request.repeats + 1)]


def notes(request: ProfileRequest, features: PerfFeatures) -> list[Note]:
    """How the figures come about."""
    return [
        Note(
            "whole_program",
            "perf counts the whole program with its child processes; events beyond the processor's counters share "
            "them in turns and are extrapolated.",
        )
    ]


def left_out(request: ProfileRequest, features: PerfFeatures) -> dict[str, str]:
    """Nothing: the program itself says which events it does not have."""
    return {}


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None."""
    return explain_failure(NAME, status, stderr)


def _step(
    request: ProfileRequest, features: PerfFeatures, program: str, out: str, name: str, counters: tuple[str, ...]
) -> Step:
    # With a decimal comma a number would fall apart into two fields.
    form = ["-x", ",", "-o", f"{out}/{name}/stat.csv"] if features.times_as_events else ["-o", f"{out}/{name}/stat.txt"]
    argv = (program, "stat", *form, "-e", ",".join(counters), "--", *request.command)
    # Its machine-readable forms do not say what was run; arguments, which can hold secrets, stay out.
    files = {f"{name}/command.txt": shlex.quote(request.command[0].rsplit("/", 1)[-1]) + "\n"}
    return Step(name, argv, counters, files, env={"LC_NUMERIC": "C"}, unset=("LC_ALL",))
