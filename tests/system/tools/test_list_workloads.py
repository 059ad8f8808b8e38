"""list_workloads of one workload: what stands beside the table, so that its order and its times are not misread."""

from __future__ import annotations

import re
from pathlib import Path

from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import flop, launches, traffic, workload
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters


def stored(folder: Path, **times: list[float]) -> Store:
    """A store of one workload of kernels with these times of their launches in ns."""
    store = Store(folder / "store")
    rows = [row for kernel, each in times.items() for row in launches(kernel, each, **traffic(0.001), **flop(1e6))]
    workload(store, rows, name="w")
    return store


def test_a_near_tie_is_told_and_a_clear_order_is_not(tmp_path: Path) -> None:
    near = list_workloads(stored(tmp_path / "near", a=[19680.0], b=[19640.0], c=[60680.0 - 49320]), "w")
    assert any(note.startswith("#1 and #2 are nearly equal") for note in near.notes)
    clear = list_workloads(stored(tmp_path / "clear", a=[20000.0], b=[19000.0]), "w")
    assert clear.notes == ["All 2 rows together take 39 us."]
    assert "the largest share" in clear.next[0].why


def test_the_rows_shown_are_told_as_a_share_of_all_time(tmp_path: Path) -> None:
    store = stored(tmp_path, a=[50000.0], b=[30000.0], c=[20000.0])
    assert "Rows 1 to 2 of 3 take 80.0 % of 100 us." in list_workloads(store, "w", limit=2).notes
    assert "Rows 3 to 3 of 3 take 20.0 % of 100 us." in list_workloads(store, "w", limit=2, offset=2).notes
    assert list_workloads(store, "w", offset=3).notes == []


def test_an_outlying_launch_is_told_by_the_list_and_by_the_diagnosis(tmp_path: Path) -> None:
    store = stored(tmp_path, a=[14840.0, 46080.0, 12480.0])
    told = "#1: launch 2 of 3 (dispatch 1) took 46.1 us, 3.1 x the median of 14.8 us. Total and mean include it."
    assert list_workloads(store, "w").notes == [told]
    assert told in list_workloads(store, "w", by="launch").notes[0].replace("#1.1:", "#1:")
    assert told in diagnose_bottleneck(store, "w").notes


def test_of_several_workloads_it_is_told_how_to_find_the_one_with_a_kernel(tmp_path: Path) -> None:
    store = stored(tmp_path, a=[1.0])
    assert list_workloads(store).notes == []
    workload(store, launches("b", [1.0]), name="other")
    (note,) = list_workloads(store).notes
    assert "SELECT DISTINCT workload, kernel FROM dispatches WHERE kernel ILIKE" in note


def test_times_are_iso_8601_in_utc_as_everywhere(tmp_path: Path) -> None:
    store = stored(tmp_path, a=[1.0])
    of_one = list_workloads(store, "w").workload
    listed = list_workloads(store).table
    assert of_one and listed.rows[0][listed.columns.index("created")] == of_one.created
    assert query_counters(store, "SELECT created FROM workloads").table.rows == [[of_one.created]]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", of_one.created)
