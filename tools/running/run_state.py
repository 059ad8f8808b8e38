"""Runs on disk: their records and states, finding them from any process that shares the store, and cleaning up."""

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

from ...analysis.base.problems import Problem, StoreProblem, near
from ...analysis.store.manifest import Binary, PcieLink
from ...analysis.store.store import Store, write_atomically
from ..base.progress import report
from .known_failures import KINDS
from .processes import ProcessId, alive, end_all, host, this_process
from .request import ProfileRequest
from .wording import problem

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINAL = ("done", "failed", "cancelled")
RUN_ID = re.compile(r"run-[0-9a-z]{16}")
CANCEL, OUT, LOGS, UNFINISHED, CLOCKS = "cancel", "out", "logs", "unfinished", "clocks.jsonl"
"""File and folder names in a run's folder; ``out`` has one folder per step, ``unfinished`` that of the failed step."""
CANCELLED = "cancelled"
"""Key with which the result of a call states that the call ended early because the run was cancelled."""
CHECK = "check"
"""Name of the step that checks the results of the program before anything is measured."""
SUPERVISOR_LOG = "supervisor.log"
"""Output of the supervisor itself, which is empty unless there is a bug."""
_RECORD_FILE, STATE_FILE = "request.json", "state.json"
_OLD_S = 14 * 86_400
_POLL_S = 0.1
_SILENT_S = 300.0
_Loaded = TypeVar("_Loaded")


class ProblemText(pydantic.BaseModel):
    """A Problem as data."""

    kind: str = "Problem"
    what: str
    why: str = ""
    fix: str = ""

    @staticmethod
    def of(problem: Problem) -> ProblemText:
        """Convert ``problem`` to data."""
        return ProblemText(kind=type(problem).__name__, what=problem.what, why=problem.why, fix=problem.fix)

    def problem(self) -> Problem:
        """Convert back to a Problem of the original class."""
        return KINDS.get(self.kind, Problem)(self.what, self.why, self.fix)


class _RunRecord(pydantic.BaseModel, frozen=True):
    """The request as stored in the run's folder, without the values of any variables."""

    run_id: str
    name: str
    created_ns: int = pydantic.Field(default_factory=time.time_ns)
    starter: ProcessId = pydantic.Field(default_factory=this_process)
    steps: list[str] = []
    """Set when the run is started."""
    timeout_s: float
    """Time limit for all steps together, from the moment the run owns its devices."""
    out: str = OUT
    """Folder that contains the step folders, relative to the run's folder; its last part may name the profile."""
    notes: list[str] = []
    """Notes that were known before the run started."""


class ProfileRun(_RunRecord, frozen=True):
    """A program run under a profiler: what is asked, of which device and profiler, and how the result is stored.

    The call, the planning of counting steps, the supervisor and the import all read this record.
    """

    kind: Literal["profile"] = "profile"
    command: str = ""
    """The command in one line, without secrets."""
    binary: Binary | None = None
    """The program's file at the time of the request."""
    cwd: str = ""
    variables: list[str] = []
    """Names of the variables that the caller set."""
    host: str = ""
    commit: str | None = None
    branch: str | None = None
    """Branch of the work tree that the program ran in, or of the CI job."""
    profiler: str = ""
    profiler_version: str | None = None
    profiler_path: str = ""
    """Path or name of the profiler's program."""
    features: dict[str, Any] = {}
    """What this version of the profiler supports, as its driver stores it."""
    device_uuid: str | None = None
    """Set if the program could use only this device."""
    link: PcieLink | None = None
    """PCIe link of the chosen device."""
    request: ProfileRequest = ProfileRequest()
    """What to profile, without the command, and without secrets in names."""
    metrics: list[str] = []
    """The requested metrics and presets."""
    launches: int | None = None
    """Number of launches to count of each launch configuration, if the caller chose one."""
    budget_s: float | None = None
    may_take_turns: bool = False
    """Whether groups of counters may take turns between launches if one run for each would take too long."""
    usual: bool = False
    """Whether the caller named no metrics: then the timeline decides which kernels are counted, if any, and hot spots
    are omitted if the budget does not suffice for them beside the counters."""
    cautions: list[str] = []
    """What is known to go wrong on this machine with this version of the profiler; also notes."""
    counters: dict[str, list[str]] = {}
    """Step -> the counters requested from it."""
    tags: list[str] = []
    hypothesis: str = ""
    change: str = ""
    warnings: list[str] = []
    """What the plan cannot provide; stored with the workload."""
    check: str = ""
    """The command that checks the program's results, in one line, without secrets."""
    baseline: str | None = None
    """Id of the workload to compare the new one with."""


class BenchmarkRun(_RunRecord, frozen=True):
    """Ceilings measured on a device."""

    kind: Literal["benchmark"] = "benchmark"
    mode: str = ""
    gpu: str | None = None
    device: str | None = None


Record = Annotated[ProfileRun | BenchmarkRun, pydantic.Field(discriminator="kind")]
_RECORDS: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(Record)


class RunState(pydantic.BaseModel):
    """The current state of a run."""

    state: State = "queued"
    activity: str = "starting"
    """A description of the current activity."""
    finished: list[str] = []
    """Steps that ended well."""
    steps: list[str] = []
    """All steps, if some were planned after the first one; otherwise empty."""
    counters: dict[str, list[str]] = {}
    """Planned step -> the counters requested from it."""
    cut: list[str] = []
    """Steps that did not end well but left usable results, which are kept."""
    skipped: list[str] = []
    """Steps that were skipped because earlier steps used up the time."""
    remarks: list[str] = []
    """Remarks of the planning after the first step, and on the later steps; stored with the workload."""
    plan: list[str] = []
    """Those of the planning: what is counted, and why not more."""
    took_s: dict[str, float] = {}
    """Step -> its duration in seconds, however it ended."""
    progress: float = 0.0
    """Finished share of the current step, 0 to 1, if it is reported."""
    step: str | None = None
    """The current step."""
    fault: str | None = None
    """The step that failed or was stopped."""
    status: int | None = None
    """Exit status of the step at fault; negative values are signals."""
    check: Literal["passed", "failed"] | None = None
    """The result of the check; None if there is none, or it did not end."""
    problem: ProblemText | None = None
    partial: bool = False
    """Whether ``result`` is based on only some of the steps."""
    warnings: list[str] = []
    result: dict[str, Any] = {}
    started_ns: int | None = None
    ended_ns: int | None = None
    supervisor: ProcessId | None = None


def left_behind(out: Path) -> str:
    """Advise what to do with results of finished steps that were not saved."""
    return f"import_profile can read the results of the finished steps: {out}"


def read_record(folder: Path) -> Record:
    """Return the record of a run; raise StoreProblem if its file is damaged."""
    return _read(folder / _RECORD_FILE, _RECORDS.validate_json)


def read_state(folder: Path) -> RunState:
    """Return the state of a run; raise StoreProblem if its file is damaged."""
    return _read(folder / STATE_FILE, RunState.model_validate_json)


def write(folder: Path, content: Record | RunState) -> None:
    """Replace a run's record or state atomically; raise StoreProblem if it cannot be written."""
    name = STATE_FILE if isinstance(content, RunState) else _RECORD_FILE
    try:
        write_atomically(folder / name, json.dumps(content.model_dump(mode="json"), indent=1))
    except OSError as error:
        raise problem("run_not_writable", name=name, folder=folder, strerror=error.strerror or str(error)) from error


def _read(path: Path, parse: Callable[[bytes], _Loaded]) -> _Loaded:
    try:
        return parse(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        why = (os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)).splitlines()[0]
        raise problem("run_not_readable", path=path, why=why) from error


def find(store: Store, reference: str) -> Path:
    """Return the folder of a run, given its id, a unique prefix or ``latest``; raise NotFound with similar ids."""
    known = _ids(store)
    if not known:
        raise problem("no_runs", reference=reference)
    if reference == "latest":
        return store.run_folder(known[-1])
    fitting = [run for run in known if reference and run.startswith(reference)]
    if len(fitting) == 1:
        return store.run_folder(fitting[0])
    if fitting:
        raise problem("ambiguous_run", reference=reference, fitting=", ".join(fitting[-6:]))
    raise problem("no_such_run", reference=reference, near=near(reference, known), known=known[-1])


def inspect_run(store: Store, folder: Path) -> tuple[Record, RunState]:
    """Return the record and state of a run. A run whose processes are gone is marked as failed on disk."""
    record, state = read_record(folder), read_state(folder)
    if state.state in FINAL or _supervisor_lives(folder, state.supervisor or record.starter):
        return record, state
    if store.read_only:
        state = read_state(folder)
        return record, state if state.state in FINAL else _fail_dead_run(folder, record, state)
    return record, recover(folder)


def recover(folder: Path) -> RunState:
    """After the supervisor died: end what it left running on this machine and mark the run as failed."""
    record, state = read_record(folder), read_state(folder)
    if state.state in FINAL:
        return state
    # Processes on another machine, or from before the last boot, do not appear here, so nothing is ended.
    end_all(record.run_id, 0)
    state = _fail_dead_run(folder, record, state)
    # If the disk is full, the next reader comes to the same conclusion.
    with suppress(StoreProblem):
        write(folder, state)
    return state


def wait(store: Store, folder: Path, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when the run has ended, or after ``wait_s`` seconds; activity changes are reported as progress."""
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


def _finished_share(record: Record, state: RunState) -> float | None:
    """Return the finished share of a run's steps, 0 to 1; None before they are planned."""
    steps = state.steps or record.steps
    return min(1.0, (len(state.finished) + len(state.cut) + state.progress) / len(steps)) if steps else None


def folders(store: Store) -> list[Path]:
    """Return the folders of all runs, oldest first."""
    return [store.run_folder(run) for run in _ids(store)]


def cancel(store: Store, folder: Path) -> None:
    """Request cancellation of a run. The results of its finished steps are kept."""
    if store.read_only:
        raise problem("read_only_runs")
    try:
        (folder / CANCEL).touch()
    except OSError as error:
        raise problem("run_not_cancellable", folder=folder, strerror=error.strerror or str(error)) from error


def sweep_old(store: Store) -> None:
    """Remove the folders of runs that ended more than two weeks ago; their workloads stay."""
    for folder in folders(store):
        try:
            _, state = inspect_run(store, folder)
            ended_s = (state.ended_ns or 0) / 1e9
        except StoreProblem:
            ended_s = folder.stat().st_mtime
        if ended_s and time.time() - ended_s > _OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _supervisor_lives(folder: Path, process: ProcessId) -> bool:
    """Whether a supervisor is alive; on another machine this is judged by how recently it touched its state file."""
    if process.host == host():
        return alive(process)
    try:
        return time.time() - (folder / STATE_FILE).stat().st_mtime < _SILENT_S
    except OSError:
        return False


def _ids(store: Store) -> list[str]:
    """Return the ids of all runs, oldest first."""
    try:
        return sorted(p.name for p in store.runs.iterdir() if RUN_ID.fullmatch(p.name) and (p / STATE_FILE).exists())
    except OSError:
        return []


def _fail_dead_run(folder: Path, record: Record, state: RunState) -> RunState:
    problem = ProblemText(
        what="The run's supervisor died",
        why="it was killed, or the machine was restarted",
        fix=left_behind(folder / record.out) if state.finished else "Start the run again",
    )
    ended = {"state": "failed", "activity": "failed", "problem": problem, "ended_ns": time.time_ns(), "step": None}
    return state.model_copy(update={**ended, "fault": state.step})
