"""A recording of the example program on an H200: what rooflens computes from counters is what the program states."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.figures import sql_rows
from rooflens.tests.support.recordings import stored

STATED = {
    row["kernel"]: row
    for row in csv.DictReader((ROOT / "tests" / "data" / "h200_kernels.csv").read_text().splitlines())
}
STREAMING = (
    "matrix_add_row", "stencil_naive_1", "stencil_tiled_1", "yax_problem", "yax_solution", "stream_add", "stream_mul",
    "stream_triad", "stream_fma", "fma_sweep_20", "fma_sweep_256", "transpose_lds", "transpose_padded", "hbm_copy",
    "reduce_sum",
)  # fmt: skip
# Operations that the statement does not count, or that are no counted instruction.
FLOP = {
    "nbody_naive": 17 / 18,  # the reciprocal square root runs on the special function unit
    "nbody_tiled": 17 / 18,
    "l2_resident": 1.25,  # the sum of each four loads
}

# Integer divisions of their addresses are computed in floating point, so that they have operations without a meaning.
DIVIDING = ("transpose_lds", "transpose_padded", "latency_chase")


@pytest.fixture(scope="module")
def amounts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Amounts, shares and figures of work-groups and waves by the name of the function."""
    store = Store(tmp_path_factory.mktemp("h200"))
    stored(store, ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz", "h200")
    metrics = """SELECT kernel, metric, value FROM metrics WHERE metric = 'dispatch.flop'
      OR metric LIKE '%share%' OR metric LIKE '%workgroup%' OR metric LIKE '%_per_wave'"""
    traffic = """SELECT kernel, 'hbm_bytes', "dram__bytes_read.sum" + "dram__bytes_write.sum" FROM counters"""
    found: dict[str, dict[str, Any]] = {}
    for kernel, metric, value in [*sql_rows(store, metrics), *sql_rows(store, traffic)]:
        function = str(kernel).replace("void ", "").replace("(int)", "").split("(")[0]
        found.setdefault(function, {})[str(metric)] = value
    return found


def test_floating_point_operations_are_those_of_the_source(amounts: dict[str, dict[str, Any]]) -> None:
    for kernel in STATED.keys() - set(DIVIDING):
        row = STATED[kernel]
        stated = pytest.approx(FLOP.get(kernel, 1.0) * float(row["flop"]), rel=0.02, abs=1.0)
        assert amounts[row["function"]]["dispatch.flop"] == stated, kernel


def test_bytes_of_hbm_are_those_of_the_arrays(amounts: dict[str, dict[str, Any]]) -> None:
    for kernel in STREAMING:
        row = STATED[kernel]
        assert amounts[row["function"]]["hbm_bytes"] == pytest.approx(float(row["bytes"]), rel=0.02), kernel


def test_shares_of_operations_are_a_whole_and_name_the_type_of_the_source(
    amounts: dict[str, dict[str, float]],
) -> None:
    types = ("f64", "f32", "tf32", "f16", "bf16", "f8", "integer")
    for function, of_kernel in amounts.items():
        shares = [of_kernel[f"dispatch.share_{t}_pct"] for t in types]
        assert None in shares or sum(shares) == pytest.approx(100), function
    assert amounts["fma_sweep<256>"]["dispatch.share_f32_pct"] > 90
    assert amounts["fp64_fma"]["dispatch.share_f64_pct"] > 90
    assert amounts["tensor_f16"]["dispatch.share_f16_pct"] > 90 < amounts["tensor_f16"]["dispatch.share_matrix_pct"]


def test_no_more_thread_blocks_reside_than_fit(amounts: dict[str, dict[str, float]]) -> None:
    for function, of_kernel in amounts.items():
        fit = of_kernel["occupancy.workgroups_per_cu_theoretical"]
        assert 0 < of_kernel["occupancy.workgroups_per_cu"] <= fit * 1.01, function


def test_a_warp_of_a_copy_moves_what_the_source_says(amounts: dict[str, dict[str, float]]) -> None:
    """Every byte passes L1 and L2 once each way; memory still lacks the lines that L2 holds at the end."""
    row = STATED["hbm_copy"]
    copy = amounts[row["function"]]
    assert copy["l2.read_bytes_per_wave"] == pytest.approx(copy["l2.write_bytes_per_wave"])
    assert copy["l2.bytes_per_wave"] == copy["vl1d.bytes_per_wave"]
    assert 0.9 < copy["hbm.bytes_per_wave"] / copy["l2.bytes_per_wave"] <= 1.01
