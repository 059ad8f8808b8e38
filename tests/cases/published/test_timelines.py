"""Traces and figures that other people published: equal shares over the same time span, and no sure verdict beside."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.busy import Busy, Within
from rooflens.analysis.timeline.busy import busy as busy_times
from rooflens.analysis.timeline.collectives import collectives
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.figures import sql_rows
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.timelines import union

US = 1_000
POINTS = 0.5
Analysed = Callable[[str], Timeline]
TRACES = {
    "sglang_decode/sglang_Qwen3-8B_decode": "sglang_decode/perf_csvs",
    "bert_mi300/gaunernst_bert-small-uncased__1016001": "bert_mi300",
}
"""Trace -> folder of the report, below public/tracelens."""


@pytest.fixture(scope="module")
def analysed(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """The timeline of a trace below shared/public, made once for all tests."""
    store = Store(tmp_path_factory.mktemp("analysed"))

    @cache
    def analyse(trace: str) -> Timeline:
        path = shared / "public" / f"{trace}.json.gz"
        if not path.is_file():
            pytest.skip(f"needs {path.name} of ../shared/public")
        with Workload(store, stored(store, path)) as workload:
            return timeline(workload, TimelineRequest())

    return analyse


@pytest.mark.parametrize("trace", TRACES)
def test_shares_are_the_published_ones_from_the_first_work_of_the_device_to_the_last(
    shared: Path, analysed: Analysed, trace: str
) -> None:
    folder = shared / "public" / "tracelens"
    result = analysed(f"tracelens/{trace}")
    with (folder / TRACES[trace] / "gpu_timeline.csv").open() as file:
        published = {row["type"]: float(row["percent"]) for row in csv.DictReader(file)}
    work = result.trace.work
    span = Within([Window(int(work.s.min()), int(work.e.max()))])
    total = sum(busy_times(result.trace, span).values(), Busy(0))
    own = {
        "busy_time": total.any,
        "idle_time": total.idle,
        "computation_time": total.computing,
        "exposed_comm_time": total.exposed_communication,
        "total_memcpy_time": total.copies,
    }
    assert {name: 100 * ns / total.wall for name, ns in own.items()} == pytest.approx(
        {name: published[name] for name in own}, abs=POINTS
    )


@pytest.mark.parametrize("trace", ["hta/negative_queue_length", "hta/sampled_rank-0"])
def test_shares_are_those_of_an_independent_computation(shared: Path, analysed: Analysed, trace: str) -> None:
    check_shares(shared, analysed, trace)


def check_shares(shared: Path, analysed: Analysed, trace: str) -> None:
    """Fail if shares differ from unions of intervals of the file's events; kernels named nccl are communication."""
    result = analysed(trace)
    with gzip.open(shared / "public" / f"{trace}.json.gz") as file:
        events = json.load(file)["traceEvents"]
    work = [
        (e["cat"], "nccl" in e["name"].lower(), (e["ts"] * 1000, (e["ts"] + e["dur"]) * 1000))
        for e in events
        if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    first, last = min(s for *_, (s, _) in work), max(e for *_, (_, e) in work)
    computing = union([t for cat, talks, t in work if cat == "kernel" and not talks], first, last)
    kernels = union([t for cat, _, t in work if cat == "kernel"], first, last)
    busy = union([t for *_, t in work], first, last)
    span = Within([Window(int(result.trace.work.s.min()), int(result.trace.work.e.max()))])
    total = sum(busy_times(result.trace, span).values(), Busy(0))
    own = (total.any, total.computing, total.exposed_communication, total.exposed_copies)
    assert [100 * ns / total.wall for ns in own] == pytest.approx(
        [100 * ns / (last - first) for ns in (busy, computing, kernels - computing, busy - kernels)], abs=POINTS
    )


def test_a_sampled_trace_is_named_and_its_communication_is_the_published_share(analysed: Analysed) -> None:
    """HTA: 27.6 % of the span is communication beside which nothing computes."""
    result = analysed("hta/sampled_rank-0")
    assert "sampled" in [doubt.code for doubt in result.doubts] and result.verdict.confidence <= 0.5
    shares = {finding.height: finding.share_pct for finding in result.findings}
    assert shares["communication"] == pytest.approx(27.6, abs=POINTS)


def test_gaps_before_nodes_of_graphs_are_not_communication(analysed: Analysed) -> None:
    result = analysed("hta/negative_queue_length")
    shares = {finding.height: finding.share_pct for finding in result.findings}
    total = result.total
    assert shares["communication"] == pytest.approx(100 * total.exposed_communication / total.wall)
    assert (result.verdict.height, result.verdict.confidence <= 0.5) == ("waiting", True)


def test_sizes_times_and_calls_of_collectives_are_the_published_ones(shared: Path, tmp_path: Path) -> None:
    folder = shared / "public/tracelens/resnet_act_checkpoint"
    if not folder.is_dir():
        pytest.skip("needs resnet_act_checkpoint of ../shared/public")
    store = Store(tmp_path)
    with Workload(store, stored(store, folder / "resnet_act_checkpoint.json.gz")) as workload:
        rows = collectives(prepare(workload))
    with (folder / "coll_analysis.csv").open() as file:
        published = {
            (row["Collective name"], row["dtype"], round(float(row["In msg size (MB)_first"]) * 2**20)): (
                int(row["operation_count"]),
                pytest.approx(float(row["dur_sum"]) * US, abs=US),
                float(row["Group size"]),
            )
            for row in csv.DictReader(file)
        }
    assert {
        (row["collective"], row["type"], row["bytes"]): (row["calls"], row["ns"], row["group_size"]) for row in rows
    } == published
    largest = rows[0]
    assert largest["busbw_gbs"] == pytest.approx(2 * 7 / 8 * 3 * 8816192 * 2 / largest["ns"])
    assert (largest["status"], largest["waited_ns"], largest["recorded"]) == ("suspect", None, 1)


def test_the_published_decode_trace_has_one_step_of_32_requests(shared: Path, tmp_path: Path) -> None:
    path = shared / "public/tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/public")
    store = Store(tmp_path)
    stored(store, path)
    sql = "SELECT phase, requests, attention_ns / 1e3, matrix_ns / 1e3, cache_ns / 1e3 FROM phases"
    ((phase, requests, *times),) = sql_rows(store, sql)
    assert (phase, requests) == ("decode", 32)
    published = [2127.86, 2417.66 + 1461.90 + 903.52 + 602.34 + 396.83, 173.54 + 5.4]
    assert times == pytest.approx(published, rel=1e-3), "TraceLens: InferenceAttention_fwd.csv and GEMM.csv"
