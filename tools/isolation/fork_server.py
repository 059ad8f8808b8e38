"""A process kept free of threads and open files so that it can be forked: each call of a server gets one copy.

A copy starts in milliseconds with everything imported. The requester holds one end of a socket; closing it kills the
copy and everything that the copy started. The end of the server, for whatever reason, has the same effect.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .channel import Channel, encode_message
from .child import Home, Work, fork, function_named, kill, may_fork, name_of, run_child_work, start_fresh
from .limits import Limits, keep_freed_memory

ENDED = "ended"
"""Key of the last message on every socket: how the copy ended, as a subprocess return code."""
_SUBREAPER = 36
_PAUSE_S = 0.1
"""Pause between warm-up steps, so that they do not delay a request for long."""
_END_S = 2.0
_HUNG_UP: int = getattr(select, "POLLRDHUP", 0)
"""The other end has stopped writing; that it is closed is always reported."""
_FOREVER = Limits(memory_bytes=16_000_000_000, cpu_s=10**8)


class ForkServer:
    """The server's side: ``spawn`` returns a socket to a new copy.

    Call ``start`` while this process has a single thread; otherwise the first ``spawn`` starts it in a fresh
    interpreter. During its first seconds the fork server runs the steps of ``warm_up`` one at a time; each must be
    short, as it may delay a request. Copies see the environment variables that this process had at the start.
    """

    def __init__(self, warm_up: Sequence[Callable[[], None]] = ()) -> None:
        self._warm_up = warm_up
        self._control: socket.socket | None = None
        self._starting = threading.Lock()

    def spawn(self, work: Work, limits: Limits) -> socket.socket:
        """Start a copy that runs ``work``; its first message on the socket, an object, contains the arguments.

        The socket is non-blocking, and its last message is ``{"ended": status}``. Closing the socket ends the copy, and
        so does shutting it down for writing, after which the end can be awaited.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        order = json.dumps({"work": name_of(work), "limits": asdict(limits)}).encode()
        with theirs:
            control = self._running_socket()
            try:
                socket.send_fds(control, [order], [theirs.fileno()])
            except (BrokenPipeError, ConnectionResetError):
                # The fork server was killed from outside.
                socket.send_fds(self._running_socket(instead_of=control), [order], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End the fork server and every copy."""
        if self._control:
            self._control.close()
            self._control = None
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def start(self) -> socket.socket:
        """Start the fork server; return the socket that controls it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # No parent-death signal is used: the socket reports the parent's end, copies must be ended first, and the
        # signal would already be sent when the starting thread ends.
        with theirs:
            if may_fork():
                self.pid = fork(lambda: _Forks(theirs, self._warm_up).serve(), keep=(theirs.fileno(),), talkative=True)
            else:
                self.pid = self._start_fresh(theirs)
        self._control = ours
        return ours

    def _start_fresh(self, theirs: socket.socket) -> int:
        steps = [name_of(step) for step in self._warm_up]
        order = {"work": name_of(serve), "arguments": {"warm_up": steps}, "limits": asdict(_FOREVER), "parent": None}
        return start_fresh(theirs, order, None).pid

    def _running_socket(self, instead_of: socket.socket | None = None) -> socket.socket:
        """Return the socket of the running fork server; start one if there is none, or only one found dead."""
        with self._starting:
            if instead_of is not None and self._control is instead_of:
                self.close()
            return self._control or self.start()


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Main function of a fork server in a fresh interpreter."""
    _Forks(channel.end, [function_named(step) for step in order["warm_up"]]).serve()


class _Forks:
    """The fork server process: forks on demand, reports how copies ended, and ends copies whose requester is gone."""

    def __init__(self, control: socket.socket, warm_up: Sequence[Callable[[], None]]) -> None:
        self._control, self._warm_up = control, list(warm_up)
        self._copies: dict[int, socket.socket] = {}
        """Process id -> our own handle of the copy's end of the socket, to report how the copy ended."""
        self._poll = select.poll()

    def serve(self) -> None:
        """Serve requests until the server is gone."""
        # NumPy's thread pool cannot be forked. User programs do not run here, so one thread is enough.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        if sys.platform == "linux":
            import ctypes

            # Processes left behind by copies are re-parented to this process, which ends them.
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        warm_at = time.monotonic() + _PAUSE_S
        while True:
            left_s = max(0.0, warm_at - time.monotonic())
            events = self._poll.poll(1000 * left_s if self._warm_up else None)
            if self._warm_up and time.monotonic() >= warm_at:
                self._warm(self._warm_up.pop(0))
                warm_at = time.monotonic() + _PAUSE_S
            for number, _ in events:
                if number == wake:
                    os.read(wake, 4096)
                elif number == self._control.fileno():
                    if not self._start_copy():
                        self._end()
                        return
                else:
                    kill(next(pid for pid, end in self._copies.items() if end.fileno() == number))
                    self._poll.unregister(number)
            self._reap()

    @staticmethod
    def _warm(step: Callable[[], None]) -> None:
        """Run one warm-up step; if it fails, copies do its work themselves, as slowly as without a warm-up."""
        try:
            step()
        except Exception:  # noqa: BLE001 - a bug or a broken installation, which calls will tell of
            traceback.print_exc()
        # Objects that no copy modifies stay in shared memory pages.
        gc.collect()
        gc.freeze()

    def _start_copy(self) -> bool:
        """Start one copy; return False if the server is gone."""
        order, ends, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
        if not order:
            return False
        end = socket.socket(fileno=ends[0])
        job = json.loads(order)
        work, parent = function_named(job["work"]), os.getpid()

        def life() -> None:
            Limits(**job["limits"]).apply(parent)
            keep_freed_memory()
            run_child_work(end, lambda channel, _: work(channel, channel.receive()), {}, Home())

        try:
            pid = fork(life, keep=(end.fileno(),), talkative=True)
        except OSError as error:
            with suppress(OSError):
                end.sendall(encode_message({ENDED: error.errno}))
            end.close()
            return True
        self._copies[pid] = end
        self._poll.register(end, _HUNG_UP)
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if end := self._copies.pop(pid, None):
                with suppress(KeyError):
                    self._poll.unregister(end)
                # Start a new line, in case the copy ended in the middle of one.
                with suppress(OSError):
                    last = b"\n" + encode_message({ENDED: os.waitstatus_to_exitcode(status)})
                    end.send(last, socket.MSG_DONTWAIT)
                end.close()
        for pid in _children():
            if pid not in self._copies:
                kill(pid)

    def _end(self) -> None:
        """End every copy and what they started, which is re-parented to this process when they are gone."""
        until = time.monotonic() + _END_S
        while (left := {*self._copies, *_children()}) and time.monotonic() < until:
            for pid in left:
                kill(pid)
            time.sleep(0.005)
            self._reap()


def _children() -> list[int]:
    """Return the child processes of this process; empty if the system does not report them."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []
