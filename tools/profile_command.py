"""The tool profile_command: profile a program on this machine and store the result."""

from __future__ import annotations

import os

from ..analysis.store.store import Store
from .answers.rounds import save_round
from .base.arguments import checked_labels
from .base.parameters import (
    CommandWords,
    DeviceName,
    FilePath,
    LaunchCount,
    Launches,
    MetricNames,
    Pattern,
    Reference,
    Replay,
    Sentence,
    Word,
)
from .base.untrusted_text import plain_log_text
from .device.machine.model import Roots
from .device.machine.survey import survey
from .get_run import RunResult, run_result
from .running import start as launch
from .running.command import check_command, inherited_environment
from .running.drivers import registry
from .running.job import CallStep
from .running.profile_start import ProfileTask, start_profile
from .running.profiled_program import parse_run_metrics, subject
from .running.profiler_choice import choose, facts
from .running.request import ProfileRequest, launch_range
from .running.run_state import ProfileRun

_ATTACHED_S = 10.0
"""Default time in seconds to stay attached to a process."""


def profile_command(
    store: Store,
    command: CommandWords | None = None,
    metrics: MetricNames | None = None,
    kernel: Pattern | None = None,
    cwd: FilePath | None = None,
    env: dict[Reference, Word] | None = None,
    gpu: DeviceName | None = None,
    profiler: registry.ProfilerName = "auto",
    timeout_s: float = 1800,
    max_passes: int | None = None,
    launches: LaunchCount | Launches | None = None,
    budget_s: float | None = None,
    range: Reference | None = None,
    pid: int | None = None,
    replay: Replay = "auto",
    repeats: int = 1,
    name: Reference | None = None,
    tags: list[Reference] | None = None,
    hypothesis: Sentence | None = None,
    change: Sentence | None = None,
    check: CommandWords | None = None,
    baseline: Reference | None = None,
    wait_s: float = 45,
) -> RunResult:
    """Run a program for its times, count the kernels that it waits for, store a workload, and say what changed and what
    to try. After wait_s it answers with a run_id for get_run; the run continues, even if the call is cancelled."""
    label, tags = checked_labels(name, tags)
    inherited, asked = inherited_environment(os.environ), parse_run_metrics(metrics)
    profiled = subject(command, pid, cwd, env or {}, inherited)
    if check is not None:
        check_command(check, cwd, env or {}, inherited)
    earlier = store.resolve(baseline) if baseline is not None else None
    if earlier is not None and kernel is None:
        kernel = earlier.kernel_filter
    choice = choose(survey(Roots()), gpu, profiler, {**inherited, **profiled.given}, counts=asked.counts)
    planned = asked.plan(choice.target, max_passes)
    driver = registry.profiler(choice.profiler.name)
    request = ProfileRequest(
        command=profiled.command,
        passes=planned.passes,
        kernel=kernel,
        launches=launch_range(launches),
        replay=driver.REPLAY if replay == "auto" else replay,
        repeats=repeats,
        target=choice.target,
        facts=facts(choice.device),
        range=range,
        pid=pid,
        attached_s=budget_s or _ATTACHED_S,
        timeline=asked.timeline,
        hotspots=asked.hotspots,
    )
    task = ProfileTask(profiled, choice, request, planned, check=tuple(check or ()), usual=asked.usual)
    run_id, run_folder = launch.new_run(store)
    stated = ProfileRun(
        run_id=run_id,
        name=label or profiled.title or "profile",
        tags=tags,
        timeout_s=timeout_s,
        hypothesis=plain_log_text(hypothesis),
        change=plain_log_text(change),
        metrics=list(asked.metrics),
        launches=launches if isinstance(launches, int) else None,
        budget_s=budget_s,
        may_take_turns=replay == "auto",
        baseline=earlier.id if earlier else None,
    )
    start_profile(store, stated, task, CallStep.of("import", save_round, run_id=run_id))
    return run_result(store, run_folder, wait_s)
