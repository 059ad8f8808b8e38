"""compare_workloads on recorded and published figures: the yAx pair, the EmPRiSM branches, kernels of an H200."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.comparison.experiment_log import earlier_experiments, entries
from rooflens.analysis.launches.device_clocks import COLUMNS
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.comparisons import flop, launches, traffic, workload
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.rooflines import MI300X
from rooflens.tools.base.results import Table
from rooflens.tools.compare_workloads import CompareResult, compare_workloads
from rooflens.tools.query_counters import query_counters

SAMPLES = ROOT / "server" / "samples"


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The recording of the example kernels on an H200, one launch each."""
    store = Store(tmp_path_factory.mktemp("h200"))
    stored(store, SAMPLES / "h200_kernels" / "kernels.csv.gz", "h200")
    return store


@pytest.fixture
def own(samples: Store, tmp_path: Path) -> Store:
    """A copy of the samples to write to."""
    return Store(shutil.copytree(samples.root, tmp_path / "own"))


def records(found: Table | None) -> list[dict[str, Any]]:
    assert found is not None
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def versions(store: Store, **pairs: list[str]) -> CompareResult:
    """Pairs of kernels of the one recording as versions of each other."""
    return compare_workloads(store, "h200", "h200", group=pairs, metrics=["l2.hit_rate_pct"])


def test_the_published_yax_solution_is_not_like_for_like_and_slower_per_byte(samples: Store) -> None:
    found = compare_workloads(samples, "yax_before", "yax_after")
    assert (found.verdict, found.same_work) == ("inconclusive", "no")
    row = records(found.kernels)[0]
    assert row["speedup"] == pytest.approx(33.582061871975, rel=1e-5), "by time alone"
    assert (row["per"], row["per_work"]) == ("hbm_bytes", pytest.approx(0.525827198342, rel=1e-5))
    assert "not like for like" in found.answer and "slower: x 0.526 per byte of HBM traffic" in found.answer
    ratios = {r["quantity"]: r["ratio"] for r in records(found.work)}
    assert 1 / ratios["vl1d_requests"] == pytest.approx(31.880350194553, rel=1e-4)
    assert 1 / ratios["l2_requests"] == pytest.approx(52.850266264596, rel=1e-4)
    assert 1 / ratios["hbm_bytes"] == pytest.approx(63.865205105094, rel=1e-4)
    assert ratios["waves"] == 1
    assert any(n.startswith("Fewer than 5 timed launches (1 and 1): no interval") for n in found.notes)


def test_versions_of_the_example_kernels_are_judged_by_their_work(h200: Store) -> None:
    pairs = {"solved": ["^yax_problem", "^yax_solution"], "tiled": ["stencil_naive<2>", "stencil_tiled<2>"]}
    found = versions(h200, **pairs)
    judged = [(row["kernel"], row["verdict"], row["same_work"]) for row in records(found.kernels)]
    assert judged == [("solved", "improved", "yes"), ("tiled", "regressed", "yes")]
    faulty = versions(h200, pair=["^yax_problem", "^yax_faulty"])
    assert (faulty.verdict, faulty.same_work) == ("inconclusive", "no")


def test_a_series_tells_bandwidth_from_progress(tmp_path: Path) -> None:
    """The branches of the EmPRiSM report on one GCD of an MI250X: bytes are bandwidth x run time, as printed."""
    store = Store(tmp_path)
    bytes_before, bytes_after = 443.52 * 2.82561e-3, 965.67 * 1.57072e-3
    for name, time_ms, gigabytes in (("master", 2.82561, bytes_before), ("test-registers", 1.57072, bytes_after)):
        workload(store, launches("EOCloverFBCGPU", [time_ms * 1e6], **traffic(gigabytes)), name=name)
    workload(store, launches("EOCloverFBCGPU", [1.48e6], **traffic(bytes_after)), name="nontemporal-store")
    found = compare_workloads(store, "master", ["test-registers", "nontemporal-store"])
    rows = records(found.kernels)
    assert [r["workload"] for r in rows] == ["master", "test-registers", "nontemporal-store"]
    step = rows[1]
    assert step["speedup"] == pytest.approx(1.798926606906, rel=1e-5)
    assert step["bandwidth_ratio"] == pytest.approx(2.177286255411, rel=1e-5)
    assert step["traffic_ratio"] == pytest.approx(1.210325227862, rel=1e-5)
    assert rows[0]["hbm_gbs"] == pytest.approx(443.52, rel=1e-5)
    assert rows[0]["pct_of_peak"] == pytest.approx(100 * 443.52 / 1638.4, rel=1e-3)
    assert rows[2]["speedup"] == pytest.approx(1.909195945946, rel=1e-5)
    assert rows[2]["step_speedup"] == pytest.approx(1.57072 / 1.48, rel=1e-5)
    lesson = next(n for n in found.notes if n.startswith("test-registers"))
    assert "x 2.18 but the speed-up is x 1.80" in lesson and "21%" in lesson and "not an improvement" in lesson


def test_the_best_step_of_a_series_of_groups_is_the_one_with_the_largest_gain(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name, a, b in (("base", 6e6, 6e6), ("first", 5e6, 2e6), ("second", 3e6, 3e6)):
        workload(store, launches("a", [a] * 6) + launches("b", [b] * 6), name=name)
    found = compare_workloads(store, "base", ["first", "second"], group={"a": ["^a", "^a"], "b": ["^b", "^b"]})
    assert found.answer.startswith("Best so far: first. Speed-up over base: first x 1.200 (improved), first x 3.000")


def test_different_gpus_are_compared_in_shares_of_their_own_ceilings(tmp_path: Path) -> None:
    store = Store(tmp_path)
    workload(store, launches("k", [2e6] * 6, **traffic(1)), name="old")
    newer = {"TCC_EA0_RDREQ_sum": 1e9 / 64} | dict.fromkeys(
        ("TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum", "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"), 0.0
    )
    workload(store, launches("k", [1e6] * 6, **newer), name="new", arch="gfx942", facts=MI300X)
    found = compare_workloads(store, "old", "new")
    assert found.verdict == "inconclusive" and "2 ms and 1 ms; speedup x 2.000 is the ratio of" in found.answer
    row = records(found.kernels)[0]
    assert (row["speedup"], row["low"], row["noise_pct"]) == (2.0, None, None)
    assert found.explanation is None and found.work is None
    row = records(found.normalised)[0]
    assert (row["figure"], row["unit"]) == ("hbm_bytes", "% of own ceiling")
    assert row["baseline"] == pytest.approx(100 * 500 / 1638.4, rel=1e-3)


def test_a_change_is_noted_in_the_log_and_found_by_sql_and_by_the_kernel(own: Store) -> None:
    idea = "a block for each row, so that reads are coalesced"
    found = compare_workloads(own, "yax_before", "yax_after", hypothesis="reads are strided", change=idea)
    assert found.logged == entries(own)[0].id
    rows = records(query_counters(own, "SELECT * FROM log").table)
    assert len(rows) == 1
    row = rows[0]
    assert (row["workload"], row["baseline"]) == (found.candidates[0], found.baseline)
    assert (row["hypothesis"], row["change"]) == ("reads are strided", idea)
    assert (row["verdict"], row["same_work"]) == ("inconclusive", "no") and row["note"].startswith("not like for like")
    assert row["speedup"] == pytest.approx(33.58, rel=1e-3) and row["low"] is None
    assert [t.outcome.same_work for t in earlier_experiments(entries(own), "yax(double*, int)")] == ["no"]


def test_the_log_gets_plain_text_if_asked_and_nothing_where_nothing_may_be_written(own: Store) -> None:
    shut = Store(own.root, read_only=True)
    found = compare_workloads(shut, "yax_before", "yax_after", change="x")
    assert found.logged is None and any("reading only" in n for n in found.notes)
    found = compare_workloads(own, "yax_before", "yax_after", checked=False)
    assert found.same_work == "no" and "check of its result failed" in found.answer
    assert found.logged is None and entries(own) == []
    compare_workloads(own, "yax_before", "yax_after", change="a\x1b[31mb\u202ec\n" + "x" * 5000)
    noted = entries(own)[0].change
    assert noted.startswith("abc x") and len(noted) <= 1000


def test_arguments_that_make_no_sense_are_refused(samples: Store) -> None:
    with pytest.raises(BadArgument, match="candidate has 0 workloads"):
        compare_workloads(samples, "yax_before", [])
    with pytest.raises(NotFound, match="nosuch"):
        compare_workloads(samples, "yax_before", "nosuch")
    with pytest.raises(BadArgument, match="cannot be read"):
        compare_workloads(samples, "yax_before", "yax_after", group={"a": ["x", "y", "z"]})


def test_equal_versions_differ_by_no_more_than_a_stated_bound(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in "ab":
        workload(store, launches("k", [1e6 * (1 + 0.001 * (i % 3)) for i in range(12)], **flop(1e9)), name=name)
    found = compare_workloads(store, "a", "b")
    row = records(found.kernels)[0]
    assert found.verdict == "inconclusive" and "no difference, at most 0." in found.answer
    assert 0 <= row["at_most_pct"] < 1


def test_a_group_names_its_kernels_their_launches_of_a_round_and_both_sums(tmp_path: Path) -> None:
    store = Store(tmp_path)
    split = [row for k in ("scale", "add", "relu") for row in launches(k, [1e6] * 20)]
    workload(store, split, name="a")
    workload(store, launches("fused", [1e6] * 20), name="b")
    found = compare_workloads(store, "a", "b", group={"layer": ["scale|add|relu", "fused"]})
    rows = records(found.groups)
    assert [r["kernel"] for r in rows if r["side"] == "baseline"] == ["scale", "add", "relu", "sum of 3"]
    sums = [(r["launches"], r["per_round"], r["round_ms"], r["total_ms"]) for r in rows if "sum" in r["kernel"]]
    assert sums == [(60, 3, 3, 60), (20, 1, 1, 20)]
    assert any("20 and 20 rounds of all kernels of the group" in n for n in found.notes), found.notes


def sampled(mhz: float, held: str) -> list[dict[str, Any]]:
    """Four samples of the run for times."""
    row = {**dict.fromkeys(COLUMNS), "t_ns": 1, "step": "timing", "clock_mhz": mhz, "held_back": held}
    return [row] * 4


def test_what_differing_clocks_explain_is_told_beside_the_verdict(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cool = workload(store, launches("k", [1000.0] * 9), samples=sampled(1500.0, ""))
    hot = workload(store, launches("k", [1500.0] * 9), samples=sampled(1000.0, "temperature"), name="hot")
    told = [note for note in compare_workloads(store, cool.id, hot.id).notes if "sensors" in note]
    assert len(told) == 1 and "1.500, the clock explains 1.500" in told[0] and "limited by heat" in told[0]
    series = compare_workloads(store, cool.id, [hot.id, cool.id])
    assert [note for note in series.notes if "sensors" in note] == [f"hot: {told[0]}"]
    other = workload(store, launches("k", [1500.0] * 9), samples=sampled(1000.0, ""), arch="gfx942", facts=MI300X)
    assert not any("sensors" in note for note in compare_workloads(store, cool.id, other.id).notes)


def test_time_is_split_only_beyond_noise_and_where_something_is_known_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name, time in (("base", 3e6), ("same", 3e6 - 64), ("faster", 1e6)):
        workload(store, launches("k", [time] * 6, **traffic(1)), name=name)
    alike, faster = (compare_workloads(store, "base", name) for name in ("same", "faster"))
    assert alike.explanation is None and not any(n.startswith("explanation") for n in alike.notes)
    assert [len(f"{r['delta_ms']:.12g}") for r in records(faster.explanation)] == [1, 2, 2]
    assert any("whereas speedup, baseline_ms and candidate_ms are medians" in n for n in faster.notes)
    for name, time in (("known", 3e6), ("by time alone", 1e6)):
        workload(store, launches("k", [time] * 6), name=name)
    assert compare_workloads(store, "known", "by time alone").explanation is None


def test_all_kernels_are_not_told_of_where_one_was_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path)
    workload(store, launches("k", [3e6] * 6) + launches("a", [1e6] * 6) + launches("b", [1e6] * 6), name="base")
    workload(store, launches("k", [1e6] * 6), name="less")
    whole, one = (compare_workloads(store, "base", "less", kernel) for kernel in (None, "^k$"))
    assert any(n.startswith("All 3 -> 1 kernels, in sum: 30 ms -> 6 ms") for n in whole.notes)
    assert not any(n.startswith("All ") for n in one.notes)


def test_instantiations_of_one_template_are_told_apart_in_every_table(tmp_path: Path) -> None:
    store = Store(tmp_path)
    names = "void bench<int, 256>(int, int*)", "void bench<double, 256>(double, double*)"
    for name in ("old", "new"):
        rows = [row for kernel in names for row in launches(kernel, [2e6] * 6, **traffic(1 if name == "old" else 2))]
        workload(store, rows, name=name)
    found = compare_workloads(store, "old", "new", detail="full")
    assert {r["kernel"] for r in records(found.work)} == {"bench<int, 256>", "bench<double, 256>"}


def test_named_metrics_are_compared_whether_they_changed_or_not(samples: Store) -> None:
    found = compare_workloads(samples, "yax_before", "yax_after", metrics=["vl1d.coalescing_pct", "l2.hit_rate_pct"])
    rows = records(found.metrics)
    assert [row["metric"] for row in rows] == ["vl1d.coalescing_pct", "l2.hit_rate_pct"]
    assert rows[0]["baseline"] == rows[0]["candidate"] == 25
    with pytest.raises(BadArgument):
        compare_workloads(samples, "yax_before", "yax_after", metrics=["no.such_metric"])


def test_an_unknown_metric_is_an_error_although_a_group_has_no_metrics_to_show(tmp_path: Path) -> None:
    store, group = Store(tmp_path), {"norm": ["scale|add", "fused"]}
    workload(store, launches("scale", [1e6], **flop(1e9)) + launches("add", [1e6], **flop(1e9)), name="a")
    workload(store, launches("fused", [1e6], **flop(2e9)), name="b")
    with pytest.raises(BadArgument, match="no.such_metric"):
        compare_workloads(store, "a", "b", group=group, metrics=["no.such_metric"])
    assert compare_workloads(store, "a", "b", group=group, metrics=["l2.hit_rate_pct"]).metrics is None
