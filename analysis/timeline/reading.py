"""Reading the timeline of a workload into arrays.

SQL reads and filters; running over millions of intervals in order is done with numpy, five times as fast as with window
functions. Every pass over ten million events costs some tenths of a second, so there are four: what there is, the work
of devices, the calls that asked for it, and those that block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..database import speed_up, sql_literal
from ..problems import BadInput
from ..workload import Workload
from .rules import CallClass, rules
from .trace import (
    BLOCKING,
    COMMUNICATION,
    COMPUTE,
    COPY,
    FILL,
    NONE,
    PROFILER,
    SOUND,
    Blocks,
    Lane,
    Trace,
    Window,
    Work,
    events_of,
    has_timeline,
    is_same,
    ranges_of,
)

if TYPE_CHECKING:
    from .trace import Ints

_MANY = 100_000
_RANKS = 4096
_MOST_LANES = 4096
_DEVICE = "kind IN ('kernel', 'copy', 'fill')"
_HOST = "kind IN ('api', 'sync', 'alloc')"


def prepare(workload: Workload) -> Trace:
    """Read the timeline of a workload, or its launches where it has no other; BadInput where there is no work of a
    device in it, or no times."""
    if not (has_timeline(workload) or _has_times(workload)):
        raise BadInput(
            f"Workload {workload.name!r} has no timeline",
            "its profile holds neither events of the host and the device nor launches that began at different times",
            "profile_command(metrics=['timeline']) takes one, plan_profile prints how; or import one (PyTorch, nsys)",
        )
    if (workload.manifest.events or workload.manifest.dispatches) > _MANY:
        speed_up(workload.cursor)
    seen = _look(workload)
    if not seen.lanes:
        raise BadInput(
            f"The timeline of {workload.name!r} holds no work of a device",
            "nothing was launched, or the profiler did not record it",
            "Trace kernels and copies too (rocprofv3 --sys-trace, ProfilerActivity.CUDA)",
        )
    events = f"(FROM {events_of(workload)} WHERE {SOUND})"
    work = _work(workload, events, seen)
    blocks, profiler = _blocks(workload, events)
    return Trace(
        workload, seen.lanes, work, blocks, profiler, _whole(workload, seen.span), seen.communicates, seen.calls,
        seen.unusable,
    )  # fmt: skip


def _has_times(workload: Workload) -> bool:
    """Whether launches say when they ran: some profilers tell how long they took alone, and then all begin at one
    time. A single launch has nothing before or after it."""
    if not workload.has("dispatches"):
        return False
    return bool(
        workload.rows(f"SELECT coalesce(min(start_ns) < max(start_ns), false) FROM {events_of(workload)}")[0][0]
    )


@dataclass(frozen=True)
class _Seen:
    """What there is, from one look at all events."""

    lanes: Sequence[Lane]
    span: tuple[int, int]
    calls: int
    unusable: int
    communicates: bool
    only: Mapping[str, int]
    """``pid``, ``host_pid``, ``thread``: the one that there is among device work, and among host calls that can ask
    for some; absent where there are several."""


def _look(workload: Workload) -> _Seen:
    """Look at all events once. Leaves tl_names, what host calls do, and tl_communicating, kernels that communicate."""
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_seen AS SELECT kind, coalesce(name, '') AS name, "
        f"coalesce(category, '') AS category, rank, device_id, stream, coalesce({SOUND}, false) AS sound, "
        f"pid, thread, count(*) AS n, min(start_ns) AS s, max(end_ns) AS e FROM {events_of(workload)} GROUP BY ALL"
    )
    fits = " ".join(f"WHEN {_fits(c)} THEN {_code(c.name)}" for c in rules().calls)
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_names AS SELECT kind, name, category, CASE WHEN kind = 'kernel' THEN NULL "
        f"{fits} WHEN kind = 'sync' THEN {_code('synchronisation')} "
        f"WHEN kind = 'alloc' THEN {_code('allocation')} END::TINYINT AS cls "
        f"FROM (SELECT DISTINCT kind, name, category FROM tl_seen WHERE sound AND ({_HOST} OR kind = 'kernel'))"
    )
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_communicating AS SELECT DISTINCT name FROM tl_names "
        f"WHERE kind = 'kernel' AND regexp_matches(name, {sql_literal(rules().communication)})"
    )
    calls, unusable, start, end, communicating = workload.rows(
        f"SELECT coalesce(sum(n) FILTER (sound AND {_HOST}), 0), coalesce(sum(n) FILTER (NOT sound), 0), "
        "min(s) FILTER (sound AND kind <> 'sample'), max(e) FILTER (sound AND kind <> 'sample'), "
        "(SELECT count(*) FROM tl_communicating) FROM tl_seen"
    )[0]
    known = workload.rows(
        f"SELECT {_NUMBER} AS lane, any_value(device_id), any_value(rank), any_value(pid), count(DISTINCT stream), "
        f"sum(n)::BIGINT FROM tl_seen WHERE sound AND {_DEVICE} GROUP BY lane ORDER BY lane LIMIT {_MOST_LANES + 1}"
    )
    if len(known) > _MOST_LANES:
        raise BadInput(f"The timeline of {workload.name!r} names more than {_MOST_LANES} devices", fix="Trace fewer")
    lanes, first = [], 0
    for number, device, rank, pid, streams, count in known:
        lanes.append(Lane(number, device, rank, pid, streams, first, first + count))
        first += count
    only = {
        what: low
        for what, of, column in (("pid", _DEVICE, "pid"), ("host_pid", _HOST, "pid"), ("thread", _HOST, "thread"))
        for low, high in workload.rows(
            f"SELECT min(coalesce({column}, {NONE})), max(coalesce({column}, {NONE})) FROM tl_seen WHERE sound AND {of}"
        )
        if low is not None and low == high
    }
    return _Seen(lanes, (start, end), int(calls), int(unusable), bool(communicating), only)


_NUMBER = f"(coalesce(rank::BIGINT, -1) * {_RANKS} + coalesce(device_id, 0) % {_RANKS})"
"""SQL: the number of the lane of an event."""


def _arrays(workload: Workload, columns: Mapping[str, str], source: str) -> dict[str, Any]:
    """Columns without NULL as arrays, by name."""
    import numpy as np

    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    found = workload.cursor.execute(f"SELECT {listed} FROM {source}").fetchnumpy()
    return {name: np.ascontiguousarray(np.ma.getdata(found[name])) for name in columns}


def _work(workload: Workload, events: str, seen: _Seen) -> Work:
    """All device work, lane by lane, with the call that asked for each."""
    import numpy as np

    kernel = (
        f"CASE WHEN name IN (FROM tl_communicating) THEN {COMMUNICATION} ELSE {COMPUTE} END"
        if seen.communicates
        else str(COMPUTE)
    )
    columns = {
        "s": "start_ns",
        "e": "end_ns",
        "cls": f"(CASE kind WHEN 'copy' THEN {COPY} WHEN 'fill' THEN {FILL} ELSE {kernel} END)::TINYINT",
    }
    if len(seen.lanes) > 1:
        columns["lane"] = _NUMBER
    if "pid" not in seen.only:
        columns["pid"] = f"coalesce(pid, {NONE})"
    if seen.calls:
        columns["correlation"] = f"coalesce(correlation, {NONE})"
    found = _arrays(workload, columns, f"{events} WHERE {_DEVICE}")
    order = None if _in_order(found["s"]) else np.argsort(found["s"], kind="stable")
    if "lane" in found:
        lane = found.pop("lane")
        numbers = np.array([each.number for each in seen.lanes], dtype=np.int64)
        code = np.searchsorted(numbers, lane if order is None else lane[order]).astype(np.int16)
        by_lane = np.argsort(code, kind="stable")
        order = by_lane if order is None else order[by_lane]
    if order is not None:
        found = {name: column[order] for name, column in found.items()}
    count = len(found["s"])
    pid = found["pid"] if "pid" in found else _same(seen.only["pid"], count)
    asked = _asked(workload, events, seen, (pid, found["correlation"])) if seen.calls else None
    return Work(found["s"], found["e"], found["cls"], pid, *(asked or [_same(NONE, count)] * 3))


def _same(value: int, count: int) -> Ints:
    """A column with one value, which takes no memory and cannot be written to."""
    import numpy as np

    return np.broadcast_to(np.int64(value), count)


def _in_order(times: Ints) -> bool:
    return len(times) < 2 or bool((times[1:] >= times[:-1]).all())


def _asked(workload: Workload, events: str, seen: _Seen, work: tuple[Ints, Ints]) -> list[Ints]:
    """Start, end and thread of the call that asked for each piece of work (process, correlation): the earliest of its
    process with its correlation."""
    import numpy as np

    columns = {"number": "correlation", "s": "start_ns", "e": "end_ns"}
    if "host_pid" not in seen.only:
        columns["pid"] = f"coalesce(pid, {NONE})"
    if "thread" not in seen.only:
        columns["thread"] = f"coalesce(thread, {NONE})"
    calls = _arrays(workload, columns, f"{events} WHERE {_HOST} AND correlation IS NOT NULL")
    count = len(calls["s"])
    if not count:
        return [_same(NONE, len(work[0]))] * 3
    pid = calls["pid"] if "pid" in calls else _same(seen.only["host_pid"], count)
    asking, sought = _keys((pid, calls.pop("number")), work)
    found = _first(asking, calls["s"], sought)
    del asking, sought
    hit = (found >= 0) & (work[1] != NONE)
    everywhere = bool(hit.all())
    made = []
    for name in ("s", "e", "thread"):
        column = calls[name] if name in calls else _same(seen.only[name], count)
        if everywhere:
            made.append(column[found] if name in calls else _same(seen.only[name], len(hit)))
        else:
            made.append(np.where(hit, column[found], NONE))
    return made


def _first(known: Ints, s: Ints, sought: Ints) -> Ints:
    """Where each of ``sought`` is in ``known``, of several the one with the least s; -1 where it is not."""
    import numpy as np

    order = None if _in_order(s) else np.argsort(s, kind="stable")
    if order is not None:
        known = known[order]
    most = int(known.max()) + 1
    found: Ints
    if most <= 8 * len(known) + 1_000_000:
        # Ids without large holes: a table of their places, written backwards so that the first one stays.
        places = np.full(most + 2, -1, dtype=np.int64 if len(known) >= 2**31 else np.int32)
        places[known[::-1]] = np.arange(len(known) - 1, -1, -1)
        # What is below 0 or above all finds the -1 at the end.
        outside = (sought < 0) | (sought > most)
        found = np.asarray(places[np.where(outside, most + 1, sought) if outside.any() else sought], dtype=np.int64)
    else:
        by_id = np.argsort(known, kind="stable")
        at = by_id[np.minimum(np.searchsorted(known, sought, sorter=by_id), len(known) - 1)]
        found = np.where(known[at] == sought, at, -1)
    if order is not None:
        found = np.where(found >= 0, order[found], -1)
    return found


def _keys(left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """One number for each pair of process and correlation, the same on both sides."""
    import numpy as np

    if len(right[0]) and is_same(left[0]) and is_same(right[0]) and left[0][0] == right[0][0]:
        low, high = int(left[1].min()), int(left[1].max())
        if high - low < 2**62:
            return left[1] - low, np.clip(right[1], low - 1, high + 1) - low
    processes = left[0][:1] if is_same(left[0]) else np.unique(left[0])
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

    host = f"(FROM {events} WHERE {_HOST})"
    known = workload.rows("SELECT count(cls) FROM tl_names")[0][0]
    if not known:
        return {}, []
    columns = {"pid": f"coalesce(pid, {NONE})", "thread": f"coalesce(thread, {NONE})", "s": "start_ns", "e": "end_ns"}
    pid, thread, s, e, cls = _arrays(
        workload,
        columns | {"cls": "cls"},
        "(SELECT pid, thread, start_ns, end_ns, kind, coalesce(name, '') AS name, coalesce(category, '') AS "
        f"category FROM {host}) JOIN (FROM tl_names WHERE cls IS NOT NULL) USING (kind, name, category)",
    ).values()
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


def _whole(workload: Workload, span: tuple[int, int]) -> Window:
    """The events' span with that of the ranges."""
    start, end = span
    if ranges := ranges_of(workload):
        low, high = workload.rows(f"SELECT min(start_ns), max(end_ns) FROM {ranges}")[0]
        if low is not None:
            start, end = min(start, low), max(end, high)
    return Window(int(start), int(end))
