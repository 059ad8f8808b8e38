"""Command lines of rocprofv3: one JSON job a run of the program, a kernel trace for the times first."""

from __future__ import annotations

import json
from typing import Any

from ....analysis.problems import BadArgument, Problem
from ..failures import explained
from ..filters import checked_launches, checked_pattern, left_out_notes
from ..limits import check_limits
from ..steps import Replay, Request, Step
from .definitions import Pass, definitions_text, translated
from .features import Features
from .features import features as features
from .features import features_of as features_of

NAME = "rocprofv3"
VENDOR = "amd"
REPLAY: Replay = "application"
LOG: str | None = None
_FILE_NAME = "%hostname%_%nid%_%pid%"
"""Known to every version; without %pid% the processes of a program would overwrite each other's files."""
_UNSET = ("ROCPROF_", "ROCPROFILER_PC_SAMPLING_")
"""rocprofv3 takes these as options and refuses what contradicts the command line."""


def steps(request: Request, features: Features, *, program: str, out: str) -> list[Step]:
    """The runs that collect ``request``: ``timing``, then ``pass_N`` as numbered in the plan.

    With replay="kernel" one run counts all passes; a counter planned twice is counted once there, as every kernel is
    replayed in place. Counters that this version cannot count are left out (see notes). Raises BadArgument for a
    request that no rocprofv3, or not this one, can fulfil.
    """
    check_limits(request)
    if request.replay == "kernel" and not features.kernel_replay:
        raise BadArgument(
            f"rocprofv3 {features.version} cannot replay single kernels",
            "its help does not list --kernel-replay-beta-enabled",
            "Leave replay out: the program is run once for each pass then",
        )
    passes = _passes(request, features)
    filters = _filters(request)
    found = [_step(request, features, program, out, "timing", ["--kernel-trace"], {})]
    if request.replay == "kernel":
        return found + _replayed(request, features, program, out, passes, filters)
    for number, one in passes.items():
        job = {"jobs": [{"pmc": list(one.names), **filters}]}
        found.append(
            _step(request, features, program, out, f"pass_{number}", [], one.expressions, job, counters=one.counters)
        )
    return found


def notes(request: Request, features: Features) -> list[str]:
    """What this version leaves out of the request, and what its files cannot tell."""
    found = ["Counters are collected one kernel at a time: durations are those of the run 'timing', which has none."]
    return found + left_out_notes(left_out(request, features))


def left_out(request: Request, features: Features) -> dict[str, str]:
    """Counters of the request that this version cannot count -> why."""
    found: dict[str, str] = {}
    for counters in request.passes:
        found |= translated(request, counters, features).left_out
    return found


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None."""
    return explained(NAME, status, stderr)


def _passes(request: Request, features: Features) -> dict[int, Pass]:
    """The passes with at least one counter that this version can count, by their number in the plan."""
    found = {n: translated(request, counters, features) for n, counters in enumerate(request.passes, 1)}
    return {n: one for n, one in found.items() if one.names}


def _replayed(
    request: Request, features: Features, program: str, out: str, passes: dict[int, Pass], filters: dict[str, str]
) -> list[Step]:
    groups: list[list[str]] = []
    taken: set[str] = set()
    for one in passes.values():
        if group := [n for n in one.names if n not in taken]:
            groups.append(group)
            taken |= set(group)
    if not groups:
        return []
    expressions = {n: e for one in passes.values() for n, e in one.expressions.items()}
    counters = tuple(dict.fromkeys(c for one in passes.values() for c in one.counters))
    job = {"jobs": [{"pmc_groups": groups, **filters}]}
    options = list(features.kernel_replay)
    return [_step(request, features, program, out, "pass_1", options, expressions, job, counters=counters)]


def _filters(request: Request) -> dict[str, str]:
    found = {}
    if pattern := checked_pattern(request, NAME):
        found["kernel_include_regex"] = pattern
    if launches := checked_launches(request):
        found["kernel_iteration_range"] = f"[{launches[0]}-{launches[1]}]"
    return found


def _step(
    request: Request,
    features: Features,
    program: str,
    out: str,
    name: str,
    options: list[str],
    expressions: dict[str, str],
    job: dict[str, Any] | None = None,
    counters: tuple[str, ...] = (),
) -> Step:
    """One run. The job says what to measure and nothing else: rocprofv3 refuses an option stated in two places."""
    files: dict[str, str] = {}
    argv = [program]
    if job:
        files[f"{name}.json"] = json.dumps(job) + "\n"
        argv += ["--input", f"{out}/{name}.json"]
    if expressions:
        files[f"{name}.yaml"] = definitions_text(request, expressions, features)
        argv += ["--extra-counters", f"{out}/{name}.yaml"]
    argv += ["--output-directory", f"{out}/{name}", "--output-file", _FILE_NAME, "--output-format", *_formats(features)]
    argv += options
    if features.signal_option:
        argv += ["--disable-signal-handlers", "true"]
    return Step(name, (*argv, "--", *request.command), counters, files, unset=_UNSET)


def _formats(features: Features) -> list[str]:
    """rocpd holds dynamic LDS, CSV the agents and everything for versions without it; both in every run, so that the
    reader takes all runs from one format."""
    return [f for f in ("csv", "rocpd") if f in features.formats] or list(features.formats[:1])
