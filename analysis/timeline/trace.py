"""The events of a workload as arrays to compute with: device work in lanes, and host calls by what they do.

A lane is a device (of a rank, where there are ranks): streams and copy engines of one device share it. SQL reads and
filters; running over millions of intervals in order is done with numpy, five times as fast as with window functions.
All times are ns on the clock of the profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..database import speed_up, sql_literal
from ..problems import BadInput
from ..workload import Workload
from .rules import CallClass, rules

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

COMPUTE, COMMUNICATION, COPY, FILL = range(4)
"""Classes of device work."""
BLOCKING = ("synchronisation", "allocation", "copies", "messages", "module_load", "graph")
"""Classes of host calls that take time of the thread that asks for device work."""
PROFILER = "profiler"
NONE = -(2**62)
"""Instead of a time or an id that is not known."""
_MANY = 100_000
_FARTHEST = 4 * 10**18
"""Times beyond this cannot be subtracted in 64 bits; no clock has them."""
_RANKS = 4096
_MOST_LANES = 4096


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
    """Device work, lane by lane and by start: when it ran, its class, and the call that asked for it (``NONE``)."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]
    pid: Ints
    a0: Ints
    a1: Ints
    thread: Ints


@dataclass(frozen=True)
class Blocks:
    """The outermost blocking calls of one thread in order; ``cls`` counts in ``BLOCKING``."""

    s: Ints
    e: Ints
    cls: NDArray[np.int8]


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
    communicates: bool
    calls: int
    """Host calls of any kind."""
    unusable: int
    """Events left out: without a time, or ending before they start."""
    _islands: dict[str, Any] = field(default_factory=dict)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query of ours."""
        return self.workload.rows(sql)

    @property
    def ranges(self) -> str | None:
        """SQL that reads the usable ranges; None where the program has none."""
        return usable_ranges(self.workload)

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

            ends = np.where(np.isin(self.work.cls, classes), self.work.e, NONE)
            ahead = np.full(len(ends), NONE, dtype=np.int64)
            for _, own in self.per_lane():
                np.maximum.accumulate(ends[own][:-1], out=ahead[own][1:])
            self._islands[name] = ahead
        found: Ints = self._islands[name]
        return found


def has_timeline(workload: Workload) -> bool:
    """Whether a workload holds a timeline at all."""
    return workload.has("events")


def prepare(workload: Workload) -> Trace:
    """Read the timeline of a workload; BadInput where it has none, or no work of a device in it."""
    if not has_timeline(workload):
        raise BadInput(
            f"Workload {workload.name!r} has no timeline",
            "its profile holds no events of the host and the device",
            "profile_command(metrics=['timeline']) takes one, plan_profile prints how; or import one (PyTorch, nsys)",
        )
    events = usable_events(workload)
    total, unusable, start, end = workload.rows(
        "SELECT count(*), count(*) FILTER (NOT sound), min(start_ns) FILTER (sound AND NOT sampled), "
        "max(end_ns) FILTER (sound AND NOT sampled) FROM (SELECT start_ns, end_ns, "
        f"coalesce({_SOUND}, false) AS sound, coalesce(kind = 'sample', false) AS sampled "
        f"FROM {workload.relation('events')})"
    )[0]
    if total > _MANY:
        speed_up(workload.cursor)
    calls, communicating = _names(workload, events)
    lanes, work, correlation = _work(workload, events, communicating)
    if not lanes:
        raise BadInput(
            f"The timeline of {workload.name!r} holds no work of a device",
            "nothing was launched, or the profiler did not record it",
            "Trace kernels and copies too (rocprofv3 --sys-trace, ProfilerActivity.CUDA)",
        )
    work = _asked(workload, events, work, correlation)
    blocks, profiler = _blocks(workload, events)
    return Trace(
        workload, lanes, work, blocks, profiler, _whole(workload, start, end), communicating, int(calls), int(unusable)
    )


_SOUND = (
    f"start_ns BETWEEN -{_FARTHEST} AND {_FARTHEST} AND end_ns BETWEEN -{_FARTHEST} AND {_FARTHEST} "
    "AND end_ns >= start_ns AND kind IS NOT NULL"
)


def usable_events(workload: Workload) -> str:
    """SQL that reads the events with times that can be used; BadInput where the workload has none."""
    return f"(FROM {workload.relation('events')} WHERE {_SOUND})"


def usable_ranges(workload: Workload) -> str | None:
    """SQL that reads the ranges with times that can be used; None where the program has none."""
    if not workload.has("ranges"):
        return None
    sound = _SOUND.replace(" AND kind IS NOT NULL", " AND name IS NOT NULL")
    return f"(FROM {workload.relation('ranges')} WHERE {sound})"


def _names(workload: Workload, events: str) -> tuple[int, bool]:
    """Look at every name once: tl_names has what host calls do, tl_communicating the kernels that communicate.

    Returns the number of host calls, and whether any kernel communicates.
    """
    fits = " ".join(f"WHEN {_fits(c)} THEN {_code(c.name)}" for c in rules().calls)
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_names AS SELECT kind, name, category, n, CASE WHEN kind = 'kernel' THEN NULL "
        f"{fits} WHEN kind = 'sync' THEN {_code('synchronisation')} "
        f"WHEN kind = 'alloc' THEN {_code('allocation')} END::TINYINT AS cls "
        "FROM (SELECT kind, coalesce(name, '') AS name, coalesce(category, '') AS category, count(*) AS n "
        f"FROM {events} WHERE kind IN ('api', 'sync', 'alloc', 'kernel') GROUP BY ALL)"
    )
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_communicating AS SELECT DISTINCT name FROM tl_names "
        f"WHERE kind = 'kernel' AND regexp_matches(name, {sql_literal(rules().communication)})"
    )
    calls, kernels = workload.rows(
        "SELECT coalesce(sum(n) FILTER (kind <> 'kernel'), 0), (SELECT count(*) FROM tl_communicating) FROM tl_names"
    )[0]
    return int(calls), bool(kernels)


def _arrays(workload: Workload, sql: str) -> list[Any]:
    """The columns of a query without NULL as arrays."""
    import numpy as np

    found = workload.cursor.execute(sql).fetchnumpy()
    return [np.ascontiguousarray(np.ma.getdata(column)) for column in found.values()]


def _work(workload: Workload, events: str, communicates: bool) -> tuple[list[Lane], Work, Ints]:
    """All device work, and the correlation of each."""
    import numpy as np

    number = f"(coalesce(rank::BIGINT, -1) * {_RANKS} + coalesce(device_id, 0) % {_RANKS})"
    kernel = (
        f"CASE WHEN name IN (FROM tl_communicating) THEN {COMMUNICATION} ELSE {COMPUTE} END" if communicates else "0"
    )
    on_device = "kind IN ('kernel', 'copy', 'fill')"
    known = workload.rows(
        "SELECT lane, any_value(device), any_value(rank), any_value(pid), count(stream), sum(n)::BIGINT FROM ("
        f"SELECT {number} AS lane, any_value(device_id) AS device, any_value(rank) AS rank, any_value(pid) AS pid, "
        f"stream, count(*) AS n FROM {events} WHERE {on_device} GROUP BY lane, stream) "
        f"GROUP BY lane ORDER BY lane LIMIT {_MOST_LANES + 1}"
    )
    if len(known) > _MOST_LANES:
        raise BadInput(f"The timeline of {workload.name!r} names more than {_MOST_LANES} devices", fix="Trace fewer")
    lane, s, e, cls, pid, correlation = _arrays(
        workload,
        f"SELECT {number} AS lane, start_ns AS s, end_ns AS e, (CASE kind WHEN 'copy' THEN {COPY} "
        f"WHEN 'fill' THEN {FILL} ELSE {kernel} END)::TINYINT AS cls, coalesce(pid, {NONE}) AS pid, "
        f"coalesce(correlation, {NONE}) AS correlation FROM {events} WHERE {on_device}",
    )
    order = np.argsort(s, kind="stable")
    if len(known) > 1:
        code = np.searchsorted(np.array([row[0] for row in known], dtype=np.int64), lane[order]).astype(np.int16)
        order = order[np.argsort(code, kind="stable")]
    lanes, first = [], 0
    for lane_number, device, rank, process, streams, count in known:
        lanes.append(Lane(lane_number, device, rank, process, streams, first, first + count))
        first += count
    nothing = np.empty(0, dtype=np.int64)
    return lanes, Work(s[order], e[order], cls[order], pid[order], nothing, nothing, nothing), correlation[order]


def _asked(workload: Workload, events: str, work: Work, correlation: Ints) -> Work:
    """The work with the call that asked for each: the earliest of its process with its correlation."""
    import numpy as np

    pid, number, thread, s, e = _arrays(
        workload,
        f"SELECT coalesce(pid, {NONE}) AS pid, correlation, coalesce(thread, {NONE}) AS thread, start_ns AS s, "
        f"end_ns AS e FROM {events} WHERE kind IN ('api', 'sync', 'alloc') AND correlation IS NOT NULL",
    )
    a0, a1, own = (np.full(len(work.s), NONE, dtype=np.int64) for _ in range(3))
    if len(number):
        asking, asked = _keys((pid, number), (work.pid, correlation))
        found = _first(asking, s, asked)
        hit = (found >= 0) & (correlation != NONE)
        for target, source in ((a0, s), (a1, e), (own, thread)):
            target[hit] = source[found[hit]]
    return Work(work.s, work.e, work.cls, work.pid, a0, a1, own)


def _first(known: Ints, s: Ints, sought: Ints) -> Ints:
    """Where each of ``sought`` is in ``known``, of several the one with the least s; -1 where it is not."""
    import numpy as np

    order = None if len(s) < 2 or (s[1:] >= s[:-1]).all() else np.argsort(s, kind="stable")
    if order is not None:
        known = known[order]
    most = int(known.max()) + 1
    if most <= 8 * len(known) + 1_000_000:
        # Ids without large holes: a table of their places, written backwards so that the first one stays.
        places = np.full(most + 1, -1, dtype=np.int64)
        places[known[::-1]] = np.arange(len(known) - 1, -1, -1)
        found = np.where(sought >= 0, places[np.clip(sought, 0, most)], -1)
    else:
        by_id = np.argsort(known, kind="stable")
        at = by_id[np.minimum(np.searchsorted(known, sought, sorter=by_id), len(known) - 1)]
        found = np.where(known[at] == sought, at, -1)
    if order is not None:
        found = np.where(found >= 0, order[found], -1)
    return np.asarray(found, dtype=np.int64)


def _keys(left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """One number for each pair of process and correlation, the same on both sides."""
    import numpy as np

    if (left[0] == left[0][0]).all() and (right[0] == left[0][0]).all() and len(right[0]):
        low, high = int(left[1].min()), int(left[1].max())
        if high - low < 2**62:
            return left[1] - low, np.clip(right[1], low - 1, high + 1) - low
    processes = left[0][:1] if (left[0] == left[0][0]).all() else np.unique(left[0])
    ids = np.concatenate([left[1], right[1]])
    known = ids[ids != NONE]
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if (high - low + 2) * (len(processes) + 1) >= 2**62:
        _, ids = np.unique(ids, return_inverse=True)
        low, high = 0, len(ids)
    span = high - low + 2
    numbers = np.maximum(ids - low, -1) + 1

    def process(of: Ints) -> Ints:
        if len(processes) == 1:
            return np.asarray((of != processes[0]).astype(np.int64), dtype=np.int64)
        code = np.minimum(np.searchsorted(processes, of), len(processes) - 1)
        return np.where(processes[code] == of, code, len(processes))

    count = len(left[1])
    return process(left[0]) * span + numbers[:count], process(right[0]) * span + numbers[count:]


def _blocks(workload: Workload, events: str) -> tuple[dict[tuple[int, int], Blocks], list[Window]]:
    """The blocking calls of every thread, and the profiler's own times."""
    import numpy as np

    host = f"(FROM {events} WHERE kind IN ('api', 'sync', 'alloc'))"
    known = workload.rows("SELECT count(cls) FROM tl_names")[0][0]
    if not known:
        return {}, []
    pid, thread, s, e, cls = _arrays(
        workload,
        f"SELECT coalesce(pid, {NONE}) AS pid, coalesce(thread, {NONE}) AS thread, start_ns AS s, end_ns AS e, cls "
        "FROM (SELECT pid, thread, start_ns, end_ns, kind, coalesce(name, '') AS name, coalesce(category, '') AS "
        f"category FROM {host}) JOIN (FROM tl_names WHERE cls IS NOT NULL) USING (kind, name, category)",
    )
    own = cls == _code(PROFILER)
    profiler = sorted(
        (Window(int(a), int(b)) for a, b in zip(s[own], e[own], strict=True)), key=lambda w: w.start - w.end
    )
    pid, thread, s, e, cls = (column[~own] for column in (pid, thread, s, e, cls))
    order = np.lexsort((-e, s, thread, pid))
    pid, thread, s, e, cls = (column[order] for column in (pid, thread, s, e, cls))
    new = np.flatnonzero((np.diff(pid) != 0) | (np.diff(thread) != 0)) + 1
    blocks = {}
    for first, last in zip([0, *new], [*new, len(s)], strict=True):
        if first == last:
            continue
        ends = np.maximum.accumulate(e[first:last])
        outer = np.concatenate([[True], s[first + 1 : last] >= ends[:-1]])
        blocks[int(pid[first]), int(thread[first])] = Blocks(*(c[first:last][outer] for c in (s, e, cls)))
    return blocks, profiler[:_MANY]


def _code(name: str) -> int:
    """The number of a class of host calls."""
    return (*BLOCKING, PROFILER).index(name)


def _fits(call: CallClass) -> str:
    fits = f"regexp_matches(name, {sql_literal(call.pattern)})"
    return fits if call.category is None else f"{fits} AND regexp_matches(category, {sql_literal(call.category)})"


def _whole(workload: Workload, start: int, end: int) -> Window:
    """The events' span with that of the ranges."""
    if ranges := usable_ranges(workload):
        low, high = workload.rows(f"SELECT min(start_ns), max(end_ns) FROM {ranges}")[0]
        if low is not None:
            start, end = min(start, low), max(end, high)
    return Window(int(start), int(end))
