"""Operators against their roofline: exact on traces made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import schema
from rooflens.analysis.tables.derived import table_rows
from rooflens.analysis.timeline.operators import Operators, operators
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

US = 1_000


def call(made: Made, name: str, arguments: Any, *kernels: str, at: int = 0, **columns: Any) -> None:
    """An operator with its arguments that launches kernels of 10 us each."""
    number = len(made.ranges)
    stated = None if arguments is None else json.dumps(arguments)
    made.range(name, at, at + 50 * US, source="torch", arguments=stated, **columns)
    for i, kernel in enumerate(kernels):
        begun = at + i * 12 * US
        made.launch(kernel, (begun, begun + US), (begun + 2 * US, begun + 12 * US), range_id=number)


def analysed(folder: Path, made: Made, windows: list[Window] | None = None, arch: str | None = "gfx942") -> Operators:
    store = Store(folder)
    with Workload.open(store, publish(store, made, arch=arch, device="AMD Instinct MI300X").id) as workload:
        rows = table_rows(workload, "operators")
        assert all(list(row) == list(schema()["operators"].columns) for row in rows), "columns as documented, in order"
        return operators(prepare(workload), windows)


def product(m: int, n: int, k: int, kind: str) -> list[Any]:
    """The arguments of aten::mm."""
    return [[[m, k], [k, n]], [kind, kind], ["", ""]]


def test_time_of_all_rows_is_that_of_the_device_and_the_rest_has_a_reason(tmp_path: Path) -> None:
    made = Made()
    call(made, "aten::mm", product(64, 32, 16, "float"), "gemm")
    call(made, "aten::secret", [[[64]], ["float"], [""]], "secret", at=100 * US)
    call(made, "aten::mul", None, "mul", at=200 * US)
    made.launch("none", (300 * US, 301 * US), (302 * US, 312 * US))
    graph = made.host("hipGraphLaunch", 400 * US, 401 * US, range_id=0)
    made.add("kernel", "node", 402 * US, 412 * US, device_id=0, stream=7, correlation=graph, range_id=0)
    result = analysed(tmp_path, made)
    by_name = {(row["operator"], (row["reason"] or "").split(" ")[0]): row["ns"] for row in result.rows}
    assert by_name == {
        ("aten::mm", ""): 10 * US,
        ("aten::secret", "no"): 10 * US,
        ("aten::mul", "no"): 10 * US,
        (None, "no"): 10 * US,
        (None, "replays"): 10 * US,
    }
    assert [row["operator"] for row in result.shape_rows] == ["aten::mm", "aten::secret"]
    assert "20 % replays of graphs belong to no operator" in result.notes[0].text
    assert (result.shape_rows[0]["calls"], sum(row["ns"] for row in result.rows)) == (1, 50 * US)


def test_single_precision_in_tensor_float_has_the_peak_of_tensor_float(tmp_path: Path) -> None:
    bounds = {}
    for kernel in ("Cijk_Ailk_Bljk_S_MT256x256x16", "void cutlass_80_tensorop_s1688gemm_128x128"):
        made = Made()
        call(made, "aten::mm", product(4096, 4096, 4096, "float"), kernel)
        (row,) = analysed(tmp_path / kernel[:4], made).rows
        bounds[kernel[:4]] = row["bound"]
        assert row["flop"] == 2 * 4096**3 and row["bytes"] == 3 * 4 * 4096**2
    assert bounds == {"Cijk": "matrix.f32", "void": "matrix.xf32"}


def test_of_an_attention_the_operator_with_the_mask_counts_and_its_causal_form_half(tmp_path: Path) -> None:
    sizes = [[2, 8, 100, 64]] * 3 + [[]] * 4
    types = ["c10::Half"] * 3 + ["Scalar"] * 4
    flops = {}
    for causal in ("False", "True", ""):
        made = Made()
        values = ["", "", "", "0.", causal, "False", "0.125"]
        outer = "aten::_scaled_dot_product_flash_attention"
        made.range(outer, 0, 60 * US, source="torch", arguments=json.dumps([sizes, types, values]))
        inner = [[[2, 100, 8, 64]] * 3, types[:3], [""] * 3]
        call(made, "aten::_flash_attention_forward", inner, "flash_fwd_kernel", depth=1)
        (row,) = analysed(tmp_path / f"mask_{causal}", made).rows
        assert row["operator"] == outer
        flops[causal] = row["flop"]
    whole = 2 * 2 * 8 * 100 * 100 * (64 + 64)
    assert flops == {"False": whole, "True": whole / 2, "": None}


def test_an_attention_outside_of_any_other_operator_has_its_own_row(tmp_path: Path) -> None:
    made = Made()
    values = ["", "", "", "", "", "100", "100", "0.", "True"]
    sizes = [[2, 100, 8, 64]] * 3 + [[]] * 6
    call(made, "aten::_flash_attention_forward", [sizes, ["c10::Half"] * 3 + [""] * 6, values], "flash_fwd_kernel")
    (row,) = analysed(tmp_path, made).rows
    assert (row["operator"], row["flop"]) == ("aten::_flash_attention_forward", 2 * 8 * 100 * 100 * (64 + 64))


def test_a_convolution_counts_the_filter_for_each_element_of_its_result(tmp_path: Path) -> None:
    made = Made()
    sizes = [[10, 64, 56, 56], [128, 64, 3, 3], [], [], [], [], []]
    types = ["c10::BFloat16", "c10::BFloat16", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"]
    values = ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]
    call(made, "aten::miopen_convolution", [sizes, types, values], "miopenSp3AsmConv", "transpose")
    (row,) = analysed(tmp_path, made).rows
    result = 10 * 128 * 28 * 28
    assert (row["calls"], row["ns"], row["flop"]) == (1, 20 * US, 2 * result * 64 * 3 * 3)
    assert row["bytes"] == 2 * (10 * 64 * 56 * 56 + 128 * 64 * 3 * 3 + result)


@pytest.mark.parametrize(("arch", "kind", "reason"), [
    (None, "float", "the peak of the device is unknown"), ("gfx942", "c10::Unheard", "the size of a type is unknown"),
])  # fmt: skip
def test_an_unknown_device_or_type_has_no_roofline(tmp_path: Path, arch: str | None, kind: str, reason: str) -> None:
    made = Made()
    call(made, "aten::mm", product(64, 32, 16, kind), "gemm")
    (row,) = analysed(tmp_path, made, arch=arch).rows
    assert (row["least_ns"], row["roofline_pct"], row["reason"]) == (None, None, reason)


def test_only_work_that_begins_in_the_windows_counts(tmp_path: Path) -> None:
    made = Made()
    for i, epsilon in enumerate(("1e-05", "1e-06", "1e-05")):
        sizes = [[8, 512], [], [512], [512], []]
        types = ["float", "ScalarList", "float", "float", "Scalar"]
        call(made, "aten::native_layer_norm", [sizes, types, ["", "[512]", "", "", epsilon]], "norm", at=i * 100 * US)
    result = analysed(tmp_path, made, [Window(0, 50 * US), Window(250 * US, 400 * US)])
    (row,) = result.rows
    assert (row["calls"], row["ns"], row["flop"]) == (1, 10 * US, 5 * 8 * 512)
    whole = analysed(tmp_path / "whole", made)
    assert [(row["calls"], row["flop"]) for row in whole.rows] == [(3, 3 * 5 * 8 * 512)]


LARGEST = (1 << 53) - 1


IMPOSSIBLE = [
    [[[LARGEST] * 60] * 2, ["float"] * 2, ["", ""]], [[[LARGEST, LARGEST]] * 2, ["float"] * 2, ["", ""]],
    [[[1.5, 2], [-2, 3]], ["float"] * 2, ["", ""]], [[[True, 2], [2, -3]], ["float"] * 2, ["", ""]],
    [[["a"], {"b": 1}], [{"c": 2}, ["float"]], [None, 5]], [[[4, 5], [5]], "float", None], [5, 6, 7], [[]], {}, "text",
    [[[0, 2, 3]], ["\ud800"], ["\x00"]],
]  # fmt: skip


def test_impossible_arguments_have_no_figures_and_stop_nothing(tmp_path: Path) -> None:
    made = Made()
    for number, arguments in enumerate([*IMPOSSIBLE, *IMPOSSIBLE]):
        name = "aten::mm" if number < len(IMPOSSIBLE) else "aten::convolution"
        call(made, name, arguments, "kernel", at=number * 100 * US)
    rows = analysed(tmp_path, made).rows
    assert sum(row["ns"] for row in rows) == 2 * len(IMPOSSIBLE) * 10 * US
    assert all(row["least_ns"] is None and row["reason"] for row in rows)


def test_rows_are_selected_along_the_stated_dimension(tmp_path: Path) -> None:
    made, types = Made(), ["float", "Scalar", "long int"]
    for number, dimension in enumerate(("1", "-2", "9", "1e300")):
        stated = [[[5, 6], [], [7 + number]], types, ["", dimension, ""]]
        call(made, "aten::index_select", stated, "index", at=number * 100 * US)
    found = [row["bytes"] for row in analysed(tmp_path, made).rows]
    assert sorted(found, key=str) == [7 * 8 + 2 * 7 * 5 * 4, 8 * 8 + 2 * 8 * 6 * 4, None, None]
