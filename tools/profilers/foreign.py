"""Profiles that rooflens recognises but does not read yet, so that it can say so plainly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...analysis.problems import Problem
from .tables.files import head

_LOOKED_AT = 200
_SUFFIXES = {  # end of a file's name -> what it is
    ".nsys-rep": "a report of NVIDIA Nsight Systems",
    ".pftrace": "a Perfetto trace",
    ".otf2": "an OTF2 trace",
    ".db.gz": "a compressed database: unpack it and import that",
    ".json.gz": "a compressed JSON file: unpack it and import that",
    ".zip": "an archive: unpack it and import what it holds",
    ".tar": "an archive: unpack it and import what it holds",
    ".tar.gz": "an archive: unpack it and import what it holds",
    ".tgz": "an archive: unpack it and import what it holds",
}
_STARTS = {  # first bytes of a file -> what it is
    b"SQLite format 3\x00": "a SQLite database without the tables of rocpd",
    b"PERFILE2": "recorded samples of perf",
}


def recognise(path: Path) -> str | None:
    """What ``path``, or the first telling file of the folder ``path``, is; None where nothing is recognised."""
    if path.is_file():
        return _kind(path)
    if not path.is_dir():
        return None
    return next((f"{file.name} is {kind}" for file in _files(path) if (kind := _kind(file))), None)


def _kind(file: Path) -> str | None:
    if name := next((what for end, what in _SUFFIXES.items() if file.name.endswith(end)), None):
        return name
    try:
        start = head(file, 4096)
    except Problem:
        return None
    return next((what for mark, what in _STARTS.items() if start.startswith(mark)), None)


def _files(folder: Path) -> Iterator[Path]:
    """Files of the folder and of its sub-folders, a bounded number of them."""
    here = sorted(folder.iterdir())[:_LOOKED_AT]
    yield from (p for p in here if p.is_file())
    for below in here:
        if below.is_dir() and not below.is_symlink():
            yield from (p for p in sorted(below.iterdir())[:_LOOKED_AT] if p.is_file())
