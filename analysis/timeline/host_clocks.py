"""Alignment of the clocks of several hosts, so that the events of all ranks can be placed on one time axis.

Stored times are never changed. Ranks of one host share its clock. The clocks of several hosts are shifted so that
collectives with all ranks end at the same time: a collective ends within microseconds on all ranks, when the data of
the last rank have arrived. Without collectives, each host counts from its first event, and times of different hosts
cannot be compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..base.database import sql_literal
from ..store.schema import stored_tables
from ..workload import Workload
from .rules import rules
from .wording import sentence

Process = tuple[int | None, str | None]
"""Rank and host of a process."""
_FEWEST = 3
"""The number of common collectives that aligning clocks requires."""
_COUNTED = 100_000
_APART = 1 << 22
"""The offset between process ids of different hosts: Linux assigns no larger ids, and viewers accept 32 bits."""


@dataclass(frozen=True)
class Clocks:
    """How the clocks of a workload's hosts were aligned."""

    how: Literal["one", "collectives", "starts"] = "one"
    """A single clock, or several that were aligned by collectives or by their first events."""
    shifts: Mapping[Process, int] = field(default_factory=dict)
    """The shift in ns that is added to the times of each process."""
    clocks: int = 1
    collectives: int = 0
    spread_ns: int = 0
    """The median difference between the ends of a collective after the shift, in ns."""
    same_pids: bool = False
    """Whether processes of different hosts have the same id."""

    @property
    def note(self) -> str | None:
        """The note on the alignment for answers."""
        return None if self.how == "one" else sentence(f"clocks_by_{self.how}", clocks=self, us=self.spread_ns / 1e3)


_known: dict[tuple[str, str], Clocks] = {}
"""The clocks by store and workload; workloads never change."""


def clocks(workload: Workload) -> Clocks:
    """Return the clocks of a workload, which are computed once."""
    if workload.manifest.ranks < 2 or not workload.has("ranks"):
        return Clocks()
    key = (str(workload.store.root), workload.id)
    if key not in _known:
        _known[key] = _align_clocks(workload)
    return _known[key]


def on_one_clock(workload: Workload, events: str) -> str:
    """SQL: ``events`` (or ranges, with rank, host and pid) with times on one clock and unique process ids."""
    aligned = clocks(workload)
    if aligned.how == "one" and not aligned.same_pids:
        return events
    rows = ", ".join(
        f"({_sql(rank)}, {_sql(host)}, {aligned.shifts.get((rank, host), 0)}, {number if aligned.same_pids else 0})"
        for number, (rank, host) in enumerate(_processes(workload))
    )
    return (
        "(SELECT e.* REPLACE (start_ns + coalesce(c.shift, 0) AS start_ns, end_ns + coalesce(c.shift, 0) AS end_ns, "
        f"pid + coalesce(c.number, 0) * {_APART} AS pid) FROM {events} e LEFT JOIN (SELECT rank::INTEGER AS rank, "
        f"host::VARCHAR AS host, shift::BIGINT AS shift, number::BIGINT AS number FROM (VALUES {rows}) "
        "v(rank, host, shift, number)) c ON e.rank IS NOT DISTINCT FROM c.rank AND e.host IS NOT DISTINCT FROM c.host)"
    )


def column_names(workload: Workload, relation: str) -> set[str]:
    """Return the columns of a relation; profiles stored by older versions lack some."""
    return {column[0] for column in workload.cursor.execute(f"FROM {relation} LIMIT 0").description or []}


def stored_events(workload: Workload) -> str:
    """SQL that reads all events as stored; without a timeline, the launches with known times as kernel events."""
    if workload.has("events"):
        return workload.relation("events")
    launches = workload.relation("dispatches")
    known = column_names(workload, launches) | {"'kernel'"}
    sources = {"kind": "'kernel'", "name": "kernel", "stream": "queue_id"}
    listed = ", ".join(
        f"{source if (source := sources.get(name, name)) in known else f'NULL::{column.type}'} AS {name}"
        for name, column in stored_tables()["events"].columns.items()
        if name not in ("workload", "event_id", "range_id")
    )
    return f"(SELECT {listed} FROM {launches} WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL)"


def common_collectives(kernels: str, lane: str, lanes: int | str) -> str:
    """SQL that reads the collectives of all lanes from kernels, with their number (nth) on each lane.

    The n-th kernel of a name is the same collective on all lanes, which the columns ``lane`` identify. Names with
    different numbers of launches are left out, because only some ranks or parts of the run use them.
    """
    return (
        "(WITH t AS MATERIALIZED (SELECT *, row_number() OVER (PARTITION BY name, "
        f"{lane} ORDER BY start_ns) AS nth, count(*) OVER (PARTITION BY name, {lane}) AS n FROM {kernels} "
        f"WHERE kind = 'kernel' AND regexp_matches(name, {sql_literal(rules().communication)})) FROM t WHERE name IN "
        f"(SELECT name FROM t GROUP BY name HAVING count(*) FILTER (nth = 1) = {lanes} AND min(n) = max(n)))"
    )


def _processes(workload: Workload) -> list[Process]:
    rows = workload.rows(f"SELECT DISTINCT rank, host FROM {workload.relation('ranks')} ORDER BY ALL NULLS LAST")
    return [(rank, host) for rank, host in rows]


def _sql(value: int | str | None) -> str:
    return "NULL" if value is None else sql_literal(value) if isinstance(value, str) else str(value)


def _align_clocks(workload: Workload) -> Clocks:
    table = workload.relation("ranks")
    ((pids, together),) = workload.rows(
        f"SELECT coalesce(max(n), 0), (SELECT max(first_ns) < min(last_ns) FROM {table}) "
        f"FROM (SELECT count(*) AS n FROM {table} WHERE pid IS NOT NULL GROUP BY pid)"
    )
    same_pids = pids > 1
    owners: dict[Process, Hashable] = {
        process: process if process[1] is None else process[1] for process in _processes(workload)
    }
    known = list(dict.fromkeys(owners.values()))
    if len(known) == 1 or (together is not False and all(host is None for _, host in owners)):
        return Clocks(same_pids=same_pids)
    number = {process: known.index(owner) for process, owner in owners.items()}
    how: Literal["collectives", "starts"] = "collectives"
    kernels = _grouped_kernels_sql(workload, number)
    rows = workload.rows(_by_collectives(kernels, len(known)))
    if not rows or rows[0][1] < _FEWEST:
        how, rows = "starts", workload.rows(_by_starts(kernels))
    shifts = {clock: int(shift) for clock, _, shift, _ in rows}
    moved = {process: shifts.get(clock, 0) for process, clock in number.items()}
    collectives, spread = (max((int(row[column]) for row in rows), default=0) for column in (1, 3))
    return Clocks(how, moved, len(known), collectives, spread, same_pids)


def _grouped_kernels_sql(workload: Workload, number: Mapping[Process, int]) -> str:
    """SQL: usable kernels of all processes with the number of their clock and the stored times."""
    rows = ", ".join(f"({_sql(rank)}, {_sql(host)}, {n})" for (rank, host), n in number.items())
    return (
        f"(SELECT e.*, c.clock FROM (FROM {stored_events(workload)} WHERE kind = 'kernel' AND end_ns >= start_ns "
        "AND abs(start_ns::DOUBLE) < 4e18 AND abs(end_ns::DOUBLE) < 4e18) e "
        f"JOIN (VALUES {rows}) c(rank, host, clock) ON e.rank IS NOT DISTINCT FROM c.rank::INTEGER "
        "AND e.host IS NOT DISTINCT FROM c.host::VARCHAR)"
    )


def _by_collectives(kernels: str, clocks_in_all: int) -> str:
    """SQL: the number of every clock, the collectives used, the shift in ns, and the difference of their ends in ns."""
    lanes = f"(SELECT count(*) FROM (SELECT DISTINCT rank, host, device_id FROM {kernels}))"
    return (
        "WITH ends AS MATERIALIZED (SELECT clock, name, nth, max(end_ns) AS ended FROM "
        f"{common_collectives(kernels, 'rank, host, device_id', lanes)} WHERE nth <= {_COUNTED} GROUP BY ALL), "
        "r AS (SELECT clock, first(ended) OVER (PARTITION BY name, nth ORDER BY clock) - ended AS behind FROM ends "
        f"SEMI JOIN (SELECT name, nth FROM ends GROUP BY ALL HAVING count(*) = {clocks_in_all}) USING (name, nth)) "
        "SELECT clock, count(*), median(behind)::BIGINT, mad(behind)::BIGINT FROM r GROUP BY clock ORDER BY clock"
    )


def _by_starts(kernels: str) -> str:
    """SQL: the same without collectives, with the shifts that make the first kernels start together."""
    return f"SELECT clock, 0, min(min(start_ns)) OVER () - min(start_ns), 0 FROM {kernels} GROUP BY clock"
