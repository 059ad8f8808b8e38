"""The contract for readers: a reader returns a profile as data, and this module writes it into the store.

A reader receives a path and returns a Profile. It writes nothing and knows no store. The launches of a pass may be an
iterator, which is consumed once, so that a large file need not fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...analysis.base.notes import Note
from ...analysis.base.problems import BadInput
from ...analysis.base.text import count_text
from ...analysis.store.store import Manifest
from ..base import size_limits
from ..base.profile_files import WORK
from ..base.untrusted_text import plain_text
from .merging.contract import LAUNCH, RESERVED, CounterRows, PassTable, parquet
from .merging.merge import MergedProfile, as_replays, write_tables
from .parsing.spool import Spool

if TYPE_CHECKING:
    import duckdb

_BATCH = 10_000
_COUNTER_NAME = 200
_VALUES = (("key", "BIGINT"), ("counter", "VARCHAR"), ("value", "DOUBLE"))


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


@dataclass
class Pass:
    """One profiled run of the program, with its launches in the order in which they were started."""

    name: str
    source: Path
    """The file that warnings name."""
    launches: Iterable[Launch]
    warnings: list[Note] = field(default_factory=list)


@dataclass
class Profile:
    """A profile as data. The first pass is the main one, whose times become those of the workload.

    ``facts`` are numbers of the device by the names that formulas use, such as ``cu_per_gpu`` or ``max_sclk`` (MHz).
    """

    vendor: str
    """amd, nvidia or cpu."""
    passes: Sequence[Pass]
    name: str | None = None
    """The name of the workload if the caller gives none; by default that of the file or folder."""
    arch: str | None = None
    """The target, such as gfx90a or sm_90; None if the profile does not state it."""
    device: str | None = None
    tool: str | None = None
    command: str | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    warnings: list[Note] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class Reader(Protocol):
    """A reader. ``name`` is what users give as ``format``, and ``files`` describes the files in messages."""

    name: str
    files: str

    def detect(self, path: Path) -> bool:
        """Whether a file or folder has this format; it looks at names and the beginning of files only."""
        ...

    def read(self, path: Path) -> Profile:
        """The profile at ``path``. Raises BadInput that names the faulty file."""
        ...


def write_profile(
    con: duckdb.DuckDBPyConnection, reader: Reader, path: Path, out: Path
) -> tuple[Manifest, MergedProfile]:
    """Read the profile at ``path`` and write its tables into ``out``."""
    profile = reader.read(path)
    tables = [_write_pass(con, one, out / WORK / f"pass_{number}") for number, one in enumerate(profile.passes)]
    if not any(table.rows for table in tables):
        raise BadInput(f"{path.name} contains no launches", "a workload needs at least one", "Check the profiled run")
    merged = write_tables(con, as_replays(tables), out, instances_per_xcd=1)
    merged.warnings += profile.warnings
    merged.notes += profile.notes
    manifest = Manifest(
        name=profile.name or path.name.split(".")[0],
        format=reader.name,
        vendor=profile.vendor,
        arch=profile.arch,
        device=profile.device,
        command=plain_text(profile.command, 400) if profile.command else None,
        tool=profile.tool or reader.name,
        facts=dict(profile.facts),
    )
    return manifest, merged


def _write_pass(con: duckdb.DuckDBPyConnection, one: Pass, stem: Path) -> PassTable:
    """Write the launches and the counter values of a pass to Parquet files."""
    launches = Spool(con, stem.with_name(f"{stem.name}_launches"), tuple(LAUNCH.items()))
    values = Spool(con, stem.with_name(f"{stem.name}_values"), _VALUES)
    counters: dict[str, bool] = {}
    stated: set[str] = set()
    for first, batch in _batches(one.launches):
        rows = [_launch_row(first + i, launch) for i, launch in enumerate(batch)]
        stated |= {name for row in rows for name, value in row.items() if value is not None}
        launches.add([tuple(row.values()) for row in rows])
        cells = [(first + i, name, value) for i, launch in enumerate(batch) for name, value in launch.counters.items()]
        usable = [(key, name, float(value)) for key, name, value in cells if value is not None and _is_usable(name)]
        for _, name, value in cells:
            counters[name] = counters.get(name, False) or value is not None
        values.add(usable)
        if len(counters) > size_limits.MOST_COLUMNS:
            what = f"{one.source.name} names more than {count_text(size_limits.MOST_COLUMNS, 'counter')}"
            raise BadInput(what, "no profiler counts that many", "Check that it is the file that it wrote")
    names = [name for name in counters if _is_usable(name)]
    counted = frozenset(name for name in names if counters[name])
    return PassTable(
        name=one.name,
        source=one.source,
        rows=launches.rows,
        launches=parquet(launches.close()),
        stated=frozenset(stated - {"row"}),
        counters=names,
        values=[CounterRows(tuple(values.close()), (0, launches.rows - 1), 0, counted)] if launches.rows else [],
        warnings=[*one.warnings, *_skipped_note(one, [name for name in counters if not _is_usable(name)])],
    )


def _batches(launches: Iterable[Launch]) -> Iterator[tuple[int, list[Launch]]]:
    iterator, first = iter(launches), 0
    while batch := list(islice(iterator, _BATCH)):
        yield first, batch
        first += len(batch)


def _launch_row(row: int, launch: Launch) -> dict[str, Any]:
    """The values of the columns LAUNCH."""
    own = {"row": row, "process": None, "kernel": launch.kernel, "duration_ns": launch.measured_ns()}
    return {name: own[name] if name in own else getattr(launch, name) for name in LAUNCH}


def _is_usable(name: str) -> bool:
    """Whether a counter can be a column."""
    return (
        0 < len(name) <= _COUNTER_NAME
        and name.casefold() not in RESERVED
        and name == plain_text(name, _COUNTER_NAME)
        and '"' not in name
    )


def _skipped_note(one: Pass, names: list[str]) -> list[Note]:
    if not names:
        return []
    listed = ", ".join(plain_text(name, 60) for name in sorted(names)[:8])
    return [Note("no_counters", f"{one.source.name}: skipped counters that cannot be columns: {listed}.")]
