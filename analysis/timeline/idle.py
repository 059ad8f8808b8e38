"""Why devices are idle: every gap is shared out among causes by what the host did until the next work began.

A gap reaches from the end of all earlier work of a lane (g0) to its next operation (g1), which a host call [a0, a1]
asked for. It has three parts: before the call (the host had not asked), the call itself, and from the call's end on.
Of the first, calls that block (synchronisation, allocation, copies, loading code, graphs) take what they cover; the
rest is the host's own work where it is long, and launch overhead where it is short. Of launch overhead a call that was
waiting when the device ran dry takes as much as it had waited: meanwhile the host would have launched what comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .busy import ANY, Within
from .rules import rules
from .trace import BLOCKING, COPY, NONE, Blocks, Lane, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .trace import Flags, Ints

_DRAINING = ("synchronisation", "allocation", "copies")
"""Classes of calls that wait until the device has run dry."""
CAUSES = tuple(rules().causes)
_AT_ONCE = 1 << 17
_THREADS = 2
"""More bring little beside what SQL does; memory goes with them."""


@dataclass(frozen=True)
class Idle:
    """One cause: idle ns of all lanes, the gaps in which it has the largest part, and the longest of those."""

    cause: str
    ns: int
    gaps: int
    longest_ns: int


@dataclass(frozen=True)
class Gap:
    """One stretch without work on a lane, its main cause, and the process and thread that asked for the next work."""

    lane: int
    start: int
    end: int
    cause: str
    pid: int | None

    @property
    def ns(self) -> int:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True)
class Gaps:
    """All gaps within some windows, in arrays; ``main`` counts in ``CAUSES`` and ``ns`` is what lies in the windows."""

    causes: Sequence[Idle]
    """Most first; together the idle time of ``busy``."""
    lane: Ints
    start: Ints
    end: Ints
    ns: Ints
    main: NDArray[np.int8]
    pid: Ints

    def longest(self, number: int, cause: str | None = None) -> list[Gap]:
        """The longest gaps of one main cause or of all."""
        import numpy as np

        mine = np.arange(len(self.ns)) if cause is None else np.flatnonzero(self.main == CAUSES.index(cause))
        if len(mine) > number:
            mine = mine[np.argpartition(-self.ns[mine], number - 1)[:number]]
        return [self.gap(int(i)) for i in sorted(mine, key=lambda i: (-self.ns[i], self.start[i])) if self.ns[i]]

    def gap(self, i: int) -> Gap:
        """One of them."""
        pid = int(self.pid[i])
        return Gap(
            int(self.lane[i]), int(self.start[i]), int(self.end[i]), CAUSES[self.main[i]], None if pid == NONE else pid
        )


@dataclass(frozen=True)
class _Bare:
    """Gaps before their causes are known: where, and the call that asked for the next work (``NONE``)."""

    lane: Ints
    g0: Ints
    g1: Ints
    pid: Ints
    thread: Ints
    a0: Ints
    a1: Ints
    copy: Flags
    edge: NDArray[np.int8]
    """1 before the first work of a lane, 2 after the last."""


def find(trace: Trace, within: Within) -> Gaps:
    """All idle time within the windows, by cause."""
    import numpy as np

    # Gaps of a lane are disjoint: their sum fits into 64 bits, that of many lanes need not.
    sums = [0] * len(CAUSES)
    count, most = (np.zeros(len(CAUSES), dtype=np.int64) for _ in range(2))
    found = []
    for piece in _pieces(trace, within):
        count += np.bincount(piece.main, minlength=len(CAUSES))
        sums = [so_far + ns for so_far, ns in zip(sums, piece.sums, strict=True)]
        most = np.maximum(most, piece.most)
        found.append((piece.lane, piece.start, piece.end, piece.ns, piece.main, piece.pid))
    causes = [Idle(c, sums[i], int(count[i]), int(most[i])) for i, c in enumerate(CAUSES) if sums[i]]
    columns = zip(*found, strict=True)
    return Gaps(sorted(causes, key=lambda c: -c.ns), *(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class _Piece:
    """Some gaps with their causes: columns of ``Gaps``, and by cause the ns and the longest gap."""

    lane: Ints
    start: Ints
    end: Ints
    ns: Ints
    main: NDArray[np.int8]
    pid: Ints
    sums: Sequence[int]
    most: Ints


def _pieces(trace: Trace, within: Within) -> Iterator[_Piece]:
    """All gaps, some at a time, in arrays that stay in the cache; by several threads, as numpy lets others run."""
    from concurrent.futures import ThreadPoolExecutor

    parts = [
        (lane, first) for lane in trace.lanes for first in (*range(lane.first, lane.last, _AT_ONCE), None)
    ]  # None: what lies around the lane's work

    def piece(part: tuple[Lane, int | None]) -> _Piece:
        lane, first = part
        bare = _edges(trace, lane, within) if first is None else _bare(trace, within, lane, first)
        return _explained(trace, bare, within)

    trace.ahead("any", ANY)  # once, before threads ask for it
    if trace.lanes[-1].last <= _AT_ONCE:
        yield from map(piece, parts)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(piece, parts)


def _explained(trace: Trace, bare: _Bare, within: Within) -> _Piece:
    import numpy as np

    ns, main, parts = _shared(trace, bare, within)
    most = np.zeros(len(CAUSES), dtype=np.int64)
    for code in np.flatnonzero(np.bincount(main, minlength=len(CAUSES))):
        most[code] = ns[main == code].max()
    start, end = bare.g0, bare.g1
    # A gap is told as far as it lies in the window; several windows leave it whole.
    if len(within.windows) == 1:
        start, end = (np.clip(at, *within.windows[0]) for at in (start, end))
    return _Piece(bare.lane, start, end, ns, main, bare.pid, [int(n) for n in parts.sum(axis=1)], most)


def _bare(trace: Trace, within: Within, lane: Lane, first: int) -> _Bare:
    """The gaps before some of a lane's work that touch the windows."""
    import numpy as np

    work, ahead = trace.work, trace.ahead("any", ANY)
    own = slice(first, min(first + _AT_ONCE, lane.last))
    at = np.flatnonzero((work.s[own] > ahead[own]) & (ahead[own] != NONE)) + first
    at = at[within.ns(ahead[at], work.s[at]) > 0]
    return _Bare(
        lane=np.full(len(at), lane.number),
        g0=ahead[at],
        g1=work.s[at],
        pid=work.pid[at],
        thread=work.thread[at],
        a0=work.a0[at],
        a1=work.a1[at],
        copy=work.cls[at] == COPY,
        edge=np.zeros(len(at), dtype=np.int8),
    )


def _edges(trace: Trace, lane: Lane, within: Within) -> _Bare:
    """What lies before the first and after the last work of a lane."""
    import numpy as np

    work, ahead = trace.work, trace.ahead("any", ANY)
    last = max(int(ahead[lane.last - 1]), int(work.e[lane.last - 1]))
    g0, g1 = np.array([trace.whole.start, last]), np.array([work.s[lane.first], trace.whole.end])
    keep = within.ns(g0, g1) > 0
    nothing = np.full(int(keep.sum()), NONE)
    return _Bare(
        lane=np.full(len(nothing), lane.number),
        g0=g0[keep],
        g1=g1[keep],
        pid=np.full(len(nothing), NONE if lane.pid is None else lane.pid),
        thread=nothing,
        a0=nothing,
        a1=nothing,
        copy=np.zeros(len(nothing), dtype=bool),
        edge=np.array([1, 2], dtype=np.int8)[keep],
    )


def _shared(trace: Trace, bare: _Bare, within: Within) -> tuple[Ints, NDArray[np.int8], Ints]:
    """Of some gaps what lies in the windows, the main cause, and the ns of each cause."""
    import numpy as np

    ns = within.ns(bare.g0, bare.g1)
    h = np.clip(bare.a0, bare.g0, bare.g1)
    q = np.clip(np.maximum(bare.a0, bare.a1), bare.g0, bare.g1)
    inner, asked = bare.edge == 0, bare.a0 != NONE
    told = inner & asked
    matrix = np.zeros((len(CAUSES), len(ns)), dtype=np.int64)
    parts = dict(zip(CAUSES, matrix, strict=True))
    drained = _before_call(trace, bare, within, np.flatnonzero(told & (h > bare.g0)), h, parts)
    _call_and_after(bare, within, told, (h, q), parts)
    for cause, gaps, waited in drained:
        moved = np.minimum(parts["launch"][gaps], waited)
        parts[cause][gaps] += moved
        parts["launch"][gaps] -= moved
    for cause, where in (("start_up", bare.edge == 1), ("shut_down", bare.edge == 2), ("unknown", inner & ~asked)):
        parts[cause][where] += ns[where]
    _profiled(trace, bare, within, parts)
    return ns, matrix.argmax(axis=0).astype(np.int8), matrix


def _before_call(
    trace: Trace, bare: _Bare, within: Within, index: Ints, h: Ints, parts: dict[str, Ints]
) -> list[tuple[str, Ints, Ints]]:
    """Share out what lies before the call that asked: blocking calls, and the rest.

    Returns, by cause, the gaps at whose start the host was in a call that waits, and for how long it had been: that
    much of what it does next it would have done meanwhile.
    """
    import numpy as np

    if not len(index):
        return []
    g0, h = bare.g0[index], h[index]
    waited = np.zeros(len(index), dtype=np.int64)
    covered = np.zeros((len(BLOCKING), len(index)), dtype=np.int64)
    calls, drain = np.zeros(len(index), dtype=np.int64), np.full(len(index), -1, dtype=np.int8)
    for own, blocks in _by_thread(trace, bare.pid[index], bare.thread[index]):
        k0, k1 = (np.searchsorted(blocks.s, at[own], side="right") - 1 for at in (g0, h))
        calls[own] = k1 - k0
        waiting = (k0 >= 0) & (blocks.e[np.maximum(k0, 0)] >= g0[own])
        drain[own] = np.where(waiting, blocks.cls[np.maximum(k0, 0)], -1)
        waited[own] = np.where(waiting, g0[own] - blocks.s[np.maximum(k0, 0)], 0)
        some = np.flatnonzero((k1 > k0) | waiting)
        for code in range(len(BLOCKING)):
            if (blocks.cls == code).any():
                until = _until(blocks, code)
                mine = np.arange(len(index))[own][some]
                covered[code, mine] = until(h[mine], k1[some]) - until(g0[mine], k0[some])
    blocked = covered.sum(axis=0)
    rest = h - g0 - blocked
    brief = rest <= rules().limits.short_pause_ns * (calls + 1)
    # What lies outside of the windows is left out of each part alike.
    inside = within.ns(g0, h)
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
    drained = {cause: np.flatnonzero(brief & (drain == BLOCKING.index(cause))) for cause in _DRAINING}
    return [(cause, index[mine], waited[mine]) for cause, mine in drained.items()]


class _until:
    """How much the blocking calls of one class cover until a time, whose last call begun has the index k."""

    def __init__(self, blocks: Blocks, code: int) -> None:
        import numpy as np

        self.blocks, self.mine = blocks, blocks.cls == code
        lengths = np.where(self.mine, blocks.e - blocks.s, 0)
        self.before: Ints = np.concatenate([[0], np.cumsum(lengths)])

    def __call__(self, at: Ints, k: Ints) -> Ints:
        import numpy as np

        last = np.maximum(k, 0)
        within = np.where(self.mine[last], np.minimum(self.blocks.e[last], at) - self.blocks.s[last], 0)
        found: Ints = np.where(k < 0, 0, self.before[last] + within)
        return found


def _by_thread(trace: Trace, pid: Ints, thread: Ints) -> list[tuple[Ints | slice, Blocks]]:
    """Which of the gaps belong to which thread's blocking calls."""
    import numpy as np

    if len(pid) and (pid == pid[0]).all() and (thread == thread[0]).all():
        own = trace.blocks.get((int(pid[0]), int(thread[0])))
        return [(slice(None), own)] if own else []
    order = np.lexsort((thread, pid))
    new = np.flatnonzero((np.diff(pid[order]) != 0) | (np.diff(thread[order]) != 0)) + 1
    found: list[tuple[Ints | slice, Blocks]] = []
    for mine in np.split(order, new):
        if len(mine) and (blocks := trace.blocks.get((int(pid[mine[0]]), int(thread[mine[0]])))):
            found.append((np.sort(mine), blocks))
    return found


def _call_and_after(bare: _Bare, within: Within, told: Flags, at: tuple[Ints, Ints], parts: dict[str, Ints]) -> None:
    """Share out the call that asked for the next work, and what lies behind it."""
    limits, (h, q) = rules().limits, at
    call, tail = within.ns(h, q), within.ns(q, bare.g1)
    lazy = ~bare.copy & (q - h > limits.lazy_load_ns)
    late = bare.g1 - q > limits.queued_ns
    fresh = q > bare.g0
    for cause, part, where in (
        ("copies", call, bare.copy),
        ("module_load", call, lazy),
        ("launch", call, ~bare.copy & ~lazy),
        ("waiting", tail, late),
        ("queued", tail, ~late & ~fresh),
        ("copies", tail, ~late & fresh & bare.copy),
        ("launch", tail, ~late & fresh & ~bare.copy),
    ):
        where = where & told
        parts[cause][where] += part[where]


def _profiled(trace: Trace, bare: _Bare, within: Within, parts: dict[str, Ints]) -> None:
    """Give the profiler what its own work takes of gaps, at the cost of launches, then of the host."""
    import numpy as np

    paying = ("launch", "module_load", "synchronisation", "host")
    for busy in trace.profiler[:1000]:
        touched = np.flatnonzero((bare.g0 < busy.end) & (bare.g1 > busy.start))
        shared = within.ns(np.maximum(bare.g0[touched], busy.start), np.minimum(bare.g1[touched], busy.end))
        for i, left in zip(touched, shared, strict=True):
            for cause in paying:
                taken = min(left, int(parts[cause][i]))
                parts[cause][i] -= taken
                parts["profiler"][i] += taken
                left -= taken
