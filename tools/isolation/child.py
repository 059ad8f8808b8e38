"""Run one function in a child process, forked if that is safe, else in a fresh interpreter, until its context ends."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ...analysis.base.problems import MissingTool
from .channel import Channel, ChannelClosed
from .limits import Limits

Work = Callable[[Channel, dict[str, Any]], None]
"""What a child runs: a module-level function, called with the channel to its parent and its arguments."""
BUG = "bug"
"""Key of the message in which a child reports an unexpected exception with its traceback."""
_PACKAGE = __package__.partition(".tools")[0] if __package__ else "rooflens"


class ChildLost(Exception):
    """A child ended without an answer; ``status`` is its subprocess return code."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"the child ended without an answer (status {status})")

    @property
    def was_killed(self) -> bool:
        """Whether the system or a limit ended it."""
        return self.status < 0


class ChildBug(Exception):
    """A child raised an unexpected exception; the argument is its traceback."""


@dataclass(frozen=True)
class Home:
    """Where a child runs: a folder, and the variables that it sees instead of its parent's (None: the same ones)."""

    folder: Path | None = None
    environment: Mapping[str, str] | None = None


class Child:
    """Context manager that runs ``work(channel, arguments)`` in a child process; leaving it kills the process.

    The ``deadline`` (time.monotonic) applies to everything that is received.
    """

    def __init__(
        self, work: Work, arguments: Mapping[str, Any], limits: Limits, deadline: float, home: Home | None = None
    ) -> None:
        self.deadline = deadline
        self._work, self._arguments, self._limits, self._home = work, arguments, limits, home or Home()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: int | None = None

    def __enter__(self) -> Child:
        ours, theirs = socket.socketpair()
        try:
            if may_fork():
                self.pid = fork(lambda: self._live_forked(theirs), keep=(theirs.fileno(),), talkative=False)
            else:
                self.pid = self._start_fresh(theirs)
        except OSError as error:
            ours.close()
            what = "The child process for this could not be started"
            raise MissingTool(what, error.strerror or str(error), "Try again when the machine has resources") from error
        finally:
            theirs.close()
        self._channel = Channel(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        self._kill()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message to the child."""
        self._channel.send(message)

    def receive(self, within_s: float | None = None) -> dict[str, Any]:
        """Return the child's next message.

        Raises TimeoutError at the deadline (or after ``within_s`` seconds if that is sooner), ChildLost if the child
        ends first, ChildBug if it fails, and RecursionError for a message that is nested too deeply.
        """
        until = self.deadline if within_s is None else min(self.deadline, time.monotonic() + within_s)
        try:
            message = self._channel.receive(until)
        except ChannelClosed:
            raise ChildLost(self._status()) from None
        if BUG in message:
            raise ChildBug(message[BUG])
        return message

    def _live_forked(self, theirs: socket.socket) -> None:
        """What the child does after a fork."""
        self._limits.apply(os.getppid())
        run_child_work(theirs, self._work, dict(self._arguments), self._home)

    def _start_fresh(self, theirs: socket.socket) -> int:
        order = {
            "work": name_of(self._work),
            "arguments": dict(self._arguments),
            "limits": asdict(self._limits),
            "folder": str(self._home.folder) if self._home.folder else None,
        }
        self._process = start_fresh(theirs, order, self._home.environment)
        return self._process.pid

    def _status(self) -> int:
        """Return the child's return code; it is given a moment to end, then killed."""
        until = time.monotonic() + 1
        while self._poll_status() is None and time.monotonic() < until:
            time.sleep(0.005)
        return self._kill()

    def _kill(self) -> int:
        """Return the child's return code; kill it if it has not ended."""
        if self._poll_status() is None:
            kill(self.pid)
        while self._poll_status() is None:
            time.sleep(0.001)
        assert self._ended is not None
        return self._ended

    def _poll_status(self) -> int | None:
        """Return the child's return code; None while it runs."""
        if self._ended is None and self._process:
            self._ended = self._process.poll()
        elif self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._ended = os.waitstatus_to_exitcode(status) if pid else None
        return self._ended


def may_fork() -> bool:
    """Whether a fork of this process would be safe: it has only one thread, of Python or of a library."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208


def fork(life: Callable[[], None], keep: tuple[int, ...], *, talkative: bool) -> int:
    """Fork: the copy leads its own session, closes all files but ``keep``, runs ``life`` and ends.

    Its standard input and output are /dev/null; with ``talkative`` it writes to our stderr, otherwise nowhere.
    """
    gc.collect(0)
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1) if talkative else (0, 1, 2):
            os.dup2(nothing, standard)
        close_all_but(keep)
        life()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever happens, the copy must not go on as its parent would
        traceback.print_exc()
    finally:
        os._exit(status)


def close_all_but(keep: tuple[int, ...]) -> None:
    """Close every file except the standard ones and ``keep``."""
    low = 3
    for number in sorted(keep):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, max(low, os.sysconf("SC_OPEN_MAX")))


def run_child_work(end: socket.socket, work: Work, arguments: dict[str, Any], home: Home) -> None:
    """Run a child's work after its limits are applied; an exception that reaches this point is sent to the parent."""
    channel = Channel(end)
    if home.environment is not None:
        os.environ.clear()
        os.environ.update(home.environment)
    if home.folder:
        os.chdir(home.folder)
    try:
        work(channel, arguments)
    except MemoryError:
        # After MemoryError nothing is reliable any more; the parent sees a child that was ended.
        kill(os.getpid())
    except Exception:  # noqa: BLE001 - the parent decides what a bug means
        channel.send({BUG: traceback.format_exc()})
    channel.close()


def kill(pid: int) -> None:
    """Kill a process and the group that it leads."""
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def name_of(work: Callable[..., Any]) -> str:
    """Return ``module:function``, from which another process can find the function."""
    return f"{work.__module__}:{work.__qualname__}"


def function_named(name: str) -> Callable[..., Any]:
    """Return the function that ``name_of`` named."""
    module, _, function = name.partition(":")
    target: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return target


def start_fresh(
    theirs: socket.socket, order: Mapping[str, Any], environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that carries out ``order``; it finds this package wherever it is installed."""
    package: ModuleType = sys.modules[_PACKAGE]
    instructions = {
        "package": _PACKAGE,
        "root": next(iter(package.__path__)),
        "path": sys.path,
        "parent": os.getpid(),
        **order,
    }
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("fresh_interpreter.py")),
                str(theirs.fileno()),
                str(reader),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ if environment is None else environment),
            pass_fds=(theirs.fileno(), reader),
            start_new_session=True,
        )
    finally:
        os.close(reader)
    with suppress(BrokenPipeError), os.fdopen(writer, "wb") as out:
        out.write(json.dumps(instructions).encode())
    return process


def run_fresh(end: socket.socket, order: dict[str, Any]) -> None:
    """Main function of a fresh interpreter, called by fresh_interpreter.py."""
    work = function_named(order["work"])
    # Set here, so that imported modules count as initial memory, as they do after a fork.
    Limits(**order["limits"]).apply(order["parent"])
    run_child_work(end, work, order["arguments"], Home(Path(order["folder"]) if order.get("folder") else None))
