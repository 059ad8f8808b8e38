"""Resource limits of a child process, set permanently in the child before it reads any input."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PDEATHSIG = 1
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Limits:
    """Memory beyond what the child starts with, CPU time, the maximum size of a file, and the priority."""

    memory_bytes: int
    cpu_s: int
    file_bytes: int | None = None
    nice: int = 0

    def apply(self, parent: int | None) -> None:
        """Apply the limits to this process; if ``parent`` is given, tie its life to that process."""
        if parent is not None:
            die_with(parent)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, self.cpu_s)
        if self.file_bytes is not None:
            _limit(resource.RLIMIT_FSIZE, self.file_bytes)
            # A refused write then raises an error that can be reported, instead of killing the process.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if sys.platform == "linux":  # macOS has no such limit
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            _limit(resource.RLIMIT_AS, pages * _PAGE + self.memory_bytes)
        if self.nice:
            lower_priority(os.getpid(), self.nice)
        # If the machine runs out of memory, the kernel should kill this process first.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def lower_priority(pid: int, nice: int = 10) -> None:
    """Lower the priority of a process that leads its group and session; do nothing if it is gone."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PGRP, pid, nice)
    # If the system groups processes by session, this value determines the priority between sessions.
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, which must be ``parent``."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def keep_freed_memory() -> None:
    """Reuse freed memory in this process instead of returning it to the system, if the C library supports that.

    For a process that ends with its call: computing ten million events then takes two thirds of the time, because
    arrays need no fresh pages.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # musl
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, 1 << 30)
            mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


def no_more_files() -> None:
    """Prevent this process from opening any more files."""
    _limit(resource.RLIMIT_NOFILE, 0)


def _limit(kind: int, value: int) -> None:
    """Set a hard limit, or keep a lower one that is already set."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
