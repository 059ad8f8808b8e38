"""Runs the worker process in which SQL from a client is parsed and executed, and ends it in time.

The worker (worker.py) is fresh for every query: no state, no environment, no file survives it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ...analysis.problems import LimitExceeded, MissingTool

MEMORY_BYTES = 2_000_000_000
"""DuckDB's own limit; it covers tables, joins and sorts."""
ADDRESS_SPACE_BYTES = 3_500_000_000
"""The system's limit; it also covers what DuckDB does not count, such as huge texts and lists."""
_LINE_BYTES = 32_000_000
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_slots = threading.BoundedSemaphore(3)


class WorkerLost(Exception):
    """The worker ended without an answer; ``killed`` tells whether the system or a limit ended it."""

    def __init__(self, killed: bool, stderr: str) -> None:
        self.killed = killed
        super().__init__(stderr or "the worker ended without an answer")


class Sandbox:
    """One worker process for one query, as a context; leaving it kills the process and removes its folder.

    ``timeout_s`` is wall-clock time from the start; ``pause`` stops that clock while the parent itself works.
    """

    _process: subprocess.Popen[bytes]
    _folder: tempfile.TemporaryDirectory[str]
    _received: bytearray

    def __init__(self, sql: str, timeout_s: float) -> None:
        self.sql, self.timeout_s = sql, timeout_s

    def __enter__(self) -> Sandbox:
        self._deadline = time.monotonic() + self.timeout_s
        if not _slots.acquire(timeout=self.timeout_s):
            raise LimitExceeded("The query did not start", "other queries occupy the server", "Try again")
        started = False
        try:
            self._start()
            started = True
        finally:
            if not started:
                _slots.release()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._kill()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._folder.cleanup()
        finally:
            _slots.release()

    @property
    def folder(self) -> Path:
        """The worker's home and working directory, where the parent may leave files for it."""
        return Path(self._folder.name)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Time spent inside does not count."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._deadline += time.monotonic() - start

    def send(self, message: dict[str, Any]) -> None:
        """One message to the worker; a worker that is gone is noticed by the next ``receive``."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, within_s: float | None = None) -> dict[str, Any]:
        """The worker's next message.

        Raises TimeoutError at the deadline (or after ``within_s`` seconds, if that is sooner), WorkerLost when
        the worker ends first, and RecursionError for a message nested too deeply.
        """
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        until = self._deadline if within_s is None else min(self._deadline, time.monotonic() + within_s)
        while b"\n" not in self._received:
            wait = until - time.monotonic()
            if wait <= 0 or not poll.poll(1000 * wait):
                raise TimeoutError
            chunk = os.read(pipe, 1 << 20)
            if not chunk or len(self._received) > _LINE_BYTES:
                raise self._lost()
            self._received += chunk
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return json.loads(line)  # type: ignore[no-any-return]

    def _start(self) -> None:
        self._received = bytearray()
        duckdb = importlib.util.find_spec("duckdb")
        if not (duckdb and duckdb.origin):
            raise MissingTool("SQL needs the package duckdb", "it is not installed", "pip install duckdb")
        # A relative home: the settings that SQL can list then show no path of this machine.
        environment = {"HOME": ".", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        worker = Path(__file__).with_name("worker.py")
        with contextlib.ExitStack() as undo:
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="rooflens-sql-", ignore_cleanup_errors=True)
                undo.callback(self._folder.cleanup)
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(worker)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self._folder.name,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                what = "SQL needs a process of its own and a temporary folder"
                raise MissingTool(what, error.strerror or "", "Set TMPDIR to a folder that can be written") from error
            undo.pop_all()
        self.send({
            "sql": self.sql, "timeout_s": self.timeout_s, "parent": os.getpid(),
            "duckdb": str(Path(duckdb.origin).parent.parent),
            "memory_bytes": MEMORY_BYTES, "address_space_bytes": ADDRESS_SPACE_BYTES,
        })  # fmt: skip

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def _lost(self) -> WorkerLost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # it closed its output; how it ends tells why
        self._kill()
        assert self._process.stderr
        said = self._process.stderr.read(20_000).decode(errors="replace").strip()
        # Python may still get to say that memory ran out before it ends.
        return WorkerLost(self._process.returncode < 0 or "MemoryError" in said, said)
