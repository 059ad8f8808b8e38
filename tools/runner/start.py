"""Starts runs and holds their life line: what a process started here ends with it, however it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ...analysis.problems import MissingTool, StoreProblem
from ...analysis.store import Store, new_id
from .device_queue import lock_folder
from .environment import inherited, redacted, secrets
from .job import CallStep, CommandStep, Job, Limits
from .lookup import recover, sweep_old
from .processes import me
from .state import FINAL, LOGS, OUT, RunRequest, RunState, read_state, write

_END_S = 10.0
"""How long supervisors may take to end everything when the server ends."""
_live: dict[str, subprocess.Popen[bytes]] = {}


def new_run(store: Store) -> tuple[str, Path]:
    """A fresh run id and its folder."""
    run_id = f"run-{new_id(time.time_ns())}"
    folder = store.new_run(run_id)
    for name in (LOGS, OUT):
        (folder / name).mkdir(mode=0o700)
    return run_id, folder


def start(
    store: Store, run_id: str, steps: list[CommandStep | CallStep], *, kind: Literal["profile", "benchmark"],
    name: str, timeout_s: float, finish: CallStep | None = None, devices: dict[str, str] | None = None,
    out: str = OUT, given: dict[str, str] | None = None, about: dict[str, Any] | None = None,
    notes: list[str] | None = None,
) -> None:  # fmt: skip
    """Hand the steps of a run made by ``new_run`` to a supervisor of its own and return at once.

    ``given`` are variables that the caller set; their values are not stored, and secrets among them are kept out of
    logs. Commands write below ``out``, relative to the run's folder. The run waits until it holds every one of
    ``devices`` (lock name -> words).
    """
    folder = store.run_folder(run_id)
    hidden = secrets(os.environ, given or {})
    request = RunRequest(
        run_id=run_id, kind=kind, name=name, created_ns=time.time_ns(), starter=me(), steps=[s.name for s in steps],
        timeout_s=timeout_s, out=out, about=_redacted(about or {}, hidden), notes=notes or [],
    )  # fmt: skip
    job = Job(
        run_id=run_id, store=str(store.root), env=inherited(os.environ), steps=steps, out=out, finish=finish,
        limits=Limits(timeout_s=timeout_s), locks=lock_folder(), devices=devices or {}, secrets=hidden,
    )  # fmt: skip
    write(folder, request)
    write(folder, RunState())
    sweep_old(store)
    process = _supervisor(folder, job.env)
    _live[run_id] = process
    assert process.stdin
    # One that died at once is noticed by whoever attends it.
    with suppress(BrokenPipeError):
        process.stdin.write(job.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    threading.Thread(target=_attend, args=(folder, run_id, process), name=f"rooflens {run_id}", daemon=True).start()


def started() -> list[str]:
    """Runs that this process started and that go on."""
    return list(_live)


def discard(store: Store, run_id: str) -> None:
    """Remove a run that was never started."""
    shutil.rmtree(store.run_folder(run_id), ignore_errors=True)


def stop_all() -> None:
    """End every run that this process started, with everything it started, and return when that is done."""
    mine = list(_live.values())
    for process in mine:
        if process.stdin:
            process.stdin.close()
    deadline = time.monotonic() + _END_S
    for process in mine:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    # Whoever attends a killed one cleans up after it.
    deadline = time.monotonic() + _END_S
    while _live and time.monotonic() < deadline:
        time.sleep(0.01)


def _supervisor(folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "supervisor.log").open("wb") as log:
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.supervisor"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise MissingTool("A run needs a process of its own", error.strerror or str(error), "Try again") from error


def _attend(folder: Path, run_id: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for a supervisor's end; one that died before its work was done has its leavings cleaned up here."""
    process.wait()
    # A folder that is gone or cannot be read has nothing to be mended.
    with suppress(StoreProblem):
        if read_state(folder).state not in FINAL:
            recover(folder)
    _live.pop(run_id, None)


def _redacted(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, str):
        return redacted(value, hidden)
    if isinstance(value, dict):
        return {k: _redacted(v, hidden) for k, v in value.items()}
    return [_redacted(v, hidden) for v in value] if isinstance(value, list) else value
