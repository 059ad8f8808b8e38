"""Loading the timeline of a workload into arrays: device work with the calls that requested it, and blocking calls.

SQL reads the data, and numpy processes millions of ordered intervals, five times as fast as window functions. One SQL
pass over ten million events takes some tenths of a second, so there are only two (``event_groups``).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..base.database import speed_up
from ..base.problems import BadInput
from ..workload import Workload
from . import event_groups
from .event_groups import Events, Seen, code, of_groups, same
from .trace import (
    CAPTURE_BEGIN,
    CAPTURE_END,
    EVENT_WAIT,
    EVICTED,
    GRAPH,
    LAUNCH,
    NONE,
    PAGE_FAULTS,
    PROFILER,
    Blocks,
    Flags,
    Hold,
    Ints,
    Launches,
    SilentStream,
    Trace,
    Window,
    Work,
    events_of,
    has_timeline,
    is_same,
    pieces,
    ranges_of,
    thread_rows,
    usable_events,
)
from .wording import problem

_MANY = 100_000
_SOME, _FEW_CALLS, _MOST = 50_000, 200, 0.99
"""The number of calls whose correlation ids are compared, the number that is needed, and the share of the distances
that is averaged."""


def device_trace(workload: Workload) -> Trace | None:
    """Return the timeline of a workload; None if nothing but stacks of the host was recorded."""
    try:
        return prepare(workload)
    except BadInput:
        if not workload.has("host_samples"):
            raise
        return None


def device_work(workload: Workload) -> Trace | None:
    """Return the timeline of a workload, or its launches if it has none; None without device work or usable times."""
    try:
        return prepare(workload)
    except BadInput:
        return None


def prepare(workload: Workload) -> Trace:
    """Read the timeline of a workload, or its launches if it has none.

    Raises BadInput if there is no device work or if its times are unknown.
    """
    if not (has_timeline(workload) or _has_times(workload)):
        raise problem("only_stacks" if workload.has("host_samples") else "no_timeline", name=workload.name)
    if (workload.manifest.events or workload.manifest.dispatches) > _MANY:
        speed_up(workload.cursor)
    seen = event_groups.look(workload)
    if not seen.lanes:
        unknown = [warning.text for warning in workload.manifest.warnings if warning.code == "unknown_category"]
        raise problem("unknown_work" if unknown else "no_work", name=workload.name, why=unknown[:1])
    events = event_groups.read(workload, seen)
    work, launches = _work(events, seen)
    blocks, profiler = _blocks(events, seen)
    whole = _whole(workload, seen.span)
    of_calls = (seen.communicating, seen.calls, seen.unusable, launches)
    return Trace(workload, seen.lanes, work, blocks, profiler, whole, *of_calls, holds=_holds(workload, seen))


_HOLDING = {
    EVICTED: "kind = 'driver' AND category = 'kfd_queue'",
    PAGE_FAULTS: "kind = 'driver' AND category IN ('kfd_page_fault', 'kfd_page_migrate')",
    EVENT_WAIT: "kind = 'barrier' AND category = 'wait'",
}
"""SQL: which events are intervals in which something held a device."""


def _holds(workload: Workload, seen: Seen) -> dict[tuple[int, str], Hold]:
    """Return what held each device; an event without a device held all devices of its rank."""
    if not workload.rows("SELECT 1 FROM tl_groups WHERE n > 0 AND kind IN ('barrier', 'driver') LIMIT 1"):
        return {}
    holds = {}
    for lane, (hold, condition) in product(seen.lanes, _HOLDING.items()):
        rank = "true" if lane.rank is None else f"rank = {lane.rank}"
        device = "device_id IS NULL" if lane.device is None else f"(device_id IS NULL OR device_id = {lane.device})"
        columns = workload.cursor.execute(
            f"SELECT start_ns::BIGINT AS s, end_ns::BIGINT AS e FROM {usable_events(workload)} "
            f"WHERE {condition} AND end_ns > start_ns AND {rank} AND {device} ORDER BY end_ns, start_ns"
        ).fetchnumpy()
        if len(columns["s"]):
            holds[lane.number, hold] = Hold(np.asarray(columns["s"]), np.asarray(columns["e"]), hold != EVENT_WAIT)
    return holds


def _has_times(workload: Workload) -> bool:
    """Whether the start times of launches are known.

    Some profilers record only durations, and then all launches have the same start time. A single launch has no
    neighbours and is not a timeline.
    """
    if not workload.has("dispatches"):
        return False
    return bool(
        workload.rows(f"SELECT coalesce(min(start_ns) < max(start_ns), false) FROM {events_of(workload)}")[0][0]
    )


def _work(events: Events, seen: Seen) -> tuple[Work, Launches]:
    """Return all device work by lane with the calls that requested it, and the launches compared with it."""
    device = seen.groups.device >= 0
    at = np.flatnonzero(device[events.g])
    at = at[np.argsort(events.s[at], kind="stable")]
    if len(seen.lanes) > 1:
        numbers = np.array([each.number for each in seen.lanes], dtype=np.int64)
        lanes = np.searchsorted(numbers, seen.groups.lane).astype(np.int16)
        at = at[np.argsort(lanes[events.g[at]], kind="stable")]
    g = events.g[at]
    pid = of_groups(seen.groups.pid, device, g)
    a0, a1, thread, launches = _asking_calls(events, seen, at, pid)
    node = np.zeros(len(at), dtype=bool)
    if launches.replay is not None:
        for lane in seen.lanes:
            node[lane.first : lane.last] = _is_repeated(launches.replay[lane.first : lane.last])
    classes, kernels = seen.groups.device[g], seen.groups.kernel[g]
    return Work(events.s[at], events.e[at], classes, kernels, pid, a0, a1, thread, node), launches


def _is_repeated(numbers: NDArray[np.int32]) -> Flags:
    """Return which of the numbers, -1 excepted, occur earlier in the array too."""
    places = np.arange(len(numbers), dtype=np.int32)
    first = np.empty(int(numbers.max(initial=-1)) + 2, dtype=np.int32)
    first[numbers[::-1]] = places[::-1]  # the first place of a number is written last
    repeated: Flags = (numbers >= 0) & (first[numbers] != places)
    return repeated


def _asking_calls(events: Events, seen: Seen, at: Ints, pid: Ints) -> tuple[Ints, Ints, Ints, Launches]:
    """Return start, end and thread of the call that requested each piece of work (the events ``at`` of ``pid``).

    This is the earliest call of the same process with the same correlation id. The last item compares the calls that
    launch work with the work.
    """
    host = seen.groups.host
    calls = np.flatnonzero(host[events.g] & (events.correlation != NONE)) if seen.calls else np.arange(0)
    if not len(calls):
        nothing = same(NONE, len(at))
        return nothing, nothing, nothing, Launches()
    g = events.g[calls]
    known = _CallIndex(of_groups(seen.groups.pid, host, g), events.correlation[calls], events.s[calls])
    thread = of_groups(seen.groups.thread, host, g)
    columns = [events.s[calls], events.e[calls], *([] if is_same(thread) else [thread])]
    made = [np.empty(len(at), dtype=np.int64) for _ in columns]
    executed = np.zeros(len(calls) + 1, dtype=bool)  # the last element is for work without a known call
    graphs = np.append(seen.groups.launch[g] == GRAPH, False)  # likewise
    replay = np.empty(len(at), dtype=np.int32) if graphs.any() else None
    for piece in pieces(0, len(at)):
        sought = events.correlation[at[piece]]
        call = known.find(pid[piece], sought)
        miss = (call < 0) | (sought == NONE)
        for column, of in zip(made, columns, strict=True):
            column[piece] = np.where(miss, NONE, of[call])
        executed[call] = True
        if replay is not None:
            replay[piece] = np.where(graphs[call], call, -1)
    if len(made) == 2:  # one thread makes all calls, so the column needs no memory if all work has a known call
        lacking = made[0] == NONE
        made.append(np.where(lacking, NONE, thread[0]) if lacking.any() else same(int(thread[0]), len(at)))
    launches = _compare_launches(events, seen, calls, known, executed[:-1])
    return made[0], made[1], made[2], replace(launches, replay=replay)


def _compare_launches(events: Events, seen: Seen, calls: Ints, known: _CallIndex, executed: Flags) -> Launches:
    """Compare the launches among ``calls`` with ``executed``, which says whether a call is the first one of work."""
    g = events.g[calls]
    role = seen.groups.launch[g]
    launching = (role == LAUNCH) | (role == GRAPH)
    if not (launching & executed).any():
        return Launches()
    # The longest distances are pauses of the recording.
    apart = np.sort(np.diff(np.unique(events.correlation[calls[:_SOME]])))
    spacing = float(apart[: int(_MOST * len(apart))].mean()) if len(apart) >= _FEW_CALLS else None
    compared = Launches(calls=int(np.count_nonzero(launching)), spacing=spacing)
    lost = np.flatnonzero(launching & ~executed)
    if len(lost):
        # A call inside another one may have the same id, of which the outer call is the first.
        lost = lost[~executed[known.find(seen.groups.pid[g[lost]], events.correlation[calls[lost]])]]
    if not len(lost):
        return compared
    s, e = events.s[calls], events.e[calls]
    pids, threads, by_thread = seen.groups.pid[g], seen.groups.thread[g], []
    for (pid, thread), at in thread_rows(pids[lost], threads[lost]):
        own, mine = np.flatnonzero((pids == pid) & (threads == thread)), lost[at]
        by_thread.append(mine[~_starts_nothing(s, e, role, (own, mine, executed))])
    lost, done = np.concatenate(by_thread), s[launching & executed]
    return replace(
        compared,
        first=int(done.min()),
        last=int(done.max()),
        lost=np.sort(s[lost]),
        lost_replays=int((role[lost] == GRAPH).sum()),
        lost_threads=sum(bool(len(mine)) for mine in by_thread),
        silent=_silent_streams(seen.groups.stream[g], s, np.flatnonzero(launching & executed), lost),
    )


def _silent_streams(stream: Ints, s: Ints, done: Ints, lost: Ints) -> list[SilentStream]:
    """Return the streams on which nothing was executed after some launch; ``stream`` and ``s`` are those of calls.

    ``done`` and ``lost`` are the launches with and without work.
    """
    silent = []
    for number in np.unique(stream[lost]):
        if number == NONE:
            continue
        own, missing = s[done[stream[done] == number]], np.sort(s[lost[stream[lost] == number]])
        if len(after := missing[missing > own.max(initial=NONE)]):
            silent.append(SilentStream(int(number), len(own) + len(missing), len(after), int(after[0])))
    return silent


def _starts_nothing(s: Ints, e: Ints, role: NDArray[np.int8], of: tuple[Ints, Ints, Flags]) -> Flags:
    """Return which launches of a thread are not expected to start work: those that a stream capture only records, and
    those inside another launch, which has the work.

    ``of`` contains the calls of the thread, the launches among them in question, and which calls were executed.
    """
    own, mine, executed = of
    begun, ended = (np.sort(s[own[role[own] == which]]) for which in (CAPTURE_BEGIN, CAPTURE_END))
    nothing: Flags = np.searchsorted(begun, s[mine]) > np.searchsorted(ended, s[mine])
    outer = own[executed[own] & ((role[own] == LAUNCH) | (role[own] == GRAPH))]
    if len(outer):
        outer = outer[np.argsort(s[outer], kind="stable")]
        around = outer[np.maximum(np.searchsorted(s[outer], s[mine], side="right") - 1, 0)]
        nothing |= (s[around] <= s[mine]) & (e[around] >= e[mine])
    return nothing


class _CallIndex:
    """An index of calls by process and correlation id; of several calls, the earliest counts."""

    def __init__(self, pid: Ints, ids: Ints, s: Ints) -> None:
        self.processes = pid[:1] if is_same(pid) else np.unique(pid)
        self.low, self.high = int(ids.min()), int(ids.max())
        self.ids = self.known = None
        if self._rows > 8 * len(ids) + 1_000_000:
            # The ids have large gaps, so they are numbered, and the table has a row for each known key only.
            self.ids = np.unique(ids)
            self.low, self.high = 0, len(self.ids) - 1
        keys, rows = self._keys(pid, ids), self._rows
        if self.ids is not None:
            self.known = np.unique(keys)
            keys, rows = np.searchsorted(self.known, keys), len(self.known)
        # In reverse, so that the first call of an id is written last.
        order = np.argsort(s, kind="stable")[::-1]
        # The last row is for unknown ids.
        self.places = np.full(rows + 1, -1, dtype=np.int32)
        self.places[keys[order]] = order

    @property
    def _rows(self) -> int:
        """The number of pairs of a process and an id within the range of ids."""
        return (self.high - self.low + 1) * len(self.processes)

    def _keys(self, pid: Ints, ids: Ints) -> Ints:
        """Return one number for each pair of process and correlation id; -1 if it is outside the known ones."""
        if self.ids is None:
            number = np.where((ids < self.low) | (ids > self.high), -1, ids - self.low)
        else:
            number = _index(self.ids, ids)
        if len(self.processes) == 1 and is_same(pid) and pid[0] == self.processes[0]:
            return number
        process = _index(self.processes, pid)
        return np.where((process < 0) | (number < 0), -1, process * (self.high - self.low + 1) + number)

    def find(self, pid: Ints, ids: Ints) -> Ints:
        """Return the index of the call for each pair; -1 if there is none."""
        keys = self._keys(pid, ids)
        return self.places[keys if self.known is None else _index(self.known, keys)].astype(np.int64)


def _index(known: Ints, values: Ints) -> Ints:
    """Return the index of each value in an array without repetitions that is in order; -1 if it is not there."""
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, at, -1)


def _blocks(events: Events, seen: Seen) -> tuple[dict[tuple[int, int], Blocks], list[Window]]:
    """Return the blocking calls of every thread, and the intervals of the profiler's own work."""
    call = seen.groups.call
    mine = np.flatnonzero((call == code(PROFILER))[events.g])
    mine = mine[np.argsort(events.s[mine] - events.e[mine], kind="stable")][:_MANY]
    profiler = [Window(*map(int, times)) for times in zip(events.s[mine], events.e[mine], strict=True)]
    blocking = (call >= 0) & (call != code(PROFILER))
    at = np.flatnonzero(blocking[events.g])
    at = at[np.lexsort((-events.e[at], events.s[at]))]
    g = events.g[at]
    blocks = {}
    for who, own in thread_rows(seen.groups.pid[g], seen.groups.thread[g]):
        s, e = events.s[at[own]], events.e[at[own]]
        outer = np.append(True, s[1:] >= np.maximum.accumulate(e)[:-1])
        blocks[who] = Blocks(s[outer], e[outer], call[g[own]][outer])
    return blocks, profiler


def _whole(workload: Workload, span: Window) -> Window:
    """Return the time span of the events and the ranges."""
    start, end = span
    if ranges := ranges_of(workload):
        low, high = workload.rows(f"SELECT min(start_ns), max(end_ns) FROM {ranges}")[0]
        if low is not None:
            start, end = min(start, low), max(end, high)
    return Window(int(start), int(end))
