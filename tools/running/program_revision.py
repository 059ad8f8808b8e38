"""Which commit and branch were checked out: read from the files of a Git work tree, or from a CI job's variables.

No program is run. Changes that were not committed are not seen.
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

from ...analysis.store.manifest import Binary, read_small
from ..base.untrusted_text import plain_text

RECORD = "ROOFLENS_RECORD_COMMIT"
"""Variable that, set to 0, has neither recorded."""
_VARIABLES = (
    ("GITHUB_SHA", ("GITHUB_HEAD_REF", "GITHUB_REF_NAME")),
    ("CI_COMMIT_SHA", ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")),
    ("BUILDKITE_COMMIT", ("BUILDKITE_BRANCH",)),
    ("CIRCLE_SHA1", ("CIRCLE_BRANCH",)),
    ("BUILD_SOURCEVERSION", ("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH")),
    ("GIT_COMMIT", ("CHANGE_BRANCH", "GIT_LOCAL_BRANCH", "BRANCH_NAME", "GIT_BRANCH")),
)
"""Of GitHub, GitLab, Buildkite, CircleCI, Azure Pipelines and Jenkins: the commit, and the branch; of a pull request
the branch that it comes from."""
_REMOTE = {"GIT_BRANCH": "origin/"}
"""Variables whose branches begin with the name of the remote, as Git's plugin of Jenkins writes them."""
_HEADS = "refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_HEAD, _PACKED = 4096, 16 << 20
"""Bytes of a file of Git that are read at most."""
_BRANCH, _DEEPEST = 200, 64


class Revision(NamedTuple):
    """A commit, whole, and a branch; None where not known."""

    commit: str | None = None
    branch: str | None = None


def revision(folder: str | Path | None = None) -> Revision:
    """Of the work tree around ``folder``, where one is given and there is one, else of the CI job."""
    if os.environ.get(RECORD) == "0":
        return Revision()
    job = _of_job()
    tree = _of_tree(Path(folder)) if folder else Revision()
    if tree.commit is None:
        return job
    # What CI checks out has no branch.
    return tree if tree.branch or tree.commit != job.commit else job


def _of_job() -> Revision:
    for commit, branches in _VARIABLES:
        if _COMMIT.fullmatch(value := os.environ.get(commit, "").strip().lower()):
            named = (os.environ.get(name, "").strip().removeprefix(_REMOTE.get(name, "")) for name in branches)
            return Revision(value, _branch(next((name for name in named if name), "")))
    return Revision()


def _of_tree(folder: Path) -> Revision:
    try:
        home = next((p / ".git" for p in [folder, *folder.parents][:_DEEPEST] if (p / ".git").exists()), None)
        if home is None:
            return Revision()
        if home.is_file():  # of a further work tree or a submodule
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
    """The commit that a reference stands for, in a file of its own or among the packed ones."""
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
_CHUNK = 1 << 20
_ELF = b"\x7fELF"
_INTERPRETERS = (
    "python",
    "bash",
    "sh",
    "perl",
    "ruby",
    "julia",
    "node",
    "torchrun",
    "mpirun",
    "mpiexec",
    "srun",
    "env",
)


def identify_binary(command: Sequence[str], folder: str, path: str) -> Binary | None:
    """The program of ``command``, started in ``folder``; of an interpreter or launcher the first file that it is given.

    ``path`` is the PATH that is searched. None where there is no such file, or it cannot be read.
    """
    program = _place(command[0], folder, path)
    if program is not None and program.name.rstrip("0123456789.").startswith(_INTERPRETERS):
        files = [place for word in command[1:] if not word.startswith("-") and _is_file(place := Path(folder, word))]
        program = files[0] if files else program
    return _read(program) if program and _is_file(program) else None


def native(binary: Binary | None) -> list[Path]:
    """The file, where it is one of machine code, which may hold that of kernels too; not a script."""
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
    """Whether it is a regular file; a word of a command, such as a program after -c, need be no path at all."""
    try:
        return stat.S_ISREG(place.stat().st_mode)
    except (OSError, ValueError):
        return False


def _read(place: Path) -> Binary | None:
    """Size, time and SHA-256 of a regular file; no digest for one above a gibibyte."""
    try:
        with place.open("rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None
            digest = None
            if state.st_size <= _MOST_HASHED:
                hasher = hashlib.sha256()
                while part := file.read(_CHUNK):
                    hasher.update(part)
                digest = hasher.hexdigest()
        return Binary(path=str(place.resolve()), size=state.st_size, sha256=digest, modified_ns=state.st_mtime_ns)
    except (OSError, RuntimeError):
        return None
