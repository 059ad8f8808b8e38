"""Alignment of the clocks of several hosts, so that the events of all ranks can be placed on one time axis.

Stored times are never changed. Ranks of one host share its clock. The clocks of several hosts are shifted so that
collectives with all ranks end at the same time: a collective ends within microseconds on all ranks, when the data of
the last rank have arrived. Without collectives, each host counts from its first event, and times of different hosts
cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..base.database import sql_literal
from ..workload import Workload
from .rules import rules

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
    spread_ns: int | None = None
    """The median difference between the ends of a collective after the shift, in ns."""
    same_pids: bool = False
    """Whether processes of different hosts have the same id."""

    @property
    def note(self) -> str | None:
        """The note on the alignment for answers."""
        if self.how == "collectives":
            return (
                f"{self.clocks} clocks (hosts) were aligned by {self.collectives} collectives that end together on all "
                f"ranks; afterwards they differ by {(self.spread_ns or 0) / 1e3:.3g} us (median)."
            )
        if self.how == "starts":
            return (
                f"{self.clocks} clocks (hosts) are not synchronised, and there are no collectives of all ranks to "
                "align them: each counts from its first event. Compare times within a rank only."
            )
        return None


_ONE = Clocks()
_known: dict[tuple[str, str], Clocks] = {}
"""The clocks by store and workload; workloads never change."""


def clocks(workload: Workload) -> Clocks:
    """Return the clocks of a workload, which are computed once."""
    if workload.manifest.ranks < 2 or not workload.has("ranks"):
        return _ONE
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
    processes, same_pids = _processes(workload), pids > 1
    hosts = {host for _, host in processes}
    if len(hosts) == 1 and (None not in hosts or together is not False):
        return Clocks(same_pids=same_pids)
    groups: dict[Any, list[Process]] = {}
    for process in processes:
        groups.setdefault(process[1] if process[1] is not None else process, []).append(process)
    if len(groups) == 1:  # the processes cannot be distinguished
        return Clocks(same_pids=same_pids)
    number = {process: n for n, group in enumerate(groups.values()) for process in group}
    if aligned_groups := _by_collectives(workload, number):
        shifts, collectives, spread = aligned_groups
        how: Literal["collectives", "starts"] = "collectives"
    else:
        shifts, collectives, spread = _by_starts(workload, number), 0, None
        how = "starts"
    moved = {process: shifts.get(group, 0) for process, group in number.items()}
    return Clocks(how, moved, len(groups), collectives, spread, same_pids)


def _grouped_kernels_sql(workload: Workload, number: Mapping[Process, int]) -> str:
    """SQL: usable kernels of all processes with the number of their clock and the stored times."""
    source = workload.relation("events" if workload.has("events") else "dispatches")
    kernels = "kind = 'kernel'" if workload.has("events") else "true"
    name = "name" if workload.has("events") else "kernel"
    stated = column_names(workload, source)
    columns = {"rank": "INTEGER", "host": "VARCHAR"}
    where = ", ".join(c if c in stated else f"NULL::{kind} AS {c}" for c, kind in columns.items())
    rows = ", ".join(f"({_sql(rank)}, {_sql(host)}, {n})" for (rank, host), n in number.items())
    return (
        f"(SELECT e.*, c.clock FROM (SELECT {where}, {name} AS name, device_id, start_ns, end_ns FROM {source} "
        f"WHERE {kernels} AND end_ns >= start_ns AND abs(start_ns::DOUBLE) < 4e18 AND abs(end_ns::DOUBLE) < 4e18) e "
        f"JOIN (VALUES {rows}) c(rank, host, clock) ON e.rank IS NOT DISTINCT FROM c.rank::INTEGER "
        "AND e.host IS NOT DISTINCT FROM c.host::VARCHAR)"
    )


def _by_collectives(workload: Workload, number: Mapping[Process, int]) -> tuple[dict[int, int], int, int] | None:
    """Return the shift of every clock in ns, the number of collectives used, and the difference of their ends in ns.

    None if too few collectives are common to all. The n-th kernel of a name is taken for the same collective only if
    all devices launched it equally often.
    """
    same = sql_literal(rules().communication)
    kernels = _grouped_kernels_sql(workload, number)
    lanes = f"(SELECT count(*) FROM (SELECT DISTINCT rank, host, device_id FROM {kernels}))"
    workload.cursor.execute(
        "CREATE OR REPLACE TEMP TABLE tl_collectives AS WITH t AS (SELECT *, row_number() OVER (PARTITION BY rank, "
        f"host, device_id, name ORDER BY start_ns) AS nth FROM {kernels} WHERE regexp_matches(name, {same})), "
        "n AS (SELECT name, count(*) AS n FROM t GROUP BY rank, host, device_id, name), "
        f"equal AS (SELECT name FROM n GROUP BY name HAVING count(*) = {lanes} AND min(n) = max(n)) "
        "SELECT clock, name, nth, max(end_ns) AS ended FROM t SEMI JOIN equal USING (name) "
        f"WHERE nth <= {_COUNTED} GROUP BY clock, name, nth"
    )
    clocks_in_all = max(number.values()) + 1
    common = f"(SELECT name, nth FROM tl_collectives GROUP BY ALL HAVING count(*) = {clocks_in_all})"
    rows = workload.rows(
        "WITH r AS (SELECT t.*, first(ended) OVER (PARTITION BY name, nth ORDER BY clock) - ended AS behind "
        f"FROM tl_collectives t JOIN {common} USING (name, nth)) "
        "SELECT clock, median(behind)::BIGINT, count(*), mad(behind)::BIGINT FROM r GROUP BY clock ORDER BY clock"
    )
    if not rows or rows[0][2] < _FEWEST:
        return None
    return {c: int(shift) for c, shift, *_ in rows}, int(rows[0][2]), max(int(spread) for *_, spread in rows)


def _by_starts(workload: Workload, number: Mapping[Process, int]) -> dict[int, int]:
    """Return the shift of every clock in ns that makes the first kernels start together."""
    rows: Sequence[tuple[Any, ...]] = workload.rows(
        f"SELECT clock, min(start_ns) FROM {_grouped_kernels_sql(workload, number)} GROUP BY clock"
    )
    first = min((start for _, start in rows), default=0)
    return {clock: first - start for clock, start in rows}
