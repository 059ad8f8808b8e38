"""Whom to ask first where a run must end: the profiled program, so that its profiler writes what it has measured.

A profiler that is told to end itself may leave nothing, while one whose program ends writes as ever. Nsight Compute
is a script, a program below it, and a helper of its own between that and the profiled program; so what a profiler
consists of is told from where its files lie, and the rest below it is the profiled program.
"""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from .processes import ProcessEntry, descendants, send

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
