"""The balance of ranks: how evenly they compute, who waits in collectives, and for whom.

Efficiencies are those of the POP centre of excellence (https://co-design.pop-coe.eu/metrics), with time in kernels that
do not communicate as useful computation: load balance is its mean over its maximum, communication efficiency its
maximum over the wall time, parallel efficiency the product of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.database import sql_literal
from .busy import Busy
from .rules import rules
from .trace import Trace, Window


@dataclass(frozen=True)
class RankRow:
    """What one rank did within the windows, ns over its devices; ``waited`` is None without collectives."""

    rank: int | None
    host: str | None
    devices: int
    computing: int
    communication: int
    copies: int
    idle: int
    waited: int | None
    """In collectives, beyond what the rank needed that came last."""

    @property
    def name(self) -> str:
        """Such as "rank 3 on node01"."""
        own = "the process without a rank" if self.rank is None else f"rank {self.rank}"
        return own if self.host is None else f"{own} on {self.host}"


@dataclass(frozen=True)
class Balance:
    """All ranks, by their number; ``wall`` is the length of the windows in ns."""

    rows: Sequence[RankRow]
    wall: int
    collectives: int
    """Instances of collectives that all ranks took part in."""

    @property
    def mean(self) -> float:
        """Mean time of a rank's devices computing, ns."""
        return sum(r.computing / r.devices for r in self.rows) / len(self.rows)

    @property
    def slowest(self) -> RankRow:
        """The rank that computes longest."""
        return max(self.rows, key=lambda r: r.computing / r.devices)

    @property
    def longest(self) -> float:
        """What the slowest rank computes, ns a device."""
        return self.slowest.computing / self.slowest.devices

    @property
    def load_balance_pct(self) -> float | None:
        """Mean over maximum; None where nothing computes."""
        return 100 * self.mean / self.longest if self.longest else None

    @property
    def communication_efficiency_pct(self) -> float | None:
        """Maximum over the wall time."""
        return 100 * self.longest / self.wall if self.wall else None

    @property
    def parallel_efficiency_pct(self) -> float | None:
        """Mean over the wall time."""
        return 100 * self.mean / self.wall if self.wall else None

    @property
    def excess_pct(self) -> float:
        """How much longer than the mean rank the slowest computes."""
        return 100 * (self.longest / self.mean - 1) if self.mean else 0.0

    @property
    def waited_pct(self) -> float | None:
        """Share of the wall time that the mean rank waits in collectives for the last one to come."""
        known = [r.waited / r.devices for r in self.rows if r.waited is not None]
        return 100 * sum(known) / len(known) / self.wall if known and self.wall else None

    @property
    def even(self) -> bool:
        """Whether no rank stands out."""
        return self.excess_pct < rules().limits.uneven_pct


def balance(trace: Trace, lanes: Mapping[int, Busy], windows: Sequence[Window]) -> Balance | None:
    """How the ranks compare within ``windows``; None where there are not several."""
    hosts = _hosts(trace)
    by_rank: dict[int | None, list[Busy]] = {}
    for lane in trace.lanes:
        by_rank.setdefault(lane.rank, []).append(lanes[lane.number])
    if len(by_rank) < 2:
        return None
    waited, collectives = _waits(trace, windows)
    rows = []
    for rank, of in sorted(by_rank.items(), key=lambda item: (item[0] is None, item[0] or 0)):
        total = sum(of, Busy(0))
        rows.append(
            RankRow(
                rank,
                hosts.get(rank),
                len(of),
                total.computing,
                total.communication,
                total.copies,
                total.idle,
                waited.get(rank, 0) if collectives else None,
            )
        )
    return Balance(rows, sum(w.end - w.start for w in windows), collectives)


def _hosts(trace: Trace) -> dict[int | None, str | None]:
    """The host of each rank; None where one rank is on several."""
    if not trace.workload.has("ranks"):
        return {}
    rows = trace.rows(
        "SELECT rank, CASE WHEN count(DISTINCT host) = 1 THEN any_value(host) END "
        f"FROM {trace.workload.relation('ranks')} GROUP BY rank"
    )
    return dict(rows)


def _waits(trace: Trace, windows: Sequence[Window]) -> tuple[dict[int | None, int], int]:
    """ns that each rank spent in collectives beyond the rank that was in them shortest, and how many all took part in.

    The n-th kernel of a name on a rank's device is the same collective on all; the rank that comes last is in it
    shortest, for as long as the data takes. Names that ranks have not equally often are left out: they are of groups of
    ranks, or parts of the run. Only lengths are compared, so clocks of hosts do not matter.
    """
    if not trace.communicates:
        return {}, 0
    if not (spans := ", ".join(f"({start}, {end})" for start, end in _apart(windows))):
        return {}, 0
    talking = (
        "SELECT rank, device_id, name, start_ns, end_ns - start_ns AS ns, "
        "row_number() OVER (PARTITION BY rank, device_id, name ORDER BY start_ns) AS nth "
        f"FROM {trace.events} WHERE kind = 'kernel' AND regexp_matches(name, {sql_literal(rules().communication)})"
    )
    lanes = len(trace.lanes)
    trace.workload.cursor.execute(f"CREATE OR REPLACE TEMP TABLE tl_talking AS {talking}")
    equal = (
        "SELECT name FROM (SELECT name, rank, device_id, count(*) AS n FROM tl_talking GROUP BY ALL) GROUP BY name "
        f"HAVING count(*) = {lanes} AND min(n) = max(n)"
    )
    rows = trace.rows(
        "WITH t AS (SELECT rank, name, nth, start_ns, ns - min(ns) OVER (PARTITION BY name, nth) AS waited "
        f"FROM tl_talking WHERE name IN ({equal})) "
        "SELECT rank, sum(waited)::BIGINT, count(DISTINCT (name, nth)) FROM t "
        f"ASOF JOIN (SELECT low::BIGINT AS low, high::BIGINT AS high FROM (VALUES {spans}) v(low, high)) w "
        "ON start_ns >= low WHERE start_ns < high GROUP BY rank"
    )
    return {rank: int(ns) for rank, ns, _ in rows}, max((int(n) for *_, n in rows), default=0)


def _apart(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """Start and end of windows in order, those that overlap as one."""
    gaps: list[tuple[int, int]] = []
    for start, end in sorted((w.start, w.end) for w in windows):
        if gaps and start <= gaps[-1][1]:
            gaps[-1] = gaps[-1][0], max(end, gaps[-1][1])
        else:
            gaps.append((start, end))
    return gaps
