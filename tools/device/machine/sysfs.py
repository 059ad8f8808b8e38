"""Reading the small text files of /sys and /proc, which may be missing, empty or forbidden."""

from __future__ import annotations

import os
from pathlib import Path

_LONGEST = 1 << 20
_NAME = 120


def read(path: Path) -> str | None:
    """The stripped text of a file, at most 1 MiB; None where it is missing, unreadable or empty."""
    try:
        with path.open("rb") as handle:
            text = handle.read(_LONGEST).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return text or None


def properties(path: Path) -> dict[str, int]:
    """The whole numbers of a file of ``name value`` lines; empty where it cannot be read."""
    numbers = {}
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdecimal():
            numbers[name] = int(value)
    return numbers


def whole_number(text: str | None) -> int | None:
    """A whole number that is not negative, else None."""
    return int(text) if text is not None and text.isdecimal() else None


def path_exists(path: Path) -> bool:
    """Whether a path exists and can be reached; Path.exists raises where a folder on the way is closed to us."""
    return os.access(path, os.F_OK)


def listing(folder: Path) -> list[Path]:
    """The entries of a folder by name; empty where it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def clean(text: str, longest: int = _NAME) -> str:
    """Foreign text on one line, without control, format and invisible characters, cut to ``longest`` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
