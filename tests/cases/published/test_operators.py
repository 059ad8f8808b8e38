"""Operators against their roofline: equal to the reports that others published."""

from __future__ import annotations

import ast
import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.rooflines.ceilings import Ceilings, choose
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.operators import operators
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_operators import US, analysed, call

NORMALISATION = "perf_model/normalization/normalization_layer_test"
BERT = "gaunernst_bert-small-uncased__1016001"
REPORTS = {
    "bert_h100/unified_perf_summary.csv": (f"bert_h100/{BERT}", 6, 1e-4),
    "bert_mi300/GEMM.csv": (f"bert_mi300/{BERT}", 4, 1e-4),
    "bert_mi300/SDPA_fwd.csv": (f"bert_mi300/{BERT}", 1, 1e-4),
    "bert_mi300/unified_perf_summary.csv": (f"bert_mi300/{BERT}", 6, 1e-4),
    # Parameters of one element per channel count differently there, by up to 0.5 % of the bytes.
    f"{NORMALISATION}_perf_report_csvs/Normalization.csv": (NORMALISATION, 12, 6e-3),
    f"{NORMALISATION}_perf_report_csvs/BinaryElementwise.csv": (NORMALISATION, 3, 1e-4),
    f"{NORMALISATION}_perf_report_csvs/Reduce_fwd.csv": (NORMALISATION, 2, 1e-2),
}
"""Report of TraceLens below public/tracelens -> its trace, the least number of rows compared, and the tolerance."""
OTHERWISE = {
    "aten::native_layer_norm": "weights of the size of the input count six times there",
    "aten::native_layer_norm_backward": "likewise",
    "aten::miopen_batch_norm_backward": "as if statistics were constants, although it is a training step",
    "aten::copy_": "moving an element is no floating-point operation",
}
"""Operators that the reports count differently, and how."""


@pytest.mark.parametrize("report", REPORTS)
def test_operations_bytes_and_rates_are_the_published_ones(shared: Path, tmp_path: Path, report: str) -> None:
    trace, least, tolerance = REPORTS[report]
    folder = shared / "public" / "tracelens"
    path = folder / f"{trace}.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/public")
    store = Store(tmp_path)
    with Workload(store, stored(store, path)) as workload:
        rows = operators(prepare(workload)).shape_rows
        ceilings = choose(workload, "empirical")[0]
    own = {(row["operator"], row["sizes"], row["types"]): row for row in rows}
    compared = 0
    for (name, sizes, types), published in read_report(folder / report).items():
        row = own.get((name, sizes, types))
        if row is None or name in OTHERWISE or (row["flop"] == 0 and "long" in types):
            continue
        compared += 1
        assert (row["flop"], row["bytes"]) == (
            pytest.approx(published["flop"] * row["calls"], rel=tolerance),
            pytest.approx(published["bytes"] * row["calls"], rel=tolerance),
        ), (name, sizes)
        if row["ns"] == pytest.approx(published["ns"], rel=1e-3):  # fills of an operator do not count there
            assert row["tflops"] == pytest.approx(
                published["flop"] * row["calls"] / published["ns"] / 1e3, rel=tolerance
            )
            assert row["roofline_pct"] == pytest.approx(_roofline_pct(row, published, ceilings), rel=2 * tolerance)
    assert compared >= least


def read_report(path: Path) -> dict[tuple[str, str, str], dict[str, float]]:
    """The FLOP and bytes of one call, and the ns of all calls, by operator, sizes and types."""
    read: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with path.open() as file:
        for row in csv.DictReader(file):
            flop, moved = (row.get(f"{name}_first") or row.get(name) for name in ("GFLOPS", "Data Moved (MB)"))
            stated = [row.get(f"{name}_first") or row[name] for name in ("Input Dims", "Input type")]
            if not (flop and moved):
                continue
            sizes, types = (json.dumps(ast.literal_eval(text), separators=(",", ":")) for text in stated)
            one = read[row["name"], sizes, types]
            one["flop"], one["bytes"] = float(flop) * 1e9, float(moved) * 2**20
            one["ns"] += float(row["Kernel Time (µs)_sum"]) * US
    return read


def _roofline_pct(row: dict[str, Any], published: dict[str, float], ceilings: Ceilings) -> float:
    matrix, vector = ("matrix.bf16", "valu.f32") if "BFloat16" in str(row["types"]) else ("matrix.f32", "valu.f32")
    matrix_product = row["category"] in ("matrix product", "attention")
    peak = ceilings.value(matrix if matrix_product else vector)
    memory = ceilings.value("hbm.bw")
    assert peak is not None and memory is not None
    if not matrix_product:
        assert row["bound"] == "hbm.bw"
    least = max(published["flop"] / peak if matrix_product else 0.0, published["bytes"] / memory)
    calls = row["calls"] or 0
    return 100 * least * calls / published["ns"]


@pytest.mark.parametrize("report", ["GEMM", "RMSNorm_fwd", "RoPE_fwd", "UnaryElementwise"])
def test_operators_of_a_server_have_the_published_work_by_their_arguments(
    shared: Path, tmp_path: Path, report: str
) -> None:
    """The trace of these reports replays a graph, so that only the reports state the arguments of its operators."""
    path = shared / "public/tracelens/sglang_decode/perf_csvs" / f"{report}.csv"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/public")
    made, published = Made(), read_report(path)
    for i, (name, sizes, types) in enumerate(published):
        call(made, name, [json.loads(sizes), json.loads(types), []], "kernel", at=i * 100 * US)
    rows = {(row["operator"], row["sizes"], row["types"]): row for row in analysed(tmp_path, made).shape_rows}
    assert rows.keys() == published.keys()
    for key, row in rows.items():
        flop = 0 if key[0] in OTHERWISE or row["flop"] == 0 else published[key]["flop"]
        assert (row["flop"], row["bytes"]) == (pytest.approx(flop, rel=4e-3), pytest.approx(published[key]["bytes"])), (
            key
        )
