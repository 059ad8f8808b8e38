"""Launch configurations in every tool: one kernel launched in two sizes, told apart on request and by number."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import flop, traffic, workload
from rooflens.tools.base.results import Table
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.list_workloads import list_workloads


def rows_of(kernel: str, count: int, grid: int, ns: float, **launch: float) -> list[dict[str, Any]]:
    """Launches whose traffic and operations grow with the grid."""
    scale = grid / 65536
    work = traffic(0.001 * scale) | flop(1e6 * scale)
    return [
        {"kernel": kernel, "grid": grid, "vgpr": 32, "duration_ns": ns + 10 * i, **work, **launch} for i in range(count)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A workload in which a kernel is launched in two sizes, and another in one; and further versions of it."""
    made = Store(tmp_path_factory.mktemp("configurations"))
    tile = "tile<4>(float*)"
    small, large = rows_of(tile, 8, 65536, 5e3), rows_of(tile, 6, 6553600, 4e5)
    workload(made, [*small, *large, *rows_of("copy", 5, 131072, 1e4, vgpr=16)], name="w")
    workload(made, [*rows_of(tile, 80, 65536, 5e4), *rows_of(tile, 6, 6553600, 2e5)], name="faster")
    changed = rows_of(tile, 7, 65536, 5e3, vgpr=64, lds_bytes=4096)
    workload(made, [*changed, *rows_of(tile, 7, 3276800, 1e5, vgpr=64, lds_bytes=4096)], name="retiled")
    halves = [*rows_of("tile", 1, 65536, 3e5), *rows_of("tile", 1, 6553600, 3e5)]
    workload(made, [*halves, *rows_of("copy", 1, 131072, 4e5)], name="halves")
    return made


def records(found: Table | None) -> list[dict[str, Any]]:
    assert found is not None
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_kernels_say_how_many_configurations_they_have_and_each_has_a_row_on_request(store: Store) -> None:
    assert [(r["kernel"], r["configurations"]) for r in records(list_workloads(store, "w").table)] == [
        ("tile<4>(float*)", 2),
        ("copy", 1),
    ]
    apart = records(list_workloads(store, "w", by="launch").table)
    assert [(r["number"], r["kernel"], r["configuration"], r["calls"], r["grid"]) for r in apart] == [
        ("#1.1", "tile<4>(float*)", "25600 x 256", 6, 6553600),
        ("#2.1", "copy", "512 x 256", 5, 131072),
        ("#1.2", "tile<4>(float*)", "256 x 256", 8, 65536),
    ]
    assert sum(r["pct"] for r in apart) == pytest.approx(100)


def test_the_share_of_a_kernel_is_that_of_all_its_configurations(store: Store) -> None:
    for by in ("kernel", "launch"):
        assert list_workloads(store, "halves", by=by).answer.endswith("of which tile takes 60.0 %.")


def test_metrics_of_configurations_are_those_of_their_launches(store: Store) -> None:
    metrics = ["dispatch.duration_ns", "fabric.read_bw_gbs"]
    apart = records(compute_metrics(store, "w", metrics, by="launch").table)
    assert list(dict.fromkeys(r["number"] for r in apart)) == ["#1.1", "#2.1", "#1.2"]
    for number, ids in (("#1.1", "8-13"), ("#1.2", "0-7"), ("#2.1", "14-18")):
        alone = records(compute_metrics(store, "w", metrics, dispatches=ids).table)
        one = records(compute_metrics(store, "w", metrics, kernel=number).table)
        assert [r["avg"] for r in apart if r["number"] == number] == [r["avg"] for r in alone]
        assert [(r["avg"], r["n"]) for r in one] == [(r["avg"], r["n"]) for r in alone]


def test_a_rank_a_name_and_a_pattern_mean_all_configurations_of_a_kernel(store: Store) -> None:
    def numbers(kernel: str) -> set[str]:
        return {r["number"] for r in records(compute_metrics(store, "w", ["2"], kernel=kernel, by="launch").table)}

    assert numbers("#1") == numbers("^tile.*\\)$") == numbers("tile<4>(float*)") == {"#1.1", "#1.2"}
    assert numbers("#1.2,#2") == {"#1.2", "#2.1"}
    with pytest.raises(NotFound, match="no launch configuration #1.3"):
        compute_metrics(store, "w", kernel="#1.3")
    with pytest.raises(NotFound, match="None of the requested dispatches"):
        compute_metrics(store, "w", kernel="#2.1", dispatches=[0])


def test_by_kernel_is_another_word_for_by(store: Store) -> None:
    one, other = (compute_metrics(store, "w", ["2"], **word).table for word in ({"by": "kernel"}, {"by_kernel": True}))
    assert one == other
    with pytest.raises(BadArgument, match="exclude each other"):
        compute_metrics(store, "w", by="launch", by_kernel=True)


def test_the_roofline_of_configurations_adds_up_to_that_of_the_kernel(store: Store) -> None:
    apart = records(compute_roofline(store, "w", by="launch", kernel="#1", levels=["hbm"], limit=9).points)
    (whole,) = records(compute_roofline(store, "w", kernel="#1", levels=["hbm"]).points)
    assert [p["number"] for p in apart] == ["#1.1", "#1.2"]
    for name in ("bytes", "operations", "time_ns", "n"):
        assert sum(p[name] for p in apart) == pytest.approx(whole[name], rel=1e-9), name
    (one,) = records(compute_roofline(store, "w", kernel="#1.2", levels=["hbm"]).points)
    assert one["bytes"] == apart[1]["bytes"]


def test_a_figure_over_configurations_that_differ_says_so_and_how_to_tell_them_apart(store: Store) -> None:
    text = "#1 has 2 launch configurations, from 5.04 us to 400 us a launch; by='launch' or kernel='#1.1'"
    for tool in (compute_metrics, compute_roofline, diagnose_bottleneck):
        found = tool(store, "w", kernel="#1")
        assert any(text in note for note in found.notes), tool
        again = next(call for call in found.next if call.arguments.get("by") == "launch")
        assert again.tool == tool.__name__ and tool(store, **again.arguments)
    for kernel in ("#2", "#1.1"):
        assert not any("launch configurations, from" in n for n in compute_metrics(store, "w", kernel=kernel).notes)


def test_configurations_of_two_versions_face_each_other_by_name(store: Store) -> None:
    found = compare_workloads(store, "w", "faster", by="launch")
    rows = {r["kernel"]: r for r in records(found.kernels)}
    assert rows["tile<4>(float*) [25600 x 256]"]["speedup"] == pytest.approx(2, rel=0.01)
    assert rows["tile<4>(float*) [256 x 256]"]["speedup"] == pytest.approx(0.1, rel=0.01)
    assert found.only_in_baseline == ["copy [512 x 256]"]
    (one,) = records(compare_workloads(store, "w", "faster", kernel="#1.2").kernels)
    assert one["kernel"] == "tile<4>(float*) [256 x 256]", "its number is #1.1 in the other workload"


def test_changes_of_the_launch_are_told_and_other_shapes_compared_by_their_sums(store: Store) -> None:
    found = compare_workloads(store, "w", "retiled", kernel="#1")
    told = {r["quantity"]: (r["baseline"], r["candidate"]) for r in records(found.launch)}
    assert told == {"grid": ("65536, 6553600", "65536, 3276800"), "vgpr": (32, 64), "lds_bytes": (0, 4096)}
    (row,) = records(found.kernels)
    before, after = (8 * 5035 + 6 * 400025) / 14, (5030 + 100030) / 2
    assert row["speedup"] == pytest.approx(before / after, rel=1e-3)


def test_a_dispatch_that_is_not_there_is_told_by_every_tool_that_takes_dispatches(store: Store) -> None:
    for tool in (compute_metrics, compute_roofline):
        assert "No dispatch 900: ids go from 0 to 18." in tool(store, "w", dispatches=[0, 900]).notes
