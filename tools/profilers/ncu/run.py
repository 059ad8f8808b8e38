"""Command lines of Nsight Compute: one step for all metrics, whose passes ncu schedules itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....analysis.notes import Note
from ....analysis.problems import BadArgument, MissingTool, Problem
from ...runner.job import Step
from ..failures import explained
from ..request import Replay, Request, checked_launches, checked_pattern, left_out_notes

NAME = "ncu"
VENDOR = "nvidia"
REPLAY: Replay = "kernel"
LOG: str | None = "raw.csv"
_DURATION = "gpu__time_duration.sum"
_OPTION = re.compile(r"--[a-z][a-z-]+")
_VERSION = re.compile(r"Version (\d{4})\.(\d+)")
_NEEDED = {"--metrics", "--kernel-name", "--kernel-name-base", "--replay-mode", "--print-units", "--log-file"}
_METRIC = re.compile(r"[\w.:]+")
_NVLINK = re.compile(r"nvl[rt]x__")
_OLDEST = (2021, 1)
_LONGEST = 100_000
"""Of one argument; Linux takes 131,072 bytes."""


@dataclass(frozen=True)
class Features:
    """What is known of one ncu."""

    version: tuple[int, int] | None = None


def features(help_text: str, version_text: str) -> Features:
    """The features that the texts of ``--help`` and ``--version`` state; MissingTool where it is too old."""
    if missing := _NEEDED - set(_OPTION.findall(help_text)):
        raise MissingTool(
            "This ncu is too old to be driven",
            f"its help does not name {', '.join(sorted(missing))}",
            "Install Nsight Compute 2021.1 or later",
        )
    stated = _VERSION.search(version_text)
    return Features((int(stated[1]), int(stated[2])) if stated else None)


def features_of(version: str | None) -> Features:
    """The features of a version known by number alone, such as 2025.3."""
    if version is None:
        return Features()
    parts = re.match(r"(\d{4})\.(\d+)", version)
    if not parts:
        raise BadArgument(f"{version!r} is no version of ncu", "", "Give it as 2025.3, or leave it out")
    number = (int(parts[1]), int(parts[2]))
    if number < _OLDEST:
        raise MissingTool(f"ncu {version} is too old to be driven", "", "Install Nsight Compute 2021.1 or later")
    return Features(number)


def steps(request: Request, features: Features, *, program: str, out: str) -> list[Step]:
    """One step, ``pass_1``, which leaves raw.csv in its folder; that folder must exist.

    Clocks are left as they are. Caches are emptied before every pass of a kernel replay, ncu's default: passes then
    see the same state, where a warm cache would hold what restoring the memory left. An application replay runs the
    program anew, so the caches stay as the program has them.
    """
    refused = left_out(request, features)
    wanted = (c for counters in request.passes for c in counters if c not in refused)
    metrics = tuple(dict.fromkeys([_DURATION, *wanted]))
    if bad := [m for m in metrics if not _METRIC.fullmatch(m)]:
        raise BadArgument(
            f"{bad[0][:80]!r} is no metric of ncu", "its names have letters, digits, dots and underscores"
        )
    listed = ",".join(metrics)
    if len(listed) > _LONGEST:
        raise BadArgument(f"{len(metrics)} metrics do not fit into one command line", "", "Ask for fewer metrics")
    argv = [program, "--metrics", listed, "--replay-mode", request.replay]
    argv += ["--cache-control", "all" if request.replay == "kernel" else "none", "--clock-control", "none"]
    argv += ["--target-processes", "all"]
    if pattern := checked_pattern(request, NAME):
        argv += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{pattern}"]
    if launches := checked_launches(request):
        argv += ["--launch-skip", str(launches[0] - 1), "--launch-count", str(launches[1] - launches[0] + 1)]
    argv += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", f"{out}/pass_1/{LOG}"]
    return [Step("pass_1", (*argv, *_guarded(request.command)), metrics)]


def notes(request: Request, features: Features) -> list[Note]:
    """What is left out of the request, and how the figures come about."""
    left = left_out_notes(left_out(request, features))
    if request.replay == "application":
        return [
            Note(
                "application_replay",
                "ncu runs the program once for each of its passes; launches must come in the same order every time.",
            ),
            Note("serialised", "Durations are those of kernels run one at a time at the clocks as found."),
            *left,
        ]
    return [
        Note(
            "kernel_replay",
            "ncu replays every kernel for each of its passes, with caches emptied before: durations and hit rates are "
            "those of a cold cache, one kernel at a time, at the clocks as found. replay='application' leaves the "
            "caches as the program has them.",
        ),
        *left,
    ]


def left_out(request: Request, features: Features) -> dict[str, str]:
    """NVLink counters among others: where ncu sees no NVLink it fails over them and measures nothing at all."""
    asked = dict.fromkeys(c for counters in request.passes for c in counters)
    links = [c for c in asked if _NVLINK.match(c)]
    if len(links) == len(asked):
        return {}
    why = "without a visible NVLink ncu would fail over it and lose the rest; ask for NVLink metrics alone"
    return dict.fromkeys(links, why)


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None. Give it the beginning of raw.csv as well as stderr."""
    return explained(NAME, status, stderr)


def _guarded(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command after the options: ncu takes ``--`` for their end, so that no program's name can be one."""
    return ("--", *command)
