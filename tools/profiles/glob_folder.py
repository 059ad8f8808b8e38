"""Profiles that a pattern names (``job/rank_*``), as one folder that readers take like any other."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from ...analysis.base.problems import BadInput, LimitExceeded
from ...analysis.base.scratch import scratch

_MOST = 100_000
_UNLINKED = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Another file system, one without links, or files of others that may be read and not linked."""
_SIGNS = frozenset("*?[")


def matches(path: Path) -> list[Path]:
    """What the last part of ``path`` fits as a pattern (``*``, ``?``, ``[...]``) in its folder, sorted; else nothing.

    Hidden names and links are not among them: what lies elsewhere was not meant.
    """
    if _SIGNS.isdisjoint(path.name) or not path.parent.is_dir():
        return []
    with os.scandir(path.parent) as entries:
        fitting = [
            entry.name
            for entry in islice(entries, _MOST)
            if not entry.name.startswith(".") and not entry.is_symlink() and fnmatchcase(entry.name, path.name)
        ]
    return [path.parent / name for name in sorted(fitting)]


@contextmanager
def as_one_folder(paths: list[Path]) -> Iterator[Path]:
    """A folder, called as theirs, that holds these files and folders and nothing else: hard links where that is
    possible, else copies. It is gone afterwards.

    LimitExceeded where they are too many files, or copies do not fit; BadInput where one cannot be read.
    """
    if len(paths) == 1:
        yield paths[0]
        return
    parent = paths[0].parent.resolve()
    files = list(islice((file for one in paths for file in _files(one)), _MOST + 1))
    if len(files) > _MOST:
        what = f"What the pattern names holds more than {_MOST} files"
        raise LimitExceeded(what, fix="Name the profiles, not what is around them")
    with scratch() as room:
        folder = room / (parent.name or "profile")
        folder.mkdir()
        for file in files:
            target = folder / file.relative_to(paths[0].parent)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(file, target)
            except OSError as error:
                raise BadInput(f"{file.name} cannot be read", error.strerror or str(error)) from error
        yield folder


def _files(one: Path) -> Iterator[Path]:
    """The regular files of a match: itself, or those below it. Links, pipes and devices are left out."""
    if not one.is_dir():
        if one.is_file():
            yield one
        return
    for folder, _, names in os.walk(one):
        for name in sorted(names):
            file = Path(folder) / name
            if _is_regular(file):
                yield file


def _is_regular(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:  # it was removed meanwhile
        return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _UNLINKED:
            raise
        if shutil.disk_usage(target.parent).free < 2 * source.stat().st_size:
            raise LimitExceeded(
                f"There is no room for a copy of {source.name}",
                "profiles that a pattern names are put into one folder for reading",
                "Put them into a folder of their own and import that, or set TMPDIR to a larger disk",
            ) from None
        shutil.copyfile(source, target)
