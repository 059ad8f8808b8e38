"""The tool profile_command: profile a program here and store what it did."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from ..analysis.experiments import Entry, record
from ..analysis.notes import Note
from ..analysis.planning.plan import PassPlan, plan
from ..analysis.problems import BadArgument, Problem
from ..analysis.store import Manifest, Store
from .get_run import RunResult, run_result
from .import_profile import checked_labels, imported
from .list_devices import survey
from .machine.model import Roots
from .machine.programs import ask
from .parameters import ChangeText, HypothesisText, ProfilerName, Replay, Tags, WaitSeconds
from .profilers import drivers
from .profilers.choice import Choice, choose, facts
from .profilers.drivers import Profiler as Driver
from .profilers.request import Request
from .profilers.tables.merge import Merged
from .profilers.tables.names import noted, plain_text
from .runner import start as launch
from .runner.job import CallStep, Job, Step
from .runner.program import checked, inherited, redacted, secrets
from .runner.state import OUT, ProfileRun, read_record, read_state
from .runner.worker import Progress

_HELP_S = 20.0
_NAMED = 8
"""Metrics named in a note; plan_profile names all."""
_COMMAND = 2000
_LONGEST_S = 7 * 86_400.0


def profile_command(
    store: Store,
    command: Annotated[list[str], Field(description='argument list: ["./app", "-n", "8"]; no shell')],
    metrics: Annotated[
        list[str] | None, Field(description="as for compute_metrics; [] for times only; default: preset overview")
    ] = None,
    kernel: Annotated[str | None, Field(description="regular expression: count only these kernels")] = None,
    cwd: Annotated[str | None, Field(description="absolute folder to run it in")] = None,
    env: Annotated[
        dict[str, str] | None, Field(description="environment variables beside those of the server; never stored")
    ] = None,
    gpu: Annotated[str | int | None, Field(description='index, uuid or "cpu"; default: the first GPU')] = None,
    profiler: ProfilerName = "auto",
    timeout_s: Annotated[float, Field(gt=0, description="seconds for each run of the program")] = 1800,
    max_passes: Annotated[
        int | None, Field(description="at most so many passes; what they cannot hold is named")
    ] = None,
    launches: Annotated[list[int] | None, Field(description="first and last launch to count, from 1: [2, 5]")] = None,
    replay: Replay = "auto",
    repeats: Annotated[
        int, Field(ge=1, le=1000, description="runs of the program for times, beside those for counters")
    ] = 1,
    name: Annotated[str | None, Field(description="name of the workload; default: that of the program")] = None,
    tags: Tags | None = None,
    hypothesis: HypothesisText = None,
    change: ChangeText = None,
    wait_s: WaitSeconds = 45,
) -> RunResult:
    """Run a program under the profiler, once per pass of counters, and store the result as a workload. Answers within
    wait_s (at most 50), else with a run_id for get_run; the run goes on, also if this call is cancelled."""
    label, tags = checked_labels(name, tags)
    given = env or {}
    environment = inherited(os.environ)
    folder = checked(command, cwd, given, environment)
    if timeout_s > _LONGEST_S:
        raise BadArgument(f"timeout_s {timeout_s:g} is more than a week", fix="Give less")
    choice = choose(survey(Roots()), gpu, profiler, {**environment, **given})
    planned = plan(choice.target, ["overview"] if metrics is None else metrics, max_passes=max_passes)
    driver = drivers.profiler(choice.profiler.name)
    request = Request(
        command=tuple(command),
        passes=planned.passes,
        kernel=kernel,
        launches=_launches(launches),
        replay=driver.REPLAY if replay == "auto" else replay,
        repeats=repeats,
        target=choice.target,
        facts=facts(choice.device),
    )
    hidden = secrets(os.environ, given)
    title = os.path.basename(command[0]) or "profile"  # noqa: PTH119  a name, not a path of ours
    run_id, run_folder = launch.new_run(store)
    run = ProfileRun(
        run_id=run_id,
        name=label or title,
        # Formats that do not state the program are named after their folder.
        out=f"{OUT}/{re.sub(r'[^A-Za-z0-9_.+-]', '_', title)[:80].lstrip('.') or 'profile'}",
        timeout_s=timeout_s,
        command=redacted(plain_text(shlex.join(command), _COMMAND), hidden),
        cwd=redacted(folder, hidden),
        variables=sorted(given),
        profiler=choice.profiler.name,
        profiler_version=choice.profiler.version,
        target=choice.target,
        device_uuid=choice.device.uuid if len(choice.locks) == 1 else None,
        host=os.uname().nodename,
        kernel=kernel and redacted(kernel, hidden),
        launches=request.launches,
        replay=request.replay,
        tags=tags,
        hypothesis=noted(hypothesis),
        change=noted(change),
        warnings=_warnings(planned),
    )
    try:
        features = _features(driver, choice.path)
        steps = driver.steps(request, features, program=choice.path, out=str(run_folder / run.out))
        run.counters = {step.name: list(step.counters) for step in steps}
        run.notes = [*_notes(planned, steps, choice), *(note.text for note in driver.notes(request, features))]
        job = Job(
            run=run,
            steps=list(steps),
            finish=CallStep.of("import", save, run_id=run_id),
            cwd=folder,
            variables={**choice.mask, **given},
            devices=choice.locks,
        )
        launch.start(store, job)
    except Problem:
        launch.discard(store, run_id)
        raise
    return run_result(store, run_folder, wait_s)


def _launches(given: list[int] | None) -> tuple[int, int] | None:
    if given is None:
        return None
    if len(given) != 2 or not 1 <= given[0] <= given[1]:
        raise BadArgument(f"launches {given} is no range", fix="Give the first and the last, counted from 1: [1, 10]")
    return given[0], given[1]


def _features(driver: Driver, path: str) -> Any:
    """What the installed version of a profiler can do, as it tells itself."""
    texts = [ask([path, option], _HELP_S) for option in ("--help", "--version")]
    return driver.features(*(f"{answer.out}\n{answer.err}" for answer in texts))


def _warnings(planned: PassPlan) -> list[str]:
    """What the plan cannot give; it stays with the workload."""
    warnings = [f"{word}: not collected, {why}" for word, why in list(planned.unsupported.items())[:_NAMED]]
    if planned.left_out:
        warnings.append(f"Left out for max_passes: {_some(list(planned.left_out))}.")
    return warnings


def _notes(planned: PassPlan, steps: Sequence[Step], choice: Choice) -> list[str]:
    runs = f"{len(steps)} run{'s' * (len(steps) > 1)} of the program under {choice.profiler.name}"
    notes = [f"{runs} on {choice.target}: {', '.join(step.name for step in steps[:20])}.", *choice.warnings]
    if planned.split:
        notes.append(f"Counters from different runs make up: {_some(planned.split)}.")
    if len(choice.locks) > 1:
        notes.append(f"The run has all {len(choice.locks)} GPUs to itself; gpu= with an index takes one of them.")
    return notes


def _some(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_LOST_NAMED = 12
PARTIAL = "partial"
"""Tag of a workload for which not every run of the program finished."""


def save(store: Store, progress: Progress, run_id: str) -> dict[str, Any]:
    """Import what the finished steps of a run left; where its state has a problem, they are not all of the steps.

    Counters that a finished step was asked for and did not bring are named in a warning.
    """
    progress(0.0, "importing")
    folder = store.run_folder(run_id)
    run, state = read_record(folder), read_state(folder)
    assert isinstance(run, ProfileRun)
    warnings = list(run.warnings)
    if state.problem:
        share = f"{len(state.finished)} of {len(run.steps)} runs of the program ({', '.join(state.finished)})"
        warnings.insert(0, f"Partial: {share}. {state.problem.problem().text}")

    def amend(manifest: Manifest, merged: Merged) -> None:
        manifest.name, manifest.tags = run.name, [*run.tags, PARTIAL] if state.problem else run.tags
        manifest.arch = manifest.arch or run.target
        manifest.device_uuid = run.device_uuid
        manifest.command, manifest.host = run.command, manifest.host or run.host
        asked = [counter for step in state.finished for counter in run.counters.get(step, [])]
        merged.warnings[:0] = [Note("run", text) for text in warnings + _missing(asked, merged)]

    manifest, merged = imported(store, folder / run.out, "auto", amend)
    if run.hypothesis or run.change:
        record(store, Entry(kind="profile", workload=manifest.id, hypothesis=run.hypothesis, change=run.change))
    return _summary(manifest, merged)


def _missing(asked: list[str], merged: Merged) -> list[str]:
    """Profilers leave out a counter that they do not know with no more than a line among their messages."""
    brought = {*merged.counters, *(f"{event}[*]" for p in merged.passes for event, _ in p.table.instances.values())}
    lost = [counter for counter in dict.fromkeys(asked) if counter not in brought]
    if not lost:
        return []
    named = _some(lost, _LOST_NAMED)
    return [
        f"counters: The profiler was asked for {named} and gave none: its version may not know them on this device."
    ]


def _summary(manifest: Manifest, merged: Merged) -> dict[str, Any]:
    return {
        "workload": manifest.id,
        "name": manifest.name,
        "arch": manifest.arch,
        "kernels": manifest.kernels,
        "dispatches": manifest.dispatches,
        "counters": len(manifest.counters),
        "warnings": [warning.text for warning in merged.warnings],
    }
