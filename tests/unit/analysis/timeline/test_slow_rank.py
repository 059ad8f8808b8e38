"""Which rank is late: one answer in every sentence, from waits in collectives or else from computing times."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.slow_rank import Balance, RankRow, rank_evidence
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

US, MS, STEPS = 1_000, 1_000_000, 40


def job(folder: Path, begin_us: list[int], compute_us: list[int]) -> Timeline:
    """Ranks that begin a step at their own time, compute, and leave an all-reduce together after 1 ms."""
    made = Made()
    for step in range(STEPS):
        t = step * MS
        for rank, (begin, compute) in enumerate(zip(begin_us, compute_us, strict=True)):
            own = {"rank": rank, "pid": 100 + rank, "device_id": 0}
            done = t + (begin + compute) * US
            made.launch("gemm", (t, t + 5 * US), (t + begin * US, done), **own)
            made.launch("ncclDevKernel_AllReduce_Sum_f32", (t + 6 * US, t + 9 * US), (done, t + 990 * US), **own)
    with Workload.open(store := Store(folder), publish(store, made, ranks=len(begin_us)).id) as opened:
        return timeline(opened, TimelineRequest(top_n=5, steady=False))


def sentences(found: Timeline) -> list[str]:
    return [text for f in found.findings if f.height == "communication" for text in (f.claim, *f.evidence, *f.advice)]


def test_every_sentence_names_the_rank_that_waits_least(tmp_path: Path) -> None:
    found = job(tmp_path, [10, 10, 10, 600], [300, 250, 200, 250])
    assert found.balance is not None and found.balance.late.rank == 3 and found.balance.slowest.rank == 0
    said = sentences(found)
    assert any("rank 3 waits least" in text for text in said)
    assert not any(f"rank {rank} " in text.lower() for rank in (0, 1, 2) for text in said)
    assert any("4 ranks (load balance 83.3 %" in text for text in said)


def test_a_rank_that_is_late_without_computing_longer_is_late_for_its_host_or_input(tmp_path: Path) -> None:
    found = job(tmp_path, [10, 10, 600], [250, 250, 250])
    said = sentences(found)
    assert any(text.startswith("Rank 2 arrives last in the collectives although it does not compute") for text in said)
    assert any("rank 2: idle for 61 % of the time" in text for text in said)
    assert any("Examine the host of that rank" in text for text in said)
    assert not any("more to do" in text or "Divide the work" in text for text in said)


def test_a_rank_that_waits_least_and_computes_longest_is_named_with_its_excess(tmp_path: Path) -> None:
    found = job(tmp_path, [10, 10, 10], [200, 500, 200])
    assert found.balance is not None and found.balance.late is found.balance.slowest
    assert any("rank 1 computes 66.7 % longer than the mean of 3 ranks" in text for text in sentences(found))
    assert found.balance.uneven_pct == pytest.approx(20, abs=0.5)


def row(rank: int, computing: int, waited: int | None) -> RankRow:
    return RankRow(rank, None, 1, computing, 100, 0, 0, waited)


@pytest.mark.parametrize(
    ("waits", "late"),
    [([None, None, None], 0), ([100, 90, 60], 0), ([100, 90, 10], 2), ([4, 4, 0], 0)],
    ids=["unknown", "alike", "clear", "negligible"],
)
def test_waits_decide_only_where_they_are_known_and_clearly_different(waits: list[int | None], late: int) -> None:
    ranks = [row(rank, computing, waits[rank]) for rank, computing in enumerate((500, 400, 300))]
    assert Balance(ranks, 1000, 10).late.rank == late


def test_nobody_is_named_as_the_last_one_where_waits_are_alike() -> None:
    said = rank_evidence(Balance([row(0, 400, 100), row(1, 400, 90), row(2, 400, 60)], 1000, 10), None)
    assert said == ["in 10 collectives a rank waits on average 8.33 % of the time for the last one to arrive"]
