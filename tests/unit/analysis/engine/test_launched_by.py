"""Metrics and times by range of the program: every launch counts in all ranges around it, sampled or counted whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.engine.evaluation import Figure, FigureRequest, figures
from rooflens.analysis.engine.launching_ranges import MOST_RANGES, range_times
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests.unit.analysis.engine.test_multiplexed import counted, launches, store_of, with_ranges
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.list_workloads import list_workloads

PATHS = ["step", "step/forward", "step/forward", "step/forward/mm", "step/backward", "other/forward", None, "stepper"]
"""Of the launches in turn; the second and third are of one range."""
METRICS = ["l2.hit_rate_pct", "dispatch.duration_ns"]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, Manifest]:
    rows = launches(len(PATHS), 6400)
    for i, row in enumerate(rows):
        row |= {"duration_ns": 1000.0 * (i + 1), "TCC_HIT_sum": 100.0 * (i * i + 1)}
    store, plain = store_of(tmp_path, rows, None)
    return store, with_ranges(store, plain, PATHS, "idle")


def by(store: Store, manifest: Manifest, part: str) -> dict[str | None, list[Figure]]:
    with Workload.open(store, manifest.id) as opened:
        found = figures(opened, METRICS, FigureRequest(launched_by=part))  # type: ignore[arg-type]
    groups: dict[str | None, list[Figure]] = {}
    for figure in found:
        groups.setdefault(figure.kernel, []).append(figure)
    return groups


def inside(path: str) -> list[int]:
    return [i for i, own in enumerate(PATHS) if own and f"{own}/".startswith(f"{path}/")]


def test_a_figure_of_a_range_is_that_of_the_launches_within_it(made: tuple[Store, Manifest]) -> None:
    store, manifest = made
    groups = by(store, manifest, "range")
    assert set(groups) == {"step", "step/forward", "step/forward/mm", "step/backward", "other/forward", "stepper",
                           "(no range)"}  # fmt: skip
    for path, of_range in groups.items():
        mine = inside(path) if path and path != "(no range)" else [6]
        with Workload.open(store, manifest.id) as opened:
            expected = figures(opened, METRICS, FigureRequest(dispatches=mine))
        assert [(f.value, f.n) for f in of_range] == [(f.value, f.n) for f in expected], path


def test_ranges_of_one_name_are_one_by_name(made: tuple[Store, Manifest]) -> None:
    store, manifest = made
    groups = by(store, manifest, "range_name")
    assert {name: of_range[0].n for name, of_range in groups.items()} == {
        "step": 5, "forward": 4, "mm": 1, "backward": 1, "stepper": 1, "(no range)": 1,
    }  # fmt: skip


def test_launches_that_were_counted_stand_for_those_of_every_range_around(tmp_path: Path) -> None:
    whole = launches(len(PATHS), 6400)
    for row in whole:  # of one configuration: they do the same work
        row |= {n: v for n, v in whole[0].items() if n != "dispatch_id"}
    groups = []
    for name, rows, sampled in (("all", whole, False), ("some", counted(whole, {0, 3}), True)):
        store, plain = store_of(tmp_path / name, rows, None, sampled=sampled)
        groups.append(by(store, with_ranges(store, plain, PATHS, "idle"), "range"))
    for path, of_range in groups[0].items():
        assert [f.value for f in groups[1][path]] == pytest.approx([f.value for f in of_range]), path


def test_times_of_ranges_hold_those_inside_and_ranges_that_launched_nothing(made: tuple[Store, Manifest]) -> None:
    store, manifest = made
    suggested = [call.arguments for call in list_workloads(store, manifest.id).next]
    assert {"workload": manifest.id, "by": "range"} in suggested
    found = list_workloads(store, manifest.id, by="range")
    assert found.table.columns == ["range", "entered", "launches", "total_ns", "pct", "mean_ns", "host_ns"]
    rows = {row[0]: row for row in found.table.rows}
    with Workload.open(store, manifest.id) as opened:
        times = dict(opened.rows(f"SELECT dispatch_id, duration_ns FROM {opened.relation('dispatches')}"))
    for path in ("step", "step/forward", "stepper"):
        total = sum(times[i] for i in inside(path))
        assert rows[path][1:6] == [1, len(inside(path)), total, pytest.approx(100 * total / sum(times.values())), total]
    assert rows["idle"] == ["idle", 1, 0, None, None, None, 10]
    assert rows["(no range)"][1] is None and rows["(no range)"][2] == 1
    assert "nested in it" in found.notes[0]


def test_the_answer_names_its_rows_ranges_and_says_that_they_overlap(made: tuple[Store, Manifest]) -> None:
    store, manifest = made
    found = compute_metrics(store, manifest.id, METRICS, by="range")
    assert "range" in found.table.columns and "kernel" not in found.table.columns
    assert any("every range around it" in note for note in found.notes)
    only = compute_metrics(store, manifest.id, ["dispatch.duration_ns"], by="range", dispatches=[3])
    assert {row[only.table.columns.index("range")] for row in only.table.rows} == {
        "step",
        "step/forward",
        "step/forward/mm",
    }


def test_without_ranges_that_is_said(tmp_path: Path) -> None:
    store, plain = store_of(tmp_path, launches(2, 6400), None)
    with pytest.raises(BadArgument, match="has no ranges"):
        compute_metrics(store, plain.id, by="range")
    with pytest.raises(BadArgument, match="profile_command"):
        list_workloads(store, plain.id, by="range")


def test_of_many_ranges_those_with_the_most_time_are_given_and_the_others_counted(tmp_path: Path) -> None:
    count = MOST_RANGES + 5
    store, plain = store_of(tmp_path, launches(count, 6400), None)
    manifest = with_ranges(store, plain, [f"step {i}" for i in range(count)], "idle")
    found = compute_metrics(store, manifest.id, ["dispatch.duration_ns"], by="range", limit=1000)
    assert found.table.total_rows == MOST_RANGES and any("5 ranges" in note for note in found.notes)
    with Workload.open(store, manifest.id) as opened:
        assert len(range_times(opened)) == count + 1, "with the one that launched nothing"
