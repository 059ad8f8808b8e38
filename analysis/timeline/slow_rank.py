"""Which rank the others wait for, and why: more work on it, the same work taking longer, or a late host.

Launches with the same kernel and launch configuration are compared between ranks. Additional launches are additional
work; if the same launches take longer, the device is slower, unless counters show that they did more work. Only
durations and counts are compared, never times of different hosts, so their clocks do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..base.database import sql_literal, sql_name
from ..catalogue.thresholds import threshold
from ..workload import Workload
from .busy import Busy
from .host_clocks import column_names
from .rules import rules
from .trace import Trace, Window
from .verdict import AdviceGain, ApplicationFinding, speedup
from .wording import sentence

Why = Literal["uneven_work", "slow_device", "slower_launches", "unknown"]
"""More work; the same counted work in more time; launches of the same sizes in more time, with uncounted work."""


@dataclass(frozen=True)
class SlowRank:
    """The kernel time of one rank compared with the mean of the others; times in ns.

    ``more_work`` is the time of launches that the others do not have, ``slower`` the excess time of equal launches.
    """

    rank: int
    host: str | None
    ranks: int
    time: float
    others: float
    """The mean time of the other ranks."""
    more_work: float
    slower: float
    why: Why
    claim: str
    evidence: list[str] = field(default_factory=list)
    advice: Sequence[str] = ()
    kernel: str | None = None
    """The kernel that was compared; None for all kernels."""

    @property
    def ratio(self) -> float:
        """The time of the rank divided by the mean of all ranks (POP: 1 / load balance)."""
        return self.time * self.ranks / (self.time + self.others * (self.ranks - 1))


def slow_rank(workload: Workload, kernel: str | None = None, rank: int | None = None) -> SlowRank | None:
    """Return the rank with the longest kernel time (or ``rank``) and why it takes longer.

    Compares one kernel, or all kernels that do not communicate. None unless several ranks have launches and one stands
    out (limit uneven_pct).
    """
    if workload.manifest.ranks < 2 or not workload.manifest.dispatches:
        return None
    if "rank" not in column_names(workload, workload.relation("dispatches")):  # several processes with unknown ranks
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
    """SQL for the launches to compare."""
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
        sentence("rank_time", own=times[slowest], others=others),
        sentence("rank_launches", own=own_n or 0, others=other_n or 0),
    ]
    if own_items and other_items:
        evidence.append(sentence("rank_items", share=own_items / other_items))
    if slower > 0:
        evidence.append(sentence("rank_slower", ns=slower))
    counted = _counter_ratios(workload, launches, slowest)
    evidence += counted.words
    own = times[slowest]
    excess = max(own - others, 1.0)
    if counted.work is not None and counted.work > 1 + rules().limits.uneven_pct / 100:
        # The same launches did more work: the data are uneven, and the device is not slow.
        more, slower = more + slower, 0.0
    why: Why = "unknown"
    if more >= _MOST * excess:
        why = "uneven_work"
    elif slower >= _MOST * excess:
        why = "slower_launches" if counted.work is None else "slow_device"
    texts = rules().ranks[why]
    host = _hosts(workload).get(slowest)
    claim = texts.claim.format_map({
        "rank": f"rank {slowest}" + (f" on {host}" if host else ""),
        "pct": f"{100 * (own / others - 1):.3g}",
        "what": "its kernels" if kernel is None else "this kernel",
    })  # fmt: skip
    return SlowRank(
        slowest, host, len(times), own, others, more, slower, why, _begun(claim), evidence, texts.advice, kernel
    )


def _begun(text: str) -> str:
    """Return the sentence with its first letter capitalised."""
    return text[0].upper() + text[1:]


_MOST = threshold("timeline.slow_rank_share")
_CLEAR = threshold("timeline.clear_ratio")
_WAITED_PCT = 1.0
"""Ranks wait for each other from this share of the wall time on, in %."""


@dataclass(frozen=True)
class _Counted:
    """The counters of one rank compared with the others at equal launch configurations.

    ``work`` is the ratio of instructions, ``words`` a sentence for each counter.
    """

    work: float | None
    words: list[str]


def _counter_ratios(workload: Workload, launches: str, slowest: int) -> _Counted:
    """Compare counters per launch at equal kernel and configuration, weighted by the launches of the rank."""
    if not workload.has("counters"):
        return _Counted(None, [])
    collected, words, work = set(workload.manifest.counters), [], None
    for what, counters in rules().rank_counters.items():
        name = next((n for n in counters.names if n in collected), None)
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
        words.append(f"{name} per launch: {100 * own / other:.4g} % of the others' ({counters.words})")
        work = own / other if what == "work" else work
    return _Counted(work, words)


@dataclass(frozen=True)
class RankRow:
    """The activity of one rank within the windows, in ns summed over its devices."""

    rank: int | None
    host: str | None
    devices: int
    computing: int
    communication: int
    copies: int
    idle: int
    waited: int | None
    """The time in collectives beyond that of the rank that arrived last; None without collectives."""

    @property
    def name(self) -> str:
        """The display name, for example "rank 3 on node01"."""
        own = "the process without a rank" if self.rank is None else f"rank {self.rank}"
        return own if self.host is None else f"{own} on {self.host}"

    @property
    def each_computes(self) -> float:
        """The computing time per device, in ns."""
        return self.computing / self.devices


@dataclass(frozen=True)
class Balance:
    """The ranks ordered by number; ``wall`` is the length of the windows in ns."""

    rows: Sequence[RankRow]
    wall: int
    collectives: int
    """The number of collective operations in which all ranks took part."""

    @property
    def mean(self) -> float:
        """The mean over the ranks of the computing time per device, in ns."""
        return sum(r.each_computes for r in self.rows) / len(self.rows)

    @property
    def slowest(self) -> RankRow:
        """The rank with the longest computing time per device."""
        return max(self.rows, key=lambda r: r.each_computes)

    @property
    def longest(self) -> float:
        """The computing time of the slowest rank, in ns per device."""
        return self.slowest.each_computes

    @property
    def load_balance_pct(self) -> float | None:
        """Mean computing time over the maximum, in % (POP load balance); None if nothing computes."""
        return 100 * self.mean / self.longest if self.longest else None

    @property
    def communication_efficiency_pct(self) -> float | None:
        """Maximum computing time over the wall time, in % (POP); None for an empty window."""
        return 100 * self.longest / self.wall if self.wall else None

    @property
    def parallel_efficiency_pct(self) -> float | None:
        """Mean computing time over the wall time, in % (POP); None for an empty window."""
        return 100 * self.mean / self.wall if self.wall else None

    @property
    def excess_pct(self) -> float:
        """How much longer than the mean the slowest rank computes, in %."""
        return self._beyond_mean_pct(self.slowest)

    def _beyond_mean_pct(self, row: RankRow) -> float:
        return 100 * (row.each_computes / self.mean - 1) if self.mean else 0.0

    @property
    def waited_pct(self) -> float | None:
        """The mean share of the wall time in % that ranks wait in collectives for the last rank; None if unknown."""
        known = [r.waited / r.devices for r in self.rows if r.waited is not None]
        return 100 * sum(known) / len(known) / self.wall if known and self.wall else None

    @property
    def even(self) -> bool:
        """Whether no rank computes much longer than the mean."""
        return self.excess_pct < rules().limits.uneven_pct

    @property
    def last(self) -> RankRow | None:
        """The rank that arrives last: it waits clearly less in collectives than every other; None if none does."""
        waits = sorted((r.waited / r.devices, n) for n, r in enumerate(self.rows) if r.waited is not None)
        if (self.waited_pct or 0.0) < _WAITED_PCT or waits[1][0] < _CLEAR * waits[0][0]:
            return None
        return self.rows[waits[0][1]]

    @property
    def late(self) -> RankRow:
        """The rank that the others wait for: the one that arrives last, or if unknown, that computes longest."""
        return self.last or self.slowest

    @property
    def late_excess_pct(self) -> float:
        """How much longer than the mean the late rank computes, in %; 0 if it does not compute much longer."""
        excess = self._beyond_mean_pct(self.late)
        return excess if excess >= rules().limits.uneven_pct else 0.0

    @property
    def uneven_pct(self) -> float:
        """How much longer than the mean the late rank computes, in % of the wall time; 0 if not much longer."""
        return self.late_excess_pct * self.mean / self.wall if self.wall else 0.0


@dataclass(frozen=True)
class LateRank:
    """Why the others wait for a rank: it computes longer, or its host or its input are late."""

    claim: str
    evidence: Sequence[str]
    advice: Sequence[str]


def late_rank(workload: Workload, ranks: Balance | None) -> LateRank | None:
    """Return why the late rank is late; None if no rank is, or if its launches do not show why it computes longer."""
    if ranks is None:
        return None
    late = ranks.late
    if ranks.late_excess_pct:
        slow = None if late.rank is None else slow_rank(workload, rank=late.rank)
        return None if slow is None else LateRank(slow.claim, slow.evidence, slow.advice)
    if ranks.last is None:
        return None
    texts = rules().ranks["late_host"]
    claim = texts.claim.format(rank=late.name, own=late.each_computes / 1e6, mean=ranks.mean / 1e6)
    idle = 100 * late.idle / late.devices / ranks.wall
    return LateRank(_begun(claim), [f"{late.name}: idle for {idle:.3g} % of the time"], texts.advice)


def rank_evidence(ranks: Balance, late: LateRank | None) -> list[str]:
    """Return sentences on the rank that the others wait for and why, how uneven ranks are, and how long they wait."""
    sentences = [late.claim] if late else []
    if not ranks.even and ranks.load_balance_pct is not None:
        who = sentence("late_computes", ranks=ranks) if ranks.late_excess_pct else ""
        sentences.append(sentence("ranks_uneven", ranks=ranks, who=who, count=len(ranks.rows)))
    if ranks.waited_pct is not None and ranks.waited_pct >= _WAITED_PCT:
        least = sentence("waits_least", rank=ranks.last) if ranks.last else ""
        sentences.append(sentence("ranks_wait", ranks=ranks, least=least))
    return [*sentences, *late.evidence] if late else sentences


def add_rank_advice(
    findings: list[ApplicationFinding], ranks: Balance | None, late: LateRank | None
) -> list[ApplicationFinding]:
    """Return the findings with the advice for the late rank, as a new finding if there is none on communication."""
    if ranks is None or not (late or ranks.uneven_pct):
        return findings
    advice = late.advice if late else ()
    unknown, saved = [AdviceGain() for _ in advice], ranks.uneven_pct
    if any(f.height == "communication" for f in findings) or not saved:
        return [
            replace(f, advice=[*advice, *f.advice], gains=[*unknown, *f.gains]) if f.height == "communication" else f
            for f in findings
        ]
    first, *others = rank_evidence(ranks, late)
    claim = first if late else f"{_begun(first)}."
    return [*findings, ApplicationFinding("communication", saved, claim, speedup(saved), others, advice)]


def balance(trace: Trace, lanes: Mapping[int, Busy], windows: Sequence[Window]) -> Balance | None:
    """Compare the ranks within ``windows``; None unless there are several."""
    hosts = _hosts(trace.workload)
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


def _hosts(workload: Workload) -> dict[int | None, str | None]:
    """Return the host of each rank; None if a rank is on several hosts."""
    if not workload.has("ranks"):
        return {}
    rows = workload.rows(
        "SELECT rank, CASE WHEN count(DISTINCT host) = 1 THEN any_value(host) END "
        f"FROM {workload.relation('ranks')} GROUP BY rank"
    )
    return dict(rows)


def _waits(trace: Trace, windows: Sequence[Window]) -> tuple[dict[int | None, int], int]:
    """Return the ns that each rank waited in collectives, and the number of collectives with all ranks.

    The n-th kernel of a name is the same collective on all devices. The rank that arrives last spends the shortest time
    in it, which is the time of the transfer; the excess of the others is waiting. Names with different numbers of
    launches are ignored, because only some ranks or parts of the run use them. Only durations are compared, so the
    clocks of the hosts do not matter.
    """
    if not trace.communicates:
        return {}, 0
    spans = ", ".join(f"({start}, {end})" for start, end in windows)
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
