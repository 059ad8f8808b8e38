"""Processes read from /proc: identify them, find descendants or members of a run, and end them."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

if TYPE_CHECKING:
    import ctypes

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


@dataclass(frozen=True)
class ProcessEntry:
    """A process at one moment; ``start`` distinguishes it from a later process with the same pid."""

    pid: int
    parent: int
    start: int
    zombie: bool


def table() -> dict[int, ProcessEntry]:
    """Return every process in /proc, by pid."""
    processes = (_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208
    return {p.pid: p for p in processes if p}


def this_process() -> ProcessId:
    """Return the identity of the calling process."""
    own = _process(os.getpid())
    return ProcessId(host=host(), boot=_boot_id(), pid=os.getpid(), start=own.start if own else 0)


def alive(identity: ProcessId) -> bool:
    """Whether a process of this machine (``identity.host`` is this host) is still running."""
    now = _process(identity.pid)
    return identity.boot == _boot_id() and now is not None and now.start == identity.start and not now.zombie


def host() -> str:
    """Return the host name, together with the PID namespace in which process numbers are valid."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}"


def _boot_id() -> str:
    """Return the id of the current boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def descendants(root: int) -> list[ProcessEntry]:
    """Return all descendants of ``root`` except zombies."""
    everybody = table()
    children: dict[int, list[int]] = {}
    for process in everybody.values():
        children.setdefault(process.parent, []).append(process.pid)
    below, todo = [], list(children.get(root, []))
    while todo:
        pid = todo.pop()
        below.append(everybody[pid])
        todo += children.get(pid, [])
    return [p for p in below if not p.zombie]


def processes_of_run(run_id: str) -> list[ProcessEntry]:
    """Return the processes whose environment contains the marker of a run, whatever their parent is now."""
    entry = f"{MARKER}={run_id}".encode()
    bearers = []
    for process in table().values():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if not process.zombie and entry in environment.split(b"\0"):
            bearers.append(process)
    return bearers


def end_all(run_id: str, grace_s: float, *, below: int | None = None) -> int:
    """End everything that has the marker or descends from ``below``; return the number that could not be ended.

    Processes get SIGTERM, and SIGKILL after ``grace_s`` seconds, repeated until no new ones appear.
    """
    own = os.getpid()

    def remaining() -> list[ProcessEntry]:
        by_marker = {p.pid: p for p in processes_of_run(run_id)}
        by_birth = {p.pid: p for p in descendants(below)} if below is not None else {}
        return [p for p in {**by_marker, **by_birth}.values() if p.pid != own]

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


def send(process: ProcessEntry, number: signal.Signals) -> None:
    """Send a signal to exactly this process, and to its group if it is the leader; do nothing if it is gone."""
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            now = _process(process.pid)
            if now is None or now.start != process.start:
                return
            with suppress(OSError):
                # Signalling the group also reaches forked processes. The id is the leader's while the leader exists.
                if os.getpgid(process.pid) == process.pid:
                    os.killpg(process.pid, number)
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


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


def death_signal() -> DeathSignal:
    """Return a callable to run in a child before its program starts, so that it dies with this thread."""
    return DeathSignal(_libc(), os.getpid())


@dataclass(frozen=True)
class DeathSignal:
    """Asks the kernel to kill the calling process when its parent dies; created before the fork, called after it."""

    libc: ctypes.CDLL
    parent: int

    def __call__(self) -> None:
        self.libc.prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != self.parent:
            os._exit(127)


def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _process(pid: int) -> ProcessEntry | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name in parentheses may contain any character, so parse what follows the last parenthesis.
        fields = line.rpartition(")")[2].split()
        return ProcessEntry(pid, int(fields[1]), int(fields[19]), fields[0] in "ZX")
    except (OSError, IndexError, ValueError):
        return None
