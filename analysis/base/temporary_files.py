"""Temporary files and folders whose names identify the process that made them, so that abandoned ones can be deleted.

A mark contains a digest of the machine's boot and PID namespace, the process id and its start time, which together are
unique. It is part of the name, so the owner of a file is always known.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from .problems import MissingTool

OPEN_SAFELY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""How to open a file for reading that may have become a pipe, which would block forever, or a link to elsewhere."""
MARK = r"(?P<place>[0-9a-f]{12})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})-[0-9a-f]{12}"
"""The regular expression of a mark, to recognise names that contain one."""
_MARK = re.compile(MARK)
_UNKNOWN_LIFETIME_S = 86_400
"""How long to wait for a process that cannot be checked: of another machine or container, or of an earlier boot."""


def mark() -> str:
    """A new mark of this process, unique for every call."""
    pid = os.getpid()
    return f"{_place()}-{pid}-{_start(pid) or 0}-{secrets.token_hex(6)}"


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """The path of a draft next to ``target``, which it replaces in one step if the block succeeds.

    A reader sees the old or the new content, never a part; if the block fails, the draft is deleted.
    """
    draft = target.with_name(f".{target.name}.{mark()}")
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        with suppress(OSError):  # the original error matters
            draft.unlink(missing_ok=True)
        raise


def is_made_by(name: str, pid: int) -> bool:
    """Whether the mark in ``name`` belongs to process ``pid`` of this machine."""
    match = _MARK.search(name)
    return match is not None and match["place"] == _place() and int(match["pid"]) == pid


def is_abandoned(path: Path) -> bool:
    """Whether ``path`` is abandoned: its owner has ended, or cannot be checked and the file was unchanged for a day."""
    match = _MARK.search(path.name)
    if match and match["place"] == _place() and (start := int(match["start"])):
        return not _is_alive(int(match["pid"]), start)
    try:
        return time.time() - path.lstat().st_mtime > _UNKNOWN_LIFETIME_S
    except OSError:
        return False


def sweep(paths: Iterable[Path]) -> None:
    """Delete abandoned files and folders; failures are ignored."""
    for path in paths:
        if is_abandoned(path):
            remove(path)


def remove(path: Path) -> None:
    """Delete a file, or a folder with its contents; links are not followed, and failures are ignored."""
    with suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _is_alive(pid: int, start: int) -> bool:
    """Whether the process with this id and start time is still running; zombies are not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # it belongs to another user, so it exists
    return _start(pid) in (start, None)


def _start(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process: 0 for a zombie, None if /proc does not show it."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name in parentheses may contain anything, so the fields start after the last parenthesis.
        fields = line.rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


@cache
def _place() -> str:
    """A digest of the scope of process ids: the host name, the boot, and the PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = secrets.token_hex(6)  # matches no process, so that age decides
    return hashlib.sha256(f"{socket.gethostname()} {boot} {space}".encode()).hexdigest()[:12]


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder with mode 0700 below the temporary directory, deleted with its contents on exit.

    Raises MissingTool if it cannot be created, or if another user owns the parent folder.
    """
    try:
        home = private_folder()
        sweep(list(home.iterdir()))
        folder = home / mark()
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise MissingTool(
            "A temporary folder is needed", error.strerror or str(error), "Set TMPDIR to a writable folder"
        ) from error
    try:
        yield folder
    finally:
        remove(folder)


def private_folder() -> Path:
    """The user's own folder in the temporary directory; contents unchanged for a day are deleted by the next
    scratch."""
    user = os.geteuid()
    home = Path(tempfile.gettempdir()) / f"rooflens-{user}"
    home.mkdir(mode=0o700, exist_ok=True)
    state = home.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != user:
        raise MissingTool(
            f"The temporary folder {home} cannot be trusted",
            "it is a symbolic link, or another user created it",
            "Set TMPDIR to your own folder, or have that one removed",
        )
    if state.st_mode & 0o077:
        home.chmod(0o700)
    return home
