"""The queue for a device: one run at a time per device of this machine and user; other runs wait in arrival order.

A folder that belongs to this user contains one lock file (flock) per device, held by the run whose turn it is, and for
each waiting run a ticket that the run keeps locked. The operating system releases the locks when their owner dies, so a
stale lock cannot block anybody.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ...analysis.base.text import count_text
from .wording import problem


def lock_folder() -> str:
    """Return this user's lock folder, creating it if needed; raise NotAllowed if another user could write to it."""
    runtime, uid = os.environ.get("XDG_RUNTIME_DIR"), os.getuid()
    folder = Path(runtime, "rooflens") if runtime and Path(runtime).is_dir() else Path(f"/tmp/rooflens-{uid}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid or status.st_mode & 0o022:
        raise problem("foreign_lock_folder", folder=folder)
    return str(folder)


class QueuePlace:
    """A run's place in the queue of one device."""

    def __init__(self, folder: Path, device: str, run_id: str) -> None:
        name = re.sub(r"[^\w.-]", "_", device)
        self._queue = folder / f"{name}.queue"
        self._queue.mkdir(mode=0o700, exist_ok=True)
        self._lock = _open_lock_file(folder / f"{name}.lock")
        self._ticket = self._queue / f"{time.time_ns():020d}-{run_id}"
        # Locked under a temporary name first, because an unlocked ticket counts as abandoned.
        draft = self._queue / f".{self._ticket.name}"
        self._held = _open_lock_file(draft)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        draft.rename(self._ticket)
        self._mine = False

    def ahead(self) -> int:
        """Return how many runs come first; 0 means that this run now owns the device."""
        if self._mine:
            return 0
        tickets = sorted(p for p in self._queue.iterdir() if not p.name.startswith("."))
        earlier = sum(1 for p in tickets if p.name < self._ticket.name and _owner_lives(p))
        if earlier:
            return earlier
        with suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._mine = True
        return 0 if self._mine else 1

    def leave(self) -> None:
        """Release the device, or leave its queue."""
        self._ticket.unlink(missing_ok=True)
        for handle in (self._held, self._lock):
            os.close(handle)


class DeviceQueue:
    """Acquires all the devices of a run; a context manager that releases them at the end.

    Every run acquires devices in the same order, so that two runs cannot deadlock.
    """

    def __init__(self, folder: Path, devices: Mapping[str, str], run_id: str) -> None:
        self._folder, self._run_id = folder, run_id
        self._wanted = sorted(devices.items())
        self._taken: list[QueuePlace] = []

    def __enter__(self) -> DeviceQueue:
        return self

    def __exit__(self, *_: object) -> None:
        for place in self._taken:
            place.leave()

    def waiting(self) -> str | None:
        """Describe what the run is waiting for; None once it owns every device."""
        for index, (name, title) in enumerate(self._wanted):
            if index == len(self._taken):
                self._taken.append(QueuePlace(self._folder, name, self._run_id))
            if ahead := self._taken[index].ahead():
                return f"waiting for {title}: {count_text(ahead, 'run')} ahead of this one"
        return None


def _owner_lives(ticket: Path) -> bool:
    """Whether the ticket's owner is alive; an abandoned ticket is removed."""
    try:
        handle = os.open(ticket, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    ticket.unlink(missing_ok=True)
    return False


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
