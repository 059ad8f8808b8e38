"""Single launches that took much longer than their like are told; kernels that run in two ways are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.launches.outliers import notes
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import launches, workload


def told(folder: Path, **times: list[float]) -> list[str]:
    """The notes on a workload of kernels with these times of their launches in ns, in turn."""
    store = Store(folder / "store")
    rows = [row for kernel, each in times.items() for row in launches(kernel, each)]
    with Workload(store, workload(store, rows, name="w")) as opened:
        return [note.text for note in notes(opened, opened.kernels)]


def test_a_launch_of_three_times_the_median_is_told_with_its_dispatch(tmp_path: Path) -> None:
    assert told(tmp_path, gemm=[14840, 46080, 12480], copy=[9000, 9100, 9050]) == [
        "#1: launch 2 of 3 (dispatch 1) took 46.1 us, 3.1 x the median of 14.8 us. Total and mean include it."
    ]


def test_further_outliers_of_a_kernel_are_counted(tmp_path: Path) -> None:
    (note,) = told(tmp_path, gemm=[*[1000.0] * 38, 9000.0, 8000.0])
    assert "launch 39 of 40 (dispatch 38) took 9 us, 9.0 x the median of 1 us; 1 more took over 2 x the median" in note


@pytest.mark.parametrize(
    "times",
    [
        pytest.param([1000, 5000], id="two launches have no median"),
        pytest.param([1000] * 6 + [5000] * 4, id="runs in two ways"),
        pytest.param([1000] * 99 + [2500], id="hardly any of its time"),
        pytest.param([0, 0, 0], id="no time"),
    ],
)
def test_what_is_no_outlier_is_not_told(times: list[float], tmp_path: Path) -> None:
    assert told(tmp_path, gemm=times) == []


def test_an_outlier_of_a_kernel_without_weight_is_not_told(tmp_path: Path) -> None:
    assert told(tmp_path, gemm=[1e6, 1e6, 1e6], copy=[100, 100, 900]) == []
