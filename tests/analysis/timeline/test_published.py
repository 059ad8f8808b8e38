"""Traces and figures that other people published: equal shares over the same time span, and no sure verdict beside."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.busy import Busy, Within, busy
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.workload import Workload
from rooflens.tools.import_profile import import_profile

POINTS = 0.5
TRACES = {
    "sglang_decode/sglang_Qwen3-8B_decode": "sglang_decode/perf_csvs",
    "bert_h100/gaunernst_bert-small-uncased__1016001": "bert_h100",
    "bert_mi300/gaunernst_bert-small-uncased__1016001": "bert_mi300",
    "perf_model/normalization/normalization_layer_test": (
        "perf_model/normalization/normalization_layer_test_perf_report_csvs"
    ),
}
"""Trace -> folder of the report, below public/tracelens."""


def analysed(path: Path, store: Store, **asked: bool) -> Timeline:
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/public")
    with Workload.open(store, import_profile(store, str(path)).workload) as workload:
        return timeline(workload, TimelineRequest(**asked))


@pytest.mark.parametrize("trace", TRACES)
def test_shares_are_the_published_ones_from_the_first_work_of_the_device_to_the_last(
    shared: Path, tmp_path: Path, trace: str
) -> None:
    folder = shared / "public" / "tracelens"
    result = analysed(folder / f"{trace}.json.gz", Store(tmp_path))
    with (folder / TRACES[trace] / "gpu_timeline.csv").open() as file:
        published = {row["type"]: float(row["percent"]) for row in csv.DictReader(file)}
    work = result.trace.work
    span = Within([Window(int(work.s.min()), int(work.e.max()))])
    total = sum(busy(result.trace, span).values(), Busy(0))
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


def test_a_decode_step_that_waits_is_not_described_by_its_layers(shared: Path, tmp_path: Path) -> None:
    """97.94 % idle: the layers of the one graph are no steps."""
    result = analysed(shared / "public/tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz", Store(tmp_path))
    assert result.steps is None and result.idle_pct == pytest.approx(97.94, abs=POINTS)
    assert result.verdict.height == "waiting" and result.verdict.confidence <= 0.5
    assert "the whole trace (473.8 ms)" in result.findings[0].claim


def test_a_sampled_trace_is_named_and_its_communication_is_the_published_share(shared: Path, tmp_path: Path) -> None:
    """HTA: 27.6 % of the span is communication beside which nothing computes."""
    result = analysed(shared / "public/hta/sampled_rank-0.json.gz", Store(tmp_path))
    assert "sampled" in [doubt.code for doubt in result.doubts] and result.verdict.confidence <= 0.5
    shares = {finding.height: finding.share_pct for finding in result.findings}
    assert shares["communication"] == pytest.approx(27.6, abs=POINTS)


def test_gaps_before_nodes_of_graphs_are_not_communication(shared: Path, tmp_path: Path) -> None:
    result = analysed(shared / "public/hta/negative_queue_length.json.gz", Store(tmp_path))
    shares = {finding.height: finding.share_pct for finding in result.findings}
    total = result.total
    assert shares["communication"] == pytest.approx(100 * total.exposed_communication / total.wall)
    assert (result.verdict.height, result.verdict.confidence <= 0.5) == ("waiting", True)
