"""Run a program under py-spy, and end as the program ends.

This file is started by its path, with the standard library alone, as the parent of a profiled program:

    python -I sampled_program.py FOLDER PY_SPY RATE -- COMMAND...

py-spy starts COMMAND, so that it may read the memory of its processes wherever a parent may, and writes their stacks to
``FOLDER/host_samples.json`` when the program ends. Five things are repaired on the way:

* py-spy does not pass on the exit status. COMMAND therefore runs below this file (``_run``), which writes the status.
* py-spy looks for a Python program for one second only. That second process is one, whatever COMMAND is.
* py-spy prints to the streams of the program. Its own messages go to ``host_samples.log``, with the times at which it
  began, from which the clock of the samples follows.
* py-spy does not write its file when it is told to end. It ignores that signal, and ends with the program.
* If py-spy cannot start, fails or hangs, the program runs on without it. Where no process may read the memory of
  another, the program writes its stacks itself (watched_program.py).
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

SAMPLES, LOG, FACTS = "host_samples.json", "host_samples.log", "host_samples.facts"
_STATUS = "host_samples.status"
_WRITE_S = 30.0
"""How long py-spy may take to write its file after the program has ended."""
_POLL_S = 0.02
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: the program becomes a child of this process if py-spy dies."""


def main(arguments: list[str]) -> None:
    """Run the command; this process ends as it does."""
    folder, py_spy, rate, _, *command = arguments
    place = Path(folder)
    facts: dict[str, object] = {"rate": int(rate), "clocks": _clocks()}
    status: int | None
    if refusal := _refusal():
        watched = runpy.run_path(str(Path(__file__).with_name("watched_program.py")))
        status, facts["began"] = watched["run"](place / SAMPLES, rate, command)
        facts |= {"sampler": "in-process", "unreadable": refusal}
    elif (status := _sample(place, py_spy, rate, command)) is None:
        facts["refused"] = "py-spy did not start"
    _write(place / FACTS, facts)
    if status is None:
        os.execvp(command[0], command)
    _end_like(status)


def _sample(place: Path, py_spy: str, rate: str, command: list[str]) -> int | None:
    """Run the command under py-spy; return its status (negative for a signal), or None if it was never started."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    # The supervisor signals every process; this one ends after the program.
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
    streams = [os.dup(1), os.dup(2)]
    options = ["record", "--nonblocking", "--idle", "--threads", "--subprocesses", "--full-filenames"]
    options += ["--format", "chrometrace", "--rate", rate, "--output", str(place / SAMPLES)]
    own = [sys.executable, "-I", __file__, "--run", str(place / _STATUS), *map(str, streams), *command]
    with (place / LOG).open("wb") as log:
        sampler = subprocess.Popen(
            [py_spy, *options, "--", *own],
            stdout=log,
            stderr=log,
            env={**os.environ, "RUST_LOG": "info"},
            pass_fds=streams,
            preexec_fn=_ignore_signals,
        )
    for stream in streams:
        os.close(stream)
    _wait(sampler, place / _STATUS)
    written = _read(place / _STATUS)
    (place / _STATUS).unlink(missing_ok=True)
    return written.get("status", -signal.SIGKILL) if written else None


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _wait(sampler: subprocess.Popen[bytes], status: Path) -> None:
    """Wait until the sampler and the program have ended; a sampler that hangs afterwards is killed."""
    until = None
    while True:
        ended = sampler.poll() is not None
        written = _read(status)
        if ended and (not written or "status" in written or not _is_running(written["pid"])):
            return
        if "status" in written and until is None:
            until = time.monotonic() + _WRITE_S
        if until is not None and time.monotonic() > until:
            sampler.kill()
        time.sleep(_POLL_S)


def _is_running(pid: int) -> bool:
    """Whether the process that runs the program exists; if it became our child, its end is collected."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return Path(f"/proc/{pid}").exists()


def _run(status: Path, streams: list[int], command: list[str]) -> None:
    """Run the command with the streams of the program, and write how it ended."""
    for target, stream in enumerate(streams, 1):
        os.dup2(stream, target)
        os.close(stream)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.environ.pop("RUST_LOG", None)
    _write(status, {"pid": os.getpid()})
    child = subprocess.Popen(command)
    for number in _SIGNALS:
        signal.signal(number, lambda received, _: child.send_signal(received))
    _write(status, {"pid": os.getpid(), "status": child.wait()})


def _end_like(status: int) -> None:
    """End with a status, or by the signal that ended the program."""
    if status < 0:
        if -status in _SIGNALS:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _refusal() -> str | None:
    """Return why the memory of a child cannot be read, as py-spy does; None if it can."""
    text = ctypes.create_string_buffer(b"rooflens")
    into = ctypes.create_string_buffer(len(text))
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        here, there = (_Vector(ctypes.addressof(buffer), len(text)) for buffer in (into, text))
        read = libc.process_vm_readv(child, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        return None if read == len(text) else os.strerror(ctypes.get_errno())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _clocks() -> dict[str, int]:
    """Return the clocks that profilers use, in ns, read within microseconds of one another."""
    return {
        "realtime": time.time_ns(),
        "monotonic": time.monotonic_ns(),
        "boottime": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }


def _write(path: Path, content: dict[str, object]) -> None:
    """Write a file that is either complete or absent."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> dict[str, int]:
    try:
        content: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        _run(Path(sys.argv[2]), [int(sys.argv[3]), int(sys.argv[4])], sys.argv[5:])
    else:
        main(sys.argv[1:])
