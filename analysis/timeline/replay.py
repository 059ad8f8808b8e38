"""What a program would take after a change, by replaying its timeline.

A timeline is a graph of moments, each of which follows from at most two earlier ones:

* Work of a device ends its own length after the later of two: the call that requested it began, and the work before it
  ended.
* A call that waits for the device returns after the later of two: the host made it, and the work that it waited for
  ended. The next calls follow after the time that the host takes until then. Calls that free memory wait, too; an
  allocating call counts as one of them if the devices are idle when it returns.

The distances between these moments are those that were measured, so that a replay without a change takes the measured
time. Without some code, the host takes less time between its calls and makes no calls that wait there; the copies that
the code requests may vanish as well. The same holds without all calls of a class, and without the pauses between calls
in which the host is busy itself. Kernels and copies may take less time. All other work of the devices stays, and so
do distances that neither calls nor earlier work explain. The threads of a process count as one sequence of calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .busy import MEMORY
from .host_code import HostCode
from .idle import scale_limits
from .trace import BLOCKING, COPY, NO_BLOCKS, NONE, Floats, Ints, Trace, Window, covered_before, islands

_WAITING = [BLOCKING.index(name) for name in ("synchronisation", "copies", "allocation")]
_ALLOCATION = BLOCKING.index("allocation")
_LATENCY_NS = 10_000
"""The time from a call to its work on an idle device, if a trace does not show it."""
_NEVER = -(2**60)
NO_KERNEL, _COPIED = -1, -2


@dataclass(frozen=True)
class ProgramChange:
    """A change of a program, or several of them made together (``|``)."""

    stacks: frozenset[int] = frozenset()
    """Numbers of the stacks whose code the host no longer runs."""
    copies: bool = False
    """Whether the copies that these stacks request vanish as well."""
    kernels: frozenset[tuple[int, float]] = frozenset()
    """The number of a kernel, and the share of its time that remains."""
    overlapped: bool = False
    """Whether all copies run at the same time as other work."""
    launched_together: bool = False
    """Whether all work that is requested between two waits is requested at once, as by a graph."""
    host: frozenset[str] = frozenset()
    """What the host no longer takes time for: classes of calls (``BLOCKING``), and ``PAUSES``."""

    def __or__(self, other: ProgramChange) -> ProgramChange:
        """Return both changes together."""
        return ProgramChange(*map(or_, astuple(self), astuple(other)))


PAUSES = "pauses"
"""The time between two calls of a thread if it is longer than what a launch takes the host."""
NO_CHANGE = ProgramChange()


class _Moments(NamedTuple):
    """Columns of moments, in ns from the start of a window: the later of ``cost`` after the call and ``distance`` after
    the end of other work, and then the length of the work."""

    at: Ints
    """When the work began or the call returned: the order of the moments."""
    pid: Ints
    call: Ints
    """When the host made the call."""
    cost: Ints
    work: Ints
    """The index of the work that it follows; -1 if there is none."""
    distance: Ints
    length: Ints
    """The length of the work; -1 for calls."""
    stack: Ints
    """The stack of a call that waits or copies; -1 for others."""
    kernel: Ints
    """The number of the kernel; ``_COPIED`` for copies and fills, and ``NO_KERNEL`` for calls."""
    blocks: Ints
    """The class of a call that waits; -1 for others."""


class Replay:
    """The windows of a timeline, to be replayed after a change; ``code`` is None if no code of the host is known."""

    def __init__(self, trace: Trace, windows: Sequence[Window], code: HostCode | None) -> None:
        self._trace, code = trace, code or HostCode()
        self._graphs = [_Graph(trace, window, code) for window in windows]
        self._known: dict[ProgramChange, float] = {}
        threads = {*trace.blocks, *trace.requests}
        self._code = [(pid, code.code_of(pid, thread)) for pid, thread in threads]
        """The code of the threads that request work or wait for it, by process."""

    def wall_ns(self, change: ProgramChange = NO_CHANGE) -> float:
        """Return the time that the windows take after a change, in ns."""
        if change not in self._known:
            # What several threads do at a time is saved once.
            spans = self._saved_spans(change).items()
            saved = {pid: islands(*map(np.concatenate, zip(*own, strict=True))) for pid, own in spans}
            self._known[change] = sum(graph.wall_ns(change, saved) for graph in self._graphs)
        return self._known[change]

    def saved_ns(self, change: ProgramChange) -> float:
        """Return how much less time the windows take after a change, in ns."""
        return self.wall_ns() - self.wall_ns(change)

    def _saved_spans(self, change: ProgramChange) -> dict[int, list[tuple[Ints, Ints]]]:
        """Return the starts and ends of what the host no longer does after a change, by process."""
        spans: dict[int, list[tuple[Ints, Ints]]] = defaultdict(list)
        for pid, code in self._code if change.stacks else ():
            if code:
                own = np.isin(code.stack, list(change.stacks))
                spans[pid].append((code.s[own], code.e[own]))
        classes = [BLOCKING.index(name) for name in change.host - {PAUSES}]
        for (pid, _), blocks in self._trace.blocks.items() if classes else ():
            own = np.isin(blocks.cls, classes)
            spans[pid].append((blocks.s[own], blocks.e[own]))
        for thread in self._trace.requests if PAUSES in change.host else ():
            spans[thread[0]].append(_pauses(self._trace, thread))
        return spans


def _pauses(trace: Trace, thread: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the pauses between the calls of a thread that are the host's own work by their length."""
    work, blocks = trace.work, trace.blocks.get(thread, NO_BLOCKS)
    own = (work.pid == thread[0]) & (work.thread == thread[1]) & (work.a0 != NONE)
    s, e = np.append(work.a0[own], blocks.s), np.append(work.a1[own], blocks.e)
    order = np.argsort(s, kind="stable")
    start, end = np.maximum.accumulate(e[order])[:-1], s[order][1:]
    long = end - start > scale_limits(trace).short_pause_ns
    return start[long], end[long]


class _Graph:
    """The moments of one window, in the order of time, each with those that it follows from."""

    def __init__(self, trace: Trace, window: Window, code: HostCode) -> None:
        work = _work(trace, window, code)
        calls = _calls(trace, window, code, work)
        moments = _Moments(*(np.concatenate(column) for column in zip(work, calls, strict=True)))
        order = np.lexsort((moments.length < 0, moments.at))
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(1, len(order) + 1)
        # What follows a call was requested after it; of calls that return at one time, none follows another.
        last = _latest(calls.at, calls.pid, np.minimum(moments.call, moments.at - 1), moments.pid)
        self.start = window.start
        self.moments = _Moments(*(column[order] for column in moments))
        self.since = np.append(calls.at, 0)[last][order]
        """When the host began what led to the call: the return of the last call that waited."""
        self.host = np.append(number[len(work.at) :], 0)[last][order]
        """The number of that moment; 0 is the start of the window."""
        work_before = np.append(number, 0)[moments.work][order]
        # Work that follows other work, which nothing else follows, is replayed in one step with it.
        of_work = self.moments.length >= 0
        alone = np.bincount(work_before, minlength=len(order) + 1)[: len(order)] == 1
        joined = alone & of_work & (work_before == np.arange(len(order)))
        joined &= np.append(False, of_work[:-1] & (self.host[1:] == self.host[:-1]))
        self._first = np.flatnonzero(~joined)
        step = np.append(0, np.cumsum(~joined))
        self._before = list(zip(*(step[at[self._first]].tolist() for at in (self.host, work_before)), strict=True))

    def wall_ns(self, change: ProgramChange, saved: dict[int, tuple[Ints, Ints]]) -> float:
        """Return the time until the last moment after a change, in ns.

        ``saved`` has by process the starts and ends of what the host no longer does.
        """
        moments = self.moments
        gone, calls = np.isin(moments.stack, list(change.stacks)), moments.length < 0
        gone |= np.isin(moments.blocks, [BLOCKING.index(name) for name in change.host - {PAUSES}])
        length = self._lengths(change, gone)
        cost = self._between(change, saved) + np.where(gone & calls, 0, moments.cost) + length
        distance = np.where(gone & calls, _NEVER, moments.distance) + length
        first, reached = self._first, [0.0]
        # From the first piece of work of a step, until its last one and between them.
        later = distance.copy()
        later[first] = 0
        until = np.cumsum(later)
        last = np.append(until, 0)[np.append(first[1:], len(until)) - 1]
        cost = np.maximum.reduceat(cost - until, first) + last
        distance = distance[first] + last - until[first]
        for (host, work), after_call, after_work in zip(self._before, cost.tolist(), distance.tolist(), strict=True):
            of_host, of_work = reached[host] + after_call, reached[work] + after_work
            reached.append(of_host if of_host > of_work else of_work)
        return max(reached)

    def _between(self, change: ProgramChange, saved: dict[int, tuple[Ints, Ints]]) -> Floats:
        """Return the time that the host takes from what led to each call until the call, after a change."""
        moments, call = self.moments, self.moments.call
        between: Floats = (call - self.since).astype(np.float64)
        for pid, spans in saved.items():
            mine = moments.pid == pid
            times = (np.maximum(at[mine], 0) + self.start for at in (self.since, call))
            since, until = (covered_before(at, *spans) for at in times)
            between[mine] -= until - since
        if change.launched_together:
            work = moments.length >= 0
            first, last = np.full(len(call) + 1, -NONE), np.full(len(call) + 1, NONE)
            np.minimum.at(first, self.host[work], call[work])
            np.maximum.at(last, self.host[work], call[work])
            between -= np.maximum(np.minimum(call, last[self.host]) - first[self.host], 0)
        return np.maximum(between, 0, out=between)

    def _lengths(self, change: ProgramChange, gone: NDArray[np.bool_]) -> Floats:
        """Return the length of each piece of work after a change; 0 for calls, and for copies of stacks ``gone``."""
        moments = self.moments
        length = np.maximum(moments.length, 0).astype(np.float64)
        for kernel, share in change.kernels:
            length[moments.kernel == kernel] *= share
        if change.copies:
            length[gone] = 0
        if change.overlapped:
            length[moments.kernel == _COPIED] = 0
        return length


def _work(trace: Trace, window: Window, code: HostCode) -> _Moments:
    """Return the work of the devices within a window."""
    work = trace.work
    own = np.flatnonzero((work.e > window.start) & (work.s < window.end))
    lane = np.searchsorted([lane.first for lane in trace.lanes], own, side="right")
    start, end = work.s[own] - window.start, np.minimum(work.e[own], window.end) - window.start
    asked = work.a0[own]
    call = np.where(asked == NONE, start, np.minimum(asked - window.start, start))
    before = _latest(end, lane, start, lane)
    before[before >= np.arange(len(own))] = -1
    ready = np.append(end, NONE)[before]
    # Work that was requested long before the other work ended waited for that; other work waited for its request.
    idle = (ready != NONE) & (ready <= call) & (call < start)
    latency = int(np.median((start - call)[idle])) if idle.any() else _LATENCY_NS
    queued = call + latency <= ready
    pause = int(np.median((start - ready)[queued])) if queued.any() else 0
    stack = np.full(len(own), -1)
    copies = np.flatnonzero(work.cls[own] == COPY)
    stack[copies] = code.requesting_stacks(work, own[copies])[0]
    return _Moments(
        at=start,
        pid=work.pid[own],
        call=call,
        cost=np.where(queued, np.minimum(start - call, latency), start - call),
        work=before,
        distance=np.where(before < 0, _NEVER, np.where(queued, start - ready, np.minimum(start - ready, pause))),
        length=end - start,
        stack=stack,
        kernel=np.where(work.of(MEMORY, own), _COPIED, work.kernel[own]),
        blocks=np.full(len(own), -1),
    )


def _calls(trace: Trace, window: Window, code: HostCode, work: _Moments) -> _Moments:
    """Return the calls that wait for a device within a window, and the host's calls after it, by process."""
    # Where a window ends with the last work, what the host does meanwhile is not part of it.
    pids = np.unique(work.pid) if window.end != trace.work_span.end else work.pid[:0]
    columns = [(pids, *np.full((2, len(pids)), window.end), *np.full((2, len(pids)), -1))]
    starts, finished = np.sort(work.at), np.sort(work.at + work.length)
    for who, blocks in trace.blocks.items():
        mine = np.isin(blocks.cls, _WAITING) & (blocks.e > window.start) & (blocks.s < window.end)
        begun, over = (np.searchsorted(at, blocks.e - window.start, side="right") for at in (starts, finished))
        mine &= (blocks.cls != _ALLOCATION) | (begun == over)
        began, ended = blocks.s[mine], np.minimum(blocks.e[mine], window.end)
        columns.append((np.full(len(began), who[0]), began, ended, code.stacks_at(*who, began), blocks.cls[mine]))
    pid, start, end, stack, classes = (np.concatenate(column) for column in zip(*columns, strict=True))
    start, end, ends = start - window.start, end - window.start, work.at + work.length
    last = _latest(ends, work.pid, end, pid)
    ready = np.append(ends, NONE)[last]
    waits = ready > start
    return _Moments(
        at=end,
        pid=pid,
        call=start,
        cost=np.where(waits, end - ready, end - start),
        work=np.where(waits, last, -1),
        distance=np.where(waits, end - ready, _NEVER),
        length=np.full(len(pid), -1),
        stack=stack,
        kernel=np.full(len(pid), NO_KERNEL),
        blocks=classes,
    )


def _latest(ends: Ints, group: Ints, times: Ints, asked: Ints) -> Ints:
    """Return for each time the index of the latest of ``ends`` of the asked group until then; -1 if there is none."""
    latest = np.full(len(times), -1)
    for each in np.unique(group):
        own, mine = np.flatnonzero(group == each), np.flatnonzero(asked == each)
        order = own[np.argsort(ends[own], kind="stable")]
        last = np.searchsorted(ends[order], times[mine], side="right") - 1
        latest[mine] = np.append(order, -1)[last]
    return latest
