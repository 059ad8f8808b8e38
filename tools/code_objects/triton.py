"""Kernels that Triton compiled: in which file and line they were written, from the caches that it leaves on disk."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...analysis.base.problems import Problem
from ..base.profile_files import head

PLACES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "HOME")
"""Variables that say where the caches are."""
_NAME = re.compile(r"[A-Za-z_]\w{0,200}")
_LOCATION = re.compile(rb'^#loc = loc\("([^"\n]{1,1000})":(\d{1,7}):\d+\)', re.MULTILINE)
"""Of the kernel itself; further numbers behind #loc are of its statements."""
_HEAD = 20_000
_ENTRIES = 5_000
"""Of one cache that are looked into; each holds one kernel in one form."""


@dataclass(frozen=True)
class TritonSource:
    """Where a kernel was written: in a program, or in what torch.compile generated."""

    kernel: str
    file: str
    line: int


def caches(environment: Mapping[str, str]) -> list[Path]:
    """The folders in which Triton, by itself and under torch.compile, keeps what it compiled with these variables."""
    stated = environment.get("TRITON_CACHE_DIR")
    own = (
        [Path(stated)] if stated else [Path(environment["HOME"]) / ".triton" / "cache"] if "HOME" in environment else []
    )
    compiled = environment.get("TORCHINDUCTOR_CACHE_DIR")
    below = Path(compiled) if compiled else Path("/tmp") / f"torchinductor_{_user()}"
    return [*own, *(Path(place) for place in _folders(below / "triton"))]


def sources(kernels: Iterable[str], folders: Iterable[Path], since_s: float) -> list[TritonSource]:
    """Where those of ``kernels`` were written of which that is certain.

    Graphs number their kernels from 0 each, so that one name may stand for several: then what was compiled after
    ``since_s`` (seconds of the epoch) decides, and nothing is said where that is not one either.
    """
    names = [kernel for kernel in kernels if _NAME.fullmatch(kernel)]
    places_by_kernel: dict[str, dict[tuple[str, int], float]] = {}
    for entry in (entry for folder in folders if names for entry in _folders(folder)):
        for name in names:
            if place := _read_location(Path(entry) / f"{name}.ttir"):
                location, compiled_s = place
                times_by_location = places_by_kernel.setdefault(name, {})
                times_by_location[location] = max(compiled_s, times_by_location.get(location, 0.0))
    certain = []
    for name, times_by_location in places_by_kernel.items():
        fitting = (
            list(times_by_location)
            if len(times_by_location) == 1
            else [place for place, when in times_by_location.items() if when >= since_s]
        )
        certain += [TritonSource(name, *place) for place in fitting if len(fitting) == 1]
    return certain


def _read_location(file: Path) -> tuple[tuple[str, int], float] | None:
    """The location that a file of Triton's first form of a kernel states, and when the file was written."""
    try:
        when = file.stat().st_mtime
        stated = _LOCATION.search(head(file, _HEAD))
    except (OSError, Problem):
        return None
    return ((stated[1].decode("utf-8", "replace"), int(stated[2])), when) if stated else None


def _folders(place: Path) -> Iterator[str]:
    try:
        with os.scandir(place) as entries:
            yield from (entry.path for entry in islice(entries, _ENTRIES) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return


def _user() -> str:
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):
        return ""
