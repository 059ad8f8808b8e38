"""Runs one program under a watch: bounded output, no input, its own session, and nothing of it left when it ends."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .capture import Capture
from .processes import DeathSignal, death_signal, descendants, end_all, reap
from .record import MARKER
from .watch import Reason, Watch

_POLL_S = 0.05
_PIECE = 1 << 18
_SAVE_S = 1.0


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit status (negative: a signal), or why it was stopped or never began."""

    status: int | None
    pid: int = 0
    stopped: Reason | None = None
    unstarted: str = ""
    left_behind: int = 0
    """Processes that still ran after the program's own end and had to be ended."""
    stuck: int = 0
    """Processes that even SIGKILL did not end."""

    @property
    def well(self) -> bool:
        """Whether it ended by itself and successfully."""
        return self.status == 0 and not self.stopped


def run(
    run_id: str, argv: list[str], cwd: str, env: dict[str, str], logs: tuple[Path, Path], watch: Watch,
    hidden: list[str], *, text: str = "", meanwhile: Callable[[], None] = lambda: None,
) -> Outcome:  # fmt: skip
    """Run ``argv`` to its end or until ``watch`` has a reason to stop; its output goes to the two ``logs``.

    ``text`` is its standard input (none otherwise). ``meanwhile`` is called again and again.
    """
    out, err = (Capture(path, hidden) for path in logs)
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**env, MARKER: run_id},
            start_new_session=True,
            preexec_fn=_Prepare(death_signal()),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Outcome(None, unstarted=getattr(error, "strerror", None) or str(error))
    if child.stdin:
        _give(child.stdin, text)
    with selectors.DefaultSelector() as pipes:
        for pipe, capture in ((child.stdout, out), (child.stderr, err)):
            if pipe:
                pipes.register(pipe, selectors.EVENT_READ, capture)
        try:
            return _attend(run_id, child, pipes, watch, meanwhile, (out, err))
        finally:
            end_all(run_id, 0, below=os.getpid())
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


def _attend(
    run_id: str, child: subprocess.Popen[bytes], pipes: selectors.BaseSelector, watch: Watch,
    meanwhile: Callable[[], None], captures: tuple[Capture, Capture],
) -> Outcome:  # fmt: skip
    status: int | None = None
    linger_until, save_at = 0.0, time.monotonic() + _SAVE_S
    while True:
        _read(pipes, _POLL_S)
        if status is None and reap(keep=child.pid):
            status = child.wait()
            linger_until = time.monotonic() + watch.limits.linger_s
        if status is not None and not descendants(os.getpid()):
            return Outcome(status, child.pid)
        if status is not None and time.monotonic() > linger_until:
            left = len(descendants(os.getpid()))
            return Outcome(status, child.pid, left_behind=left, stuck=end_all(run_id, 0, below=os.getpid()))
        if reason := watch.reason():
            grace = 0.0 if reason in ("lost", "processes") else watch.limits.grace_s
            stuck = end_all(run_id, grace, below=os.getpid())
            if status is None and stuck == 0:
                child.wait(1)
            return Outcome(status, child.pid, stopped=reason, stuck=stuck)
        meanwhile()
        if time.monotonic() > save_at:
            for capture in captures:
                capture.save()
            save_at = time.monotonic() + _SAVE_S


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


def _give(pipe: IO[bytes], text: str) -> None:
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
