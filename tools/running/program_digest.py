"""The file that a run really starts: path, size, digest and time, so that results cannot be put to another build."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from ...analysis.store.manifest import Binary

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
