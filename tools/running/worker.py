"""The child process that calls one rooflens function for a job, so that it can crash, hang or be killed without harm.

It is a fork of the supervisor, which has imported the function's module; where the supervisor must not fork because
it has threads, ``python -m rooflens.tools.running.worker`` reads the task from standard input instead. Both write
``answer.json`` ({"result"} or {"problem"}) into the run's folder, and update ``progress.json`` while they work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store, write_atomically
from ..isolation.child import close_all_but, fork, function_named
from .run_state import ProblemText

ANSWER, PROGRESS = "answer.json", "progress.json"


class CallProgress:
    """Lets a function report its progress: ``progress(share, activity, result)``."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS

    def __call__(self, share: float, activity: str, result: Mapping[str, Any] | None = None) -> None:
        """Publish the finished share of the work (0 to 1), the current activity, and the results so far."""
        write_atomically(
            self._path, json.dumps({"progress": share, "activity": activity, "result": dict(result or {})})
        )


@dataclass(frozen=True)
class CallTask:
    """A call of ``function(store, progress, **arguments)``, as ``CallStep.of`` named it, for the run in ``folder``."""

    store: str
    folder: str
    function: str
    """``module:function``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Call the function and write its answer."""
        folder = Path(self.folder)
        try:
            result = function_named(self.function)(Store.locate(self.store), CallProgress(folder), **self.arguments)
            answer = {"result": result}
        except Problem as problem:
            answer = {"problem": ProblemText.of(problem).model_dump()}
        write_atomically(folder / ANSWER, json.dumps(answer))

    def as_text(self) -> str:
        """Return the task as JSON for the standard input of a fresh interpreter."""
        return json.dumps(asdict(self))


class ForkedCall:
    """A call in a fork of this process, with the part of subprocess.Popen's interface that a run's children need.

    ``prepare`` runs in the fork first. Its output goes to ``stdout`` and ``stderr``; its status is 1 after an
    exception.
    """

    stdin = None

    def __init__(self, call: Callable[[], None], variables: Mapping[str, str], prepare: Callable[[], None]) -> None:
        pipes = [os.pipe(), os.pipe()]
        readers, writers = zip(*pipes, strict=True)

        def life() -> None:
            prepare()
            for place, writer in enumerate(writers, 1):
                os.dup2(writer, place)
            close_all_but(())
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.chdir("/")
            os.environ.update(variables)
            call()
            sys.stdout.flush()

        try:
            self.pid = fork(life, keep=writers, talkative=True)
        except OSError:
            for reader in readers:
                os.close(reader)
            raise
        finally:
            for writer in writers:
                os.close(writer)
        self.stdout, self.stderr = (os.fdopen(reader, "rb", 0) for reader in readers)

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended, as subprocess.Popen does; raise subprocess.TimeoutExpired if it still runs then."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                pid, status = os.waitpid(self.pid, 0 if until is None else os.WNOHANG)
            except ChildProcessError:
                return 0  # Its status was read when all processes of the run were ended.
            if pid:
                return os.waitstatus_to_exitcode(status)
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a call", timeout or 0)
            time.sleep(0.01)


def main() -> None:
    """Carry out the task on standard input."""
    CallTask(**json.load(sys.stdin)).carry_out()


if __name__ == "__main__":
    main()
