"""A timeline as arrays: device work by lane, and host calls by class.

A lane is one device (of one rank, if there are ranks), including all of its streams and copy engines. All times are in
ns on the clock of the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..workload import Workload
from .host_clocks import on_one_clock, stored_events

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

COMPUTE, COMMUNICATION, COPY, FILL = range(4)
"""Classes of device work."""
_CLASSES = 4
BLOCKING = ("synchronisation", "allocation", "copies", "messages", "module_load", "graph")
"""Classes of host calls that block the thread that requests device work."""
PROFILER = "profiler"
LAUNCH, GRAPH, CAPTURE_BEGIN, CAPTURE_END = range(1, 5)
"""Roles of host calls: launching a kernel or a graph, and beginning or ending a stream capture; 0 for all others."""
NONE = -(2**62)
"""Replaces unknown times and ids."""
_AT_ONCE = 1 << 16
FARTHEST = 4 * 10**18
"""Larger times cannot be subtracted in 64 bits and are invalid, since no clock reaches them."""


OF_PROGRAM = "source NOT IN ('torch', 'python')"
"""SQL: ranges that the program itself named, and neither an operator of a framework nor a function of Python."""


class Window(NamedTuple):
    """A time interval."""

    start: int
    end: int

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True)
class Lane:
    """One device of the timeline; its work is ``work[first:last]`` of the trace, ordered by start."""

    number: int
    device: int | None
    rank: int | None
    pid: int | None
    """The process of its first work."""
    streams: int
    first: int
    last: int

    @property
    def work(self) -> int:
        """The number of operations."""
        return self.last - self.first


@dataclass(frozen=True)
class Work:
    """Device work, ordered by lane and start: start (s) and end (e), class, kernel number (-1 if not a kernel) and
    process, and start (a0), end (a1) and thread of the call that requested it (``NONE`` if unknown)."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]
    kernel: NDArray[np.int32]
    pid: Ints
    a0: Ints
    a1: Ints
    thread: Ints
    node: Flags
    """Whether it is a node of a graph other than the first one of the same replay on its lane."""

    def of(self, classes: Sequence[int], own: slice | Ints = slice(None)) -> Flags:
        """Return a mask of the work that belongs to the given classes."""
        wanted = np.zeros(_CLASSES, dtype=bool)
        wanted[list(classes)] = True
        selected: Flags = wanted[self.cls[own]]
        return selected


@dataclass(frozen=True)
class Blocks:
    """The outermost blocking calls of one thread in order; ``cls`` is an index into ``BLOCKING``."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]

    def ns(self, number: int, start: Ints, end: Ints) -> Ints:
        """Return how much of each interval calls of one class, an index into ``BLOCKING``, take, in ns."""
        first, last = np.searchsorted(self.e, start.min(initial=-NONE)), np.searchsorted(self.s, end.max(initial=NONE))
        mine = first + np.flatnonzero(self.cls[first:last] == number)
        return covered_before(end, self.s[mine], self.e[mine]) - covered_before(start, self.s[mine], self.e[mine])


NO_BLOCKS = Blocks(*np.zeros((3, 0), dtype=np.int64))


@dataclass(frozen=True)
class SilentStream:
    """A stream that has launches, but no work from some time on."""

    stream: int
    launches: int
    """The number of launches that name it."""
    lost: int
    """How many of the last ones left no work in the trace."""
    since: int
    """The start of the first of these."""


@dataclass(frozen=True)
class Launches:
    """The host calls that launch kernels and graphs, compared with the work that they started on the device."""

    calls: int = 0
    """The number of these calls; 0 if no call is linked to device work, so that nothing can be compared."""
    first: int = NONE
    """The start of the first launch that was executed."""
    last: int = NONE
    """The start of the last launch that was executed."""
    lost: Ints | None = None
    """The start times, in order, of the launches for which the trace contains no work on the device."""
    lost_replays: int = 0
    """How many of these are launches of graphs."""
    lost_threads: int = 0
    """The number of threads that made them."""
    silent: Sequence[SilentStream] = ()
    """The streams whose last launches, or all, are among these."""
    replay: NDArray[np.int32] | None = None
    """For each piece of device work, a number of the graph launch that started it, or -1; None without graphs."""
    spacing: float | None = None
    """The mean distance between the correlation ids of successive host calls, without the longest ones; None if there
    are few calls."""


EVICTED, PAGE_FAULTS, EVENT_WAIT = HOLDS = ("evicted", "page_faults", "event_wait")
"""What holds a device or one of its queues, as causes of idle time: the kernel driver, and waits for events."""


@dataclass(frozen=True)
class Hold:
    """The intervals in which one thing held a device, in order of their ends.

    ``whole`` says whether they held the whole device. A wait for an event holds one queue only.
    """

    s: Ints
    e: Ints
    whole: bool

    def within_gaps(self, until: Callable[[Ints], Ints], g0: Ints, g1: Ints) -> Ints:
        """Return the part of each gap that the intervals explain; ``until`` measures the time before each moment.

        A wait for an event explains a gap in which it ended: the next work started after it. Of several such waits the
        last one counts; those that last longer held another queue.
        """
        if not self.whole:
            last = np.searchsorted(self.e, g1, side="right") - 1
            end = np.where(last >= 0, np.maximum(self.e[last], g0), g0)
            return until(end) - until(np.minimum(np.maximum(self.s[last], g0), end))
        held = [until(at) for at in islands(self.s, self.e)]
        return covered_before(until(g1), *held) - covered_before(until(g0), *held)


@dataclass(frozen=True)
class Trace:
    """A timeline that has been loaded for analysis."""

    workload: Workload
    lanes: Sequence[Lane]
    work: Work
    blocks: dict[tuple[int, int], Blocks]
    """Blocking calls by process and thread."""
    profiler: Sequence[Window]
    """The intervals in which the profiler itself was busy, longest first."""
    whole: Window
    """From the first event or range to the end of the last."""
    communicating: Sequence[int]
    """The numbers of the kernels that communicate."""
    calls: int
    """The number of host calls of any kind."""
    unusable: int
    """The number of skipped events, which have no time or end before they start."""
    launches: Launches = field(default_factory=Launches)
    holds: Mapping[tuple[int, str], Hold] = field(default_factory=dict)
    """What held each lane: number of the lane and one of HOLDS -> its intervals."""
    _islands: dict[str, Ints] = field(default_factory=dict)

    @cached_property
    def work_span(self) -> Window:
        """From the first to the last device work."""
        return Window(int(self.work.s.min()), int(self.work.e.max()))

    @property
    def communicates(self) -> bool:
        """Whether any kernel communicates."""
        return bool(self.communicating)

    @cached_property
    def requests(self) -> dict[tuple[int, int], Ints]:
        """The ends of the calls that requested device work, in order, by process and thread."""
        work = self.work
        known = np.flatnonzero(work.a0 != NONE)
        return {who: np.sort(work.a1[known[mine]]) for who, mine in thread_rows(work.pid[known], work.thread[known])}

    @property
    def of_torch(self) -> bool:
        """Whether this is a PyTorch program, according to its kernel names or the format of the profile."""
        if self.workload.manifest.format == "torch":
            return True
        own = "contains(name, 'at::native') OR contains(name, 'c10::')"
        return bool(self.rows(f"SELECT 1 FROM tl_kernels WHERE {own} LIMIT 1"))

    def communicates_at(self, times: Ints, recent_ns: int) -> Flags:
        """Return whether communication runs at each time, or ended on any device at most ``recent_ns`` before it.

        Only times at which the asking device itself was idle are meaningful.
        """
        if len(self.lanes) < 2 or not self.communicates:
            return np.zeros(len(times), dtype=bool)
        starts, ends = self._communication
        before = np.searchsorted(starts, times) - 1
        running: Flags = (before >= 0) & (ends[np.maximum(before, 0)] >= times - recent_ns)
        return running

    @cached_property
    def _communication(self) -> tuple[Ints, Ints]:
        """The starts of communication on all devices in order, and its latest end so far."""
        mine = self.work.of((COMMUNICATION,))
        s, e = self.work.s[mine], self.work.e[mine]
        order = np.argsort(s, kind="stable")
        return s[order], np.maximum.accumulate(e[order])

    def kernel_names(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the names of kernels by their number."""
        listed = ", ".join(map(str, numbers)) or "NULL"
        return dict(self.rows(f"SELECT kernel, name FROM tl_kernels WHERE kernel IN ({listed})"))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of an internal query."""
        return self.workload.rows(sql)

    @property
    def ranges(self) -> str | None:
        """SQL that reads the usable ranges; None if there are none."""
        return ranges_of(self.workload)

    @property
    def events(self) -> str:
        """SQL that reads the usable events."""
        return usable_events(self.workload)

    def per_lane(self) -> Iterator[tuple[Lane, slice]]:
        """Iterate over the lanes with the slice of their work."""
        for lane in self.lanes:
            yield lane, slice(lane.first, lane.last)

    def ahead(self, name: str, classes: Sequence[int]) -> Ints:
        """Return for each operation the latest end of all earlier ones of these classes on its lane, or ``NONE``.

        An operation adds to the union of the classes only the part after that time. The result is cached by ``name``.
        """
        if name not in self._islands:
            ends = self.work.e
            if len(classes) < _CLASSES:
                ends = np.where(self.work.of(classes), ends, NONE)
            ahead = np.full(len(ends), NONE, dtype=np.int64)
            for _, own in self.per_lane():
                np.maximum.accumulate(ends[own][:-1], out=ahead[own][1:])
            self._islands[name] = ahead
        return self._islands[name]


def pieces(first: int, last: int) -> Iterator[slice]:
    """Divide events into batches, so that intermediate results stay in the cache and their memory is reused."""
    for begin in range(first, last, _AT_ONCE):
        yield slice(begin, min(begin + _AT_ONCE, last))


def thread_rows(pid: Ints, thread: Ints) -> list[tuple[tuple[int, int], Ints]]:
    """Return each process and thread with the indexes of its rows."""
    if len(pid) and is_same(pid) and is_same(thread):
        return [((int(pid[0]), int(thread[0])), np.arange(len(pid)))]
    threads = [(int(number), np.flatnonzero(thread == number)) for number in np.unique(thread)]
    rows = [((int(p), number), own[pid[own] == p]) for number, own in threads for p in np.unique(pid[own])]
    return sorted(rows, key=itemgetter(0))


def islands(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the starts and ends of the union of intervals in order, with those that overlap or touch merged."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1])[: len(start)])
    return start[first], reach[np.append(first, len(start))[1:] - 1]


def covered_before(at: Ints, start: Ints, end: Ints) -> Ints:
    """Return how much sorted, disjoint intervals cover before each time, in ns."""
    # Before the first one lies an empty interval, and only the last one before a time may reach beyond it.
    before = np.append(0, np.cumsum(end - start))
    begun = np.searchsorted(start, at, side="right")
    covered: Ints = before[begun] - np.maximum(np.append(NONE, end)[begun] - at, 0)
    return covered


def is_same(column: Ints) -> bool:
    """Whether all values of a column, which must not be empty, are equal."""
    return column.strides == (0,) or bool((column == column[0]).all())


def lane_name(rank: int | None, device: int | None) -> str:
    """The display name of a device."""
    own = f"GPU {0 if device is None else device}"
    return own if rank is None else f"rank {rank}, {own}"


def has_timeline(workload: Workload) -> bool:
    """Whether the workload has a timeline."""
    return workload.has("events")


SOUND = (
    f"start_ns BETWEEN -{FARTHEST} AND {FARTHEST} AND end_ns BETWEEN -{FARTHEST} AND {FARTHEST} "
    "AND end_ns >= start_ns AND kind IS NOT NULL"
)
"""SQL: whether the times and the kind of an event are usable."""


def events_of(workload: Workload) -> str:
    """SQL that reads all events on one clock; without a timeline, the launches with known times as kernel events."""
    return on_one_clock(workload, stored_events(workload))


def usable_events(workload: Workload) -> str:
    """SQL that reads all events with usable times."""
    return f"(FROM {events_of(workload)} WHERE {SOUND})"


def ranges_of(workload: Workload) -> str | None:
    """SQL that reads the usable ranges; None if there are none on the clock of the events."""
    if not (workload.has("ranges") and has_timeline(workload)):
        return None
    sound = SOUND.replace(" AND kind IS NOT NULL", " AND name IS NOT NULL")
    return f"(FROM {on_one_clock(workload, workload.relation('ranges'))} WHERE {sound})"
