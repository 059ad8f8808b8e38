"""Start runs and tie their lifetime to this process: whatever it started ends when it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from ...analysis.base.problems import StoreProblem
from ...analysis.store.store import Store, new_id
from .command import inherited_environment, secrets
from .device_queue import lock_folder
from .job import Job
from .run_state import FINAL, LOGS, OUT, SUPERVISOR_LOG, RunState, read_state, recover, sweep_old, write
from .wording import problem

_END_S = 10.0
"""How long supervisors may take to end everything when the server stops."""
_live: dict[str, subprocess.Popen[bytes]] = {}


def new_run(store: Store) -> tuple[str, Path]:
    """Create a run id and its folder."""
    run_id = f"run-{new_id(time.time_ns())}"
    folder = store.new_run(run_id)
    for name in (LOGS, OUT):
        (folder / name).mkdir(mode=0o700)
    return run_id, folder


def start(store: Store, job: Job) -> None:
    """Hand the job of a run created by ``new_run`` to its own supervisor and return at once.

    The values of the job's variables are not stored, and secrets in them are removed from logs.
    """
    run_id = job.run.run_id
    folder = store.run_folder(run_id)
    job.run = job.run.model_copy(update={"steps": [step.name for step in job.steps]})
    job.store, job.locks = store.address, lock_folder()
    job.inherited, job.secrets = inherited_environment(os.environ), secrets(os.environ, job.variables)
    write(folder, job.run)
    write(folder, RunState())
    sweep_old(store)
    with (folder / SUPERVISOR_LOG).open("wb") as log:
        try:
            process = start_fresh(log, job.inherited)
        except OSError as error:
            raise problem("supervisor_not_started", strerror=error.strerror or str(error)) from error
    _live[run_id] = process
    assert process.stdin
    # If the supervisor died at once, the thread below notices.
    with suppress(BrokenPipeError):
        process.stdin.write(job.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    threading.Thread(
        target=_await_supervisor, args=(folder, run_id, process), name=f"rooflens {run_id}", daemon=True
    ).start()


def live_runs() -> list[str]:
    """Return the runs that this process started and that have not ended."""
    return list(_live)


def discard(store: Store, run_id: str) -> None:
    """Remove a run that was never started."""
    shutil.rmtree(store.run_folder(run_id), ignore_errors=True)


def stop_all() -> None:
    """End every run that this process started, including all its processes, and wait until that is done."""
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
    # The waiting threads clean up after killed supervisors.
    deadline = time.monotonic() + _END_S
    while _live and time.monotonic() < deadline:
        time.sleep(0.01)


def start_fresh(log: IO[bytes], env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a supervisor in a fresh interpreter; it reads its job from standard input."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", f"{__package__}.supervisor"],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        cwd="/",
        env=env,
        start_new_session=True,
    )


def _await_supervisor(folder: Path, run_id: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for a supervisor to end; clean up if it died before its work was done."""
    process.wait()
    # If the folder is gone or unreadable, there is nothing to clean up.
    with suppress(StoreProblem):
        if read_state(folder).state not in FINAL:
            recover(folder)
    _live.pop(run_id, None)
