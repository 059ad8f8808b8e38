"""Files of a profile that stands in one folder, or in a folder per run of the application (timing, pass_1, ...)."""

from __future__ import annotations

import re
from pathlib import Path

from .files import is_inside

_STEP = re.compile(r"timing|pass_\d+")
_LOOKED_AT = 2000


def step_of(file: Path) -> str | None:
    """The run that a file belongs to by its folder's name; None outside such a folder."""
    return file.parent.name if _STEP.fullmatch(file.parent.name) else None


def files_below(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The file ``path``, or the files in it and one level below that end in ``suffixes``, run of times first; none
    that leads out of the folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    here = sorted(path.iterdir())[:_LOOKED_AT]
    folders = sorted((p for p in here if p.is_dir() and is_inside(p, path)), key=_order)
    found = [*here, *(f for folder in folders for f in sorted(folder.iterdir())[:_LOOKED_AT])]
    return [f for f in found if f.name.endswith(suffixes) and f.is_file() and is_inside(f, path)]


def _order(folder: Path) -> tuple[bool, list[tuple[int, str]]]:
    """Times first, then by name, numbers in it by value: run_2 before run_10."""
    parts = re.findall(r"\d{1,9}|\D+|\d+", folder.name)
    return folder.name != "timing", [(int(p), "") if p.isdecimal() and len(p) < 10 else (-1, p) for p in parts]
