"""Scratch folders outside of the store, closed to other users; those of killed processes go with the next one made."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .problems import MissingTool
from .temporary_files import mark, remove, sweep


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
