"""Which rank the others wait for, and why: more work on it, the same work taking longer, or a late host.

Launches with the same kernel and launch configuration are compared between ranks. Additional launches are additional
work; if the same launches take longer, the device is slower, unless counters show that they did more work. Only
durations and counts are compared, never times of different hosts, so their clocks do not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from ..base.database import sql_literal, sql_name
from ..base.digits import digits
from ..catalogue.thresholds import threshold
from ..workload import Workload
from .busy import Busy
from .host_clocks import column_names, common_collectives
from .rules import rules
from .trace import Trace, Window, lane_name
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
    time: Annotated[float, digits(".0f")]
    others: Annotated[float, digits(".0f")]
    """The mean time of the other ranks."""
    more_work: Annotated[float, digits(".0f")]
    slower: Annotated[float, digits(".0f")]
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
    which = (
        f"NOT regexp_matches(kernel, {sql_literal(rules().communication)})"
        if kernel is None
        else f"kernel = {sql_literal(kernel)}"
    )
    launches = f"(FROM {workload.relation('dispatches')} WHERE rank IS NOT NULL AND {which})"
    rows = workload.rows(f"SELECT rank, sum(duration_ns) FROM {launches} GROUP BY rank ORDER BY 1")
    times = {int(r): float(ns) for r, ns in rows if ns}
    if len(times) < 2:
        return None
    slowest = max(times, key=lambda r: (times[r], -r)) if rank is None else rank
    mean = sum(times.values()) / len(times)
    if slowest not in times or 100 * (times[slowest] / mean - 1) < rules().limits.uneven_pct:
        return None
    return _explain_slow_rank(workload, launches, times, slowest, kernel)


def _explain_slow_rank(
    workload: Workload, launches: str, times: dict[int, float], slowest: int, kernel: str | None
) -> SlowRank:
    own, others = times[slowest], (sum(times.values()) - times[slowest]) / (len(times) - 1)
    ((more, slower, own_n, other_n, own_items, other_items),) = workload.rows(
        "WITH c AS (SELECT rank, kernel, launch, count(*) AS n, avg(duration_ns) AS mean, sum(grid::DOUBLE) AS items "
        f"FROM {launches} WHERE duration_ns IS NOT NULL GROUP BY ALL), "
        f"s AS (FROM c WHERE rank = {slowest}), "
        f"o AS (SELECT kernel, launch, sum(n) / {len(times) - 1} AS n, sum(n * mean) / sum(n) AS mean, "
        f"sum(items) / {len(times) - 1} AS items FROM c WHERE rank != {slowest} GROUP BY ALL) "
        "SELECT coalesce(sum((coalesce(s.n, 0) - coalesce(o.n, 0)) * coalesce(o.mean, s.mean)), 0)::DOUBLE, "
        "coalesce(sum(coalesce(s.n, 0) * (s.mean - o.mean)), 0)::DOUBLE, coalesce(sum(s.n), 0), coalesce(sum(o.n), 0), "
        "sum(s.items), sum(o.items) FROM s FULL JOIN o USING (kernel, launch)"
    )
    evidence = [sentence("rank_time", own=own, others=others), sentence("rank_launches", own=own_n, others=other_n)]
    if own_items and other_items:
        evidence.append(sentence("rank_items", share=own_items / other_items))
    if slower > 0:
        evidence.append(sentence("rank_slower", ns=slower))
    work, counted = _counter_ratios(workload, launches, slowest)
    if work is not None and work > 1 + rules().limits.uneven_pct / 100:
        # The same launches did more work: the data are uneven, and the device is not slow.
        more, slower = more + slower, 0.0
    why: Why = "unknown"
    excess = max(own - others, 1.0)
    if more >= _MOST * excess:
        why = "uneven_work"
    elif slower >= _MOST * excess:
        why = "slower_launches" if work is None else "slow_device"
    texts, host = rules().ranks[why], _hosts(workload).get(slowest)
    name = _rank_name(slowest, host)
    what = "its kernels" if kernel is None else "this kernel"
    claim = _begun(texts.claim.format(rank=name, pct=f"{100 * (own / others - 1):.3g}", what=what))
    evidence += counted
    return SlowRank(slowest, host, len(times), own, others, more, slower, why, claim, evidence, texts.advice, kernel)


def _rank_name(rank: int | None, host: str | None) -> str:
    """Return the name of a rank, for example "rank 3 on node01"."""
    name = "the process without a rank" if rank is None else f"rank {rank}"
    return name if host is None else f"{name} on {host}"


def _begun(text: str) -> str:
    """Return the sentence with its first letter capitalised."""
    return text[0].upper() + text[1:]


_MOST = threshold("timeline.slow_rank_share")
_CLEAR = threshold("timeline.clear_ratio")
_WAITED_PCT = 1.0
"""Ranks wait for each other from this share of the wall time on, in %."""


def _counter_ratios(workload: Workload, launches: str, slowest: int) -> tuple[float | None, list[str]]:
    """Compare counters per launch at equal kernel and configuration, weighted by the launches of the rank.

    Returns the instructions of the rank divided by those of the others, and a sentence for each counter.
    """
    collected, sentences, work = workload.manifest.counters if workload.has("counters") else [], list[str](), None
    for what, counters in rules().rank_counters.items():
        for name in [n for n in counters.names if n in collected][:1]:
            ((own, other),) = workload.rows(
                f"WITH c AS (SELECT rank, kernel, launch, avg(value) AS mean, count(value) AS n FROM {launches} "
                f"JOIN (SELECT dispatch_id, {sql_name(name)} AS value FROM {workload.relation('counters')}) "
                "USING (dispatch_id) GROUP BY ALL HAVING n > 0), s AS (FROM c WHERE rank = "
                f"{slowest}), o AS (SELECT kernel, launch, avg(mean) AS mean FROM c WHERE rank != {slowest} GROUP BY "
                "ALL) SELECT sum(s.n * s.mean), sum(s.n * o.mean) FROM s JOIN o USING (kernel, launch)"
            )
            if own and other:
                sentences.append(sentence("rank_counter", name=name, share=own / other, words=counters.words))
                work = own / other if what == "work" else work
    return work, sentences


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
        return _rank_name(self.rank, self.host)

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
    def load_balance_pct(self) -> float | None:
        """Mean computing time over the maximum, in % (POP load balance); None if nothing computes."""
        return _pct(self.mean, self.slowest.each_computes)

    @property
    def communication_efficiency_pct(self) -> float | None:
        """Maximum computing time over the wall time, in % (POP); None for an empty window."""
        return _pct(self.slowest.each_computes, self.wall)

    @property
    def parallel_efficiency_pct(self) -> float | None:
        """Mean computing time over the wall time, in % (POP); None for an empty window."""
        return _pct(self.mean, self.wall)

    @property
    def excess_pct(self) -> float:
        """How much longer than the mean the slowest rank computes, in %."""
        return self._beyond_mean_pct(self.slowest)

    def _beyond_mean_pct(self, row: RankRow) -> float:
        return 100 * (row.each_computes / self.mean - 1) if self.mean else 0.0

    @property
    def waits(self) -> list[float]:
        """The time that each rank waits in collectives for the last rank, in ns per device; empty if unknown."""
        return [row.waited / row.devices for row in self.rows if row.waited is not None]

    @property
    def waited_pct(self) -> float | None:
        """The mean share of the wall time in % that ranks wait in collectives for the last rank; None if unknown."""
        return 100 * sum(self.waits) / len(self.waits) / self.wall if self.waits and self.wall else None

    @property
    def last(self) -> RankRow | None:
        """The rank that arrives last: it waits clearly less in collectives than every other; None if none does."""
        if (self.waited_pct or 0.0) < _WAITED_PCT:
            return None
        least, second, *_ = sorted(self.waits)
        return None if second < _CLEAR * least else self.rows[self.waits.index(least)]

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


def _pct(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


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
    if ranks.excess_pct >= rules().limits.uneven_pct:
        who = sentence("late_computes", ranks=ranks) if ranks.late_excess_pct else ""
        sentences.append(sentence("ranks_uneven", ranks=ranks, who=who, count=len(ranks.rows)))
    if ranks.waited_pct is not None and ranks.waited_pct >= _WAITED_PCT:
        least = sentence("waits_least", rank=ranks.last) if ranks.last else ""
        sentences.append(sentence("ranks_wait", ranks=ranks, least=least))
    return [*sentences, *late.evidence] if late else sentences


def device_evidence(trace: Trace, lanes: Mapping[int, Busy]) -> list[str]:
    """Return a sentence on how unevenly the devices of one rank compute; none if they compute about equally long."""
    by_time = sorted(trace.lanes, key=lambda lane: lanes[lane.number].computing)
    least, most = (lanes[lane.number].computing for lane in (by_time[0], by_time[-1]))
    pct = 100 * (most - least) / max(most, 1)
    if pct < rules().limits.imbalance_pct:
        return []
    names = [lane_name(lane.rank, lane.device) for lane in by_time]
    return [sentence("imbalance", least=names[0], most=names[-1], pct=pct)]


def add_rank_advice(
    findings: list[ApplicationFinding], ranks: Balance | None, late: LateRank | None
) -> list[ApplicationFinding]:
    """Return the findings with the advice for the late rank, as a new finding if there is none on communication."""
    if ranks is None or not (late or ranks.uneven_pct):
        return findings
    advice, saved = late.advice if late else (), ranks.uneven_pct
    if not saved or "communication" in [finding.height for finding in findings]:
        first_gains = [AdviceGain()] * len(advice)
        return [
            replace(f, advice=[*advice, *f.advice], gains=[*first_gains, *f.gains])
            if f.height == "communication"
            else f
            for f in findings
        ]
    first, *others = rank_evidence(ranks, late)
    claim = first if late else f"{_begun(first)}."
    return [*findings, ApplicationFinding("communication", saved, claim, speedup(saved), others, advice)]


def balance(trace: Trace, lanes: Mapping[int, Busy], windows: Sequence[Window]) -> Balance | None:
    """Compare the ranks within ``windows``; None unless there are several."""
    by_rank: dict[int | None, list[Busy]] = defaultdict(list)
    for lane in trace.lanes:
        by_rank[lane.rank].append(lanes[lane.number])
    if len(by_rank) < 2:
        return None
    hosts, (waited, collectives) = _hosts(trace.workload), _waits(trace, windows)
    rows = []
    for rank in sorted(by_rank, key=lambda rank: (rank is None, rank)):
        total = sum(by_rank[rank], Busy(0))
        times = total.computing, total.communication, total.copies, total.idle
        rows.append(
            RankRow(rank, hosts.get(rank), len(by_rank[rank]), *times, waited.get(rank, 0) if collectives else None)
        )
    return Balance(rows, sum(w.ns for w in windows), collectives)


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

    The rank that arrives last spends the shortest time in a collective, which is the time of the transfer; the excess
    of the others is waiting. Only durations are compared, so the clocks of the hosts do not matter.
    """
    if not trace.communicates:
        return {}, 0
    spans = ", ".join(f"({start}, {end})" for start, end in windows)
    rows = trace.rows(
        "WITH t AS (SELECT *, end_ns - start_ns - min(end_ns - start_ns) OVER (PARTITION BY name, nth) AS waited "
        f"FROM {common_collectives(trace.events, 'rank, device_id', len(trace.lanes))}) "
        "SELECT rank, sum(waited)::BIGINT, count(DISTINCT (name, nth)) FROM t "
        f"ASOF JOIN (SELECT low::BIGINT AS low, high::BIGINT AS high FROM (VALUES {spans}) v(low, high)) w "
        "ON start_ns >= low WHERE start_ns < high GROUP BY rank"
    )
    return {rank: int(ns) for rank, ns, _ in rows}, max((int(n) for *_, n in rows), default=0)
