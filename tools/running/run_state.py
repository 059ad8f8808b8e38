"""Runs on disk: what was asked, how it stands, finding them from any process that shares the store, cleaning up."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from ...analysis.base.host_link import PcieLink
from ...analysis.base.problems import (
    BadArgument,
    BadInput,
    LimitExceeded,
    MissingTool,
    NotAllowed,
    NotFound,
    Problem,
    StoreProblem,
    near,
)
from ...analysis.store.manifest import Binary
from ...analysis.store.store import Store, write_atomically
from ..base.progress import report
from .processes import ProcessId, alive, end_all, host, this_process

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINAL = ("done", "failed", "cancelled")
RUN_ID = re.compile(r"run-[0-9a-z]{16}")
CANCEL, OUT, LOGS, UNFINISHED, CLOCKS = "cancel", "out", "logs", "unfinished", "clocks.jsonl"
"""Names in a run's folder; ``out`` holds a folder a step, ``unfinished`` that of the step at fault."""
SUPERVISOR_LOG = "supervisor.log"
"""What the supervisor itself said: empty but for bugs."""
_RECORD_FILE, STATE_FILE = "request.json", "state.json"
_OLD_S = 14 * 86_400
_POLL_S = 0.1
_SILENT_S = 300.0
_Loaded = TypeVar("_Loaded")
_PROBLEMS = {
    kind.__name__: kind
    for kind in (BadArgument, BadInput, LimitExceeded, MissingTool, NotAllowed, NotFound, StoreProblem, Problem)
}


class ProblemText(pydantic.BaseModel):
    """A Problem as data."""

    kind: str = "Problem"
    what: str
    why: str = ""
    fix: str = ""

    @staticmethod
    def of(problem: Problem) -> ProblemText:
        """The words of ``problem``."""
        return ProblemText(kind=type(problem).__name__, what=problem.what, why=problem.why, fix=problem.fix)

    def problem(self) -> Problem:
        """The Problem again, of its own class."""
        return _PROBLEMS.get(self.kind, Problem)(self.what, self.why, self.fix)


class _RunRecord(pydantic.BaseModel):
    """What was asked for, as the run's folder keeps it for people and later readers; no value of a variable."""

    run_id: str
    name: str
    created_ns: int = pydantic.Field(default_factory=time.time_ns)
    starter: ProcessId = pydantic.Field(default_factory=this_process)
    steps: list[str] = []
    """Filled in where the run is started."""
    timeout_s: float
    """Of all steps together, from when the run has its devices."""
    out: str = OUT
    """Folder of the steps' folders, below the run's; its last part may name the profile."""
    notes: list[str] = []
    """What was known before it began."""


class ProfileRun(_RunRecord):
    """A program run under a profiler: what gets written down of it, and what becomes of it in the store."""

    kind: Literal["profile"] = "profile"
    command: str = ""
    """One line, without secrets."""
    binary: Binary | None = None
    """The program's file as it was when the run was asked for."""
    cwd: str = ""
    variables: list[str] = []
    """Names of the variables that the caller set."""
    profiler: str = ""
    profiler_version: str | None = None
    target: str = ""
    device_uuid: str | None = None
    """Where one device is the only one that the program could use."""
    link: PcieLink | None = None
    """Of the device that was chosen."""
    host: str = ""
    commit: str | None = None
    branch: str | None = None
    """Of the work tree that it ran in, or of the CI job."""
    kernel: str | None = None
    launches: tuple[int, int] | None = None
    replay: str = ""
    timeline: bool = False
    """Whether a timeline was asked for."""
    hotspots: bool = False
    """Whether samples of instructions were asked for."""
    counters: dict[str, list[str]] = {}
    """Step -> what it is to count."""
    tags: list[str] = []
    hypothesis: str = ""
    change: str = ""
    warnings: list[str] = []
    """What the plan cannot give; it stays with the workload."""


class BenchmarkRun(_RunRecord):
    """Ceilings measured on a device."""

    kind: Literal["benchmark"] = "benchmark"
    mode: str = ""
    gpu: str | None = None
    device: str | None = None


Record = Annotated[ProfileRun | BenchmarkRun, pydantic.Field(discriminator="kind")]
_RECORDS: pydantic.TypeAdapter[ProfileRun | BenchmarkRun] = pydantic.TypeAdapter(Record)


class RunState(pydantic.BaseModel):
    """How a run stands."""

    state: State = "queued"
    activity: str = "starting"
    """What is being done, in words."""
    finished: list[str] = []
    """Steps that ended well."""
    steps: list[str] = []
    """The steps, where they were planned after the first one; empty otherwise."""
    counters: dict[str, list[str]] = {}
    """Planned step -> what it is to count."""
    cut: list[str] = []
    """Steps that did not end well and left results all the same, which are kept."""
    skipped: list[str] = []
    """Steps that were left out because those before them took the time."""
    remarks: list[str] = []
    """How the run was planned after its first step; they stay with the workload."""
    took_s: dict[str, float] = {}
    """Step -> the seconds that it took, however it ended."""
    progress: float = 0.0
    """Share of the present step that is done, where it tells."""
    step: str | None = None
    """The present step."""
    fault: str | None = None
    """The step that failed or was stopped."""
    status: int | None = None
    """Exit status of the step at fault; negative: the signal that ended it."""
    problem: ProblemText | None = None
    partial: bool = False
    """Whether ``result`` rests on only some of the steps."""
    warnings: list[str] = []
    result: dict[str, Any] = {}
    started_ns: int | None = None
    ended_ns: int | None = None
    supervisor: ProcessId | None = None


def left_behind(out: Path) -> str:
    """What to do with the results of finished steps that nobody saved."""
    return f"import_profile can read what the finished steps left: {out}"


def read_record(folder: Path) -> ProfileRun | BenchmarkRun:
    """What was asked of a run; StoreProblem where its file is damaged."""
    return _read(folder / _RECORD_FILE, _RECORDS.validate_json)


def read_state(folder: Path) -> RunState:
    """The state of a run; StoreProblem where its file is damaged."""
    return _read(folder / STATE_FILE, RunState.model_validate_json)


def write(folder: Path, content: ProfileRun | BenchmarkRun | RunState) -> None:
    """Replace a run's record or state in one step; StoreProblem where the disk refuses."""
    name = STATE_FILE if isinstance(content, RunState) else _RECORD_FILE
    try:
        write_atomically(folder / name, json.dumps(content.model_dump(mode="json"), indent=1))
    except OSError as error:
        raise StoreProblem(
            f"{name} of {folder.name} cannot be written", error.strerror or str(error), "Free space on the store's disk"
        ) from error


def _read(path: Path, parse: Callable[[bytes], _Loaded]) -> _Loaded:
    try:
        return parse(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        why = (os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)).splitlines()[0]
        raise StoreProblem(f"{path.parent.name} cannot be read", f"{path.name}: {why}", "Start another run") from error


def find(store: Store, reference: str) -> Path:
    """The folder of the run meant by an id, a unique prefix of one, or ``latest``; NotFound with near names."""
    known = _ids(store)
    if not known:
        raise NotFound(f"There is no run {reference!r}", "the store has none", "profile_command starts one")
    if reference == "latest":
        return store.run_folder(known[-1])
    fitting = [run for run in known if run == reference] or [
        run for run in known if reference and run.startswith(reference)
    ]
    if len(fitting) == 1:
        return store.run_folder(fitting[0])
    if fitting:
        raise NotFound(f"{reference!r} is not unique", f"it fits {', '.join(fitting[-6:])}", "Give more of the id")
    raise NotFound(f"There is no run {reference!r}", near(reference, known), f"The newest is {known[-1]}")


def inspect_run(store: Store, folder: Path) -> tuple[ProfileRun | BenchmarkRun, RunState]:
    """What was asked and how it stands. A run whose processes are gone is failed, which is written down here."""
    record, state = read_record(folder), read_state(folder)
    if state.state in FINAL or _supervisor_lives(folder, state.supervisor or record.starter):
        return record, state
    if store.read_only:
        state = read_state(folder)
        return record, state if state.state in FINAL else _fail_dead_run(folder, record, state)
    return record, recover(folder)


def recover(folder: Path) -> RunState:
    """The supervisor is dead: end what it left running on this machine and write the run down as failed."""
    record, state = read_record(folder), read_state(folder)
    if state.state in FINAL:
        return state
    # On another machine, or before the last boot, there is nothing that could be ended from here.
    end_all(record.run_id, 0)
    state = _fail_dead_run(folder, record, state)
    # On a full disk the next reader comes to the same conclusion.
    with suppress(StoreProblem):
        write(folder, state)
    return state


def wait(store: Store, folder: Path, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when the run has ended, or after ``wait_s`` seconds; who listens hears what is being done."""
    deadline, last_activity = time.monotonic() + wait_s, ""
    while True:
        record, state = inspect_run(store, folder)
        left_s = deadline - time.monotonic()
        if state.state in FINAL or left_s <= 0:
            return
        if state.activity != last_activity:
            last_activity = state.activity
            report(last_activity, _finished_share(record, state))
        sleep(min(left_s, _POLL_S))


def _finished_share(record: ProfileRun | BenchmarkRun, state: RunState) -> float | None:
    """How much of a run's steps is done, 0 to 1; None before they are planned."""
    steps = state.steps or record.steps
    return min(1.0, (len(state.finished) + len(state.cut) + state.progress) / len(steps)) if steps else None


def folders(store: Store) -> list[Path]:
    """The folders of all runs, oldest first."""
    return [store.run_folder(run) for run in _ids(store)]


def cancel(store: Store, folder: Path) -> None:
    """Ask for a run's end. It keeps what its finished steps left."""
    if store.read_only:
        raise NotAllowed("A server for reading cannot cancel", fix="Start the server without --read-only")
    try:
        (folder / CANCEL).touch()
    except OSError as error:
        raise StoreProblem(f"{folder.name} cannot be cancelled", error.strerror or str(error)) from error


def sweep_old(store: Store) -> None:
    """Remove runs that ended two weeks ago; their workloads stay."""
    for run in _ids(store):
        folder = store.run_folder(run)
        try:
            _, state = inspect_run(store, folder)
            ended_s = (state.ended_ns or 0) / 1e9
        except StoreProblem:
            ended_s = folder.stat().st_mtime
        if ended_s and time.time() - ended_s > _OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _supervisor_lives(folder: Path, process: ProcessId) -> bool:
    """Whether a supervisor lives; one that cannot be asked from here shows it by touching its state."""
    if process.host == host():
        return alive(process)
    try:
        return time.time() - (folder / STATE_FILE).stat().st_mtime < _SILENT_S
    except OSError:
        return False


def _ids(store: Store) -> list[str]:
    """All runs, oldest first."""
    try:
        return sorted(p.name for p in store.runs.iterdir() if RUN_ID.fullmatch(p.name) and (p / STATE_FILE).exists())
    except OSError:
        return []


def _fail_dead_run(folder: Path, record: ProfileRun | BenchmarkRun, state: RunState) -> RunState:
    problem = ProblemText(
        what="The run's supervisor died",
        why="it was killed, or the machine was started anew",
        fix=left_behind(folder / record.out) if state.finished else "Start it again",
    )
    ended = {"state": "failed", "activity": "failed", "problem": problem, "ended_ns": time.time_ns(), "step": None}
    return state.model_copy(update={**ended, "fault": state.step})
