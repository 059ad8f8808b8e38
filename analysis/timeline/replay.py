"""What a program would take without some code of its host, by replaying its timeline.

A timeline is a graph of moments, each of which follows from at most two earlier ones:

* Work of a device ends its own length after the later of two: the call that requested it began, and the work before it
  ended.
* A call that waits for the device returns after the later of two: the host made it, and the work that it waited for
  ended. The next calls follow after the time that the host takes until then.

The distances between these moments are those that were measured, so that a replay without a change takes the measured
time. Without some code, the host takes less time between its calls and makes no calls that wait there; the copies that
the code requests may vanish as well. All other work of the devices stays, and so do distances that neither calls nor
earlier work explain. The threads of a process count as one sequence of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .host_code import HostCode, ThreadCode
from .host_idle import requests
from .trace import BLOCKING, COPY, NONE, Trace, Window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .trace import Ints

    Floats = NDArray[np.float64]

_WAITING = [BLOCKING.index(name) for name in ("synchronisation", "copies")]
_LATENCY_NS = 10_000
"""The time from a call to its work on an idle device, if a trace does not show it."""
_NEVER = -(2**60)


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


class Replay:
    """The windows of a timeline, to be replayed without some of the host's code."""

    def __init__(self, trace: Trace, windows: Sequence[Window], code: HostCode) -> None:
        self._graphs = [_Graph(trace, window, code) for window in windows]
        self._known: dict[tuple[frozenset[int], bool], float] = {}
        self._code: dict[int, list[ThreadCode]] = {}
        """The code of the threads of each process that request work or wait for it."""
        for pid, thread in {*trace.blocks, *requests(trace)}:
            if spans := code.code_of(pid, thread):
                self._code.setdefault(pid, []).append(spans)

    def wall_ns(self, stacks: frozenset[int] = frozenset(), *, copies: bool = False) -> float:
        """Return the time that the windows take without the code of these stacks, and without its copies, in ns."""
        if (stacks, copies) not in self._known:
            removed = list(stacks)
            saved = {pid: _saved(spans, removed) for pid, spans in self._code.items()}
            self._known[stacks, copies] = sum(graph.wall_ns(saved, removed, copies=copies) for graph in self._graphs)
        return self._known[stacks, copies]


def _saved(code: Sequence[ThreadCode], stacks: list[int]) -> tuple[Ints, Ints]:
    """Return times, and how much time the code of these stacks has taken until each of them, in ns."""
    import numpy as np

    mine = [np.isin(spans.stack, stacks) for spans in code]
    start, end = (
        np.sort(np.concatenate([[0], *(getattr(spans, at)[own] for spans, own in zip(code, mine, strict=True))]))
        for at in "se"
    )
    # Code that several threads run at a time is saved once.
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    running = np.cumsum(np.repeat([1, -1], len(start))[order]) > 0
    times = times[order]
    return times, np.concatenate([[0], np.cumsum(np.diff(times) * running[:-1])])


class _Graph:
    """The moments of one window, in the order of time, each with those that it follows from."""

    def __init__(self, trace: Trace, window: Window, code: HostCode) -> None:
        import numpy as np

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
        self.work = np.append(number, 0)[moments.work][order]

    def wall_ns(self, saved: dict[int, tuple[Ints, Ints]], removed: list[int], *, copies: bool) -> float:
        """Return the time until the last moment, in ns, without calls that wait in the stacks ``removed``."""
        import numpy as np

        moments = self.moments
        between = (moments.call - self.since).astype(np.float64)
        for pid, (times, ns) in saved.items():
            mine = moments.pid == pid
            since, until = (
                np.interp(np.maximum(at[mine], 0), times - self.start, ns) for at in (self.since, moments.call)
            )
            between[mine] -= until - since
        gone, calls = np.isin(moments.stack, removed), moments.length < 0
        length = np.where(calls | (gone & copies), 0, moments.length)
        cost = between + np.where(gone & calls, 0, moments.cost) + length
        distance = np.where(gone & calls, _NEVER, moments.distance) + length
        reached = [0.0]
        columns = (self.host.tolist(), cost.tolist(), self.work.tolist(), distance.tolist())
        for host, after_call, work, after_work in zip(*columns, strict=True):
            reached.append(max(reached[host] + after_call, reached[work] + after_work))
        return max(reached)


def _work(trace: Trace, window: Window, code: HostCode) -> _Moments:
    """Return the work of the devices within a window."""
    import numpy as np

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
    )


def _calls(trace: Trace, window: Window, code: HostCode, work: _Moments) -> _Moments:
    """Return the calls that wait for a device within a window, and the host's calls after it, by process."""
    import numpy as np

    # Where a window ends with the last work, what the host does meanwhile is not part of it.
    pids = np.unique(work.pid) if window.end != trace.work.e.max() else work.pid[:0]
    columns = [(pids, *np.full((2, len(pids)), window.end), np.full(len(pids), -1))]
    for who, blocks in trace.blocks.items():
        mine = np.isin(blocks.cls, _WAITING) & (blocks.e > window.start) & (blocks.s < window.end)
        began, ended = blocks.s[mine], np.minimum(blocks.e[mine], window.end)
        columns.append((np.full(len(began), who[0]), began, ended, code.stacks_at(*who, began)))
    pid, start, end, stack = (np.concatenate(column) for column in zip(*columns, strict=True))
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
    )


def _latest(ends: Ints, group: Ints, times: Ints, asked: Ints) -> Ints:
    """Return for each time the index of the latest of ``ends`` of the asked group until then; -1 if there is none."""
    import numpy as np

    found = np.full(len(times), -1)
    for each in np.unique(group):
        own, mine = np.flatnonzero(group == each), np.flatnonzero(asked == each)
        order = own[np.argsort(ends[own], kind="stable")]
        last = np.searchsorted(ends[order], times[mine], side="right") - 1
        found[mine] = np.append(order, -1)[last]
    return found
