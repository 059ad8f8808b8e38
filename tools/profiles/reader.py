"""The contract for readers: a reader receives the files of a profile and returns the profile as data.

A reader writes no table of a workload and knows no store; writer.py merges, checks and stores what all readers return.
Small profiles are Python objects (Pass, Launch). Large ones are relations: SQL over Parquet files that the reader
stages in ``ProfileFiles.work``, so that they need not fit in memory. The columns of relations are documented where they
are written: passes in merging/contract.py, events and ranges in timelines/timeline_tables.py, samples and
instructions in samples/sample_tables.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...analysis.base.notes import Note
from .host.recording import HostRecording
from .merging.contract import PassTable
from .merging.ranks import ProcessPlace
from .samples.sample_tables import HotspotQueries
from .timelines.timeline_tables import TimelineQueries

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class ProfileFiles:
    """What a reader receives: the profile, and the means to stage large files."""

    path: Path
    """The file or folder to read."""
    con: duckdb.DuckDBPyConnection
    """A database for staging."""
    work: Path
    """An empty folder for staged files, which is removed after the import."""
    code: Sequence[Path] = ()
    """Files that may contain the code of sampled kernels."""

    def or_itself(self, fitting: list[Path]) -> list[Path]:
        """Return the ``fitting`` files at ``path``, or else the file itself, whose reading tells what is wrong."""
        return fitting or ([self.path] if self.path.is_file() else [])


@dataclass
class Launch:
    """One launch of a kernel with the values that were counted in it. None is a value that the profile does not state.

    ``grid`` and ``workgroup_size`` are numbers of work-items (threads), times are in ns on any clock, and ``counters``
    maps the profiler's names to values per launch. Registers are per work-item, ``sgpr`` is per wave.
    """

    kernel: str
    counters: Mapping[str, float | None] = field(default_factory=dict)
    start_ns: int | None = None
    end_ns: int | None = None
    duration_ns: float | None = None
    """Computed from start and end if it is None."""
    grid: int | None = None
    workgroup_size: int | None = None
    lds_bytes: int | None = None
    scratch_bytes: int | None = None
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    cluster: int | None = None
    device_id: int | None = None
    queue_id: int | None = None
    pid: int | None = None
    dispatch_id: int | None = None

    def measured_ns(self) -> float | None:
        """The duration in ns; None if it is unknown or not positive."""
        span = self.duration_ns
        if span is None and self.start_ns is not None and self.end_ns is not None:
            span = float(self.end_ns - self.start_ns)
        return span if span is not None and math.isfinite(span) and span > 0 else None


@dataclass(frozen=True)
class Pass:
    """One profiled run of the program, with its launches in the order in which they were started.

    The launches may be an iterator, which is consumed once, so that a large file need not fit in memory.
    """

    name: str
    source: Path
    """The file that warnings name."""
    launches: Iterable[Launch]
    warnings: list[Note] = field(default_factory=list)


DETECT = "launch"
"""Value of ``multiplexed`` for profilers that may let groups of counters take turns but do not state it."""


@dataclass(frozen=True)
class Profile:
    """A profile as data. The first pass is the main one, whose times become those of the workload.

    ``facts`` are numbers of the device by the names that formulas use, such as ``cu_per_gpu`` or ``max_sclk`` (MHz).
    A profile without launches has one pass without rows, which names its file.
    """

    vendor: str | None
    """amd, nvidia or cpu."""
    passes: Sequence[Pass | PassTable]
    name: str | None = None
    """The name of the workload if the caller gives none; by default that of the file or folder."""
    format: str | None = None
    """By default the name of the reader."""
    arch: str | None = None
    """The target, such as gfx90a or sm_90; None if the profile does not state it."""
    device: str | None = None
    tool: str | None = None
    tool_version: str | None = None
    command: str | None = None
    host: str | None = None
    rank: int | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    multiplexed: str | None = None
    """How groups of counters took turns between launches, or DETECT."""
    replayed: Sequence[str] = ()
    """Passes in which single kernels were replayed, so that their counters belong to their own times."""
    places: Sequence[ProcessPlace] = ()
    """The place of each process that launched or did anything; empty if the reader does not distinguish processes."""
    world_size: int | None = None
    """Number of ranks of the program, if the profile states it."""
    timeline: TimelineQueries | None = None
    stacks: HostRecording | None = None
    """The stacks of the host: those to which ``stack`` of events refers, and samples."""
    unix_shift: int | None = None
    """The clock of its times minus Unix time in ns, if it states both."""
    hotspots: Callable[[str], HotspotQueries] | None = None
    """Returns the samples; its argument is a FROM item with the stored launches, empty if there are none."""
    sampled: Profile | None = None
    """Another run of the same program, whose samples belong to the launches of this profile."""
    tables: Mapping[str, str | Callable[[str], str]] = field(default_factory=dict)
    """Further tables that the profile states as a whole (ranges, kernel_stats, ceilings) -> SELECT, or what makes it
    from a FROM item with the stored launches."""
    warnings: list[Note] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class Reader(Protocol):
    """A reader. ``name`` is what users give as ``format``, and ``files`` describes the files in messages."""

    @property
    def name(self) -> str: ...

    @property
    def files(self) -> str: ...

    def detect(self, path: Path) -> bool:
        """Whether a file or folder has this format; it looks at names and the beginning of files only."""
        ...

    def read(self, files: ProfileFiles) -> Profile:
        """The profile at ``files.path``. Raises BadInput that names the faulty file."""
        ...
