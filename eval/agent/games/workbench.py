"""Builds and runs a candidate in a temporary folder, with limits on time, memory and output.

The limits protect the machine from accidental harm. They are not a sandbox: the code runs as the user and can access
the user's files and the network. Use a container for models that you do not trust.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.eval.agent.games.server import environment
from rooflens.tools.running import processes

OUTPUT_BYTES = 200_000
"""Maximum size of program output that is read, in bytes."""
FILE_BYTES = 512 << 20
TAIL_CHARACTERS = 3000
"""Maximum length of an error message."""
_LOOK_S = 0.05


@dataclass(frozen=True)
class Limits:
    """Limits for the wall time, processor time and memory of a command and its children.

    ``address_space`` also limits the reserved address space, with which no GPU runtime works.
    """

    seconds: float = 120
    memory_bytes: int = 16 << 30
    address_space: bool = False


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``why`` is None if it succeeded."""

    output: str
    errors: str
    why: str | None


@dataclass(frozen=True)
class Measured:
    """The report of a driver about a version: whether it is correct, its relative error, and its launch times.

    ``problem`` says why there is no result.
    """

    right: bool = False
    error: float | None = None
    times_ns: tuple[float, ...] = ()
    problem: str | None = None

    @property
    def median_ns(self) -> float | None:
        ordered = sorted(self.times_ns)
        return ordered[len(ordered) // 2] if ordered else None


def run(command: Sequence[str], folder: Path, limits: Limits) -> Ended:
    """Run a command in ``folder`` without a shell and secrets in its environment, then end all its processes."""
    out, err = folder / ".stdout", folder / ".stderr"
    mark = secrets.token_hex(8)
    variables = {**environment(), "HOME": str(folder), "TMPDIR": str(folder), processes.MARKER: mark}
    try:
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                start_new_session=True, preexec_fn=lambda: _confine(limits),
            )  # fmt: skip
    except OSError as error:
        return Ended("", "", f"{command[0]} cannot be run: {error.strerror}")
    try:
        why = _watched(process, limits)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        processes.end_all(mark, 0)  # processes that left the group
    return Ended(_end_of(out), _end_of(err), why)


def measured(ended: Ended) -> Measured:
    """Parse the last line of a driver's output."""
    if ended.why:
        return Measured(problem=f"{ended.why}\n{_tail(ended.errors or ended.output)}".strip())
    try:
        said = json.loads(ended.output.strip().splitlines()[-1])
        times = tuple(float(t) for t in said["times_ns"])
        found = Measured(bool(said["right"]), float(said["error"]), times)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return Measured(problem=f"the driver's last line is not a report\n{_tail(ended.output)}".strip())
    if found.right and (not times or min(times) <= 0):
        return Measured(problem="the driver measured no time above zero")
    return found


def tail(ended: Ended) -> str:
    """The end of an error message."""
    return f"{ended.why}\n{_tail(ended.errors or ended.output)}".strip()


def _watched(process: subprocess.Popen[bytes], limits: Limits) -> str | None:
    deadline = time.monotonic() + limits.seconds
    while process.poll() is None:
        if time.monotonic() > deadline:
            return f"stopped after {limits.seconds:g} s"
        if _resident(process.pid) > limits.memory_bytes:
            return f"stopped at {limits.memory_bytes >> 20} MiB of memory"
        time.sleep(_LOOK_S)
    code = process.returncode
    return None if code == 0 else f"ended by signal {-code}" if code < 0 else f"ended with status {code}"


def _resident(group: int) -> int:
    """Resident memory of the processes of a session, in bytes."""
    page, total = resource.getpagesize(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == group:
                    total += int(fields[21]) * page
    return total


def _confine(limits: Limits) -> None:
    """Runs in the child before the command starts."""
    stated: list[tuple[int, int]] = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(8 * limits.seconds) + 1),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
    ]
    if limits.address_space:
        stated.append((resource.RLIMIT_AS, limits.memory_bytes))
    for kind, value in stated:
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _end_of(path: Path) -> str:
    """Read the end of a file: the report of a driver is the last line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - OUTPUT_BYTES))
        return file.read().decode(errors="replace")


def _tail(text: str) -> str:
    return text[-TAIL_CHARACTERS:]


def plain(found: Measured) -> dict[str, Any]:
    """A measurement as data for the transcript."""
    return {"right": found.right, "error": found.error, "median_ns": found.median_ns, "problem": found.problem}
