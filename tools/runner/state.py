"""The state of a run on disk: its record, and how runs are found."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any, Literal, TypeVar

import pydantic

from ...analysis.problems import (
    BadArgument,
    BadInput,
    LimitExceeded,
    MissingTool,
    NotAllowed,
    NotFound,
    Problem,
    StoreProblem,
)
from ...analysis.store import write_atomically

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINAL = ("done", "failed", "cancelled")
RUN_ID = re.compile(r"run-[0-9a-z]{16}")
MARKER = "ROOFLENS_RUN"
"""Variable with the run's id in the environment of everything that a run starts."""
CANCEL, OUT, LOGS, UNFINISHED = "cancel", "out", "logs", "unfinished"
_Record = TypeVar("_Record", bound=pydantic.BaseModel)
_PROBLEMS = {
    kind.__name__: kind
    for kind in (BadArgument, BadInput, LimitExceeded, MissingTool, NotAllowed, NotFound, StoreProblem, Problem)
}


class Who(pydantic.BaseModel):
    """A process that can be told from every other: its number is reused, its start on one boot is not."""

    host: str
    boot: str
    pid: int
    start: int
    """Clock ticks from boot to the start of the process."""


class Words(pydantic.BaseModel):
    """A Problem as data."""

    kind: str = "Problem"
    what: str
    why: str = ""
    fix: str = ""

    @staticmethod
    def of(problem: Problem) -> Words:
        """The words of ``problem``."""
        return Words(kind=type(problem).__name__, what=problem.what, why=problem.why, fix=problem.fix)

    def problem(self) -> Problem:
        """The Problem again, of its own class."""
        return _PROBLEMS.get(self.kind, Problem)(self.what, self.why, self.fix)


class RunRequest(pydantic.BaseModel):
    """What was asked for, for people and for later readers."""

    run_id: str
    kind: Literal["profile", "benchmark"]
    name: str
    created_ns: int
    starter: Who
    steps: list[str]
    timeout_s: float
    out: str = OUT
    about: dict[str, Any] = {}
    """What this kind of run wants to remember, such as the command and the profiler."""
    notes: list[str] = []
    """What was known before it began."""


class RunState(pydantic.BaseModel):
    """How a run stands."""

    state: State = "queued"
    doing: str = "starting"
    finished: list[str] = []
    """Steps that ended well."""
    progress: float = 0.0
    """Share of the present step that is done, where it tells."""
    step: str | None = None
    """The present step."""
    fault: str | None = None
    """The step that failed or was stopped."""
    status: int | None = None
    """Exit status of the step at fault; negative: the signal that ended it."""
    problem: Words | None = None
    partial: bool = False
    """Whether ``result`` rests on only some of the steps."""
    warnings: list[str] = []
    result: dict[str, Any] = {}
    started_ns: int | None = None
    ended_ns: int | None = None
    supervisor: Who | None = None


def left_behind(out: Path) -> str:
    """What to do with the results of finished steps that nobody saved."""
    return f"import_profile can read what the finished steps left: {out}"


def boot_id() -> str:
    """Which boot of the machine this is."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def host() -> str:
    """The machine's name, with the name space in which process numbers count."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}"


def read_request(folder: Path) -> RunRequest:
    """The request of a run; StoreProblem where its file is damaged."""
    return _read(folder / "request.json", RunRequest)


def read_state(folder: Path) -> RunState:
    """The state of a run; StoreProblem where its file is damaged."""
    return _read(folder / "state.json", RunState)


def write(folder: Path, record: RunRequest | RunState) -> None:
    """Replace a run's request.json or state.json in one step; StoreProblem where the disk refuses."""
    name = "state.json" if isinstance(record, RunState) else "request.json"
    try:
        write_atomically(folder / name, json.dumps(record.model_dump(mode="json"), indent=1))
    except OSError as error:
        raise StoreProblem(
            f"{name} of {folder.name} cannot be written", error.strerror or str(error), "Free space on the store's disk"
        ) from error


def _read(path: Path, model: type[_Record]) -> _Record:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        why = (os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)).splitlines()[0]
        raise StoreProblem(f"{path.parent.name} cannot be read", f"{path.name}: {why}", "Start another run") from error
