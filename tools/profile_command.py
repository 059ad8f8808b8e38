"""The tool profile_command: profile a program on this machine and store the result."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from ..analysis.base.problems import BadArgument, Problem
from ..analysis.planning.plan import PassPlan
from ..analysis.store.manifest import Binary
from ..analysis.store.store import Store
from .base.arguments import checked_labels
from .base.parameters import (
    LONGEST_RUN_S,
    MOST_ITEMS,
    VARIABLES,
    ChangeText,
    CommandWords,
    CountedKernels,
    DeviceName,
    FilePath,
    HypothesisText,
    LaunchCount,
    Launches,
    MetricNames,
    MostPasses,
    Reference,
    Replay,
    Tags,
    WaitSeconds,
    Word,
)
from .base.untrusted_text import plain_log_text, plain_text
from .device.machine.model import Device, Roots
from .device.machine.programs import ask
from .device.machine.sensors import Sensor
from .device.machine.survey import survey
from .get_run import RunResult, run_result
from .isolation.child import name_of
from .profiles.registry import load_readers
from .running import saving
from .running import start as launch
from .running.command import inherited_environment, redact, secrets
from .running.counting import CountingRequest, plan_counting
from .running.drivers import registry
from .running.drivers.registry import ProfilerDriver as Driver
from .running.job import CallStep, Job, Step
from .running.profiled_program import ProfileContents, ProfileSubject, listens, parse_metrics, subject
from .running.profiler_choice import DeviceChoice, choose, facts
from .running.program_revision import identify_binary, revision
from .running.request import ProfileRequest, launch_range
from .running.run_state import OUT, ProfileRun

_HELP_S = 20.0
_NAMED = 8
"""Maximum metrics named in a note; plan_profile names all of them."""
_COMMAND = 2000
_ATTACHED_S = 10.0
"""Default time in seconds to stay attached to a process."""
_LONGEST_S = 7 * 86_400.0


_Command = Annotated[CommandWords | None, Field(description='argument list: ["./app", "-n", "8"]; no shell')]
_Metrics = Annotated[
    MetricNames | None,
    Field(description="as for compute_metrics; timeline, hotspots too; [] only times; default: overview, diagnosis"),
]
_Cwd = Annotated[FilePath | None, Field(description="absolute folder to run it in")]
_Env = Annotated[
    dict[Reference, Word] | None,
    Field(max_length=VARIABLES, description="further environment variables; never stored"),
]
_Gpu = Annotated[DeviceName | None, Field(description='index, uuid or "cpu"; default: first GPU')]
_Timeout = Annotated[float, Field(gt=0, le=LONGEST_RUN_S, description="seconds per run")]
_Launches = Annotated[
    LaunchCount | Launches | None,
    Field(description="number per launch configuration (default 5), or first and last: [2, 5]"),
]
_Budget = Annotated[
    float | None, Field(gt=0, le=LONGEST_RUN_S, description="total seconds, kept by counting less; default: up to 90")
]
_Range = Annotated[Reference | None, Field(description="count only in this range (NVTX, ROCTX): name or path")]
_Pid = Annotated[
    int | None, Field(ge=1, le=MOST_ITEMS, description="instead: process to attach to for budget_s (rocprofv3)")
]
_Repeats = Annotated[int, Field(ge=1, le=1000, description="timing runs, in addition to those for counters")]
_Name = Annotated[Reference | None, Field(description="name of the workload; default: the program's")]


def profile_command(
    store: Store,
    command: _Command = None,
    metrics: _Metrics = None,
    kernel: CountedKernels = None,
    cwd: _Cwd = None,
    env: _Env = None,
    gpu: _Gpu = None,
    profiler: registry.ProfilerName = "auto",
    timeout_s: _Timeout = 1800,
    max_passes: MostPasses = None,
    launches: _Launches = None,
    budget_s: _Budget = None,
    range: _Range = None,
    pid: _Pid = None,
    replay: Replay = "auto",
    repeats: _Repeats = 1,
    name: _Name = None,
    tags: Tags | None = None,
    hypothesis: HypothesisText = None,
    change: ChangeText = None,
    wait_s: WaitSeconds = 45,
) -> RunResult:
    """Run a program for its times, then count launches that make up 95 % of them, and store a workload. Answers
    after at most wait_s with a run_id for get_run; the run continues even if the call is cancelled."""
    label, tags = checked_labels(name, tags)
    profiled = subject(command, pid, cwd, env or {}, inherited_environment(os.environ))
    if timeout_s > _LONGEST_S:
        raise BadArgument(f"timeout_s {timeout_s:g} is more than a week", fix="Give a smaller value")
    asked = parse_metrics(metrics)
    choice = choose(
        survey(Roots()), gpu, profiler, {**inherited_environment(os.environ), **profiled.given}, counts=asked.counts
    )
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
    order = Order(
        profiled, choice, request, planned, Steering(replay, launches, budget_s, asked),
        name=label or profiled.title or "profile", tags=tags, timeout_s=timeout_s,
        hypothesis=plain_log_text(hypothesis), change=plain_log_text(change),
    )  # fmt: skip
    run_id, run_folder = launch.new_run(store)
    begin(store, order, run_id, CallStep.of("import", saving.save, run_id=run_id))
    return run_result(store, run_folder, wait_s)


@dataclass(frozen=True)
class Order:
    """Everything that is decided about a profile before it runs."""

    profiled: ProfileSubject
    choice: DeviceChoice
    request: ProfileRequest
    planned: PassPlan
    steering: Steering
    name: str
    tags: list[str]
    timeout_s: float
    hypothesis: str = ""
    change: str = ""
    must_end_well: bool = False
    """Whether the launches of a program that failed are useless."""


def begin(store: Store, order: Order, run_id: str, finish: CallStep) -> None:
    """Start the run ``run_id`` that was created for an order; ``finish`` is called with the results of its steps.

    If a Problem is raised, the run is discarded.
    """
    choice, request = order.choice, order.request
    try:
        run = _record(run_id, order.profiled, choice, request)
        run.name, run.tags, run.timeout_s = order.name, order.tags, order.timeout_s
        run.hypothesis, run.change, run.warnings = (
            order.hypothesis,
            order.change,
            _warnings(order.planned, order.steering.wanted.metrics),
        )
        place = _Place(run_id, str(store.run_folder(run_id) / run.out))
        arranged = _arrange_steps(choice, request, order.planned, order.steering, place)
        run.counters, run.notes = arranged.counters, arranged.notes
        launch.start(store, _job(run, order, arranged, finish))
    except Problem:
        launch.discard(store, run_id)
        raise


def _record(run_id: str, profiled: ProfileSubject, choice: DeviceChoice, request: ProfileRequest) -> ProfileRun:
    """Return the stored record of a run, without secrets."""
    hidden = secrets(os.environ, profiled.given)
    checked_out = revision(profiled.folder)
    # Formats that do not contain the program's name are named after their folder.
    folder = re.sub(r"[^A-Za-z0-9_.+-]", "_", profiled.title)[:80].lstrip(".") or "profile"
    return ProfileRun(
        run_id=run_id,
        name=profiled.title,
        out=f"{OUT}/{folder}",
        timeout_s=_LONGEST_S,
        command=redact(plain_text(profiled.line, _COMMAND), hidden),
        binary=_binary(profiled, hidden),
        cwd=redact(profiled.folder, hidden),
        variables=sorted(profiled.given),
        profiler=choice.profiler.name,
        profiler_version=choice.profiler.version,
        target=choice.target,
        device_uuid=choice.device.uuid if len(choice.locks) == 1 else None,
        link=choice.device.link,
        host=os.uname().nodename,
        commit=checked_out.commit,
        branch=checked_out.branch,
        kernel=request.kernel and redact(request.kernel, hidden),
        launches=request.launches,
        replay=request.replay,
        timeline=request.timeline,
        hotspots=request.hotspots,
    )


def _job(run: ProfileRun, order: Order, arranged: _Arranged, finish: CallStep) -> Job:
    """Return the job for the supervisor."""
    profiled, choice = order.profiled, order.choice
    return Job(
        run=run,
        steps=[replace(step, lasting=step.lasting and not order.must_end_well) for step in arranged.steps],
        plan=arranged.planning,
        program=list(profiled.command),
        finish=finish,
        preparation=name_of(load_readers),
        cwd=profiled.folder,
        variables={**choice.mask, **profiled.given},
        devices=choice.locks,
        sensors=_sensors(choice.device),
    )


def _sensors(device: Device) -> list[Sensor]:
    """Return the sensors to sample while the program runs: the chosen device, if its PCI address is known."""
    return [Sensor(device.vendor, device.pci, device.uuid, str(Roots().at("sys")))] if device.pci else []


def _binary(profiled: ProfileSubject, hidden: Sequence[str]) -> Binary | None:
    """Return the file that the command runs; None for a process that is already running."""
    if not profiled.command:
        return None
    searched = {**inherited_environment(os.environ), **profiled.given}.get("PATH", os.defpath)
    identity = identify_binary(profiled.command, profiled.folder, searched)
    return (
        identity.model_copy(update={"path": redact(plain_text(identity.path, _COMMAND), hidden)}) if identity else None
    )


@dataclass(frozen=True)
class _Place:
    """A run, and the folder of its steps."""

    run_id: str
    out: str


@dataclass(frozen=True)
class Steering:
    """What the caller requested about how much to count."""

    replay: Replay
    launches: int | list[int] | None
    budget_s: float | None
    wanted: ProfileContents


@dataclass(frozen=True)
class _Arranged:
    """The first steps of a run, the call that plans further ones, the counters of the first, and the notes."""

    steps: list[Step]
    planning: CallStep | None
    counters: dict[str, list[str]]
    notes: list[str]


def _arrange_steps(
    choice: DeviceChoice, request: ProfileRequest, planned: PassPlan, steering: Steering, run: _Place
) -> _Arranged:
    """Arrange a timing run after which a sample is counted; or all steps, if sampling is impossible or not wanted."""
    driver = registry.profiler(choice.profiler.name)
    features = _features(driver, choice.path, request) if choice.profiler.path else driver.features_of(None)
    asked = CountingRequest(
        profiler=driver.NAME,
        request=replace(request, command=()),
        features=asdict(features) if is_dataclass(features) and not isinstance(features, type) else {},
        metrics=list(steering.wanted.metrics),
        program=choice.path,
        out=run.out,
        launches=steering.launches if isinstance(steering.launches, int) else None,
        budget_s=steering.budget_s,
        may_take_turns=steering.replay == "auto" and getattr(features, "turns", False),
    )
    steps = driver.steps(request, features, program=choice.path, out=run.out)
    counters = {step.name: list(step.counters) for step in steps}
    said = [note.text for note in driver.notes(request, features)]
    alone = request.launches is not None or request.pid is not None
    sampler = None if alone else registry.sampler(driver.NAME)
    _check_range(driver, request, sampled=sampler is not None)
    if request.pid is not None:
        return _Arranged(steps, None, counters, [*_attached_notes(request), *said, *choice.warnings])
    if sampler is None:
        if request.timeline and (tracer := registry.sampler(driver.NAME)):
            traced = tracer.times(request, features, program=choice.path, out=run.out)
            steps = [traced, *(step for step in steps if step.name != traced.name)]
        return _Arranged(steps, None, counters, [*_notes(planned, steps, choice), *said])
    first = sampler.times(request, features, program=choice.path, out=run.out)
    within = steering.budget_s
    if within is not None and (request.passes or request.hotspots):
        within /= 2
    planning = CallStep.of("planning", plan_counting, run_id=run.run_id, asked=asked.model_dump(mode="json"))
    return _Arranged(
        [replace(sampler.with_progress(first), within_s=within)],
        planning if request.passes or request.hotspots else None,
        {first.name: list(first.counters)},
        _sampling_notes(planned, first, choice, said, request),
    )


def _check_range(driver: Driver, request: ProfileRequest, *, sampled: bool) -> None:
    """Raise BadArgument if launches inside a range cannot be selected, neither by its name nor by the launch numbers of
    a timing run."""
    if request.range is None or driver.RANGES or (sampled and driver.REPLAY == request.replay == "application"):
        return
    raise BadArgument(
        f"{driver.NAME} cannot restrict counting to a range like this",
        "it requires ncu, or rocprofv3 with one run for each pass and no launches=[first, last]",
        "Omit range and select after the profile: dispatches.range_id names the range of every launch",
    )


def _features(driver: Driver, path: str, request: ProfileRequest) -> Any:
    """Return the features of the installed version of a profiler, according to its own output."""

    def output_of(option: str) -> str:
        answer = ask([path, option], _HELP_S)
        return f"{answer.out}\n{answer.err}"

    features = driver.features(output_of("--help"), output_of("--version"))
    if request.hotspots and isinstance(driver, registry.ListingDriver):
        return driver.add_sampling_methods(features, output_of(driver.SAMPLING_LIST))
    return features


def _attached_notes(request: ProfileRequest) -> list[str]:
    """Return notes on what happens to a process that is attached to."""
    pid = request.pid or 0
    notes = [f"rocprofv3 is attached to process {pid} for {request.attached_s:g} s; budget_s sets how long."]
    if not listens(pid):
        notes.append(
            f"Process {pid} has no thread rocp-bg-attach, through which newer versions attach: if there are no "
            "results, it was started without ROCP_TOOL_ATTACH=1."
        )
    return notes


def _warnings(planned: PassPlan, named: Collection[str]) -> list[str]:
    """Return warnings about explicitly requested metrics that the plan cannot provide; they are stored with the
    workload. Presets also contain metrics of other targets, which cause no warning."""
    missing = [(word, why) for word, why in planned.unsupported.items() if word in named]
    warnings = [f"{word}: not collected, {why}" for word, why in missing[:_NAMED]]
    if planned.left_out:
        warnings.append(f"Skipped because of max_passes: {_some(list(planned.left_out))}.")
    return warnings


def _notes(planned: PassPlan, steps: Sequence[Step], choice: DeviceChoice) -> list[str]:
    runs = f"{len(steps)} run{'s' * (len(steps) > 1)} of the program under {choice.profiler.name}"
    notes = [f"{runs} on {choice.target}: {', '.join(step.name for step in steps[:20])}.", *choice.warnings]
    if planned.split:
        notes.append(f"Computed from counters of different runs: {_some(planned.split)}.")
    if len(choice.locks) > 1:
        notes.append(f"The run has all {len(choice.locks)} GPUs to itself; gpu= with an index selects one of them.")
    return notes


def _sampling_notes(
    planned: PassPlan, first: Step, choice: DeviceChoice, of_driver: list[str], request: ProfileRequest
) -> list[str]:
    """Return notes on a run that counts a sample after its timing run."""
    what = "its times and timeline" if request.timeline else "its times"
    notes = [f"First {first.name}: the program runs on {choice.target} for {what}."]
    if planned.passes or request.hotspots:
        notes[0] += f" Then {choice.profiler.name} counts a representative sample of launches."
        notes += of_driver
    return [*notes, *_notes(planned, [], choice)[1:]]


def _some(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
