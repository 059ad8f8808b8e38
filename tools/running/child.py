"""Child processes of a run: starting, watching, capturing their output and ending them."""

from __future__ import annotations

import os
import re
import select
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import psutil

from ...analysis.base.text import count_text
from ...analysis.store.store import write_atomically
from ..isolation.child import may_fork
from .command import redact
from .job import RunLimits
from .processes import MARKER, before_program, descendants, end_all, reap, send
from .profiler_progress import Follower
from .run_state import CANCEL, STATE_FILE
from .worker import ForkedCall

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|bash|dash|sh|zsh|ksh|env)[\d.]*")


def programs(root: int, profiler: str) -> list[psutil.Process]:
    """Return the processes below ``root`` that the profiler with this file name measures.

    The profiler itself, the processes that start it and its helpers (programs in the profiler's folder) are excluded.
    If no process with the profiler's name is left, it has replaced itself with the program (exec), so all are returned.
    """
    files = {process: _file(process) for process in descendants(root)}
    profilers = [process for process, (file, _) in files.items() if file.name == profiler]
    beside = {files[process][0].parent for process in profilers if not files[process][1]}
    try:
        # A profiler helper may run below the program. That does not make the program part of the profiler, so only the
        # ancestors of the outermost profiler process count as starters.
        starters = min((process.parents() for process in profilers), key=len, default=[])
    except psutil.NoSuchProcess:
        return []
    excluded = {*profilers, *starters}
    return [p for p, (file, script) in files.items() if p not in excluded and (script or file.parent not in beside)]


def _file(process: psutil.Process) -> tuple[Path, bool]:
    """Return the file that a process runs, and whether it is a script."""
    try:
        program, words = Path(process.exe()), process.cmdline()
    except psutil.Error:
        return Path(), False
    # An option is not followed by a script path: python -m MODULE, bash -c COMMAND.
    script = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    return (Path(script), True) if script and _INTERPRETER.fullmatch(program.name) else (program, False)


_HEAD, _TAIL = 16_384, 131_072
"""Number of bytes kept from the beginning and from the end of a stream."""


class Capture:
    """Keeps a bounded part of one stream and writes it to ``path`` with secrets removed."""

    def __init__(self, path: Path, hidden: Sequence[str]) -> None:
        self.path, self.hidden = path, hidden
        self.listener: Callable[[bytes], None] | None = None
        self.total = self._written = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Add bytes that were read from the stream."""
        if self.listener:
            self.listener(piece)
        self.total += len(piece)
        if len(self._head) < _HEAD:
            beginning = piece[: _HEAD - len(self._head)]
            self._head += beginning
            piece = piece[len(beginning) :]
        if piece:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= _TAIL:
            self._tail_bytes -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """Return the kept text, with a line that states how many bytes were omitted in the middle."""
        head, tail = bytes(self._head), b"".join(self._tail)[-_TAIL:]
        missing = self.total - len(head) - len(tail)
        gap = f"\n[... {count_text(missing, 'byte')} omitted ...]\n".encode() if missing else b""
        # A secret that the gap cuts in two would not be recognised, so the partial words next to the gap are dropped.
        if missing and self.hidden:
            longest = max(len(s.encode()) for s in self.hidden)
            head, tail = head[:-longest], tail[longest:]
        return redact((head + gap + tail).decode("utf-8", "replace"), self.hidden)

    def save(self) -> None:
        """Write the kept text if anything was added since the last call."""
        if self.total != self._written or not self.path.exists():
            write_atomically(self.path, self.text)
            self._written = self.total


StopReason = Literal["lost", "stopped", "cancelled", "timeout", "budget", "complete", "disk", "processes"]
_UNHURRIED = ("cancelled", "timeout", "budget", "complete")
"""Stop reasons that give the profiler time to write what it has measured."""
_SELDOM_S = 1.0
"""Seconds between the expensive checks: disk usage and the process table."""


class Watch:
    """Checks whether the run must stop; ``reason`` can be called as often as needed."""

    def __init__(self, folder: Path, limits: RunLimits) -> None:
        self.folder, self.limits = folder, limits
        self.run_id = folder.name
        self.stop_asked = False
        """Set by a signal handler."""
        self.deadline: float | None = None
        self.budget: float | None = None
        """The time at which the current step must end, if it may use only part of the run's time."""
        self.complete = False
        """Whether the current step has measured all that it is for."""
        self.deaf = False
        """Whether cancellation is ignored, as it is while the results of finished steps are saved."""
        self._next_look = 0.0
        self._lost = False

    def start_clock(self, seconds: float) -> None:
        """Set the deadline to ``seconds`` from now."""
        self.deadline = time.monotonic() + seconds

    def start_budget(self, seconds: float | None) -> None:
        """Limit the current step to ``seconds`` from now; None lets it use all the time that the run has."""
        self.budget = None if seconds is None else time.monotonic() + seconds
        self.complete = False

    def must_hurry(self) -> bool:
        """Whether the run must end immediately, without a grace period."""
        return self.stop_asked or self.starter_is_gone()

    def reason(self) -> StopReason | None:
        """Return why the run must stop now, or None."""
        if self.starter_is_gone():
            return "lost"
        if self.stop_asked:
            return "stopped"
        if not self.deaf and (self.folder / CANCEL).exists():
            return "cancelled"
        if self.complete:
            return "complete"
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            return "timeout"
        if self.budget is not None and now > self.budget:
            return "budget"
        if now < self._next_look:
            return None
        self._next_look = now + _SELDOM_S
        # The modification time tells other machines that share the store that this supervisor is alive.
        os.utime(self.folder / STATE_FILE)
        if (
            _disk_bytes_used(self.folder) > self.limits.disk_bytes
            or shutil.disk_usage(self.folder).free < self.limits.free_bytes
        ):
            return "disk"
        return "processes" if len(descendants(os.getpid())) > self.limits.processes else None

    def starter_is_gone(self) -> bool:
        """Whether the process that started this one is gone: its end of our standard input is then closed."""
        while not self._lost and select.select([0], [], [], 0)[0]:
            self._lost = not os.read(0, 4096)
        return self._lost


def _disk_bytes_used(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total


_POLL_S = 0.05
_PIECE = 1 << 18
_SAVE_S = 1.0


@dataclass(frozen=True)
class ProgramOutcome:
    """How a program ended: its exit status (negative for a signal), or why it was stopped or never started."""

    status: int | None
    pid: int = 0
    stopped: StopReason | None = None
    handed_over: bool = False
    """Whether the profiler of a stopped program ended by itself and so wrote everything it had measured."""
    unstarted: str = ""
    left_behind: int = 0
    """Number of processes that were still running after the program had ended and were ended by rooflens."""
    stuck: int = 0
    """Number of processes that even SIGKILL did not end."""

    @property
    def ended_well(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.status == 0 and not self.stopped

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended by itself, with any exit status, so that its files are not truncated."""
        return (self.handed_over or not self.stopped) and self.status is not None and self.status >= 0


@dataclass(frozen=True)
class ProgramSpec:
    """A program to start; its output goes to the two ``logs``, and ``text`` (or nothing) is its standard input."""

    argv: Sequence[str]
    cwd: str
    env: dict[str, str]
    logs: tuple[Path, Path]
    text: str = ""
    profiler: str = ""
    """File name of the profiler, if the profiled program must be asked to end before the profiler."""
    follower: Follower | None = None
    """Receives the output to report the progress of the step."""
    forked: Callable[[], None] | None = None
    """What to do in a fork of this process, where that is safe, instead of starting the program."""


def run_program(
    program: ProgramSpec, watch: Watch, hidden: Sequence[str], meanwhile: Callable[[], None] = lambda: None
) -> ProgramOutcome:
    """Run ``program`` until it ends or ``watch`` gives a reason to stop; ``hidden`` texts are removed from its logs.

    ``meanwhile`` is called repeatedly while the program runs.
    """
    captures = [Capture(path, hidden) for path in program.logs]
    if program.follower:
        for number, capture in enumerate(captures):
            capture.listener = partial(program.follower.hear, number)
    try:
        child = _start(program, {**program.env, MARKER: watch.run_id})
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return ProgramOutcome(None, unstarted=getattr(error, "strerror", None) or str(error))
    if child.stdin:
        # A program that ended without reading its input has an exit status, which is more informative.
        with suppress(BrokenPipeError), child.stdin:
            child.stdin.write(program.text.encode())
    streams = [(pipe, own) for pipe, own in zip((child.stdout, child.stderr), captures, strict=True) if pipe]
    with selectors.DefaultSelector() as pipes:
        for pipe, capture in streams:
            pipes.register(pipe, selectors.EVENT_READ, capture)
        try:
            return _AttendedChild(child, pipes, watch, program, captures).attend(meanwhile)
        finally:
            end_all(watch.run_id, 0, below=os.getpid())
            until = time.monotonic() + 1
            while pipes.get_map() and time.monotonic() < until and _read(pipes, 0):
                pass
            for pipe, capture in streams:
                capture.save()
                pipe.close()


def _start(program: ProgramSpec, variables: dict[str, str]) -> subprocess.Popen[bytes] | ForkedCall:
    prepare = before_program()
    if program.forked and may_fork():
        return ForkedCall(program.forked, variables, prepare)
    return subprocess.Popen(
        program.argv,
        stdin=subprocess.PIPE if program.text else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=program.cwd,
        env=variables,
        start_new_session=True,
        preexec_fn=prepare,
    )


@dataclass(frozen=True)
class _AttendedChild:
    """A running child process, with what is needed to follow it to its end."""

    child: subprocess.Popen[bytes] | ForkedCall
    pipes: selectors.BaseSelector
    watch: Watch
    program: ProgramSpec
    captures: Sequence[Capture]

    def attend(self, meanwhile: Callable[[], None]) -> ProgramOutcome:
        """Capture its output and call ``meanwhile`` until it has ended or must end."""
        child, watch, follower = self.child, self.watch, self.program.follower
        status: int | None = None
        linger_until, save_at = 0.0, time.monotonic() + _SAVE_S
        while True:
            _read(self.pipes, _POLL_S)
            if status is None and reap(keep=child.pid):
                status = child.wait()
                linger_until = time.monotonic() + watch.limits.linger_s
            if status is not None:
                left_behind = len(descendants(os.getpid()))
                if not left_behind:
                    return ProgramOutcome(status, child.pid)
                if time.monotonic() > linger_until:
                    stuck = end_all(watch.run_id, 0, below=os.getpid())
                    return ProgramOutcome(status, child.pid, left_behind=left_behind, stuck=stuck)
            if reason := watch.reason():
                return self._end_early(reason, status)
            meanwhile()
            if follower:
                follower.read_news()
            if time.monotonic() > save_at:
                for capture in self.captures:
                    capture.save()
                save_at = time.monotonic() + _SAVE_S

    def _end_early(self, reason: StopReason, status: int | None) -> ProgramOutcome:
        handed_over = False
        if status is None and self.program.profiler and reason in _UNHURRIED:
            status = self._ask_to_end()
            handed_over = status is not None and status >= 0
        at_once = handed_over or reason in ("lost", "processes") or self.watch.must_hurry()
        stuck = end_all(self.watch.run_id, 0.0 if at_once else self.watch.limits.grace_s, below=os.getpid())
        if status is None and stuck == 0:
            self.child.wait(1)
        return ProgramOutcome(status, self.child.pid, stopped=reason, handed_over=handed_over, stuck=stuck)

    def _ask_to_end(self) -> int | None:
        """Ask the profiled program to end and let the profiler write; return the profiler's status if it ended.

        The processes of the program get SIGTERM once, and SIGKILL if they are still running after ``ask_s`` seconds.
        """
        asked: set[psutil.Process] = set()
        patient_until = time.monotonic() + self.watch.limits.ask_s
        until = patient_until + self.watch.limits.write_s
        while (now := time.monotonic()) < until and not self.watch.must_hurry():
            for process in programs(os.getpid(), self.program.profiler):
                if now > patient_until:
                    send(process, signal.SIGKILL)
                elif process not in asked:
                    send(process, signal.SIGTERM)
                    asked.add(process)
            # Keep reading, so that the profiler never blocks on a full pipe.
            _read(self.pipes, _POLL_S)
            if reap(keep=self.child.pid):
                return self.child.wait()
        return None


def _read(pipes: selectors.BaseSelector, wait_s: float) -> bool:
    """Read the available output; return whether there was any."""
    if not pipes.get_map():
        time.sleep(wait_s)
        return False
    ready = pipes.select(wait_s)
    for key, _ in ready:
        piece = os.read(key.fd, _PIECE)
        if piece:
            key.data.feed(piece)
        else:
            pipes.unregister(key.fileobj)
    return bool(ready)


def signal_name(status: int) -> str:
    """Describe a status: ``3`` is exit status 3, ``-11`` is SIGSEGV, ``139`` is how a shell reports SIGSEGV."""
    with suppress(ValueError):
        name = signal.Signals(-status if status < 0 else status - 128).name
        return name if status < 0 else f"status {status} ({name})"
    return f"status {status}"
