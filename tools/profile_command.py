"""The tool profile_command: profile a program here and store what it did."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import products
from ..analysis.experiments import Entry, record
from ..analysis.notes import Note
from ..analysis.planning.plan import PassPlan, plan
from ..analysis.problems import BadArgument, MissingTool, NotAllowed, NotFound, Problem, near
from ..analysis.store import Manifest, Store
from .get_run import LONGEST_WAIT_S, RunResult, shown
from .import_profile import checked_labels, imported
from .list_devices import Machine, survey
from .machine.model import Device, Profiler, Roots
from .machine.programs import ask
from .profilers.request import Request, Step
from .profilers.tables.merge import Merged
from .profilers.tables.names import noted, plain_text
from .runner import lookup
from .runner import start as launch
from .runner.environment import inherited, redacted, secrets, without
from .runner.job import CallStep, CommandStep
from .runner.state import OUT
from .runner.worker import Tell

_MASKS = {"amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "nvidia": ("CUDA_VISIBLE_DEVICES",)}
"""Variables by which a program sees fewer GPUs, by vendor."""


@dataclass(frozen=True)
class Choice:
    """A device, the profiler for it, and what that means for other runs."""

    device: Device
    target: str
    profiler: Profiler
    path: str
    locks: dict[str, str]
    """Lock name -> device in words, of every device that the program may use."""
    mask: dict[str, str]
    """Variables that show the program the chosen GPU alone; empty where nobody chose one."""
    warnings: list[str]


def choose(machine: Machine, gpu: str | int | None, profiler: str, environment: Mapping[str, str]) -> Choice:
    """The device and the profiler; a Problem says what is missing on this machine and how to get it.

    Without ``gpu`` the program may use every GPU that ``environment`` shows it, so the run has all of them to itself.
    """
    from .profilers import drivers as programs

    vendor = programs.profiler(profiler).VENDOR if profiler != "auto" else None
    if str(gpu).lower() == "cpu" or (gpu is None and vendor == "cpu"):
        devices = [d for d in machine.devices if d.vendor == "cpu"]
    elif gpu is None:
        devices = _seen([d for d in machine.gpus if vendor in (None, d.vendor)], environment)
        if not devices:
            raise _no_gpu(machine, vendor)
    else:
        devices = [_named(machine, str(gpu), vendor)]
    programs.chosen(profiler, devices[0].vendor)
    device = min(devices, key=lambda d: not _profilers(machine, d, profiler)) if gpu is None else devices[0]
    tool = _profiler(machine, device, profiler)
    same = [d for d in devices if d.vendor == device.vendor]
    return Choice(
        device=device,
        target="cpu" if device.vendor == "cpu" else device.arch or "",
        profiler=tool,
        path=tool.path or tool.name,
        locks={f"{d.vendor}-{d.uuid or d.index}": _title(d) for d in same},
        mask=_mask(device) if gpu is not None else {},
        warnings=[f"{tool.why}. {tool.fix or ''}".strip()] if tool.why else [],
    )


def facts(device: Device) -> dict[str, float]:
    """What is known of a device beyond its target: its product's data, for the dies of this device or partition."""
    product = products.identify(device.name, device.arch, {})
    found = {name: fact.value for name, fact in product.all_facts.items()} if product else {}
    if device.xccs and (whole := found.get("num_xcd")) and "total_l2_chan" in found:
        found |= {"num_xcd": device.xccs, "total_l2_chan": found["total_l2_chan"] * device.xccs / whole}
    return found


def _named(machine: Machine, gpu: str, vendor: str | None) -> Device:
    fitting = [d for d in machine.gpus if gpu in (d.uuid, str(d.index)) and vendor in (None, d.vendor)]
    if not fitting and not machine.gpus:
        raise _no_gpu(machine, vendor)
    if not fitting:
        here = ", ".join(f"{d.index} ({d.vendor} {d.arch}, {d.uuid})" for d in machine.gpus[:8])
        raise NotFound(f"There is no GPU {gpu!r}", f"here are {here}", 'Give an index, a uuid or "cpu"')
    if len({d.vendor for d in fitting}) > 1:
        raise BadArgument(f"GPU {gpu} is one of each vendor", fix="Give its uuid, or name the profiler")
    return fitting[0]


def _no_gpu(machine: Machine, vendor: str | None) -> MissingTool:
    kind = {"amd": "AMD GPU", "nvidia": "NVIDIA GPU"}.get(vendor or "", "GPU")
    why = machine.notes[0] if machine.notes else "nothing in sysfs and no driver shows one"
    return MissingTool(
        f"No {kind} is visible here",
        why,
        'gpu="cpu" profiles the processor; plan_profile gives the commands for a machine with a GPU, import_profile '
        "reads what they wrote",
    )


def _seen(devices: list[Device], environment: Mapping[str, str]) -> list[Device]:
    """The GPUs that visibility variables leave, in their order where they name one."""
    for names in _MASKS.values():
        for name in names:
            listed = [part.strip() for part in environment.get(name, "").split(",") if part.strip()]
            vendor = next(v for v, n in _MASKS.items() if name in n)
            if listed and (kept := [d for part in listed for d in devices if _fits(d, part) and d.vendor == vendor]):
                devices = [*kept, *(d for d in devices if d.vendor != vendor)]
    return devices


def _fits(device: Device, part: str) -> bool:
    return part == str(device.index) or bool(device.uuid and part.startswith("GPU-") and device.uuid.startswith(part))


def _mask(device: Device) -> dict[str, str]:
    name = device.uuid or str(device.index)
    return {_MASKS[device.vendor][0]: name} if device.vendor in _MASKS else {}


def _profilers(machine: Machine, device: Device, wanted: str) -> list[Profiler]:
    """Profilers of a device that are installed and may work, best first; perf works without a PMU too."""
    order = _order(device, wanted)
    found = {p.name: p for p in machine.profilers}
    ready = [found[n] for n in order if n in found and found[n].path]
    return [p for p in ready if p.usable is not False or device.vendor == "cpu"]


def _order(device: Device, wanted: str) -> list[str]:
    """Names of the profilers for a device, the preferred one first."""
    from .profilers import drivers as programs

    return [p.NAME for p in programs.for_vendor(device.vendor) if wanted in ("auto", p.NAME)]


def _profiler(machine: Machine, device: Device, wanted: str) -> Profiler:
    if ready := _profilers(machine, device, wanted):
        return ready[0]
    order = _order(device, wanted)
    known = [p for p in machine.profilers if p.name in order]
    first = next((p for p in known if p.path), known[0] if known else None)
    name = first.name if first else order[0]
    why = first.why if first else "it is not installed: not on PATH nor in the usual places"
    raise MissingTool(
        f"{name} cannot profile {_title(device)} here", why or "", (first.fix if first else "") or "See list_devices"
    )


def _title(device: Device) -> str:
    if device.vendor == "cpu":
        return "the processor"
    return f"GPU {device.index} ({device.vendor} {device.arch or device.name or ''})"


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 3000
_SHOWN = 120


@dataclass(frozen=True)
class Program:
    """A command that can be started."""

    command: tuple[str, ...]
    cwd: str
    given: Mapping[str, str]
    """Variables that the caller sets."""


def checked(command: list[str], cwd: str | None, given: Mapping[str, str], environment: Mapping[str, str]) -> Program:
    """The command as it will be started; BadArgument, NotFound or NotAllowed say what is wrong with it.

    ``environment`` is what the program inherits; its PATH, or the caller's own, is searched.
    """
    if not command or not command[0].strip():
        raise BadArgument("The command is empty", fix='Give an argument list, such as ["./app", "--size", "1024"]')
    for text in (*command, cwd or "", *given, *given.values()):
        if "\0" in text:
            raise BadArgument("The command, folder or environment holds a NUL character", "no system accepts that")
    if command[0].startswith("-"):
        raise BadArgument(
            f"The program {command[0][:_SHOWN]!r} begins with a dash",
            "profilers would take it for an option",
            "Name the program first, for instance with a path: ./" + command[0][:_SHOWN],
        )
    for name in given:
        if not _NAME.fullmatch(name):
            raise BadArgument(f"The variable name {name[:_SHOWN]!r} cannot be used", fix="Letters, digits and _ only")
    folder = _folder(cwd)
    _found(command[0], folder, {**environment, **given}.get("PATH", os.defpath))
    return Program(tuple(command), str(folder), dict(given))


def _folder(cwd: str | None) -> Path:
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise BadArgument("The folder that the server runs in was deleted", fix="Give cwd, an absolute path") from error
    if cwd is None:
        return here
    folder = Path(cwd).expanduser()
    if not folder.is_absolute():
        raise BadArgument(
            f"cwd {cwd[:_SHOWN]!r} is no absolute path",
            "where the server was started is not for the caller to know",
            f"It runs in {here}; perhaps {here / cwd} is meant",
        )
    if not folder.is_dir():
        raise NotFound(f"The folder {cwd[:_SHOWN]} does not exist", near(folder.name, _names(folder.parent)))
    return folder


def _found(program: str, folder: Path, path: str) -> None:
    """Refuse a program that could not be started from ``folder``."""
    if "/" in program:
        place = Path(os.path.expanduser(program)) if program.startswith("~") else folder / program  # noqa: PTH111
        if program.startswith("~"):
            raise BadArgument(f"{program[:_SHOWN]} is a shell's spelling", "no shell runs it", f"Write {place}")
        if not place.exists():
            beside = near(place.name, _names(place.parent))
            raise NotFound(f"The program {program[:_SHOWN]} does not exist", f"looked for {place}. {beside}".strip())
        if not (place.is_file() and os.access(place, os.X_OK)):
            raise NotAllowed(f"{place} cannot be run", "it is no executable file", f"chmod +x {place}")
        return
    if shutil.which(program, path=os.pathsep.join(e for e in path.split(os.pathsep) if e.startswith("/"))):
        return
    if (folder / program).is_file():
        raise NotFound(
            f"There is no program {program[:_SHOWN]!r} on PATH", "", f"./{program} is in {folder}: write that"
        )
    known = [name for entry in path.split(os.pathsep) if entry.startswith("/") for name in _names(Path(entry))]
    what = f"There is no program {program[:_SHOWN]!r} on PATH or in {folder}"
    spaced = "An argument list has one entry per argument: no shell splits it" if " " in program else ""
    raise NotFound(what, near(program, known), spaced)


def _names(folder: Path) -> list[str]:
    try:
        return [p.name for p in islice(folder.iterdir(), _LISTED)]
    except OSError:
        return []


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
            function="profile_command:save",
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
    from .profilers import drivers as programs

    if wanted != "auto":
        return wanted
    return programs.profiler(choice.profiler.name).REPLAY


def _steps(choice: Choice, request: Request, out: str) -> tuple[list[Step], list[str]]:
    """The application runs, in the words of the installed version of the profiler, and what it leaves out."""
    from .profilers import drivers as programs

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


_LOST_NAMED = 12
PARTIAL = "partial"
"""Tag of a workload for which not every run of the program finished."""


def save(
    store: Store,
    tell: Tell,
    *,
    out: str,
    finished: list[str],
    stopped: str | None,
    steps: int,
    name: str,
    tags: list[str],
    target: str,
    command: str,
    host: str,
    warnings: list[str],
    wanted: Mapping[str, list[str]] | None = None,
    device_uuid: str | None = None,
    hypothesis: str = "",
    change: str = "",
) -> dict[str, Any]:
    """Import the output folder of a run; ``stopped`` says why only the ``finished`` of all steps are in it.

    ``wanted`` are the counters of each step: those that a finished step did not bring are named in a warning.
    ``device_uuid`` is that of the one device that the program could use. ``hypothesis`` and ``change`` go into the
    experiment log.
    """
    tell(0.0, "importing")
    marks = [*tags, PARTIAL] if stopped else tags
    said = [*warnings]
    if stopped:
        said.insert(0, f"Partial: {len(finished)} of {steps} runs of the program ({', '.join(finished)}). {stopped}")

    def amend(manifest: Manifest, merged: Merged) -> None:
        manifest.name, manifest.tags = name, marks
        manifest.arch = manifest.arch or target
        manifest.device_uuid = device_uuid
        manifest.command, manifest.host = command, manifest.host or host
        asked = [counter for step in finished for counter in (wanted or {}).get(step, [])]
        merged.warnings[:0] = [Note("run", text) for text in said + _missing(asked, merged)]

    done, merged = imported(store, Path(out), "auto", amend)
    if hypothesis or change:
        record(store, Entry(kind="profile", workload=done.id, hypothesis=hypothesis, change=change))
    return _summary(done, merged)


def _missing(asked: list[str], merged: Merged) -> list[str]:
    """Profilers leave out a counter that they do not know with no more than a line among their messages."""
    found = {*merged.counters, *(f"{event}[*]" for p in merged.passes for event, _ in p.table.instances.values())}
    lost = [counter for counter in dict.fromkeys(asked) if counter not in found]
    if not lost:
        return []
    named = ", ".join(lost[:_LOST_NAMED]) + (f" and {len(lost) - _LOST_NAMED} more" if len(lost) > _LOST_NAMED else "")
    return [
        f"counters: The profiler was asked for {named} and gave none: its version may not know them on this device."
    ]


def _summary(done: Manifest, merged: Merged) -> dict[str, Any]:
    return {
        "workload": done.id,
        "name": done.name,
        "arch": done.arch,
        "kernels": done.kernels,
        "dispatches": done.dispatches,
        "counters": len(done.counters),
        "warnings": [w.text for w in merged.warnings],
    }
