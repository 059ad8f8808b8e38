"""Why one rank computes longer than the others: more work on it, or the same work taking longer.

Launches of one kernel and launch configuration are compared between ranks: what a rank launches more is work that it
was given; what the same launches take longer is its device, unless counters say that they did more. Only lengths and
counts are compared, no times of two hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..base.database import sql_literal, sql_name
from ..catalogue.thresholds import threshold
from ..workload import Workload
from .busy import Busy
from .rules import rules
from .trace import Trace, Window

Why = Literal["uneven_work", "slow_device", "slower_launches", "unknown"]
"""More work; as much work (counted) in more time; launches of the same sizes in more time, their work not counted."""


@dataclass(frozen=True)
class SlowRank:
    """One rank against the mean of the others, over some kernels; times in ns.

    ``more_work`` is what it takes for launches that others do not have, ``slower`` what the same launches take longer.
    """

    rank: int
    host: str | None
    ranks: int
    time: float
    others: float
    """Mean of the other ranks."""
    more_work: float
    slower: float
    why: Why
    claim: str
    evidence: list[str] = field(default_factory=list)
    advice: Sequence[str] = ()
    kernel: str | None = None
    """The one that it is about; None for all together."""

    @property
    def ratio(self) -> float:
        """Its time over the mean of all ranks (POP: 1 / load balance)."""
        return self.time * self.ranks / (self.time + self.others * (self.ranks - 1))


def slow_rank(workload: Workload, kernel: str | None = None, rank: int | None = None) -> SlowRank | None:
    """The rank with the longest kernel time (or ``rank``), of all kernels that do not communicate or of one, and why.

    None where there are not several ranks with launches, or none stands out (limit uneven_pct).
    """
    if workload.manifest.ranks < 2 or not workload.manifest.dispatches:
        return None
    stated = workload.cursor.execute(f"FROM {workload.relation('dispatches')} LIMIT 0").description or []
    if "rank" not in {column[0] for column in stated}:  # several processes, whose ranks are not known
        return None
    launches = _launches(workload, kernel)
    rows = workload.rows(
        f"SELECT rank, sum(duration_ns) FROM {launches} WHERE rank IS NOT NULL GROUP BY rank ORDER BY 1"
    )
    times = {int(r): float(ns) for r, ns in rows if ns}
    if len(times) < 2:
        return None
    slowest = max(times, key=lambda r: (times[r], -r)) if rank is None else rank
    mean = sum(times.values()) / len(times)
    if slowest not in times or 100 * (times[slowest] / mean - 1) < rules().limits.uneven_pct:
        return None
    return _explain_slow_rank(workload, launches, times, slowest, kernel)


def _launches(workload: Workload, kernel: str | None) -> str:
    """SQL for the launches that count."""
    which = (
        f"NOT regexp_matches(kernel, {sql_literal(rules().communication)})"
        if kernel is None
        else f"kernel = {sql_literal(kernel)}"
    )
    return f"(FROM {workload.relation('dispatches')} WHERE {which})"


def _explain_slow_rank(
    workload: Workload, launches: str, times: dict[int, float], slowest: int, kernel: str | None
) -> SlowRank:
    others = (sum(times.values()) - times[slowest]) / (len(times) - 1)
    ((more, slower, own_n, other_n, own_items, other_items),) = workload.rows(
        "WITH c AS (SELECT rank, kernel, launch, count(*) AS n, avg(duration_ns) AS mean, sum(grid::DOUBLE) AS items "
        f"FROM {launches} WHERE rank IS NOT NULL AND duration_ns IS NOT NULL GROUP BY ALL), "
        f"s AS (FROM c WHERE rank = {slowest}), "
        f"o AS (SELECT kernel, launch, sum(n) / {len(times) - 1} AS n, sum(n * mean) / sum(n) AS mean, "
        f"sum(items) / {len(times) - 1} AS items FROM c WHERE rank != {slowest} GROUP BY ALL) "
        "SELECT sum((coalesce(s.n, 0) - coalesce(o.n, 0)) * coalesce(o.mean, s.mean)), "
        "sum(coalesce(s.n, 0) * (s.mean - o.mean)), sum(s.n), sum(o.n), sum(s.items), sum(o.items) "
        "FROM s FULL JOIN o USING (kernel, launch)"
    )
    more, slower = float(more or 0), float(slower or 0)
    evidence = [
        f"{times[slowest] / 1e6:.4g} ms in kernels, the other ranks {others / 1e6:.4g} ms on average",
        f"launches: {own_n or 0:.6g}, others {other_n or 0:.6g}",
    ]
    if own_items and other_items:
        evidence.append(f"work-items launched: {100 * own_items / other_items:.4g} % of the others'")
    if slower > 0:
        evidence.append(f"launches of the same configurations take {slower / 1e6:.4g} ms more here")
    counted = _counter_ratios(workload, launches, slowest)
    evidence += counted.words
    excess = max(times[slowest] - others, 1.0)
    if counted.work is not None and counted.work > 1 + rules().limits.uneven_pct / 100:
        # The same launches did more: their data is uneven, not the device slow.
        more, slower = more + slower, 0.0
    why: Why = "unknown"
    if more >= _MOST * excess:
        why = "uneven_work"
    elif slower >= _MOST * excess:
        why = "slower_launches" if counted.work is None else "slow_device"
    said = rules().ranks[why]
    host = _host(workload, slowest)
    claim = said.claim.format_map({
        "rank": f"rank {slowest}" + (f" on {host}" if host else ""),
        "pct": f"{100 * (times[slowest] / others - 1):.3g}",
        "what": "its kernels" if kernel is None else "this kernel",
    })  # fmt: skip
    own = times[slowest]
    return SlowRank(
        slowest, host, len(times), own, others, more, slower, why, _begun(claim), evidence, said.advice, kernel
    )


def _begun(text: str) -> str:
    """A sentence with its first letter in upper case."""
    return text[0].upper() + text[1:]


_MOST = threshold("timeline.slow_rank_share")


@dataclass(frozen=True)
class _Counted:
    """What counters say of one rank's launches against the others' of the same configurations: ratio of instructions
    (work), and it all in words."""

    work: float | None
    words: list[str]


def _counter_ratios(workload: Workload, launches: str, slowest: int) -> _Counted:
    """Ratios of counters per launch at the same kernel and configuration, weighted by the launches of the rank."""
    if not workload.has("counters"):
        return _Counted(None, [])
    collected, words, work = set(workload.manifest.counters), [], None
    for what, names in rules().rank_counters.items():
        name = next((n for n in names if n in collected), None)
        if name is None:
            continue
        column = sql_name(name)
        rows = workload.rows(
            f"WITH c AS (SELECT l.rank, l.kernel, l.launch, avg(w.{column}) AS mean, count(w.{column}) AS n "
            f"FROM {launches} l JOIN (SELECT dispatch_id, {column} FROM {workload.relation('counters')}) w "
            "USING (dispatch_id) WHERE l.rank IS NOT NULL GROUP BY ALL HAVING n > 0), "
            f"s AS (FROM c WHERE rank = {slowest}), o AS (SELECT kernel, launch, avg(mean) AS mean FROM c "
            f"WHERE rank != {slowest} GROUP BY ALL) "
            "SELECT sum(s.n * s.mean), sum(s.n * o.mean) FROM s JOIN o USING (kernel, launch)"
        )
        own, other = rows[0]
        if not own or not other:
            continue
        words.append(f"{name} per launch: {100 * own / other:.4g} % of the others' ({rules().rank_words[what]})")
        work = own / other if what == "work" else work
    return _Counted(work, words)


def _host(workload: Workload, rank: int) -> str | None:
    rows = workload.rows(f"SELECT DISTINCT host FROM {workload.relation('ranks')} WHERE rank = {rank}")
    return str(rows[0][0]) if len(rows) == 1 and rows[0][0] else None


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
