"""The questions about one workload: the figures of the tools, whole, with units, reasons and types for pandas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib.figure
import pytest

import rooflens
from rooflens.analysis.store.store import Store
from rooflens.server.mcp.toolbox import call

Profile = Callable[..., Path]


def test_metrics_are_those_of_the_tool_with_every_digit(store: rooflens.OpenStore) -> None:
    found = store["yax_before"].metrics("*").df()
    tool = call(
        Store(store.root),
        "compute_metrics",
        {"workload": "yax_before", "metrics": ["*"], "detail": "full", "limit": 100000},
    )
    table = tool.table  # type: ignore[attr-defined]
    assert list(found.columns) == table.columns and len(found) == table.total_rows > 100
    avg = [row[table.columns.index("avg")] for row in table.rows]
    assert [None if math.isnan(v) else v for v in found["avg"]] == avg


def test_a_figure_that_is_missing_is_nan_with_its_reason(store: rooflens.OpenStore) -> None:
    found = store["yax_before"].metrics(["occupancy.waves", "l2.hit_rate_pct"]).df().set_index("name")
    assert found["avg"].dtype == found["peak"].dtype == "float64"
    assert math.isnan(found.loc["occupancy.waves", "avg"])
    assert "SQ_LEVEL_WAVES_ACCUM missing" in found.loc["occupancy.waves", "reason"]
    assert found.loc["l2.hit_rate_pct", "avg"] == pytest.approx(0.522808, rel=1e-5)
    assert found.loc["l2.hit_rate_pct", "unit"] == "%"


def test_units_and_notes_are_plain_attributes_that_survive_selection(store: rooflens.OpenStore) -> None:
    kernels = store["yax_before"].kernels().df()
    assert kernels.attrs["units"]["total_ns"] == "ns" and kernels[kernels.calls > 0].attrs["units"]["pct"] == "%"
    assert json.loads(json.dumps(kernels.attrs)) == kernels.attrs


def test_times_beyond_the_precision_of_floating_point_are_exact(tmp_path: Path, profile: Profile) -> None:
    store = rooflens.open(tmp_path / "store")
    folder = profile()
    text = (folder / "pmc_perf.csv").read_text().splitlines()
    start = 2**60 + 1
    text[1] = f"0,k,64,256,64,{start},{start + 501},10"
    (folder / "pmc_perf.csv").write_text("\n".join(text) + "\n")
    w = store.import_profile(folder, name="late")
    assert start in set(w.sql("FROM dispatches").df()["start_ns"])
    sums = w.sql(
        "SELECT sum(start_ns) AS s, CASE WHEN dispatch_id = 0 THEN start_ns END AS some FROM dispatches GROUP BY ALL"
    ).df()
    assert sums["s"].dtype == "int64" and start in set(sums["s"])
    assert sums["some"].dtype == "Int64" and start in set(sums["some"].dropna()) and sums["some"].isna().any()


def test_launches_are_selected_by_ids_in_a_series_or_a_range(shipped: rooflens.OpenStore) -> None:
    w = shipped["matmul_fp64"]
    ids = w.sql("FROM dispatches").df().dispatch_id
    for dispatches, count in ((ids.head(1), 1), (range(10**4), len(ids))):
        assert w.metrics("dispatch.duration_ns", dispatches=dispatches).df()["n"].item() == count
    with pytest.raises(rooflens.Problem, match="No kernel of 'matmul_fp64' matches 'nope'"):
        w.roofline("nope")
    with pytest.raises(rooflens.Problem, match="dispatches cannot be read"):
        w.metrics(dispatches=["x"])


def test_a_wrong_argument_is_told_with_what_is_allowed(store: rooflens.OpenStore) -> None:
    with pytest.raises(rooflens.Problem, match="normalization: it must be one of per_kernel"):
        store["yax_before"].metrics(normalization="per_moon")
    with pytest.raises(rooflens.Problem, match="Unknown metric 'l2.hit_rat'.*l2.hit_rate_pct"):
        store["yax_before"].metrics("l2.hit_rat")


def test_metrics_that_are_none_are_the_overview_and_a_number_is_refused(store: rooflens.OpenStore) -> None:
    w = store["yax_before"]
    assert list(w.metrics(None).df()["name"]) == list(w.metrics().df()["name"])
    with pytest.raises(rooflens.Problem, match="metrics: it must be a list"):
        w.metrics(5)


def test_what_has_no_picture_shows_itself_without_one(
    store: rooflens.OpenStore, tmp_path: Path, profile: Profile
) -> None:
    found = store.occupancy("gfx90a", vgprs=64, workgroup_size=256)
    assert found.png is None and "<img" not in found._repr_html_() and "waves_per_cu" in found._repr_html_()
    bare = rooflens.open(tmp_path / "store").import_profile(profile(), name="bare")

    def fail() -> None:
        raise rooflens.Problem("A font is <missing>")

    found = store["yax_before"].roofline()
    found._draw = fail  # type: ignore[assignment]
    assert found.png is None and found.svg is None
    assert "No picture: A font is" in found._repr_html_() and "<missing>" not in found._repr_html_()
    for kind in ("speed_of_light", "host"):
        with pytest.raises(rooflens.Problem):
            bare.plot(kind)


def test_pictures_are_drawn_by_their_kinds(store: rooflens.OpenStore) -> None:
    w = store["yax_before"]
    assert w.plot("speed_of_light", "#1").axes
    with pytest.raises(rooflens.Problem, match="There is no picture 'hosts'.*Near names: host"):
        w.plot("hosts")  # type: ignore[arg-type]


def test_a_roofline_has_points_ceilings_and_the_picture_of_the_tool(
    shipped: rooflens.OpenStore, tmp_path: Path
) -> None:
    found = shipped["matmul_fp64"].roofline(datatype="f64", levels=["hbm"], ceiling_source="theoretical")
    points, ceilings = found.df(), found.df("ceilings")
    assert len(points) == 6 and points["intensity"].notna().all()
    assert points.attrs["units"]["time_ns"] == "ns" and points["time_ns"].dtype == "int64"
    assert {"hbm.bw", "valu.f64"} <= set(ceilings["ceiling"]) and (ceilings["kind"] == "theoretical").all()
    assert set(found.df("pipes")["bound"]) <= {"memory", "compute", "latency", "unknown"}
    assert found.png and found.png.startswith(b"\x89PNG") and found.svg and found.svg.startswith(b"<?xml")
    drawn = set(re.findall(r'id="([\w.-]+)"', found.svg.decode()))
    assert any(gid.startswith("point-1-hbm") for gid in drawn)
    assert "level-l2" in drawn or len([gid for gid in drawn if str(gid).startswith("point-1-")]) == 1


def test_a_roofline_is_drawn_on_small_axes_of_someone_else_without_collisions(shipped: rooflens.OpenStore) -> None:
    figure = matplotlib.figure.Figure(figsize=(6, 2.2))
    left, axes = figure.subplots(1, 2)
    found = shipped["matmul_fp64"].roofline(datatype="f64")
    assert found.plot(ax=axes) is figure and not left.lines
    points = [line for line in axes.lines if str(line.get_gid()).startswith("point-")]
    rows = found.df()
    drawn = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in points}  # type: ignore[index, arg-type]
    assert drawn <= set(zip(rows.intensity, rows.performance, strict=True)) and len(drawn) >= 5
    assert axes.get_xscale() == "log" and "matmul_fp64" in axes.get_title()
    figure.canvas.draw()
    inside = axes.get_window_extent()
    boxes = [line.get_window_extent() for line in points]
    numbers = [text.get_window_extent() for text in axes.texts if text.get_weight() == "bold"]
    assert len(numbers) > 2 and all(box.height > 4 and inside.containsx(box.x0) for box in numbers)
    assert min(box.y0 for box in boxes) > inside.y0 + 0.02 * inside.height
    hit = [(a, b) for i, a in enumerate(numbers) for b in numbers[i + 1 :] if a.shrunk(0.8, 0.8).overlaps(b)]
    assert hit == []
    ceilings = [text.get_window_extent() for text in axes.texts if text.get_weight() != "bold"]
    assert all(box.x0 >= inside.x0 - 2 for box in ceilings)


def test_a_comparison_has_whole_names_verdict_and_what_changed(store: rooflens.OpenStore) -> None:
    found = store.compare("yax_before", store["yax_after"])
    assert (found.verdict, found.same_work) == ("inconclusive", "no")
    assert found.df()["kernel"].item() == store["yax_before"].kernels().df()["kernel"].item()
    assert found.df("kernels")["speedup"].item() == pytest.approx(33.58, rel=1e-3)
    assert "l2.hit_rate_pct" in set(found.df("metrics")["metric"]) and "hbm_bytes" in set(found.df("work")["quantity"])
    assert "not like for like" in found._repr_html_() and "inconclusive" in repr(found)
    assert len(found.df("explanation")) and found.df("lines").empty
    text = " ".join(label.get_text() for label in found.plot().texts)
    assert "Verdict: inconclusive. Same work: no." in text and "not checked" not in text


def test_hot_lines_and_a_lack_of_them(shipped: rooflens.OpenStore, store: rooflens.OpenStore) -> None:
    found = shipped["h200_lines"].hotspots()
    assert (
        len(found.df()) > 5
        and found.df()["pct"].is_monotonic_decreasing
        and found.kernel.partition("(")[0] in repr(found)
    )
    with pytest.raises(rooflens.Problem, match="no samples"):
        store["yax_before"].hotspots()


def test_a_report_is_the_page_of_the_command(store: rooflens.OpenStore, tmp_path: Path) -> None:
    written = store.report("yax_before", "yax_after", output=tmp_path / "page.html")
    assert written == tmp_path / "page.html" and "yax_after" in written.read_text()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(rooflens.Problem, match="is not a report"):
        store["yax_before"].report(tmp_path / "mine.txt")


def test_names_of_others_cannot_act_in_a_notebook(tmp_path: Path, profile: Profile) -> None:
    store = rooflens.open(tmp_path / "store")
    evil = '</td><script>alert(1)</script><img src=x onerror="alert(2)">$\\frac{1}{0}$'
    for n, name in enumerate(("v1", "<b>v2</b>")):
        store.import_profile(profile(evil, f"made{n}"), name=name, gpu="gfx90a")
    w = store["v1"]
    assert w.kernels().df()["kernel"].item() == evil.strip(), "data are not changed"
    shown = [store, w.roofline(), store.compare("v1", "<b>v2</b>"), w.timeline(), w.kernels(), w.sql("FROM counters")]
    pages = [thing._repr_html_() for thing in shown]  # type: ignore[attr-defined]
    for page in pages:
        assert "<script" not in page and "<img src=x" not in page and "<b>" not in page
    assert any("&lt;script" in page for page in pages)
    assert "data:image/png" in pages[3], "also the picture is drawn"


def test_an_answer_has_text_tables_and_values_by_their_names(store: rooflens.OpenStore) -> None:
    found = store["yax_before"].diagnose()
    assert {"total_kernels", "df"} <= set(dir(found)) and {"kernels", "kernels.findings"} <= set(found.tables)
    assert found.total_kernels == 1 and json.loads(found.json)["total_kernels"] == 1
    assert found.text == repr(found) and (found.result.answer or "-") in found.text
    assert "; " in found.df("kernels.findings")["advice"].iloc[0]
    evidence = found.df("kernels.findings.evidence")
    assert evidence["kernel"].nunique() == 1 and set(evidence["number"]) == {"#1"}
    with pytest.raises(AttributeError, match="Near names: total_kernels"):
        found.total_kernel  # noqa: B018
    with pytest.raises(AttributeError, match="kernels is a table"):
        found.kernels  # noqa: B018
    with pytest.raises(rooflens.Problem, match="no table 'arch'.*Tables: .*findings"):
        found.df("arch")
    with pytest.raises(rooflens.Problem, match="cannot be drawn on other axes"):
        store.compare("yax_before", "yax_after").plot(ax=matplotlib.figure.Figure().subplots())


def test_rows_of_a_query_are_an_answer(store: rooflens.OpenStore) -> None:
    found = store.sql("SELECT i, NULL::BIGINT AS none FROM range(5000) t(i)")
    assert len(found.df()) == 5000 and found.tables == ["table"] and "of 5000 rows" in found.text
    told = json.loads(found.json)["table"]
    assert (len(told["rows"]), told["total_rows"], told["truncated"]) == (1000, 5000, True)
    with pytest.raises(rooflens.Problem, match="no table 'rows'"):
        found.df("rows")


def test_missing_values_of_every_type_stay_missing(store: rooflens.OpenStore) -> None:
    kinds = {"BIGINT": "Int64", "UTINYINT": "UInt8", "BOOLEAN": "boolean", "DOUBLE": "float64"}
    columns = ", ".join(f"if(i = 0, 1, NULL)::{kind} AS {kind.lower()}" for kind in kinds)
    found = store.sql(f"SELECT {columns}, if(i = 0, 'a', NULL) AS text FROM range(2) t(i) ORDER BY i").df()
    assert {name: str(found[name.lower()].dtype) for name in kinds} == kinds
    assert found.iloc[0].notna().all() and found.iloc[1].isna().all()
