"""A child of a run: started, watched, captured, ended."""

from __future__ import annotations

import os
import re
import resource
import select
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Literal

from ...analysis.base.text import count_text
from ...analysis.store.store import write_atomically
from .command import redact
from .job import RunLimits
from .processes import MARKER, DeathSignal, ProcessEntry, death_signal, descendants, end_all, reap, send
from .profiler_progress import Follower
from .run_state import CANCEL, STATE_FILE

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|bash|dash|sh|zsh|ksh|env)[\d.]*")


def programs(root: int, profiler: str) -> list[ProcessEntry]:
    """The processes below ``root`` that a profiler of this name measures.

    Neither the profiler nor what starts it is among them, nor its helpers, which lie beside it. All of them are where
    no process of that name is left: it has become the program.
    """
    below = {p.pid: p for p in descendants(root)}
    files = {pid: _file(pid) for pid in below}
    profiler_pids = {pid for pid, (file, _) in files.items() if file.name == profiler}
    if not profiler_pids:
        return list(below.values())
    beside = {file.parent for pid, (file, script) in files.items() if pid in profiler_pids and not script}
    # A helper below the program does not make the program a part of the profiler: only what the first one is below.
    starters = set(_ancestors(min(profiler_pids, key=lambda pid: len(_ancestors(pid, below))), below))
    return [
        process
        for pid, process in below.items()
        if pid not in profiler_pids and pid not in starters and (files[pid][1] or files[pid][0].parent not in beside)
    ]


def _ancestors(pid: int, known: dict[int, ProcessEntry]) -> list[int]:
    ancestors: list[int] = []
    while (parent := known[pid].parent) in known and parent not in ancestors:
        ancestors.append(parent)
        pid = parent
    return ancestors


def _file(pid: int) -> tuple[Path, bool]:
    """The file that a process runs, and whether that is a script."""
    place = Path("/proc") / str(pid)
    try:
        program = (place / "exe").readlink()
        if not _INTERPRETER.fullmatch(program.name):
            return program, False
        words = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return Path(), False
    # What follows an option belongs to no file: python -m, bash -c.
    script = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    return (Path(script), True) if script else (program, False)


@dataclass
class TerminationRequests:
    """Programs that are asked to end (SIGTERM), and after ``ask_s`` seconds made to (SIGKILL)."""

    root: int
    profiler: str
    ask_s: float
    _until: float = field(init=False)
    _asked_pids: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.ask_s

    def repeat(self) -> None:
        """Tell whoever was not told yet; to be called until the profiler has ended."""
        late = time.monotonic() > self._until
        for process in programs(self.root, self.profiler):
            who = (process.pid, process.start)
            if late or who not in self._asked_pids:
                send(process, signal.SIGKILL if late else signal.SIGTERM)
                self._asked_pids.add(who)


_HEAD, _TAIL = 16_384, 131_072
"""Bytes kept of the beginning and of the end of a stream."""


class Capture:
    """Keeps a bounded part of one stream and writes it, secrets taken out, to ``path``."""

    def __init__(self, path: Path, hidden: Sequence[str]) -> None:
        self.path, self.hidden = path, hidden
        self.listener: Callable[[bytes], None] | None = None
        self.total = self._written = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Take in what was read."""
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
        """What was kept, with a line that says how much was left out between."""
        tail = b"".join(self._tail)[-_TAIL:]
        missing = self.total - len(self._head) - len(tail)
        gap = f"\n[... {count_text(missing, 'byte')} left out ...]\n".encode() if missing else b""
        # A secret cut in two by the gap would not be recognised: the pieces beside it go as well.
        if missing and self.hidden:
            longest = max(len(s.encode()) for s in self.hidden)
            return redact((bytes(self._head)[:-longest] + gap + tail[longest:]).decode("utf-8", "replace"), self.hidden)
        return redact((bytes(self._head) + gap + tail).decode("utf-8", "replace"), self.hidden)

    def save(self) -> None:
        """Write what was kept, if anything came since the last time."""
        if self.total != self._written or not self.path.exists():
            write_atomically(self.path, self.text)
            self._written = self.total


StopReason = Literal["lost", "stopped", "cancelled", "timeout", "budget", "disk", "processes"]
_UNHURRIED = ("cancelled", "timeout", "budget")
"""Reasons that leave time for a profiler to write what it has."""
_SELDOM_S = 1.0
"""Seconds between looks at the disk and the processes, which cost more than the others."""


class Watch:
    """Looks for reasons to stop; ``reason`` may be asked as often as one likes."""

    def __init__(self, folder: Path, limits: RunLimits) -> None:
        self.folder, self.limits = folder, limits
        self.run_id = folder.name
        self.stop_asked = False
        """Set by a signal handler."""
        self.deadline: float | None = None
        self.budget: float | None = None
        """When the present step must end, where it may take only a part of the run's time."""
        self.deaf = False
        """Whether everything but the loss of the starter is passed over, as while finished steps are saved."""
        self._next_look = 0.0
        self._lost = False

    def start_clock(self, seconds: float) -> None:
        """From now on ``seconds`` may pass."""
        self.deadline = time.monotonic() + seconds

    def start_budget(self, seconds: float | None) -> None:
        """From now on the present step may take ``seconds``, or all that the run has."""
        self.budget = None if seconds is None else time.monotonic() + seconds

    def must_hurry(self) -> bool:
        """Whether not even a run that is being stopped may take its time."""
        return self.stop_asked or self.starter_is_gone()

    def reason(self) -> StopReason | None:
        """Why the run must stop now, or None."""
        if self.starter_is_gone():
            return "lost"
        if self.stop_asked:
            return "stopped"
        if not self.deaf and (self.folder / CANCEL).exists():
            return "cancelled"
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            return "timeout"
        if self.budget is not None and now > self.budget:
            return "budget"
        if now < self._next_look:
            return None
        self._next_look = now + _SELDOM_S
        # Who shares the store from another machine sees by this that we live.
        os.utime(self.folder / STATE_FILE)
        if (
            _disk_bytes_used(self.folder) > self.limits.disk_bytes
            or shutil.disk_usage(self.folder).free < self.limits.free_bytes
        ):
            return "disk"
        return "processes" if len(descendants(os.getpid())) > self.limits.processes else None

    def starter_is_gone(self) -> bool:
        """Whether the process that started this one is gone: its end of our standard input is closed then."""
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


start_process = subprocess.Popen
"""Starts programs and our own workers."""
_POLL_S = 0.05
_PIECE = 1 << 18
_SAVE_S = 1.0


@dataclass(frozen=True)
class ProgramOutcome:
    """How a program ended: its exit status (negative: a signal), or why it was stopped or never began."""

    status: int | None
    pid: int = 0
    stopped: StopReason | None = None
    handed_over: bool = False
    """Whether the profiler of a stopped program ended by itself: it has written what it had measured until then."""
    unstarted: str = ""
    left_behind: int = 0
    """Processes that still ran after the program's own end and had to be ended."""
    stuck: int = 0
    """Processes that even SIGKILL did not end."""

    @property
    def ended_well(self) -> bool:
        """Whether it ended by itself and successfully."""
        return self.status == 0 and not self.stopped

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended by itself, well or not, so that its files are not cut off in the middle."""
        return (self.handed_over or not self.stopped) and self.status is not None and self.status >= 0


@dataclass(frozen=True)
class ProgramSpec:
    """A program as it is started; its output goes to the two ``logs``, its standard input is ``text`` or nothing."""

    argv: Sequence[str]
    cwd: str
    env: dict[str, str]
    logs: tuple[Path, Path]
    text: str = ""
    profiler: str = ""
    """File name of the profiler, where the program that it starts is to be asked first when the run must end."""
    follower: Follower | None = None
    """Who listens how far it is."""


def run_program(
    program: ProgramSpec, watch: Watch, hidden: Sequence[str], meanwhile: Callable[[], None] = lambda: None
) -> ProgramOutcome:
    """Run ``program`` to its end or until ``watch`` has a reason to stop, without ``hidden`` texts in its logs.

    ``meanwhile`` is called again and again.
    """
    out, err = captures = [Capture(path, hidden) for path in program.logs]
    if program.follower:
        for number, capture in enumerate(captures):
            capture.listener = partial(program.follower.hear, number)
    try:
        child = start_process(
            program.argv,
            stdin=subprocess.PIPE if program.text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=program.cwd,
            env={**program.env, MARKER: watch.run_id},
            start_new_session=True,
            preexec_fn=_Prepare(death_signal()),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return ProgramOutcome(None, unstarted=getattr(error, "strerror", None) or str(error))
    if child.stdin:
        _write_input(child.stdin, program.text)
    with selectors.DefaultSelector() as pipes:
        for pipe, capture in ((child.stdout, out), (child.stderr, err)):
            if pipe:
                pipes.register(pipe, selectors.EVENT_READ, capture)
        try:
            return _AttendedChild(child, pipes, watch, program, captures).attend(meanwhile)
        finally:
            end_all(watch.run_id, 0, below=os.getpid())
            _drain(pipes, time.monotonic() + 1)
            out.save()
            err.save()
            for pipe in (child.stdout, child.stderr):
                if pipe:
                    pipe.close()


@dataclass(frozen=True)
class _Prepare:
    """Runs in the child before its program: it dies with us, and writes no core dump."""

    death: DeathSignal

    def __call__(self) -> None:
        self.death()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass(frozen=True)
class _AttendedChild:
    """A child that runs, and what it takes to see it to its end."""

    child: subprocess.Popen[bytes]
    pipes: selectors.BaseSelector
    watch: Watch
    program: ProgramSpec
    captures: Sequence[Capture]

    def attend(self, meanwhile: Callable[[], None]) -> ProgramOutcome:
        """Keep what it prints and call ``meanwhile`` until it has ended or must end."""
        child, watch, follower = self.child, self.watch, self.program.follower
        status: int | None = None
        linger_until, save_at = 0.0, time.monotonic() + _SAVE_S
        while True:
            _read(self.pipes, _POLL_S)
            if status is None and reap(keep=child.pid):
                status = child.wait()
                linger_until = time.monotonic() + watch.limits.linger_s
            if status is not None and not descendants(os.getpid()):
                return ProgramOutcome(status, child.pid)
            if status is not None and time.monotonic() > linger_until:
                left_behind = len(descendants(os.getpid()))
                return ProgramOutcome(
                    status, child.pid, left_behind=left_behind, stuck=end_all(watch.run_id, 0, below=os.getpid())
                )
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
        own, limits = os.getpid(), self.watch.limits
        handed_over = False
        if status is None and self.program.profiler and reason in _UNHURRIED:
            status = self._ask_to_end()
            handed_over = status is not None and status >= 0
        grace = 0.0 if reason in ("lost", "processes") or handed_over or self.watch.must_hurry() else limits.grace_s
        stuck = end_all(self.watch.run_id, grace, below=own)
        if status is None and stuck == 0:
            self.child.wait(1)
        return ProgramOutcome(status, self.child.pid, stopped=reason, handed_over=handed_over, stuck=stuck)

    def _ask_to_end(self) -> int | None:
        """Ask the profiled program to end, and wait for its profiler to write; the status of that if it ended."""
        limits = self.watch.limits
        asking = TerminationRequests(os.getpid(), self.program.profiler, limits.ask_s)
        until = time.monotonic() + limits.ask_s + limits.write_s
        while time.monotonic() < until and not self.watch.must_hurry():
            asking.repeat()
            # It must not wait for somebody to read.
            _read(self.pipes, _POLL_S)
            if reap(keep=self.child.pid):
                return self.child.wait()
        return None


def _read(pipes: selectors.BaseSelector, wait_s: float) -> bool:
    """Take in what is there; whether anything was."""
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


def _drain(pipes: selectors.BaseSelector, until: float) -> None:
    while pipes.get_map() and time.monotonic() < until and _read(pipes, 0):
        pass


def _write_input(pipe: IO[bytes], text: str) -> None:
    try:
        with pipe:
            pipe.write(text.encode())
    except BrokenPipeError:
        # It ended without reading; how it ended tells more.
        return


def signal_name(status: int) -> str:
    """``3`` as exit status 3, ``-11`` as SIGSEGV, ``139`` as a shell's word for the same."""
    number = -status if status < 0 else status - 128 if status > 128 else 0
    if number:
        try:
            name = signal.Signals(number).name
        except ValueError:
            return f"status {status}"
        return name if status < 0 else f"status {status} ({name})"
    return f"status {status}"
