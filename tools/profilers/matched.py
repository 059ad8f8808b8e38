"""Profiles that a pattern names (``job/rank_*``), as one folder that readers take like any other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from ...analysis.problems import LimitExceeded
from ...analysis.scratch import scratch

_MOST = 100_000
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
def together(found: list[Path]) -> Iterator[Path]:
    """A folder, called as theirs, that holds these files and folders and nothing else: hard links where that is
    possible, else copies. It is gone afterwards. LimitExceeded where the copies do not fit."""
    if len(found) == 1:
        yield found[0]
        return
    with scratch() as room:
        folder = room / (found[0].parent.resolve().name or "profile")
        folder.mkdir()
        for one in found:
            if one.is_dir():
                shutil.copytree(one, folder / one.name, symlinks=True, copy_function=_placed)
            else:
                _placed(one, folder / one.name)
        yield folder


def _placed(source: str | Path, target: str | Path) -> None:
    source = Path(source)
    if not source.is_file():  # a pipe or device would block
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or one without links
        if shutil.disk_usage(Path(target).parent).free < 2 * source.stat().st_size:
            raise LimitExceeded(
                f"There is no room for a copy of {source.name}",
                "profiles that a pattern names are put into one folder for reading",
                "Put them into a folder of their own and import that, or set TMPDIR to a larger disk",
            ) from None
        shutil.copyfile(source, target)
