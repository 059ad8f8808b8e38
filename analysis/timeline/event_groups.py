"""The events of a timeline, in groups that have everything but their times in common.

There are many events but few names, processes, threads and devices. SQL classifies the groups once, and code that
processes all events uses the numbers of the groups instead of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.database import sql_literal
from ..workload import Workload
from .rules import CallClass, rules
from .trace import (
    BLOCKING,
    CAPTURE_BEGIN,
    CAPTURE_END,
    COMMUNICATION,
    COMPUTE,
    COPY,
    FARTHEST,
    FILL,
    GRAPH,
    LAUNCH,
    NONE,
    PROFILER,
    SOUND,
    Flags,
    Ints,
    Lane,
    Window,
    events_of,
)
from .wording import problem

_RANKS = 4096
_MOST_LANES = 4096
_ALIKE = ("kind", "name", "category", "rank", "device_id", "stream", "pid", "thread")
"""The columns that the events of a group have in common."""
_NUMBER = f"(coalesce(rank::BIGINT, -1) * {_RANKS} + coalesce(device_id, 0) % {_RANKS})"
"""SQL: the number of the lane of an event."""
_DEVICE = "kind IN ('kernel', 'copy', 'fill')"
_HOST = "kind IN ('api', 'sync', 'alloc')"
_NAMES = "coalesce(name, '') AS name, coalesce(category, '') AS category"


@dataclass(frozen=True)
class Groups:
    """Properties of the groups as arrays indexed by group number; -1 if a property does not apply."""

    device: NDArray[np.int8]
    """The class of device work."""
    host: Flags
    """Whether the events are host calls."""
    call: NDArray[np.int8]
    """The class of blocking calls, or of the profiler's own work."""
    launch: NDArray[np.int8]
    """The role of host calls in launching work (``LAUNCH`` and its neighbours); 0 for all others."""
    kernel: NDArray[np.int32]
    """The number of the kernel name, in the order of names."""
    lane: Ints
    pid: Ints
    thread: Ints
    stream: Ints
    """The stream of device work, and the one that a host call names."""


@dataclass(frozen=True)
class Seen:
    """A summary of the timeline, from one pass over all events."""

    groups: Groups
    lanes: Sequence[Lane]
    span: Window
    calls: int
    unusable: int
    communicating: Sequence[int]
    """The numbers of the kernels that communicate."""


@dataclass(frozen=True)
class Events:
    """All usable events in file order: start, end, correlation id (``NONE`` if unknown) and group number."""

    s: Ints
    e: Ints
    correlation: Ints
    g: NDArray[np.int32]


def look(workload: Workload) -> Seen:
    """Summarise all events in one pass; BadInput if they name too many devices.

    Creates the temporary tables tl_groups (the common columns of each group) and tl_kernels (kernel names by number).
    """
    listed = ", ".join(_ALIKE)
    workload.cursor.execute(
        f"CREATE OR REPLACE TEMP TABLE tl_groups AS SELECT (row_number() OVER () - 1)::INTEGER AS g, {listed}, "
        "sum(n) FILTER (sound) AS n, sum(n) FILTER (NOT sound) AS unusable, min(s) FILTER (sound) AS s, "
        f"max(e) FILTER (sound) AS e FROM (SELECT {listed}, coalesce({SOUND}, false) AS sound, count(*) AS n, "
        f"min(start_ns) AS s, max(end_ns) AS e FROM {events_of(workload)} GROUP BY ALL) GROUP BY {listed}"
    )
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_kernels AS SELECT (row_number() OVER (ORDER BY name) - 1)::INTEGER AS kernel, "
        f"name, regexp_matches(name, {sql_literal(rules().communication)}) AS talks "
        "FROM (SELECT DISTINCT coalesce(name, '') AS name FROM tl_groups WHERE n > 0 AND kind = 'kernel')"
    )
    start, end, calls, unusable = workload.rows(
        "SELECT min(s) FILTER (kind <> 'sample'), max(e) FILTER (kind <> 'sample'), "
        f"coalesce(sum(n) FILTER ({_HOST}), 0), coalesce(sum(unusable), 0) FROM tl_groups"
    )[0]
    talking = workload.rows("SELECT kernel FROM tl_kernels WHERE talks ORDER BY kernel")
    return Seen(
        _groups(workload), _lanes(workload), Window(start, end), int(calls), int(unusable), [k for (k,) in talking]
    )


def _lanes(workload: Workload) -> list[Lane]:
    known = workload.rows(
        f"SELECT {_NUMBER} AS lane, any_value(device_id), any_value(rank), any_value(pid), count(DISTINCT stream), "
        f"sum(n)::BIGINT FROM tl_groups WHERE n > 0 AND {_DEVICE} GROUP BY lane ORDER BY lane LIMIT {_MOST_LANES + 1}"
    )
    if len(known) > _MOST_LANES:
        raise problem("many_devices", name=workload.name, most=_MOST_LANES)
    lanes, first = [], 0
    for number, device, rank, pid, streams, count in known:
        lanes.append(Lane(number, device, rank, pid, streams, first, first + count))
        first += count
    return lanes


def _groups(workload: Workload) -> Groups:
    fits = " ".join(f"WHEN {_fits(c)} THEN {code(c.name)}" for c in rules().calls)
    doing = (
        f"CASE {fits} WHEN kind = 'sync' THEN {code('synchronisation')} WHEN kind = 'alloc' THEN {code('allocation')} "
        "ELSE -1 END"
    )
    columns = {
        "device": f"(CASE kind WHEN 'kernel' THEN CASE WHEN talks THEN {COMMUNICATION} ELSE {COMPUTE} END "
        f"WHEN 'copy' THEN {COPY} WHEN 'fill' THEN {FILL} ELSE -1 END)::TINYINT",
        "host": f"coalesce({_HOST}, false)",
        "call": "coalesce(cls, -1)::TINYINT",
        "launch": "coalesce(role, 0)::TINYINT",
        "kernel": "coalesce(kernel, -1)::INTEGER",
        "lane": _NUMBER,
        "pid": f"coalesce(pid, {NONE})",
        "thread": f"coalesce(thread, {NONE})",
        "stream": f"coalesce(stream, {NONE})",
    }
    patterns = rules().launches
    roles = (
        (patterns.graph, GRAPH),
        (patterns.kernel, LAUNCH),
        (patterns.capture_begin, CAPTURE_BEGIN),
        (patterns.capture_end, CAPTURE_END),
    )
    role = " ".join(f"WHEN regexp_matches(name, {sql_literal(pattern)}) THEN {number}" for pattern, number in roles)
    calls = f"(SELECT DISTINCT kind, {_NAMES} FROM tl_groups WHERE {_HOST})"
    source = (
        f"(SELECT g, kind, {_NAMES}, rank, device_id, pid, thread, stream FROM tl_groups) "
        f"LEFT JOIN (SELECT kind, name, category, {doing} AS cls, CASE {role} ELSE 0 END AS role FROM {calls}) "
        "USING (kind, name, category) "
        "LEFT JOIN (SELECT 'kernel' AS kind, * FROM tl_kernels) USING (kind, name) ORDER BY g"
    )
    return Groups(**_arrays(workload, columns, source))


def read(workload: Workload, seen: Seen) -> Events:
    """Read all usable events."""
    alike = " AND ".join(f"e.{column} IS NOT DISTINCT FROM tl_groups.{column}" for column in _ALIKE)
    columns = {"s": f"coalesce(start_ns, {NONE})", "e": f"coalesce(end_ns, {NONE})", "g": "g"}
    if seen.calls:
        columns["correlation"] = f"coalesce(correlation, {NONE})"
    columns_read = _arrays(workload, columns, f"{events_of(workload)} e JOIN tl_groups ON {alike}")
    if seen.unusable:
        # Filtered here, because with a filter in SQL the join may be reversed and lose the order of the events.
        s, e = columns_read["s"], columns_read["e"]
        sound = (np.abs(s) <= FARTHEST) & (np.abs(e) <= FARTHEST) & (e >= s)
        columns_read = {name: column[sound] for name, column in columns_read.items()}
    return Events(**{"correlation": same(NONE, len(columns_read["s"]))} | columns_read)


def _arrays(workload: Workload, columns: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return SQL expressions without NULL as arrays, by name."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    fetched = workload.cursor.execute(f"SELECT {listed} FROM {source}").fetchnumpy()
    return {name: np.ascontiguousarray(np.ma.getdata(fetched[name])) for name in columns}


def same(value: int, count: int) -> Ints:
    """Return a read-only column that repeats one value without using memory."""
    return np.broadcast_to(np.int64(value), count)


def of_groups(column: Ints, which: Flags, g: NDArray[np.int32]) -> Ints:
    """Map a column of the groups ``which`` to events with group numbers ``g``; cheap if the groups share a value."""
    known = column[which]
    return same(int(known[0]), len(g)) if len(known) and (known == known[0]).all() else column[g]


def code(name: str) -> int:
    """Return the number of a class of host calls."""
    return (*BLOCKING, PROFILER).index(name)


def _fits(call: CallClass) -> str:
    return (
        f"regexp_matches(name, {sql_literal(call.pattern)}) AND regexp_matches(category, {sql_literal(call.category)})"
    )
