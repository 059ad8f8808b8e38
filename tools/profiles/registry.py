"""The list of all supported profile formats: their names, their files, and the modules that read them.

Readers from other packages, and our own reader of perf stat, are entry points (analysis/base/extensions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ...analysis.base.extensions import READERS, extensions
from ...analysis.base.problems import BadArgument, BadInput, Problem, near
from ..base.profile_files import head, is_inside
from .merging.gather import RankProfile, units_of
from .parsing.module_data import module_data
from .reader import Profile, ProfileFiles, Reader
from .rocprofv3.outputs import RAW_TRACE


@dataclass(frozen=True)
class Format:
    """One format and its reader: an object, or the name of a module of this package with the functions of a Reader.

    Such a module is imported when it is first needed. After a colon, the name of its function that detects the format
    may follow, if it is not ``detect``.
    """

    name: str
    """Name as users write it, usually that of the program that writes the format."""
    files: str
    """Description of the files that belong to the format."""
    reader: str | Reader
    host: bool = False
    """Whether files of this format have nothing but stacks of the host, and are read with a trace beside them."""
    by_rank: bool = False
    """Whether a folder with one profile per rank is read rank by rank; other readers read all of it at once."""

    def detect(self, path: Path) -> bool:
        """Return whether ``path`` looks like this format."""
        name = self.reader.partition(":")[2] if isinstance(self.reader, str) else ""
        return bool(getattr(self.load(), name or "detect")(path))

    def read(self, files: ProfileFiles) -> Profile:
        """Return the profile at ``files.path``; BadInput names the faulty file."""
        profile: Profile = self.load().read(files)
        return profile

    def load(self) -> Any:
        """Return the reader: the object, or its module, which is imported now."""
        if not isinstance(self.reader, str):
            return self.reader
        return import_module(f".{self.reader.partition(':')[0]}", __package__)


_LOOKED_AT = 200
_ANALYSED = (b"compute_workload", b"compute_metric_definition")
"""Tables in the database that ``rocprof-compute analyze`` writes; their names appear in its first pages."""
_FIRST_PAGES = 1 << 18
_STARTS = {  # first bytes of a file -> description
    b"SQLite format 3\x00": "a SQLite database without the tables of rocpd or Nsight Systems",
    b"PERFILE2": "samples of perf record: perf script > FILE.txt makes a text of them, which can be imported",
}


@cache
def formats() -> dict[str, Format]:
    """All formats by name, in the order in which format="auto" tries them: ours, then those of extensions.

    Extensions that cannot be loaded are skipped; `rooflens doctor` reports them.
    """
    known = {own["name"]: Format(**own) for own in module_data(__file__)["format"]}
    for extension in extensions(READERS):
        with suppress(BadInput):
            reader = extension.load()
            known.setdefault(reader.name, Format(reader.name, reader.files, reader))
    return known


def load_readers() -> None:
    """Import all readers and the database, for a process whose forks import profiles."""
    import duckdb  # noqa: F401

    for known in formats().values():
        known.load()


def reader_for(path: Path, format: str) -> Format:
    """Return the format with this name, or for "auto" the first one that recognises ``path``."""
    readers = formats()
    if format != "auto":
        if format not in readers:
            raise BadArgument(f"Unknown format {format!r}", near(format, readers), f"Known: auto, {', '.join(readers)}")
        return readers[format]
    folder = path.is_dir()
    for known in sorted(readers.values(), key=lambda known: folder and known.host):
        if known.detect(path):
            return known
    listed = sorted(readers.values(), key=lambda known: known.host)
    readable = "Supported formats: " + "; ".join(known.files for known in listed)
    if kind := _unreadable(path):
        what = f"{path.name} is {kind}" if path.is_file() else kind
        raise BadInput(what, "this version of rooflens cannot read that format yet", readable)
    raise BadInput(
        f"{path.name} is not a profile that rooflens recognises",
        "no file in it matches a known format by name or content",
        f"Give the folder or file that the profiler wrote. {readable}",
    )


def recordings_beside(path: Path, reader: Format) -> list[tuple[Format, Path]]:
    """Return the files in the folder ``path`` that have stacks of the host and are not read by ``reader``."""
    if not path.is_dir() or reader.host:
        return []
    ours = [known for known in formats().values() if known.host]
    files = sorted(file for file in path.iterdir() if file.is_file() and is_inside(file, path))[:_LOOKED_AT]
    fitting = ((next((known for known in ours if known.detect(file)), None), file) for file in files)
    return [(known, file) for known, file in fitting if known]


def ranks_of(path: Path, format: str) -> tuple[Format, list[RankProfile]] | None:
    """Return the format and the profiles of single ranks in the folder ``path``.

    None if the file names do not state ranks, or if the reader of the format reads all ranks at once.
    """
    units = units_of(path)
    for known in formats().values() if units else ():
        if known.by_rank and format in ("auto", known.name):
            fitting = [unit for unit in units[:_LOOKED_AT] if known.detect(unit.path)]
            if len(fitting) > 1:
                return known, units
    return None


def _unreadable(path: Path) -> str | None:
    """Describe ``path``, or the first recognised file of the folder ``path``; None if nothing is recognised."""
    if path.is_file():
        return _kind(path)
    if not path.is_dir():
        return None
    return next((f"{file.name} is {kind}" for file in _files(path) if (kind := _kind(file))), None)


def _kind(file: Path) -> str | None:
    suffixes: dict[str, str] = module_data(__file__)["suffixes"] | {".att": RAW_TRACE}
    if name := next((what for end, what in suffixes.items() if file.name.endswith(end)), None):
        return name
    try:
        start = head(file, _FIRST_PAGES)
    except Problem:
        return None
    if start.startswith(b"SQLite") and all(table in start for table in _ANALYSED):
        return "a result of rocprof-compute analyze, without counters: import the folder that was analysed"
    return next((what for mark, what in _STARTS.items() if start.startswith(mark)), None)


def _files(folder: Path) -> Iterator[Path]:
    """Yield a bounded number of files of the folder and of its sub-folders."""
    here = sorted(folder.iterdir())[:_LOOKED_AT]
    yield from (p for p in here if p.is_file())
    for below in here:
        if below.is_dir() and not below.is_symlink():
            yield from (p for p in sorted(below.iterdir())[:_LOOKED_AT] if p.is_file())
