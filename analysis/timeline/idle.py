"""Attribution of idle time: every gap of a device is divided among causes by what the host did meanwhile.

A gap reaches from the end of all earlier work of a lane (g0) to the start of its next operation (g1), which the host
call [a0, a1] requested. It has three parts:

    device   ====work====|                gap                |====work====
                         g0                                  g1
    host     ..............[ sync ]....own work....[ launch ]..............
                                                   a0      a1
    part                 |---- before the call ----|  call   |- queue -|
    cause                 blocking calls; the rest:  launch    latency of
                          host work (long) or        overhead  the launch
                          launch overhead (short)

* Before the call the host had not requested anything. Calls that block (synchronisation, allocation, copies, loading of
  code, graphs) account for the time that they cover. The rest is the host's own work if it is long, and launch overhead
  if it is short.
* During the call the time belongs to the class of the call.
* After the call the device had been asked and had not started yet.

A call that was already waiting when the device ran out of work also causes as much launch overhead as it had waited,
because the host would have launched the next operation during that time. This part has a cause of its own
(``after_synchronisation`` and others), because nothing waits then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .busy import ANY, Within
from .rules import TimelineLimits, rules
from .trace import BLOCKING, COPY, HOLDS, NONE, Flags, Ints, Lane, Trace, pieces, thread_rows

_LAUNCHES = 10
"""With fewer launches than this, their median time is not reliable."""


def launch_ns(trace: Trace) -> float | None:
    """Return the median time that a launch on an idle device takes, in ns; None if there are too few of them.

    The time of a launch ends with the call or with the start of its kernel, whichever comes first, so that a launch
    that blocks until its kernel ends counts like any other. Launches on a busy device are ignored, because they wait
    while the queue is full.
    """
    work, ahead = trace.work, trace.ahead("any", ANY)
    idle = (ahead != NONE) & (work.a0 != NONE) & (work.a0 >= ahead) & (work.cls != COPY)
    if np.count_nonzero(idle) < _LAUNCHES:
        return None
    return float(np.median(np.minimum(work.a1[idle], work.s[idle]) - work.a0[idle]))


def scale_limits(trace: Trace) -> TimelineLimits:
    """Return the limits; those on host and queue times are scaled by how slow launches are on this machine."""
    limits = rules().limits
    slower = max(1.0, (launch_ns(trace) or 0.0) / limits.ordinary_launch_ns)
    scaled = {name: round(slower * getattr(limits, name)) for name in ("short_pause_ns", "lazy_load_ns", "queued_ns")}
    return replace(limits, **scaled)


DRAINING = {name: f"after_{name}" for name in ("synchronisation", "allocation", "copies")}
"""Classes of calls that wait until the device has finished its queue -> the cause of the launch overhead after them."""
CAUSES = tuple(rules().causes)
_FEW = 8
"""Number of pieces of work up to which starting threads takes longer than it saves."""
_THREADS = 2
"""More threads barely help, because the SQL queries dominate, and each one needs memory."""


@dataclass(frozen=True)
class Idle:
    """One cause: idle ns over all lanes, the number of gaps of which it is the main cause, and the longest of them."""

    cause: str
    ns: int
    gaps: int
    longest_ns: int

    @property
    def title(self) -> str:
        """What the cause is, in words."""
        return rules().causes[self.cause].title


@dataclass(frozen=True)
class Gap:
    """One interval without work on a lane, its main cause, and the process and thread that requested the next work."""

    lane: int
    start: int
    end: int
    cause: str
    pid: int | None
    inside: int
    """The part of the gap within the windows, in ns."""

    @property
    def ns(self) -> int:
        """The length of the gap in ns."""
        return self.end - self.start


@dataclass(frozen=True)
class Some:
    """A batch of gaps as arrays: ``main`` is an index into ``CAUSES``, ``ns`` the part of a gap within the windows.
    ``sums`` and ``most`` contain the total ns and the longest gap of each cause."""

    lane: int
    start: Ints
    end: Ints
    ns: Ints
    main: NDArray[np.int8]
    pid: Ints
    thread: Ints
    called: Ints
    """End of the call that requested the next work; like process and thread, ``NONE`` if it is unknown."""
    sums: Sequence[int]
    most: Ints

    def gap(self, i: int) -> Gap:
        """Return the gap with an index."""
        pid = None if self.pid[i] == NONE else int(self.pid[i])
        return Gap(self.lane, int(self.start[i]), int(self.end[i]), CAUSES[self.main[i]], pid, int(self.ns[i]))

    def longest(self, number: int, code: int | None) -> list[Gap]:
        """Return the longest gaps, of one main cause or of all; of equally long ones, the first."""
        ns = self.ns if code is None else np.where(self.main == code, self.ns, 0)
        least = np.partition(ns, -number)[-number] if len(ns) > number else 0
        mine = [*np.flatnonzero(ns > least), *np.flatnonzero(ns == least)[:number]][:number]
        return [self.gap(i) for i in mine if ns[i]]


@dataclass(frozen=True)
class Gaps:
    """All gaps within the windows."""

    causes: Sequence[Idle]
    """The causes, the largest first; they add up to the idle time that ``busy`` computes."""
    some: Sequence[Some]

    def longest(self, number: int, cause: str | None = None) -> list[Gap]:
        """Return the longest gaps, of one main cause or of all."""
        code = None if cause is None else CAUSES.index(cause)
        candidates = (
            gap for some in self.some if code is None or some.most[code] for gap in some.longest(number, code)
        )
        return sorted(candidates, key=lambda gap: (-gap.inside, gap.start))[:number]

    def of(self, lane: int, cause: str) -> tuple[Ints, Ints]:
        """Return the starts and ends of a lane's gaps with this main cause, in order."""
        code = CAUSES.index(cause)
        mine = [(some.start[some.main == code], some.end[some.main == code]) for some in self.some if some.lane == lane]
        start, end = (np.concatenate(column) for column in zip(*mine, strict=True))
        order = np.argsort(start, kind="stable")
        return start[order], end[order]


@dataclass(frozen=True)
class _Bare:
    """Gaps of one lane without causes: their times, and the call that requested the next work (``NONE`` if unknown)."""

    g0: Ints
    g1: Ints
    pid: Ints
    thread: Ints
    a0: Ints
    a1: Ints
    copy: Flags
    node: Flags
    """Whether the gap lies between two nodes of one replay of a graph."""
    edge: NDArray[np.int8]
    """1 for the gap before the first work of a lane, 2 for the one after the last work, else 0."""


@dataclass(frozen=True)
class _Looking:
    """The context in which gaps are explained, with the limits scaled to this machine."""

    trace: Trace
    within: Within
    limits: TimelineLimits


def find(trace: Trace, within: Within) -> Gaps:
    """Return all idle time within the windows, by cause.

    Gaps are explained in batches that fit into the cache, on several threads because numpy releases the GIL.
    """
    from concurrent.futures import ThreadPoolExecutor

    looking, batches = _Looking(trace, within, scale_limits(trace)), _batches(trace)
    with ThreadPoolExecutor(_THREADS) as pool:
        each = map if len(batches) <= _FEW else pool.map
        some = [*each(lambda batch: _explain_gaps(looking, *batch)[0], batches)]
    # The gaps of one lane are disjoint, so their sum fits into 64 bits; the sum over many lanes may not.
    sums = [sum(column) for column in zip(*(one.sums for one in some), strict=True)]
    count = np.sum([np.bincount(one.main, minlength=len(CAUSES)) for one in some], axis=0)
    most = np.max([one.most for one in some], axis=0)
    causes = [Idle(c, sums[i], int(count[i]), int(most[i])) for i, c in enumerate(CAUSES) if sums[i]]
    return Gaps(sorted(causes, key=lambda c: -c.ns), some)


def attributed_gaps(trace: Trace, within: Within) -> Iterator[tuple[Some, Ints]]:
    """Return all gaps within the windows in batches, with the ns of each cause (rows, as in ``CAUSES``) by gap."""
    looking = _Looking(trace, within, scale_limits(trace))
    return (_explain_gaps(looking, *batch) for batch in _batches(trace))


def _batches(trace: Trace) -> list[tuple[Lane, slice | None]]:
    """Return the lanes with parts of their work, and with None for the gaps before and after all of it."""
    return [(lane, own) for lane in trace.lanes for own in (*pieces(lane.first, lane.last), None)]


def _explain_gaps(looking: _Looking, lane: Lane, own: slice | None) -> tuple[Some, Ints]:
    """Return the gaps before the work ``own`` of a lane, or before its first and after its last work, and the ns of
    each cause by gap."""
    trace, within = looking.trace, looking.within
    bare = _bare(trace, lane, within, own)
    ns, main, parts = _share_causes(looking, lane, bare)
    most = np.zeros(len(CAUSES), dtype=np.int64)
    for code in np.flatnonzero(np.bincount(main, minlength=len(CAUSES))):
        most[code] = ns[main == code].max()
    start, end = bare.g0, bare.g1
    # With one window, gaps are clipped to it; with several, they keep their full length.
    if len(windows := within.windows) == 1:
        start, end = (np.clip(at, *windows[0]) for at in (start, end))
    sums = [int(n) for n in parts.sum(axis=1)]
    return Some(lane.number, start, end, ns, main, bare.pid, bare.thread, bare.a1, sums, most), parts


def _bare(trace: Trace, lane: Lane, within: Within, own: slice | None) -> _Bare:
    """Return the gaps that touch the windows: before the work ``own`` of a lane, or before its first and after its last
    work."""
    work, ahead = trace.work, trace.ahead("any", ANY)
    if own is None:
        last = max(int(ahead[lane.last - 1]), int(work.e[lane.last - 1]))
        at, edge = np.array([lane.first, lane.first]), np.array([1, 2], dtype=np.int8)
        g0, g1 = np.array([trace.whole.start, last]), np.array([work.s[lane.first], trace.whole.end])
    else:
        at = np.flatnonzero((work.s[own] > ahead[own]) & (ahead[own] != NONE)) + own.start
        g0, g1, edge = ahead[at], work.s[at], np.zeros(len(at), dtype=np.int8)
    keep = within.ns(g0, g1) > 0
    at, edge = at[keep], edge[keep]
    thread, a0, a1 = (np.where(edge > 0, NONE, column[at]) for column in (work.thread, work.a0, work.a1))
    pid = np.where(edge > 0, NONE if lane.pid is None else lane.pid, work.pid[at])
    return _Bare(g0[keep], g1[keep], pid, thread, a0, a1, work.cls[at] == COPY, work.node[at], edge)


def _share_causes(looking: _Looking, lane: Lane, bare: _Bare) -> tuple[Ints, NDArray[np.int8], Ints]:
    """Return the ns of each gap within the windows, its main cause, and the ns by cause and gap."""
    ns = looking.within.ns(bare.g0, bare.g1)
    h = np.clip(bare.a0, bare.g0, bare.g1)
    q = np.clip(np.maximum(bare.a0, bare.a1), bare.g0, bare.g1)
    matrix = np.zeros((len(CAUSES), len(ns)), dtype=np.int64)
    parts = dict(zip(CAUSES, matrix, strict=True))
    drained = _before_call(looking, bare, h, parts)
    _call_and_after(looking, bare, (h, q), parts)
    for cause, gaps, waited in drained:
        moved = np.minimum(parts["launch"][gaps], waited)
        parts[DRAINING[cause]][gaps] += moved
        parts["launch"][gaps] -= moved
    for cause, where in (
        ("start_up", bare.edge == 1),
        ("shut_down", bare.edge == 2),
        ("unknown", (bare.edge == 0) & (bare.a0 == NONE)),
    ):
        parts[cause][where] += ns[where]
    _charge_profiler(looking, bare, parts)
    _charge_holds(looking, lane, bare, parts)
    return ns, matrix.argmax(axis=0).astype(np.int8), matrix


def _before_call(looking: _Looking, bare: _Bare, h: Ints, parts: dict[str, Ints]) -> list[tuple[str, Ints, Ints]]:
    """Attribute the part before the requesting call to blocking calls and the rest.

    Returns, by cause, the gaps at whose start the host was in a call that waits, and how long it had been waiting:
    without the wait, it would have done that much of its next work during that time.
    """
    index = np.flatnonzero((bare.a0 != NONE) & (h > bare.g0))
    if not len(index):
        return []
    g0, h = bare.g0[index], h[index]
    waited = np.zeros(len(index), dtype=np.int64)
    covered = np.zeros((len(BLOCKING), len(index)), dtype=np.int64)
    calls, drain = np.zeros(len(index), dtype=np.int64), np.full(len(index), -1, dtype=np.int8)
    for who, own in thread_rows(bare.pid[index], bare.thread[index]):
        if (blocks := looking.trace.blocks.get(who)) is None:
            continue
        k0, k1 = (np.searchsorted(blocks.s, at[own], side="right") - 1 for at in (g0, h))
        calls[own] = k1 - k0
        waiting = (k0 >= 0) & (blocks.e[np.maximum(k0, 0)] >= g0[own])
        drain[own] = np.where(waiting, blocks.cls[np.maximum(k0, 0)], -1)
        waited[own] = np.where(waiting, g0[own] - blocks.s[np.maximum(k0, 0)], 0)
        some = own[(k1 > k0) | waiting]
        for code in range(len(BLOCKING)):
            covered[code, some] = blocks.ns(code, g0[some], h[some])
    blocked = covered.sum(axis=0)
    rest = h - g0 - blocked
    brief = rest <= looking.limits.short_pause_ns * (calls + 1)
    # Time outside the windows is subtracted from each part in proportion.
    inside = looking.within.ns(g0, h)
    whole = inside == h - g0
    left = inside.copy()
    for code, cause in enumerate(BLOCKING):
        part = covered[code]
        if not part.any():
            continue
        part = np.where(whole, part, (part * (inside / np.maximum(h - g0, 1))).astype(np.int64))
        parts[cause][index] += part
        left -= part
    parts["launch"][index] += np.where(brief, left, 0)
    parts["host"][index] += np.where(brief, 0, left)
    drained = {cause: np.flatnonzero(brief & (drain == BLOCKING.index(cause))) for cause in DRAINING}
    return [(cause, index[mine], waited[mine]) for cause, mine in drained.items()]


def _call_and_after(looking: _Looking, bare: _Bare, at: tuple[Ints, Ints], parts: dict[str, Ints]) -> None:
    """Attribute the call that requested the next work, and the time from its end to the start of the work."""
    limits, within, (h, q) = looking.limits, looking.within, at
    call, tail = within.ns(h, q), within.ns(q, bare.g1)
    asked = bare.a0 != NONE
    lazy = ~bare.copy & (q - h > limits.lazy_load_ns)
    late = bare.g1 - q > limits.queued_ns
    fresh = q > bare.g0
    behind = late & looking.trace.communicates_at(bare.g1, limits.queued_ns)
    for cause, part, where in (
        ("copies", call, bare.copy),
        ("module_load", call, lazy & ~bare.node),
        ("launch", call, ~bare.copy & (~lazy | bare.node)),
        ("graph_nodes", tail, bare.node),
        ("communication", tail, behind & ~bare.node),
        ("waiting", tail, late & ~behind & ~bare.node),
        ("queued", tail, ~late & ~fresh & ~bare.node),
        ("copies", tail, ~late & fresh & bare.copy & ~bare.node),
        ("launch", tail, ~late & fresh & ~bare.copy & ~bare.node),
    ):
        where = where & asked
        parts[cause][where] += part[where]


def _charge_profiler(looking: _Looking, bare: _Bare, parts: dict[str, Ints]) -> None:
    """Charge the profiler's own work within gaps to the profiler, and subtract it from other causes, first launches."""
    if not len(bare.g0):
        return
    first, last = bare.g0.min(), bare.g1.max()
    for busy in looking.trace.profiler[:1000]:
        if busy.end <= first or busy.start >= last:
            continue
        touched = np.flatnonzero((bare.g0 < busy.end) & (bare.g1 > busy.start))
        shared = looking.within.ns(np.maximum(bare.g0[touched], busy.start), np.minimum(bare.g1[touched], busy.end))
        _charge(parts, "profiler", ("launch", "module_load", "synchronisation", "host"), touched, shared)


_HELD = ("waiting", "queued", "graph_nodes", "communication", "unknown")
"""The causes of time in which work was queued, or may have been, the least certain first."""


def _charge_holds(looking: _Looking, lane: Lane, bare: _Bare, parts: dict[str, Ints]) -> None:
    """Charge what held the device during gaps, and subtract it from the causes of queued work."""
    for cause in HOLDS:
        if (hold := looking.trace.holds.get((lane.number, cause))) is None or not len(bare.g0):
            continue
        held = hold.within_gaps(looking.within.until, bare.g0, bare.g1)
        _charge(parts, cause, _HELD, slice(None), held)


def _charge(parts: dict[str, Ints], cause: str, payers: Sequence[str], gaps: Ints | slice, ns: Ints) -> None:
    """Charge ns of some gaps to a cause, and subtract them from other causes, the first ones first."""
    for payer in payers:
        taken = np.minimum(ns, parts[payer][gaps])
        parts[payer][gaps] -= taken
        parts[cause][gaps] += taken
        ns = ns - taken
