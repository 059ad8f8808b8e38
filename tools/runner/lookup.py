"""Finding runs and their state, from any process that shares the store; a dead run's leavings are cleaned up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...analysis.problems import NotAllowed, NotFound, StoreProblem, near
from ...analysis.store import Store
from .processes import alive, end_all
from .state import (
    CANCEL,
    FINAL,
    RUN_ID,
    RunRequest,
    RunState,
    Who,
    Words,
    host,
    left_behind,
    read_request,
    read_state,
    write,
)

_OLD_S = 14 * 86_400
_POLL_S = 0.1
_SILENT_S = 300.0


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


def look(store: Store, folder: Path) -> tuple[RunRequest, RunState]:
    """What was asked and how it stands. A run whose processes are gone is failed, which is written down here."""
    request, state = read_request(folder), read_state(folder)
    if state.state in FINAL or _runs(folder, state.supervisor or request.starter):
        return request, state
    if store.read_only:
        state = read_state(folder)
        return request, state if state.state in FINAL else _died(folder, request, state)
    return request, recover(folder)


def recover(folder: Path) -> RunState:
    """The supervisor is dead: end what it left running on this machine and write the run down as failed."""
    request, state = read_request(folder), read_state(folder)
    if state.state in FINAL:
        return state
    # On another machine, or before the last boot, there is nothing that could be ended from here.
    end_all(request.run_id, 0)
    state = _died(folder, request, state)
    # On a full disk the next reader comes to the same conclusion.
    with suppress(StoreProblem):
        write(folder, state)
    return state


def wait(store: Store, folder: Path, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when the run has ended, or after ``wait_s`` seconds."""
    deadline = time.monotonic() + wait_s
    while look(store, folder)[1].state not in FINAL and (left := deadline - time.monotonic()) > 0:
        sleep(min(left, _POLL_S))


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
            _, state = look(store, folder)
            ended = (state.ended_ns or 0) / 1e9
        except StoreProblem:
            ended = folder.stat().st_mtime
        if ended and time.time() - ended > _OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _runs(folder: Path, who: Who) -> bool:
    """Whether a supervisor lives; one that cannot be asked from here shows it by touching its state."""
    if who.host == host():
        return alive(who)
    try:
        return time.time() - (folder / "state.json").stat().st_mtime < _SILENT_S
    except OSError:
        return False


def _ids(store: Store) -> list[str]:
    """All runs, oldest first."""
    try:
        return sorted(p.name for p in store.runs.iterdir() if RUN_ID.fullmatch(p.name) and (p / "state.json").exists())
    except OSError:
        return []


def _died(folder: Path, request: RunRequest, state: RunState) -> RunState:
    words = Words(
        what="The run's supervisor died",
        why="it was killed, or the machine was started anew",
        fix=left_behind(folder / request.out) if state.finished else "Start it again",
    )
    ended = {"state": "failed", "doing": "failed", "problem": words, "ended_ns": time.time_ns(), "step": None}
    return state.model_copy(update={**ended, "fault": state.step})
