"""One process per test worker that has imported everything, and whose copies stand in for fresh interpreters.

A test process has threads, so ``Child`` and ``ForkServer`` cannot fork it and start an interpreter for every query and
every code object. A copy of the nursery does what that interpreter would do, without importing it all again.
So does a copy for the supervisor of a run.
Tests of the start itself use the fixture ``as_users_have_it``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from rooflens.server.mcp import warm_up
from rooflens.tests.support.waiting import one_thread_in_duckdb, unhurried_sql
from rooflens.tools.isolation import child
from rooflens.tools.isolation.channel import Channel
from rooflens.tools.isolation.limits import Limits
from rooflens.tools.running import start as runner_start
from rooflens.tools.running import supervisor

_FOREVER = Limits(memory_bytes=16_000_000_000, cpu_s=10**8)
_ORDER_BYTES = 1 << 17
_MAXRSS = 1 if sys.platform == "darwin" else 1024
"""The unit of ru_maxrss in bytes."""
_AS_IMPORTED = ("ROOFLENS_CATALOGUE", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables that decide what was imported: where they differ, only a fresh interpreter will do."""
_OF_RUNS = (
    "rooflens.tools.profile_command",
    "rooflens.tools.check_counters",
    "rooflens.tools.run_peak_benchmarks",
    "rooflens.tools.profiles.import_to_store",
)
"""What workers of runs import besides what calls of a server do."""
start_fresh = child.start_fresh
"""What a user's program does."""
start_fresh_supervisor = runner_start.start_fresh
"""The same for runs."""


@dataclass
class Used:
    """Processor time that processes have used, and the most memory that any of them took."""

    cpu_s: float = 0.0
    most_bytes: int = 0

    def add(self, cpu_s: float, most_bytes: int) -> None:
        """Those of one more."""
        self.cpu_s += cpu_s
        self.most_bytes = max(self.most_bytes, most_bytes)


used = Used()
"""By the copies that have ended, which are no children of the test process."""


def used_by_children() -> Used:
    """The same by these and by the children of this process that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    both = Used(used.cpu_s, used.most_bytes)
    both.add(children.ru_utime + children.ru_stime, children.ru_maxrss * _MAXRSS)
    return both


class Copy:
    """A copy of the nursery, as far as subprocess.Popen is used of a fresh interpreter."""

    def __init__(self, pid: int, status: int, stdin: IO[bytes] | None = None) -> None:
        self.pid, self.stdin, self._status, self._ended = pid, stdin, status, None
        self._asking = threading.Lock()

    def poll(self) -> int | None:
        """How it ended, None while it runs."""
        with self._asking:
            if self._ended is None and select.select([self._status], [], [], 0)[0]:
                told = os.read(self._status, 128) or f"{-signal.SIGKILL:d} 0 0".encode()
                ended, cpu_s, most_bytes = told.split()
                self._ended = int(ended)
                used.add(float(cpu_s), int(most_bytes))
        return self._ended

    def wait(self, timeout: float | None = None) -> int:
        """How it ended; raises subprocess.TimeoutExpired where it has not in time."""
        select.select([self._status], [], [], timeout)
        if (ended := self.poll()) is None:
            raise subprocess.TimeoutExpired("a copy", timeout or 0)
        return ended

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._status)


class Nursery:
    """The test's end: ``start`` takes the place of ``child.start_fresh``; the process begins when first asked."""

    def __init__(self) -> None:
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: subprocess.Popen[bytes] | None = None
        self._variables = dict(os.environ)
        self._asking = threading.Lock()

    def start(self, theirs: socket.socket, order: Mapping[str, Any], environment: Mapping[str, str] | None) -> Any:
        """A copy that does the ``order`` with one end of a socket."""
        if not self._fits(os.environ):
            return start_fresh(theirs, order, environment)
        told = {
            "order": order,
            "path": sys.path,
            "environment": dict(os.environ if environment is None else environment),
        }
        return Copy(*self._asked(told, theirs.fileno()))

    def start_supervisor(self, log: IO[bytes], env: dict[str, str]) -> Any:
        """A copy that supervises the run that it is told of on its standard input."""
        if not self._fits(env):
            return start_fresh_supervisor(log, env)
        reader, writer = os.pipe()
        try:
            started = self._asked({"path": sys.path, "environment": env}, reader, log.fileno())
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        return Copy(*started, os.fdopen(writer, "wb"))

    def _fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fresh interpreter would import the same."""
        return all(environment.get(name) == self._variables.get(name) for name in _AS_IMPORTED)

    def _asked(self, told: dict[str, Any], *files: int) -> tuple[int, int]:
        """The number of a copy that has these files, and where it is told how it ends."""
        reader, writer = os.pipe()
        try:
            with self._asking:
                if not self._process:
                    # It ends with the socket, not with the thread that happens to be the first to ask.
                    life = {"work": child.name_of(nurse), "arguments": {}, "limits": vars(_FOREVER), "parent": None}
                    self._process = start_fresh(self._theirs, life, self._variables)
                    self._theirs.close()
                socket.send_fds(self._control, [json.dumps(told).encode()], [writer, *files])
                pid = int(self._control.recv(16))
        finally:
            os.close(writer)
        return pid, reader

    def close(self) -> None:
        """End it, and wait until it has."""
        self._control.close()
        if self._process:
            self._process.wait()


def nurse(channel: Channel, _: dict[str, Any]) -> None:
    """The life of the nursery: import, then copy itself on demand until the test process is gone."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for step in warm_up.STEPS:
        step()
    for module in _OF_RUNS:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    copies: dict[int, int] = {}
    with unhurried_sql(), one_thread_in_duckdb():
        while True:
            readable, _, _ = select.select([channel.end, wake], [], [])
            if wake in readable:
                os.read(wake, 4096)
            if channel.end in readable and not _copied(channel.end, copies):
                return
            _reap(copies)


def _copied(control: socket.socket, copies: dict[int, int]) -> bool:
    """Start one copy, and tell its number; False where the test process is gone."""
    message, received, _, _ = socket.recv_fds(control, _ORDER_BYTES, 3)
    if not message:
        return False
    status, *files = received
    told = json.loads(message)

    def life() -> None:
        sys.path[:] = told["path"]
        os.environ.clear()
        os.environ.update(told["environment"])
        if "order" in told:
            # Where it is to end with the process that asked, it ends with this one, which does.
            child.run_fresh(socket.socket(fileno=files[0]), {"parent": nursery, **told["order"]})
        else:
            _supervise(*files)

    nursery = os.getpid()
    pid = child.fork(life, keep=tuple(files), talkative=False)
    for number in files:
        os.close(number)
    copies[pid] = status
    control.send(str(pid).encode())
    return True


def _supervise(job: int, log: int) -> None:
    """The life of a supervisor."""
    for number, place in ((job, 0), (log, 1), (log, 2)):
        os.dup2(number, place)
    child.close_all_but(())
    os.chdir("/")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    supervisor.main()
    sys.stdout.flush()


def _reap(copies: dict[int, int]) -> None:
    """Tell how copies ended, where they did, and what they used."""
    with suppress(ChildProcessError):
        while pid := (ended := os.wait4(-1, os.WNOHANG))[0]:
            _, status, usage = ended
            cpu_s, most_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MAXRSS
            with suppress(BrokenPipeError):
                os.write(copies[pid], f"{os.waitstatus_to_exitcode(status)} {cpu_s} {most_bytes}".encode())
            os.close(copies.pop(pid))
