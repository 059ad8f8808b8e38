"""What events a timeline holds: groups of them that are alike but for their times, and all of them by their group.

Names, processes, threads and devices are few, events are many: SQL tells what a group is, and numbers of groups take
the place of names in everything that runs over events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.database import sql_literal
from ..base.problems import BadInput
from ..workload import Workload
from .rules import CallClass, rules
from .trace import (
    BLOCKING,
    COMMUNICATION,
    COMPUTE,
    COPY,
    FARTHEST,
    FILL,
    NONE,
    PROFILER,
    SOUND,
    Lane,
    Window,
    events_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .trace import Flags, Ints

_RANKS = 4096
_MOST_LANES = 4096
_ALIKE = ("kind", "name", "category", "rank", "device_id", "stream", "pid", "thread")
"""What the events of a group have in common."""
_NUMBER = f"(coalesce(rank::BIGINT, -1) * {_RANKS} + coalesce(device_id, 0) % {_RANKS})"
"""SQL: the number of the lane of an event."""
_DEVICE = "kind IN ('kernel', 'copy', 'fill')"
_HOST = "kind IN ('api', 'sync', 'alloc')"
_NAMES = "coalesce(name, '') AS name, coalesce(category, '') AS category"


@dataclass(frozen=True)
class Groups:
    """What the events of each group are, by its number; -1 where something does not apply."""

    device: NDArray[np.int8]
    """Class of device work."""
    host: Flags
    """Whether they are calls of the host."""
    call: NDArray[np.int8]
    """Class of calls that block, or of the profiler's own work."""
    kernel: NDArray[np.int32]
    """Number of the kernel's name, in the order of names."""
    lane: Ints
    pid: Ints
    thread: Ints


@dataclass(frozen=True)
class Seen:
    """What there is, from one look at all events."""

    groups: Groups
    lanes: Sequence[Lane]
    span: Window
    calls: int
    unusable: int
    communicating: Sequence[int]
    """Numbers of the kernels that communicate."""


@dataclass(frozen=True)
class Events:
    """All usable events in the order of their file: start, end, correlation (``NONE``), number of their group."""

    s: Ints
    e: Ints
    correlation: Ints
    g: NDArray[np.int32]


def look(workload: Workload) -> Seen:
    """Look at all events once; BadInput where they name too many devices.

    Leaves tl_groups, what the events of a group have in common, and tl_kernels, the names of kernels by their number.
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
        raise BadInput(f"The timeline of {workload.name!r} names more than {_MOST_LANES} devices", fix="Trace fewer")
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
        "kernel": "coalesce(kernel, -1)::INTEGER",
        "lane": _NUMBER,
        "pid": f"coalesce(pid, {NONE})",
        "thread": f"coalesce(thread, {NONE})",
    }
    calls = f"(SELECT DISTINCT kind, {_NAMES} FROM tl_groups WHERE {_HOST})"
    source = (
        f"(SELECT g, kind, {_NAMES}, rank, device_id, pid, thread FROM tl_groups) "
        f"LEFT JOIN (SELECT kind, name, category, {doing} AS cls FROM {calls}) USING (kind, name, category) "
        "LEFT JOIN (SELECT 'kernel' AS kind, * FROM tl_kernels) USING (kind, name) ORDER BY g"
    )
    return Groups(**_arrays(workload, columns, source))


def read(workload: Workload, seen: Seen) -> Events:
    """Read all usable events."""
    import numpy as np

    alike = " AND ".join(f"e.{column} IS NOT DISTINCT FROM tl_groups.{column}" for column in _ALIKE)
    columns = {"s": f"coalesce(start_ns, {NONE})", "e": f"coalesce(end_ns, {NONE})", "g": "g"}
    if seen.calls:
        columns["correlation"] = f"coalesce(correlation, {NONE})"
    columns_read = _arrays(workload, columns, f"{events_of(workload)} e JOIN tl_groups ON {alike}")
    if seen.unusable:
        # Sorted out here: SQL that filters may join the other way round and lose the order.
        s, e = columns_read["s"], columns_read["e"]
        sound = (np.abs(s) <= FARTHEST) & (np.abs(e) <= FARTHEST) & (e >= s)
        columns_read = {name: column[sound] for name, column in columns_read.items()}
    return Events(**{"correlation": same(NONE, len(columns_read["s"]))} | columns_read)


def _arrays(workload: Workload, columns: Mapping[str, str], source: str) -> dict[str, Any]:
    """Columns without NULL as arrays, by name."""
    import numpy as np

    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    fetched = workload.cursor.execute(f"SELECT {listed} FROM {source}").fetchnumpy()
    return {name: np.ascontiguousarray(np.ma.getdata(fetched[name])) for name in columns}


def same(value: int, count: int) -> Ints:
    """A column with one value, which takes no memory and cannot be written to."""
    import numpy as np

    return np.broadcast_to(np.int64(value), count)


def of_groups(column: Ints, which: Flags, g: NDArray[np.int32]) -> Ints:
    """The column of groups for events ``g``, which are of some groups; of one value where those groups have one."""
    known = column[which]
    return same(int(known[0]), len(g)) if len(known) and (known == known[0]).all() else column[g]


def code(name: str) -> int:
    """The number of a class of host calls."""
    return (*BLOCKING, PROFILER).index(name)


def _fits(call: CallClass) -> str:
    fits = f"regexp_matches(name, {sql_literal(call.pattern)})"
    return fits if call.category is None else f"{fits} AND regexp_matches(category, {sql_literal(call.category)})"
