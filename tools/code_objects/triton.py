"""Find the source file and line of kernels that Triton compiled, from the caches that it leaves on disk."""

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
"""Environment variables that determine where the caches are."""
_NAME = re.compile(r"[A-Za-z_]\w{0,200}")
_LOCATION = re.compile(rb'^#loc = loc\("([^"\n]{1,1000})":(\d{1,7}):\d+\)', re.MULTILINE)
"""Location of the kernel itself; #loc with a number refers to statements."""
_HEAD = 20_000
_ENTRIES = 5_000
"""Maximum entries of one cache that are searched; each contains one kernel in one form."""


@dataclass(frozen=True)
class TritonSource:
    """Source of a kernel: in a program, or in code that torch.compile generated."""

    kernel: str
    file: str
    line: int


def caches(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders in which Triton, directly and under torch.compile, caches compiled kernels."""
    stated = environment.get("TRITON_CACHE_DIR")
    own = (
        [Path(stated)] if stated else [Path(environment["HOME"]) / ".triton" / "cache"] if "HOME" in environment else []
    )
    compiled = environment.get("TORCHINDUCTOR_CACHE_DIR")
    below = Path(compiled) if compiled else Path("/tmp") / f"torchinductor_{_user()}"
    return [*own, *(Path(place) for place in _folders(below / "triton"))]


def sources(kernels: Iterable[str], folders: Iterable[Path], since_s: float) -> list[TritonSource]:
    """Return the sources of those ``kernels`` for which they are unambiguous.

    Each graph numbers its kernels from 0, so one name may refer to several kernels. In this case, only kernels compiled
    after ``since_s`` (seconds of the epoch) count, and the name is skipped if it is still ambiguous.
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
    """Return the location in a .ttir file, Triton's first form of a kernel, and when the file was written."""
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
