"""What advice can gain: a bound for each piece of it, and a verdict that goes by the gain, not by the share alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.manifest import PcieLink
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import timeline
from rooflens.analysis.timeline.verdict import ApplicationFinding, Savings, speedup
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish
from rooflens.tests.unit.analysis.timeline.test_made import MS, US, shares, told


def slow_input(ms: int) -> Made:
    """The host prepares input for ``ms``, then the device works for 1 ms."""
    made, t = Made(), 0
    for _ in range(8):
        made.range("step", t, t + (ms + 1) * MS)
        made.launch("conv", (t + ms * MS, t + ms * MS + 5 * US), (t + ms * MS + 10 * US, t + (ms + 1) * MS))
        t += (ms + 1) * MS
    return made


def gain_of(finding: ApplicationFinding, words: str) -> tuple[str, float | None, float | None]:
    [(text, gain)] = [pair for pair in zip(finding.advice, finding.gains, strict=True) if pair[0].startswith(words)]
    return text, gain.upper, gain.expected


def test_one_worker_hides_the_shorter_part_however_large_the_bound_is(tmp_path: Path) -> None:
    analysed = told(tmp_path, slow_input(28))
    finding = analysed.findings[0]
    assert finding.height == "host" and finding.speedup_bound == pytest.approx(29, rel=0.02)
    text, upper, _ = gain_of(finding, "Prepare input")
    assert upper == pytest.approx(29 / 28, rel=0.002)
    assert text.endswith("(at most x 1.04 with one worker, most of its time with 28)")
    assert gain_of(finding, "Move preprocessing")[1] == finding.speedup_bound
    text, upper, _ = gain_of(finding, "Profile the host code")
    assert upper is None and "x" not in text.split("(perf)")[1]


def test_the_verdict_is_what_gains_more_although_its_share_is_smaller(tmp_path: Path) -> None:
    """Launches 43 % and allocations 39 %, with which half of the time of the launches vanishes."""
    made, t = Made(), 0
    for _ in range(100):
        made.host("hipMalloc", t, t + 78 * US)
        made.launch("k", (t + 78 * US, t + 164 * US), (t + 164 * US, t + 200 * US))
        t += 200 * US
    analysed = told(tmp_path, made)
    by_cause = shares(analysed)
    assert by_cause["launch"] > by_cause["allocation"] > 35
    of = {f.height: f for f in analysed.findings}
    assert analysed.verdict.height == "allocation"
    assert (of["allocation"].speedup_bound or 0) > (of["launch"].speedup_bound or 0)
    assert analysed.verdict.share_pct == pytest.approx(by_cause["allocation"])


def test_pinning_is_expected_to_bring_the_bandwidth_of_the_link(tmp_path: Path) -> None:
    """8 ms for 16 MB from pageable memory, beside 2 ms of kernels; 0.82 of 63 GB/s would take 0.31 ms."""
    made, t = Made(), 0
    for _ in range(10):
        made.copy("h2d", (t, t + 5 * US), (t, t + 8 * MS), pinned=False, bytes=16_000_000)
        made.launch("k", (t + 5 * US, t + 9 * US), (t + 8 * MS, t + 10 * MS))
        t += 10 * MS
    store = Store(tmp_path)
    with Workload.open(store, publish(store, made, link=PcieLink(generation=5, width=16))) as workload:
        finding = timeline(workload).findings[0]
    _, upper, expected = gain_of(finding, "Pin the host memory")
    assert upper == pytest.approx(5, rel=0.01)
    assert expected == pytest.approx(10 / (10 - 8 + 16e6 / (0.82 * 63e9) * 1e3), rel=0.02)


def test_a_graph_is_expected_to_leave_the_latency_of_queued_operations(tmp_path: Path) -> None:
    """50 launches that the host makes too late, 20 us each, and 50 gaps of 2 us between queued kernels."""
    made, t = Made(), 0
    for _ in range(50):
        made.launch("a", (t, t + 2 * US), (t + 20 * US, t + 30 * US))
        made.launch("b", (t + 3 * US, t + 5 * US), (t + 32 * US, t + 42 * US))
        t += 42 * US
    analysed = told(tmp_path, made, steady=False)
    by_cause = {idle.cause: idle for idle, _ in analysed.causes}
    finding = next(f for f in analysed.findings if f.height == "launch")
    _, upper, expected = gain_of(finding, "Launch the whole step as one graph")
    saved = by_cause["launch"].ns - by_cause["launch"].gaps * 2 * US
    assert expected == pytest.approx(analysed.wall_ns / (analysed.wall_ns - saved), rel=0.01)
    assert upper is not None and expected is not None and expected < upper


def test_what_is_hidden_leaves_the_longer_part() -> None:
    assert Savings(30, 30, {}).gain("overlap").upper == speedup(30)
    assert Savings(80, 80, {}).gain("overlap").upper == speedup(20)
    assert Savings(100, 100, {}).gain("remove").upper is None


def short_kernels(waits_in_a_step: int) -> Made:
    """Eight steps of 32 kernels of 5 us, one launch every 40 us; the host waits evenly often in each step."""
    made, t = Made(), 0
    for _ in range(8):
        made.range("step", t, t + 32 * 40 * US)
        for i in range(32):
            made.launch("add", (t, t + 5 * US), (t + 10 * US, t + 15 * US))
            if waits_in_a_step and i % (32 // waits_in_a_step) == 0:
                made.host("cudaStreamSynchronize", t + 8 * US, t + 17 * US)
            t += 40 * US
    return made


def test_a_graph_comes_after_the_waits_that_keep_a_step_from_being_captured(tmp_path: Path) -> None:
    free = told(tmp_path / "free", short_kernels(1)).findings[0]
    assert free.height == "launch" and free.advice[0].startswith("Launch the whole step as one graph")
    waiting = told(tmp_path / "waiting", short_kernels(16)).findings[0]
    assert waiting.height == "launch" and waiting.gains[0].upper is None
    first, second, *_ = waiting.advice
    assert first.startswith("Wait less often")
    assert "; not before that, because the host makes 105 waits for the device within steps" in second


def test_a_wait_that_delays_one_launch_bounds_what_its_removal_gives(tmp_path: Path) -> None:
    """An eighth of the steps' time has no bound of half as much speed again."""
    made, t = Made(), 0
    for _ in range(10):
        made.range("step", t, t + 10 * MS)
        made.launch("long", (t, t + 5 * US), (t + 10 * US, t + 8 * MS))
        made.host("cudaStreamSynchronize", t + 10 * US, t + 9 * MS)
        made.launch("short", (t + 9 * MS, t + 9 * MS + 5 * US), (t + 9 * MS + 10 * US, t + 10 * MS - 10 * US))
        t += 10 * MS
    finding = next(one for one in told(tmp_path, made).findings if one.height == "synchronisation")
    assert finding.share_pct == pytest.approx(10, abs=0.2)
    assert finding.speedup_bound == pytest.approx(1.11, abs=0.01)


def test_a_verdict_is_not_confident_while_kernels_take_more_of_the_time(tmp_path: Path) -> None:
    """Kernels for 57 % of the time, and a host that prepares input for 42 %."""
    made, t = Made(), 0
    for _ in range(8):
        made.range("step", t, t + 10 * MS)
        made.launch("conv", (t + 4200 * US, t + 4205 * US), (t + 4210 * US, t + 9910 * US))
        t += 10 * MS
    verdict = told(tmp_path, made).verdict
    assert (verdict.height, verdict.confidence) == ("host", 0.5)
