"""One process of one run as staged Parquet: its launches and its counter values, whatever file they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import size_limits
from ..merging.contract import parquet
from ..merging.ranks import ProcessPlace
from .agents import Rocprofv3Agent

if TYPE_CHECKING:
    import duckdb

LAUNCH = {  # column of staged launches -> SQL type; key numbers the launches of a file, in the order of their ids
    "key": "BIGINT", "pid": "BIGINT", "dispatch_id": "BIGINT", "kernel": "VARCHAR", "device": "INT",
    "queue_id": "BIGINT", "grid": "BIGINT", "workgroup_size": "BIGINT", "lds_bytes": "BIGINT",
    "scratch_bytes": "BIGINT", "vgpr": "BIGINT", "agpr": "BIGINT", "sgpr": "BIGINT", "start_ns": "BIGINT",
    "end_ns": "BIGINT",
    "symbol": "BIGINT",  # the kernel as one device has it: two builds of one name are two
    "correlation": "BIGINT",  # of the innermost call or range on the thread that launched it
}  # fmt: skip
SPAN = {  # column of staged ranges and calls -> SQL type
    "session": "BIGINT", "pid": "BIGINT", "thread": "BIGINT", "correlation": "BIGINT", "name": "VARCHAR",
    "start_ns": "BIGINT", "end_ns": "BIGINT",
}  # fmt: skip


_TIMED = {
    "pid": "BIGINT", "thread": "BIGINT", "correlation": "BIGINT", "name": "VARCHAR", "start_ns": "BIGINT",
    "end_ns": "BIGINT",
}  # fmt: skip
ACTIVITY = {  # what a process did beside its kernels -> columns of the SQL for that, and their types
    "calls": {**_TIMED, "category": "VARCHAR"},
    "copies": {**_TIMED, "stream": "BIGINT", "bytes": "BIGINT", "source": "BIGINT", "target": "BIGINT"},
    "allocations": {**_TIMED, "bytes": "BIGINT", "device": "BIGINT"},
    "samples": {**_TIMED, "value": "DOUBLE", "unit": "VARCHAR", "device": "BIGINT"},
    "regions": SPAN | {"source": "VARCHAR"},
}
"""``source`` and ``target`` of a copy are numbers of GPUs, NULL for the host; regions are ranges of other kinds."""
SAMPLE_COLUMNS = {  # column of samples of the program counter -> SQL type; equal ones are counted
    "dispatch_id": "BIGINT",
    "code_object": "BIGINT",  # its number in the process
    "offset": "BIGINT", "instruction": "VARCHAR",
    "comment": "VARCHAR",  # FILE:LINE, of inlined code the innermost first, joined by " -> "
    "stall_raw": "VARCHAR", "issued": "BOOLEAN",
    "lanes": "BIGINT",  # work-items that were active in one of them
    "count": "BIGINT",
}  # fmt: skip
OBJECT = {"code_object": "BIGINT", "uri": "VARCHAR"}
ENTRY = {
    "code_object": "BIGINT", "symbol": "VARCHAR", "kernel": "VARCHAR",
    "start": "BIGINT",  # of its code, in the code object
}  # fmt: skip


@dataclass(frozen=True)
class ProcessSamples:
    """Samples of the program counter of one process, as SELECTs with the columns SAMPLED, OBJECT and ENTRY."""

    samples: str
    objects: str = ""
    """The code objects that were loaded, where the profile tells; empty where it does not."""
    entries: str = ""
    """The kernels in them."""


@dataclass
class ProcessRecording:
    """What one process did in one run of the profiler."""

    source: Path
    kind: str
    """rocpd, json or csv."""
    label: str
    """Name of the pass, or an empty text."""
    above: tuple[str, ...]
    """Folders above the pass's, below the folder that was imported."""
    launches: Path
    """Parquet with the columns LAUNCH of every process of the source."""
    keys: tuple[int, int]
    """First and last key of this process."""
    rows: int
    values: list[Path] = field(default_factory=list)
    """Parquet files (key, counter, value) of every process of the source; values of one counter add up."""
    counters: tuple[str, ...] = ()
    host: str | None = None
    rank: int | None = None
    pid: int | None = None
    command: str | None = None
    session: str | None = None
    """Identity of the run that the database states, so that a copy is noticed."""
    span: tuple[int, int] | None = None
    """From when to when the process, or else its kernels, ran; ns on the clock of its host."""
    kernels: dict[tuple[str, int | None], int] = field(default_factory=dict)
    """Kernel and grid -> launches."""
    agents: list[Rocprofv3Agent] = field(default_factory=list)
    devices: tuple[int, ...] = ()
    """Numbers of the agents that its launches name."""
    lds_is_static: bool = False
    tool: str = "rocprofv3"
    ranges: str = ""
    """SQL for the ranges (ROCTX) of this process, in the columns SPAN; empty without any."""
    activity: dict[str, str] = field(default_factory=dict)
    """What else it did (ACTIVITY) -> SQL for that; empty where nothing but kernels and ranges was traced."""

    sampled: ProcessSamples | None = None

    @property
    def place(self) -> ProcessPlace:
        """Where the process stood."""
        return ProcessPlace(self.rank, self.host, self.pid)

    def set_place(self, place: ProcessPlace) -> None:
        """Note where the process stood; its id as the launches have it stays."""
        self.rank, self.host = place.rank, place.host

    def select(self, columns: str = "*") -> str:
        """SQL for the launches of this process."""
        low, high = self.keys
        return f"SELECT {columns} FROM {parquet([self.launches])} WHERE key BETWEEN {low} AND {high}"

    def overlaps(self, other: ProcessRecording) -> bool:
        """Whether the two ran at the same time, as far as one can tell: clocks of two hosts do not compare."""
        if self.span is None or other.span is None or self.host != other.host:
            return True
        return self.span[0] <= other.span[1] and other.span[0] <= self.span[1]


def describe_recordings(con: duckdb.DuckDBPyConnection, recordings: Sequence[ProcessRecording]) -> None:
    """Fill in what the launches and values themselves tell of the processes in one file: counters, kernels, devices
    and, where no better is known, the time span. One query for all: a file may hold hundreds of processes.
    """
    if not recordings:
        return
    if len(recordings) > size_limits.MOST_PROCESSES:
        raise BadInput(
            f"{recordings[0].source.name} holds launches of {count_text(len(recordings), 'process')}",
            f"{size_limits.MOST_PROCESSES} are read at most",
            "Is it the file that the profiler wrote?",
        )
    launches, values = parquet([recordings[0].launches]), recordings[0].values
    ranges = ", ".join(f"({i}, {low}, {high})" for i, (low, high) in enumerate(r.keys for r in recordings))
    of = f"JOIN (VALUES {ranges}) r(number, low, high) ON key BETWEEN low AND high"
    for number, kernel, grid, n in con.execute(
        f"SELECT number, kernel, grid, count(*) FROM {launches} {of} GROUP BY ALL"
    ).fetchall():
        recordings[number].kernels[kernel, grid] = n
    for number, devices, start, end in con.execute(
        f"SELECT number, list(DISTINCT device ORDER BY device), min(start_ns) FILTER (start_ns > 0), max(end_ns) "
        f"FROM {launches} {of} GROUP BY number"
    ).fetchall():
        item = recordings[number]
        item.devices = tuple(d for d in devices or () if d is not None)
        if item.span is None and start is not None and end is not None and end > start:
            item.span = (start, end)
    if values:
        for number, counters in con.execute(
            f"SELECT number, list(DISTINCT counter ORDER BY counter) FROM {parquet(values)} {of} GROUP BY number"
        ).fetchall():
            recordings[number].counters = tuple(c for c in counters if c is not None)
