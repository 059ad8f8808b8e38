"""Processes of runs: identify them, find descendants or members of a run, and end them."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pydantic

from ..device.machine.sysfs import read

MARKER = "ROOFLENS_RUN"
"""Environment variable with the run's id, set for everything that a run starts."""
_PDEATHSIG, _SUBREAPER = 1, 36
"""prctl operations."""
_PAUSE_S = 0.02
_KILL_S = 10.0
"""How long killed processes may take to disappear; one that hangs in a driver never does."""


class ProcessId(pydantic.BaseModel):
    """Identifies a process uniquely: pids are reused, but not with the same start time during one boot."""

    host: str
    boot: str
    pid: int
    start: int
    """Start time of the process in clock ticks since boot."""


def this_process() -> ProcessId:
    """Return the identity of the calling process."""
    return ProcessId(host=host(), boot=_boot_id(), pid=os.getpid(), start=start_ticks(os.getpid()))


def alive(identity: ProcessId) -> bool:
    """Whether a process of this machine (``identity.host`` is this host) is still running."""
    try:
        same = identity.boot == _boot_id() and start_ticks(identity.pid) == identity.start
        return same and running(psutil.Process(identity.pid))
    except (OSError, psutil.NoSuchProcess):
        return False


def start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, which stays the same if the clock is set."""
    line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The name in parentheses may contain any character, so parse what follows the last parenthesis.
    return int(line.rpartition(")")[2].split()[19])


def running(process: psutil.Process) -> bool:
    """Whether a process has not ended; a zombie has."""
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def host() -> str:
    """Return the host name, together with the PID namespace in which process numbers are valid."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}"


def _boot_id() -> str:
    """Return the id of the current boot."""
    return read(Path("/proc/sys/kernel/random/boot_id")) or ""


def descendants(root: int) -> list[psutil.Process]:
    """Return all descendants of ``root`` except zombies."""
    try:
        return [process for process in psutil.Process(root).children(recursive=True) if running(process)]
    except psutil.NoSuchProcess:
        return []


def processes_of_run(run_id: str) -> list[psutil.Process]:
    """Return the processes whose environment contains the marker of a run, whatever their parent is now."""
    everybody = psutil.process_iter(["environ"])
    return [process for process in everybody if (process.info["environ"] or {}).get(MARKER) == run_id]


def end_all(run_id: str, grace_s: float, *, below: int | None = None) -> int:
    """End everything that has the marker or descends from ``below``; return the number that could not be ended.

    Processes get SIGTERM, and SIGKILL after ``grace_s`` seconds, repeated until no new ones appear.
    """
    own = os.getpid()

    def remaining() -> set[psutil.Process]:
        below_it = descendants(below) if below is not None else []
        return {process for process in (*processes_of_run(run_id), *below_it) if process.pid != own}

    def pause() -> None:
        time.sleep(_PAUSE_S)
        if below == own:
            reap(keep=None)

    if grace_s > 0:
        for process in (present := remaining()):
            send(process, signal.SIGTERM)
        polite = time.monotonic() + grace_s
        while present and time.monotonic() < polite:
            pause()
            present = remaining()
    deadline = time.monotonic() + _KILL_S
    while (present := remaining()) and time.monotonic() < deadline:
        for process in present:
            send(process, signal.SIGKILL)
        pause()
    return len(present)


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to exactly this process, and to its group if it is the leader; do nothing if it is gone."""
    with suppress(OSError, psutil.Error):
        # Signalling the group also reaches forked processes. The id is the leader's while the leader exists.
        if process.is_running() and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
    with suppress(psutil.Error):
        process.send_signal(number)


def reap(keep: int | None) -> bool:
    """Reap children that ended, including adopted ones, except ``keep``; return whether ``keep`` has ended."""
    while True:
        try:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if child is None:
            return False
        if child.si_pid == keep:
            return True
        with suppress(ChildProcessError):
            os.waitpid(child.si_pid, 0)


def become_subreaper() -> None:
    """Make this process the new parent of orphaned descendants (prctl PR_SET_CHILD_SUBREAPER)."""
    _libc().prctl(_SUBREAPER, 1, 0, 0, 0)


def before_program() -> Callable[[], None]:
    """Return a callable to run in a child before its program: it dies with this thread, and writes no core dumps.

    It is created before the fork, because nothing may be loaded after it.
    """
    prctl, parent = _libc().prctl, os.getpid()

    def prepare() -> None:
        prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return prepare


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
