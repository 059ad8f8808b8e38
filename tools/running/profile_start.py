"""Start a profile: describe the run, arrange its first steps, and hand it to a supervisor."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from ...analysis.base.problems import MissingTool, Problem
from ...analysis.base.text import first_few
from ...analysis.catalogue.metrics import without_metrics
from ...analysis.planning.plan import PassPlan
from ...analysis.store.manifest import Binary
from ...analysis.store.store import Store
from ..base.untrusted_text import plain_text
from ..device.machine.host_settings import unsound
from ..device.machine.model import Roots
from ..device.machine.programs import ask
from ..device.machine.sensors import Sensor
from ..isolation.child import name_of
from ..profiles.registry import load_readers
from . import start as launch
from .command import inherited_environment, redact, secrets
from .counting import plan_counting
from .drivers import registry
from .drivers.registry import ProfilerDriver as Driver
from .job import CallStep, Job, Step
from .known_failures import version_defects
from .profiled_program import ProfileSubject, listens
from .profiler_choice import DeviceChoice
from .program_revision import identify_binary, revision
from .request import ProfileRequest, collects_of
from .run_state import CHECK, OUT, ProfileRun
from .wording import problem, sentence

_HELP_S = 20.0
_NAMED = 8
"""Maximum metrics named in a note; plan_profile names all of them."""
_COMMAND = 2000


@dataclass(frozen=True)
class ProfileTask:
    """What a run needs beyond its record: the program with its secrets, the device with its locks, and the passes."""

    subject: ProfileSubject
    choice: DeviceChoice
    request: ProfileRequest
    """With the command."""
    planned: PassPlan
    check: tuple[str, ...] = ()
    """Argument list of the command that checks the program's results; empty if there is none."""
    must_end_well: bool = False
    """Whether the launches of a program that failed are useless."""
    usual: bool = False
    """Whether the caller named no metrics, so that a timeline and hot spots are added where they can be recorded."""


def start_profile(store: Store, stated: ProfileRun, task: ProfileTask, finish: CallStep) -> None:
    """Start a run that was created with ``new_run``; ``finish`` is called with the results of its steps.

    ``stated`` has what the caller requests; what follows from the task is added to the record here. If a Problem is
    raised, the run is discarded.
    """
    try:
        run = _describe_run(stated, task)
        steps, planning, run = _arrange_steps(run, task, str(store.run_folder(run.run_id) / run.out))
        launch.start(store, _job(run, task, steps, planning, finish))
    except Problem:
        launch.discard(store, stated.run_id)
        raise


def _describe_run(stated: ProfileRun, task: ProfileTask) -> ProfileRun:
    """Return the record of a run with the program, the device and the profiler, without secrets."""
    profiled, choice, request = task.subject, task.choice, task.request
    hidden = secrets(os.environ, profiled.given)
    checked_out = revision(profiled.folder)
    kernel, range_name = (text and redact(text, hidden) for text in (request.kernel, request.range))
    # Formats that do not contain the program's name are named after their folder.
    folder = re.sub(r"[^A-Za-z0-9_.+-]", "_", profiled.title)[:80].lstrip(".") or "profile"
    about = {
        "out": f"{OUT}/{folder}",
        "command": redact(plain_text(profiled.line, _COMMAND), hidden),
        "binary": _binary(profiled, hidden),
        "cwd": redact(profiled.folder, hidden),
        "variables": sorted(profiled.given),
        "host": os.uname().nodename,
        "commit": checked_out.commit,
        "branch": checked_out.branch,
        "profiler": choice.profiler.name,
        "profiler_version": choice.profiler.version,
        "profiler_path": choice.path,
        "device_uuid": choice.device.uuid if len(choice.locks) == 1 else None,
        "link": choice.device.link,
        "request": replace(request, command=(), kernel=kernel, range=range_name),
        "check": redact(plain_text(shlex.join(task.check), _COMMAND), hidden),
        "warnings": _warnings(task.planned, stated.metrics),
    }
    return stated.model_copy(update=about)


def _job(run: ProfileRun, task: ProfileTask, steps: Sequence[Step], planning: CallStep | None, finish: CallStep) -> Job:
    """Return the job for the supervisor."""
    profiled, choice, device = task.subject, task.choice, task.choice.device
    return Job(
        run=run,
        steps=[replace(step, lasting=step.lasting and not task.must_end_well) for step in steps],
        check=Step(CHECK, task.check) if task.check else None,
        plan=planning,
        program=list(profiled.command),
        finish=finish,
        preparation=name_of(load_readers),
        cwd=profiled.folder,
        variables={**choice.mask, **profiled.given},
        devices=choice.locks,
        # The chosen device is sampled while the program runs, if its PCI address is known.
        sensors=[Sensor(device.vendor, device.pci, device.uuid, str(Roots().at("sys")))] if device.pci else [],
    )


def _binary(profiled: ProfileSubject, hidden: Sequence[str]) -> Binary | None:
    """Return the file that the command runs; None for a process that is already running."""
    if not profiled.command:
        return None
    searched = {**inherited_environment(os.environ), **profiled.given}.get("PATH", os.defpath)
    identity = identify_binary(profiled.command, profiled.folder, searched)
    return (
        identity.model_copy(update={"path": redact(plain_text(identity.path, _COMMAND), hidden)}) if identity else None
    )


def _arrange_steps(run: ProfileRun, task: ProfileTask, out: str) -> tuple[list[Step], CallStep | None, ProfileRun]:
    """Return the first steps, the call that plans further ones, and the record with the counters, features and notes.

    A timing run comes first, after which a sample is counted; if sampling is impossible or not wanted, these are all
    steps.
    """
    request, choice = task.request, task.choice
    driver = registry.profiler(run.profiler)
    alone = request.launches is not None or request.pid is not None
    adds = task.usual and not alone
    lines = request.hotspots or adds
    features = _features(driver, choice.path, lines=lines) if choice.profiler.path else driver.features_of(None)
    tracer = registry.sampler(driver.NAME)
    if adds and tracer:
        # Nobody named metrics, so a timeline is added, and hot spots if the profiler can record them.
        hotspots = tracer.SAMPLES_LINES and request.replay == driver.REPLAY
        request = replace(request, timeline=True, hotspots=hotspots)
    steps = driver.steps(request, features, program=choice.path, out=out)
    driver_notes = [note.text for note in driver.notes(request, features)]
    sampler = None if alone else tracer
    _check_range(driver, request, sampled=sampler is not None)
    planning = None
    if request.pid is not None:
        notes = [*_attached_notes(request), *driver_notes, *choice.warnings]
    elif sampler is None:
        if request.timeline and tracer:
            first = tracer.times(request, features, program=choice.path, out=out)
            steps = [first, *(step for step in steps if step.name != first.name)]
        notes = [*_notes(task.planned, steps, choice), *driver_notes]
    else:
        try:
            first = sampler.times(request, features, program=choice.path, out=out)
        except MissingTool:
            if not adds:
                raise
            # Nobody named the timeline that cannot be recorded here.
            request = replace(request, timeline=False)
            first = sampler.times(request, features, program=choice.path, out=out)
        within_s = run.budget_s
        if request.passes or request.hotspots:
            within_s = run.budget_s and run.budget_s / 2
            selection = {"kernel": request.kernel, "range": request.range}
            planning = CallStep.of("planning", plan_counting, run_id=run.run_id, selection=selection)
        steps = [replace(sampler.with_progress(first), within_s=within_s, sampled=request.timeline)]
        notes = _sampling_notes(task.planned, first, choice, driver_notes, request)
    known = _known_in_advance(request, choice)
    about = {
        "features": asdict(features) if is_dataclass(features) and not isinstance(features, type) else {},
        "may_take_turns": run.may_take_turns and getattr(features, "turns", False),
        "counters": {step.name: list(step.counters) for step in steps},
        "notes": [*notes, *known],
        "cautions": known,
    }
    if adds and sampler:
        stored = replace(run.request, timeline=request.timeline, hotspots=request.hotspots)
        about |= {"request": stored, "usual": True}
    return steps, planning, run.model_copy(update=about)


def _known_in_advance(request: ProfileRequest, choice: DeviceChoice) -> list[str]:
    """Return what is known to go wrong before anything runs: defects of the profiler's version, and settings of the
    host that spoil what the run collects."""
    collects = collects_of(request)
    tool = choice.profiler
    defects = version_defects(
        tool.name, tool.version, targets=[choice.target], command=shlex.join(request.command), collects=collects
    )
    # The setting of a known machine says whether such a defect shows.
    decided = {setting.code for setting in choice.settings}
    known = [d.text(tool.name, tool.version) for d in defects if d.setting not in decided]
    concerns = {"times", *(["counters"] if collects & {"counters"} else []), *(["attaching"] if request.pid else [])}
    if lacking := without_metrics(choice.target):
        known.append(lacking)
    return [*known, *unsound(choice.settings, concerns, choice.device.index)]


def _check_range(driver: Driver, request: ProfileRequest, *, sampled: bool) -> None:
    """Raise BadArgument if launches inside a range cannot be selected, neither by its name nor by the launch numbers of
    a timing run."""
    if request.range is None or driver.RANGES or (sampled and driver.REPLAY == request.replay == "application"):
        return
    raise problem("no_range_filter", driver=driver)


def _features(driver: Driver, path: str, *, lines: bool) -> Any:
    """Return the features of the installed version of a profiler, according to its own output.

    ``lines``: with the ways of sampling instructions on this machine, if they depend on it.
    """

    def output_of(option: str) -> str:
        answer = ask([path, option], _HELP_S)
        return f"{answer.out}\n{answer.err}"

    features = driver.features(output_of("--help"), output_of("--version"))
    if lines and isinstance(driver, registry.ListingDriver):
        return driver.add_sampling_methods(features, output_of(driver.SAMPLING_LIST))
    return features


def _attached_notes(request: ProfileRequest) -> list[str]:
    """Return notes on what happens to a process that is attached to."""
    codes = ["attaching"] if listens(request.pid or 0) else ["attaching", "not_listening"]
    return [sentence(code, request=request) for code in codes]


def _warnings(planned: PassPlan, named: Collection[str]) -> list[str]:
    """Return warnings about explicitly requested metrics that the plan cannot provide; they are stored with the
    workload. Presets also contain metrics of other targets, which cause no warning."""
    missing = [(word, why) for word, why in planned.unsupported.items() if word in named]
    warnings = [f"{word}: not collected, {why}" for word, why in missing[:_NAMED]]
    if planned.left_out:
        warnings.append(f"Skipped because of max_passes: {first_few(list(planned.left_out), _NAMED)}.")
    return warnings


def _notes(planned: PassPlan, steps: Sequence[Step], choice: DeviceChoice) -> list[str]:
    names = [step.name for step in steps[:20]]
    notes = [sentence("runs", runs=len(steps), choice=choice, names=names), *choice.warnings]
    if planned.split:
        notes.append(sentence("split", split=first_few(planned.split, _NAMED)))
    if len(choice.locks) > 1:
        notes.append(sentence("all_gpus", gpus=len(choice.locks)))
    return notes


def _sampling_notes(
    planned: PassPlan, first: Step, choice: DeviceChoice, of_driver: list[str], request: ProfileRequest
) -> list[str]:
    """Return notes on a run that counts a sample after its timing run."""
    what = "its times and timeline" if request.timeline else "its times"
    notes = [sentence("first_times", first=first, choice=choice, what=what)]
    if planned.passes or request.hotspots:
        notes = [notes[0] + sentence("then_counted", choice=choice), *of_driver]
    return [*notes, *_notes(planned, [], choice)[1:]]
