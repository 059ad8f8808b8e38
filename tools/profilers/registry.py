"""The readers, in the order in which ``format="auto"`` tries them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...analysis.problems import BadArgument, BadInput, near
from .foreign import recognise
from .ncu import read as ncu
from .perf import read as perf
from .rocprof import read as rocprof
from .rocprof import stats as rocprof_stats
from .rocprof_compute import read as rocprof_compute
from .rocprofv3 import read as rocprofv3

if TYPE_CHECKING:
    import duckdb

    from ...analysis.store import Manifest
    from .tables.merge import Merged


class Reader(Protocol):
    """What a collector module offers to import a profile."""

    FORMAT: str
    TITLE: str

    def detect(self, path: Path) -> bool:
        """Whether ``path`` looks like this format."""
        ...

    def read(self, con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
        """Write the tables of the profile at ``path`` into ``out``."""
        ...


READERS: tuple[Reader, ...] = (rocprof_compute, rocprof, rocprofv3, rocprof_stats, ncu, perf)


def reader_for(path: Path, format: str) -> Reader:
    """The reader of ``format``, or for "auto" the first that recognises ``path``."""
    known = {r.FORMAT: r for r in READERS}
    if format != "auto":
        if format not in known:
            raise BadArgument(f"Unknown format {format!r}", near(format, known), f"Known: auto, {', '.join(known)}")
        return known[format]
    for reader in READERS:
        if reader.detect(path):
            return reader
    readable = "Readable are: " + "; ".join(r.TITLE for r in READERS)
    if found := recognise(path):
        what = f"{path.name} is {found}" if path.is_file() else found
        raise BadInput(what, "this version of rooflens cannot read that format yet", readable)
    raise BadInput(
        f"{path.name} is no profile that rooflens knows",
        "no file in it, or its content, fits a known format",
        f"Name the folder or file that the profiler wrote. {readable}",
    )
