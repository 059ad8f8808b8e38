"""Which commit and branch were checked out, and which binary ran.

The revision is read from the files of a Git work tree or from a CI job's variables. No program is run, and uncommitted
changes are not detected.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...analysis.catalogue import files
from ...analysis.store.manifest import Binary, read_small
from ..base.untrusted_text import plain_text

RECORD = "ROOFLENS_RECORD_COMMIT"
"""Environment variable that disables the recording of commit and branch when set to 0."""
_DATA = files.load(Path(__file__).with_suffix(".toml"))
_HEADS = "refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_HEAD, _PACKED = 4096, 16 << 20
"""Maximum number of bytes read from HEAD and similar files, and from packed-refs."""
_BRANCH, _DEEPEST = 200, 64


class Revision(NamedTuple):
    """A full commit hash and a branch; None if not known."""

    commit: str | None = None
    branch: str | None = None


def revision(folder: str | Path | None = None) -> Revision:
    """Return the revision of the work tree that contains ``folder``, if there is one, else that of the CI job."""
    if os.environ.get(RECORD) == "0":
        return Revision()
    job = _of_job()
    tree = _of_tree(Path(folder)) if folder else Revision()
    if tree.commit is None:
        return job
    # CI systems check out a detached HEAD, which has no branch.
    return tree if tree.branch or tree.commit != job.commit else job


def _of_job() -> Revision:
    for commit, branches in _DATA["commits"].items():
        if _COMMIT.fullmatch(value := os.environ.get(commit, "").strip().lower()):
            named = (os.environ.get(name, "").strip().removeprefix(_DATA["remotes"].get(name, "")) for name in branches)
            return Revision(value, _branch(next((name for name in named if name), "")))
    return Revision()


def _of_tree(folder: Path) -> Revision:
    try:
        home = next((p / ".git" for p in [folder, *folder.parents][:_DEEPEST] if (p / ".git").exists()), None)
        if home is None:
            return Revision()
        if home.is_file():  # a linked work tree or a submodule
            home = home.parent / _text(home).removeprefix("gitdir:").strip()
        shared = home / _text(home / "commondir") if (home / "commondir").is_file() else home
        head = _text(home / "HEAD")
        if not head.startswith("ref:"):
            return Revision(head if _COMMIT.fullmatch(head) else None)
        name = head.removeprefix("ref:").strip()
        return Revision(_reference(home, shared, name), _branch(name))
    except (OSError, ValueError):
        return Revision()


def _reference(home: Path, shared: Path, name: str) -> str | None:
    """Return the commit of a reference, from its own file or from packed-refs."""
    if ".." in name or name.startswith("/"):
        return None
    for place in (home, shared):
        if (place / name).is_file():
            text = _text(place / name)
            return text if _COMMIT.fullmatch(text) else None
    for line in _text(shared / "packed-refs", _PACKED).splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name and _COMMIT.fullmatch(commit):
            return commit
    return None


def _text(path: Path, most: int = _HEAD) -> str:
    return read_small(path, most).decode("utf-8", "replace").strip()


def _branch(name: str) -> str | None:
    return plain_text(name.removeprefix(_HEADS), _BRANCH) or None


_MOST_HASHED = 1 << 30
_ELF = b"\x7fELF"


def identify_binary(command: Sequence[str], folder: str, path: str) -> Binary | None:
    """Identify the program of ``command`` in ``folder``; for an interpreter or launcher, its first file argument.

    ``path`` is the PATH to search. Returns None if there is no such file or it cannot be read.
    """
    program = _place(command[0], folder, path)
    if program is not None and program.name.rstrip("0123456789.").startswith(tuple(_DATA["interpreters"])):
        files = [place for word in command[1:] if not word.startswith("-") and _is_file(place := Path(folder, word))]
        program = files[0] if files else program
    return _read(program) if program and _is_file(program) else None


def native(binary: Binary | None) -> list[Path]:
    """Return the file if it is an ELF file, which may contain kernel code too, rather than a script."""
    place = Path(binary.path) if binary else None
    if place is None or not _is_file(place):
        return []
    with place.open("rb") as file:
        return [place] if file.read(len(_ELF)) == _ELF else []


def _place(word: str, folder: str, path: str) -> Path | None:
    if "/" in word:
        return Path(folder, word)
    path_of_word = shutil.which(word, path=path)
    return Path(path_of_word) if path_of_word else None


def _is_file(place: Path) -> bool:
    """Whether it is a regular file. A command-line word, such as the code after -c, need not be a valid path."""
    try:
        return stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError):
        return False


def _read(place: Path) -> Binary | None:
    """Return size, modification time and SHA-256 of a regular file; there is no digest for files above 1 GiB."""
    try:
        with place.open("rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None
            digest = hashlib.file_digest(file, "sha256").hexdigest() if state.st_size <= _MOST_HASHED else None
        return Binary(path=str(place.resolve()), size=state.st_size, sha256=digest, modified_ns=state.st_mtime_ns)
    except (OSError, RuntimeError):
        return None
