"""Names of temporary files and folders that tell which process made them: what the dead left behind can be removed.

A mark holds the machine's boot and name space of processes (as a digest), the process's number and its start, which no
other process of that boot shares. It is in the name, so at no moment a file is there and its owner is unknown.
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

MARK = r"(?P<place>[0-9a-f]{12})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})-[0-9a-f]{12}"
"""Regular expression of a mark, to recognise names that hold one."""
_MARK = re.compile(MARK)
_UNKNOWN_LIFETIME_S = 86_400
"""How long to wait for a process that cannot be asked for: of another machine or container, or of an earlier boot."""


def mark() -> str:
    """A new mark of this process: no other call returns the same."""
    pid = os.getpid()
    return f"{_place()}-{pid}-{_start(pid) or 0}-{secrets.token_hex(6)}"


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """The name of a file to write beside ``target``, which it replaces in one step when the block ends well.

    A reader sees the old content or the new, never a part; where the block fails, the draft is removed.
    """
    draft = target.with_name(f".{target.name}.{mark()}")
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        with suppress(OSError):  # what counts is why it could not be written
            draft.unlink(missing_ok=True)
        raise


def is_made_by(name: str, pid: int) -> bool:
    """Whether the mark in ``name`` is of this process of this machine."""
    match = _MARK.search(name)
    return match is not None and match["place"] == _place() and int(match["pid"]) == pid


def is_abandoned(path: Path) -> bool:
    """Whether nobody works on ``path``: its owner is dead, or cannot be asked for and was not heard of for a day."""
    match = _MARK.search(path.name)
    if match and match["place"] == _place() and (start := int(match["start"])):
        return not _is_alive(int(match["pid"]), start)
    try:
        return time.time() - path.lstat().st_mtime > _UNKNOWN_LIFETIME_S
    except OSError:
        return False


def sweep(paths: Iterable[Path]) -> None:
    """Remove those files and folders that are abandoned; what cannot be removed stays."""
    for path in paths:
        if is_abandoned(path):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; links are not followed, and what cannot be removed stays."""
    with suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _is_alive(pid: int, start: int) -> bool:
    """Whether the process that started then still runs; zombies do not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # another user's, so it is there
    return _start(pid) in (start, None)


def _start(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process: 0 for a zombie, None where /proc does not tell."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name in parentheses may hold anything, so what counts stands behind the last one.
        fields = line.rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


@cache
def _place() -> str:
    """Where process numbers count: the machine's name, its boot, and the name space of processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = secrets.token_hex(6)  # nobody's: then age decides
    return hashlib.sha256(f"{socket.gethostname()} {boot} {space}".encode()).hexdigest()[:12]


@contextmanager
def scratch() -> Iterator[Path]:
    """A fresh folder of mode 0700 below the temporary directory, removed with its content on leaving.

    MissingTool where none can be made, or where another user prepared the place.
    """
    try:
        home = private_folder()
        sweep(list(home.iterdir()))
        folder = home / mark()
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise MissingTool(
            "A temporary folder is needed", error.strerror or str(error), "Set TMPDIR to a folder that can be written"
        ) from error
    try:
        yield folder
    finally:
        remove(folder)


def private_folder() -> Path:
    """The user's own folder in the temporary directory; what nobody touched for a day goes with the next scratch."""
    user = os.geteuid()
    home = Path(tempfile.gettempdir()) / f"rooflens-{user}"
    home.mkdir(mode=0o700, exist_ok=True)
    state = home.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != user:
        raise MissingTool(
            f"The temporary folder {home} cannot be trusted",
            "it is a link, or another user made it",
            "Set TMPDIR to a folder of your own, or have that one removed",
        )
    if state.st_mode & 0o077:
        home.chmod(0o700)
    return home
