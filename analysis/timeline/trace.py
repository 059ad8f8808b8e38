"""A timeline as arrays to compute with: device work in lanes, and host calls by what they do.

A lane is a device (of a rank, where there are ranks): streams and copy engines of one device share it. All times are
ns on the clock of the profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..store.schema import schema
from ..workload import Workload
from .host_clocks import on_one_clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

COMPUTE, COMMUNICATION, COPY, FILL = range(4)
"""Classes of device work."""
_CLASSES = 4
BLOCKING = ("synchronisation", "allocation", "copies", "messages", "module_load", "graph")
"""Classes of host calls that take time of the thread that asks for device work."""
PROFILER = "profiler"
NONE = -(2**62)
"""Instead of a time or an id that is not known."""
_AT_ONCE = 1 << 16
FARTHEST = 4 * 10**18
"""Times beyond this cannot be subtracted in 64 bits; no clock has them."""


class Window(NamedTuple):
    """A stretch of time."""

    start: int
    end: int


@dataclass(frozen=True)
class Lane:
    """One device of the timeline; its work lies in ``work[first:last]`` of the trace, by its start."""

    number: int
    device: int | None
    rank: int | None
    pid: int | None
    """Of its first work."""
    streams: int
    first: int
    last: int

    @property
    def work(self) -> int:
        """Operations on it."""
        return self.last - self.first


@dataclass(frozen=True)
class Work:
    """Device work, lane by lane and by start: when it ran, its class, the number of its kernel (-1), its process, and
    the call that asked for it (``NONE``)."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]
    kernel: NDArray[np.int32]
    pid: Ints
    a0: Ints
    a1: Ints
    thread: Ints

    def of(self, classes: Sequence[int], own: slice | Ints = slice(None)) -> Flags:
        """Which of the work is of some classes."""
        import numpy as np

        wanted = np.zeros(_CLASSES, dtype=bool)
        wanted[list(classes)] = True
        selected: Flags = wanted[self.cls[own]]
        return selected


@dataclass(frozen=True)
class Blocks:
    """The outermost blocking calls of one thread in order; ``cls`` counts in ``BLOCKING``."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]

    @cached_property
    def classes(self) -> dict[int, Ints]:
        """The classes that there are, and how much of each lies before every call."""
        import numpy as np

        lengths = self.e - self.s
        return {
            int(code): np.concatenate([[0], np.cumsum(np.where(self.cls == code, lengths, 0))])
            for code in np.unique(self.cls)
        }

    def until(self, code: int, at: Ints, k: Ints) -> Ints:
        """How much the calls of one class cover until a time, whose last call begun has the index k (-1: none)."""
        import numpy as np

        last = np.maximum(k, 0)
        within = np.where(self.cls[last] == code, np.minimum(self.e[last], at) - self.s[last], 0)
        ns: Ints = np.where(k < 0, 0, self.classes[code][last] + within)
        return ns


@dataclass(frozen=True)
class Trace:
    """A timeline ready to be asked."""

    workload: Workload
    lanes: Sequence[Lane]
    work: Work
    blocks: dict[tuple[int, int], Blocks]
    """By process and thread."""
    profiler: Sequence[Window]
    """When the profiler itself was busy, longest first."""
    whole: Window
    """From the first event or range to the end of the last."""
    communicating: Sequence[int]
    """Numbers of the kernels that communicate."""
    calls: int
    """Host calls of any kind."""
    unusable: int
    """Events left out: without a time, or ending before they start."""
    _islands: dict[str, Any] = field(default_factory=dict)

    @property
    def communicates(self) -> bool:
        """Whether any kernel does."""
        return bool(self.communicating)

    @property
    def of_torch(self) -> bool:
        """Whether the program is one of PyTorch, as its kernels or the profile say."""
        if self.workload.manifest.format == "torch":
            return True
        own = "contains(name, 'at::native') OR contains(name, 'c10::')"
        return bool(self.rows(f"SELECT 1 FROM tl_kernels WHERE {own} LIMIT 1"))

    def kernel_names(self, numbers: Sequence[int]) -> dict[int, str]:
        """Names of kernels by their number."""
        listed = ", ".join(map(str, numbers)) or "NULL"
        return dict(self.rows(f"SELECT kernel, name FROM tl_kernels WHERE kernel IN ({listed})"))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query of ours."""
        return self.workload.rows(sql)

    @property
    def ranges(self) -> str | None:
        """SQL that reads the usable ranges; None where the program has none."""
        return ranges_of(self.workload)

    @property
    def events(self) -> str:
        """SQL that reads the usable events."""
        return usable_events(self.workload)

    def per_lane(self) -> Iterator[tuple[Lane, slice]]:
        """Every lane and where its work lies."""
        for lane in self.lanes:
            yield lane, slice(lane.first, lane.last)

    def ahead(self, name: str, classes: Sequence[int]) -> Ints:
        """Of each operation the end of all earlier ones of these classes on its lane; ``NONE`` where there is none.

        What an operation adds to their union is the part of it behind that. Computed once by ``name``.
        """
        if name not in self._islands:
            import numpy as np

            ends = self.work.e
            if len(classes) < _CLASSES:
                ends = np.where(self.work.of(classes), ends, NONE)
            ahead = np.full(len(ends), NONE, dtype=np.int64)
            for _, own in self.per_lane():
                np.maximum.accumulate(ends[own][:-1], out=ahead[own][1:])
            self._islands[name] = ahead
        islands: Ints = self._islands[name]
        return islands


def pieces(first: int, last: int) -> Iterator[slice]:
    """Some events at a time: what is computed of them stays in the processor's cache, and memory is used again."""
    for begin in range(first, last, _AT_ONCE):
        yield slice(begin, min(begin + _AT_ONCE, last))


def is_same(column: Ints) -> bool:
    """Whether a column, which must not be empty, has one value."""
    return column.strides == (0,) or bool((column == column[0]).all())


def has_timeline(workload: Workload) -> bool:
    """Whether a workload holds a timeline at all."""
    return workload.has("events")


SOUND = (
    f"start_ns BETWEEN -{FARTHEST} AND {FARTHEST} AND end_ns BETWEEN -{FARTHEST} AND {FARTHEST} "
    "AND end_ns >= start_ns AND kind IS NOT NULL"
)
"""SQL: whether an event can be computed with."""


def events_of(workload: Workload) -> str:
    """SQL that reads all events, on one clock; of a profile without a timeline its launches, as far as times are
    known."""
    if has_timeline(workload):
        return on_one_clock(workload, workload.relation("events"))
    launches = workload.relation("dispatches")
    stated = {column[0] for column in workload.cursor.execute(f"FROM {launches} LIMIT 0").description or []}
    made = {"kind": "'kernel'", "name": "kernel", "stream": "queue_id"}
    listed = ", ".join(
        f"{made[name]} AS {name}"
        if name in made and (name == "kind" or made[name] in stated)
        else name
        if name in stated
        else f"NULL::{column.type} AS {name}"
        for name, column in schema()["events"].columns.items()
        if name not in ("workload", "event_id", "range_id")
    )
    made_of = f"(SELECT {listed} FROM {launches} WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL)"
    return on_one_clock(workload, made_of)


def usable_events(workload: Workload) -> str:
    """SQL that reads those of all events whose times can be used."""
    return f"(FROM {events_of(workload)} WHERE {SOUND})"


def ranges_of(workload: Workload) -> str | None:
    """SQL that reads the usable ranges; None where there are none on the clock of the events."""
    if not (workload.has("ranges") and has_timeline(workload)):
        return None
    sound = SOUND.replace(" AND kind IS NOT NULL", " AND name IS NOT NULL")
    return f"(FROM {on_one_clock(workload, workload.relation('ranges'))} WHERE {sound})"
