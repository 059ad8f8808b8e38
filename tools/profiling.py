"""profile_command: run a program under a profiler on this machine and put what it measured into the store."""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.planning import PassPlan, plan
from ..analysis.problems import BadArgument, Problem
from ..analysis.store import Store
from .collectors.names import noted, plain_text
from .collectors.steps import Request, Step
from .detect.model import Roots
from .detect.programs import ask
from .devices import survey
from .importing import checked_labels
from .jobs import launch, lookup
from .jobs.environment import inherited, redacted, secrets, without
from .jobs.job import CallStep, CommandStep
from .jobs.record import OUT
from .profile_choice import Choice, choose, facts
from .profile_program import Program, checked
from .runs import LONGEST_WAIT_S, RunResult, shown

_HELP_S = 20.0
_NAMED = 8
"""Metrics named in a note; plan_profile names all."""
_COMMAND = 2000
_LONGEST_S = 7 * 86_400.0


def profile_command(
    store: Store,
    command: Annotated[list[str], Field(description='argument list: ["./app", "-n", "8"]; no shell')],
    metrics: Annotated[list[str] | None, Field(description="as for compute_metrics; [] for times only")] = None,
    kernel: Annotated[str | None, Field(description="regex: count only these kernels")] = None,
    cwd: Annotated[str | None, Field(description="absolute")] = None,
    env: dict[str, str] | None = None,
    gpu: Annotated[str | int | None, Field(description='index, uuid or "cpu"')] = None,
    profiler: str = "auto",
    timeout_s: Annotated[float, Field(gt=0)] = 1800,
    max_passes: int | None = None,
    launches: Annotated[list[int] | None, Field(description="first and last, from 1")] = None,
    replay: Literal["auto", "application", "kernel"] = "auto",
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1,
    name: str | None = None,
    tags: list[str] | None = None,
    hypothesis: str | None = None,
    change: str | None = None,
    wait_s: Annotated[float, Field(ge=0)] = 45,
) -> RunResult:
    """Run a program under the profiler, once per pass of counters, and store the result as a workload. Answers within
    wait_s (at most 50), else with a run_id for get_run; the run goes on, also if this call is cancelled."""
    shown_name, tags = checked_labels(name, tags)
    given = env or {}
    environment = inherited(os.environ)
    program = checked(command, cwd, given, environment)
    if timeout_s > _LONGEST_S:
        raise BadArgument(f"timeout_s {timeout_s:g} is more than a week", fix="Give less")
    choice = choose(survey(Roots()), gpu, profiler, {**environment, **given})
    planned = plan(choice.target, ["overview"] if metrics is None else metrics, max_passes=max_passes)
    request = Request(
        command=program.command,
        passes=planned.passes,
        kernel=kernel,
        launches=_launches(launches),
        replay=_replay(replay, choice),
        repeats=repeats,
        target=choice.target,
        facts=facts(choice.device),
    )
    run_id, folder = launch.new_run(store)
    title = os.path.basename(command[0]) or "profile"  # noqa: PTH119  a name, not a path of ours
    # Formats that do not state the program are named after their folder.
    place = f"{OUT}/{re.sub(r'[^A-Za-z0-9_.+-]', '_', title)[:80].lstrip('.') or 'profile'}"
    out = str(folder / place)
    try:
        steps, remarks = _steps(choice, request, out)
        line = redacted(plain_text(shlex.join(command), _COMMAND), secrets(os.environ, given))
        save = CallStep(
            name="import",
            function="profile_import:save",
            arguments={
                "out": out, "steps": len(steps), "name": shown_name or title, "tags": tags, "target": choice.target,
                "command": line, "host": os.uname().nodename, "warnings": _warnings(planned),
                "wanted": {step.name: list(step.counters) for step in steps},
                "hypothesis": noted(hypothesis), "change": noted(change),
                "device_uuid": choice.device.uuid if len(choice.locks) == 1 else None,
            },
        )  # fmt: skip
        launch.start(
            store,
            run_id,
            [_command(step, program, choice, environment) for step in steps],
            kind="profile",
            name=shown_name or title,
            out=place,
            timeout_s=timeout_s,
            finish=save,
            devices=choice.locks,
            given=dict(given),
            about=_about(line, program, choice),
            notes=[*_notes(planned, steps, choice), *remarks],
        )
    except Problem:
        launch.discard(store, run_id)
        raise
    lookup.wait(store, folder, min(wait_s, LONGEST_WAIT_S))
    return shown(store, *lookup.look(store, folder))


def _launches(given: list[int] | None) -> tuple[int, int] | None:
    if given is None:
        return None
    if len(given) != 2 or not 1 <= given[0] <= given[1]:
        raise BadArgument(f"launches {given} is no range", fix="Give the first and the last, counted from 1: [1, 10]")
    return given[0], given[1]


def _replay(wanted: Literal["auto", "application", "kernel"], choice: Choice) -> Literal["application", "kernel"]:
    from .collectors import programs

    if wanted != "auto":
        return wanted
    return programs.profiler(choice.profiler.name).REPLAY


def _steps(choice: Choice, request: Request, out: str) -> tuple[list[Step], list[str]]:
    """The application runs, in the words of the installed version of the profiler, and what it leaves out."""
    from .collectors import programs

    module = programs.profiler(choice.profiler.name)
    texts = [ask([choice.path, option], _HELP_S) for option in ("--help", "--version")]
    features = module.features(*(f"{answer.out}\n{answer.err}" for answer in texts))
    return module.steps(request, features, program=choice.path, out=out), module.notes(request, features)


def _command(step: Step, program: Program, choice: Choice, environment: dict[str, str]) -> CommandStep:
    """A step with the whole environment of its program: inherited, mask, the caller's, the profiler's."""
    asked = without({**environment, **choice.mask, **program.given}, step.unset)
    return CommandStep(
        name=step.name, argv=list(step.argv), cwd=program.cwd, env={**asked, **step.env}, files=dict(step.files)
    )


def _about(line: str, program: Program, choice: Choice) -> dict[str, Any]:
    return {
        "command": line,
        "cwd": program.cwd,
        "variables": sorted(program.given),
        "profiler": choice.profiler.name,
        "profiler_version": choice.profiler.version,
        "target": choice.target,
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    }


def _warnings(planned: PassPlan) -> list[str]:
    """What the plan cannot give; it stays with the workload."""
    said = [f"{word}: not collected, {why}" for word, why in list(planned.unsupported.items())[:_NAMED]]
    if planned.left_out:
        said.append(f"Left out for max_passes: {_some(list(planned.left_out))}.")
    return said


def _notes(planned: PassPlan, steps: list[Step], choice: Choice) -> list[str]:
    runs = f"{len(steps)} run{'s' * (len(steps) > 1)} of the program under {choice.profiler.name}"
    notes = [f"{runs} on {choice.target}: {', '.join(step.name for step in steps[:20])}.", *choice.warnings]
    if planned.split:
        notes.append(f"Counters from different runs make up: {_some(planned.split)}.")
    if len(choice.locks) > 1:
        notes.append(f"The run has all {len(choice.locks)} GPUs to itself; gpu= with an index takes one of them.")
    return notes


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
