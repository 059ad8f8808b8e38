"""Reasons to stop a run before it ends by itself: nobody is left who wants it, or a limit is reached."""

from __future__ import annotations

import os
import select
import shutil
import time
from pathlib import Path
from typing import Literal

from .job import Limits
from .processes import descendants
from .record import CANCEL

Reason = Literal["lost", "stopped", "cancelled", "timeout", "disk", "processes"]
_SELDOM_S = 1.0
"""Seconds between looks at the disk and the processes, which cost more than the others."""


class Watch:
    """Looks for reasons to stop; ``reason`` may be asked as often as one likes."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.told_to_stop = False
        """Set by a signal handler."""
        self.deadline: float | None = None
        self.deaf = False
        """Whether everything but the loss of the starter is passed over, as while finished steps are saved."""
        self._next_look = 0.0
        self._lost = False

    def start_clock(self, seconds: float) -> None:
        """From now on ``seconds`` may pass."""
        self.deadline = time.monotonic() + seconds

    def reason(self) -> Reason | None:
        """Why the run must stop now, or None."""
        if self.lost():
            return "lost"
        if self.told_to_stop:
            return "stopped"
        if not self.deaf and (self.folder / CANCEL).exists():
            return "cancelled"
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            return "timeout"
        if now < self._next_look:
            return None
        self._next_look = now + _SELDOM_S
        # Who shares the store from another machine sees by this that we live.
        os.utime(self.folder / "state.json")
        if _used(self.folder) > self.limits.disk_bytes or shutil.disk_usage(self.folder).free < self.limits.free_bytes:
            return "disk"
        return "processes" if len(descendants(os.getpid())) > self.limits.processes else None

    def lost(self) -> bool:
        """Whether the process that started this one is gone: its end of our standard input is closed then."""
        while not self._lost and select.select([0], [], [], 0)[0]:
            self._lost = not os.read(0, 4096)
        return self._lost


def _used(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total
