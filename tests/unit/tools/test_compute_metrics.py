"""compute_metrics, search_metrics and list_workloads on the shipped samples, whose figures are published."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import flop, launches, workload
from rooflens.tests.support.recordings import stored
from rooflens.tools.base.results import Table
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.search_metrics import search_metrics

# Printed in the LUMI training's exercise 5, per wave: id -> before, after. Digits as printed.
PUBLISHED = {
    "16.3.0": ("524368.00", "16448.00"), "16.3.1": ("524304.00", "16384.00"), "16.3.2": ("0.00", "0.00"),
    "16.3.3": ("64.00", "64.00"), "16.3.5": ("49.98", "69.61"), "16.3.6": ("131140.00", "4097.00"),
    "16.3.7": ("65538.00", "2852.00"), "16.3.8": ("0.05", "0.05"), "16.3.10": ("65538.00", "1244.00"),
    "16.3.12": ("64.00", "1.00"), "16.3.13": ("483.56", "748.90"), "16.3.14": ("392.95", "580.90"),
    "16.3.15": ("6198.37", "236.73"), "16.4.3": ("65538.00", "1244.00"), "17.2.3": ("0.01", "0.03"),
    "17.2.9": ("266.15", "541.56"), "17.2.10": ("480.86", "482.00"), "17.3.1": ("32948.97", "623.44"),
    "17.3.2": ("32884.77", "622.45"), "17.3.4": ("64.00", "1.00"), "17.3.7": ("0.52", "17.65"),
    "17.3.8": ("172.26", "110.02"), "17.3.9": ("32776.71", "513.42"), "17.3.10": ("0.02", "0.02"),
    "17.3.13": ("32740.59", "481.25"), "17.3.15": ("0.03", "0.03"), "17.3.16": ("3.93", "0.17"),
    "17.3.18": ("32945.00", "623.25"),
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def records(found: Table) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@pytest.mark.parametrize(("workload", "column"), [("yax_before", 0), ("yax_after", 1)])
def test_the_samples_rebuild_the_published_figures_to_their_last_digit(
    samples: Store, workload: str, column: int
) -> None:
    found = compute_metrics(samples, workload, metrics=list(PUBLISHED), normalization="per_wave")
    printed = {r["id"]: f"{r['avg']:.2f}" for r in records(found.table)}
    assert printed == {id: both[column] for id, both in PUBLISHED.items()}


def test_limit_and_offset_page_through_all_metrics(samples: Store) -> None:
    whole = compute_metrics(samples, "yax_before", metrics=["17"], limit=1000).table
    pages = [compute_metrics(samples, "yax_before", metrics=["17"], limit=20, offset=o).table for o in (0, 20, 40)]
    assert [row for page in pages for row in page.rows] == whole.rows
    assert [p.truncated for p in pages] == [True, True, False]


def test_workloads_are_listed_newest_first_and_damaged_ones_by_name(samples: Store, tmp_path: Any) -> None:

    store = Store(shutil.copytree(samples.root, tmp_path / "copy"))
    (store.root / "notes.txt").write_text("mine")
    newest = store.resolve("yax_after")
    (store.root / f"workload={newest.id}" / "counters.parquet").write_bytes(b"PAR1")
    found = list_workloads(store)
    assert [r["name"] for r in records(found.table)] == ["yax_before"]
    assert any("notes.txt" in n for n in found.notes) and any("counters.parquet is truncated" in n for n in found.notes)


def test_an_empty_store_says_how_to_begin(tmp_path: Any) -> None:
    assert "import_profile" in (list_workloads(Store(tmp_path)).answer or "")
    with pytest.raises(NotFound, match="empty"):
        compute_metrics(Store(tmp_path), "latest")


def test_search_ranks_an_exact_name_first_and_suggests_near_names(samples: Store) -> None:
    assert records(search_metrics(samples, "l2.hit_rate_pct").table)[0]["name"] == "l2.hit_rate_pct"
    every = search_metrics(samples, "l2", limit=60).table.total_rows
    pages = [search_metrics(samples, "l2", offset=offset, limit=every - offset).table for offset in (0, 2)]
    assert [(len(one.rows), one.truncated) for one in pages] == [(every, False), (every - 2, False)]
    assert search_metrics(samples, "l2", limit=every - 1).table.truncated
    nothing = search_metrics(samples, "l2.hit_rote_pct")
    assert nothing.table.rows == [] and "l2.hit_rate_pct" in nothing.notes[0]


def test_search_knows_what_a_vector_instruction_and_a_normalization_are_called(samples: Store) -> None:
    found = search_metrics(samples, "vector instructions per wave")
    assert "valu.instructions" in {r["name"] for r in records(found.table)}
    assert any("use gpu=" in note for note in found.notes)
    one = search_metrics(samples, "vector instructions per wave", gpu="gfx908")
    assert "valu.chart_instructions" in [r["name"] for r in records(one.table)][:3]
    assert not any("use gpu=" in note for note in one.notes)


def test_one_unknown_name_loses_only_itself(samples: Store) -> None:
    found = compute_metrics(samples, "yax_before", metrics=["l2.hit_rate_pct", "l2.hitrate_pct", "hbm.nothing_of_it"])
    assert [r["name"] for r in records(found.table)] == ["l2.hit_rate_pct"]
    told = " ".join(found.notes)
    assert "Unknown metric 'l2.hitrate_pct'. Near names: l2.hit_rate_pct" in told and "hbm.nothing_of_it" in told
    with pytest.raises(BadArgument, match="Unknown metric"):
        compute_metrics(samples, "yax_before", metrics=["l2.hitrate_pct"])


def test_words_of_the_field_are_answered_with_the_metrics_that_fit(samples: Store) -> None:
    told = compute_metrics(samples, "yax_before", ["l2.hit_rate_pct", "HBM read bandwidth", "nothing.at_all"]).notes[:2]
    assert told[0].startswith("Unknown metric 'HBM read bandwidth'. Matching metrics: hbm.read_bw_gbs, ")
    assert sum(map(len, told)) < 400, "how names are given need not be said for each"
    with pytest.raises(BadArgument) as refused:
        compute_metrics(samples, "yax_before", ["achieved occupancy", "hbm.bw_pct"])
    assert "'achieved occupancy'" in refused.value.text and "hbm.bw_gbs" in refused.value.text


def test_a_preset_lists_zeros_and_gaps_by_name_and_rows_have_them_if_asked_for(samples: Store) -> None:
    short, full = (compute_metrics(samples, "yax_before", detail=detail) for detail in ("summary", "full"))
    names = {r["name"] for r in records(short.table)}
    folded = {*short.zeros, *(name for group in short.without_value.values() for name in group)}
    rows = {r["name"]: r for r in records(full.table)}
    assert folded and not names & folded and names | folded == set(rows)
    assert all(rows[name]["avg"] == 0 for name in short.zeros)
    assert all(
        rows[n]["avg"] is None and rows[n]["status"] == s for s, group in short.without_value.items() for n in group
    )
    assert all(r["avg"] == pytest.approx(rows[r["name"]]["avg"], rel=1e-5) for r in records(short.table))
    missing = short.without_value["not_collected"][0]
    (row,) = records(compute_metrics(samples, "yax_before", metrics=[missing]).table)
    assert (row["name"], row["status"], row["avg"]) == (missing, "not_collected", None) and row["reason"]


def test_channels_are_one_row_with_their_imbalance_unless_asked_for_one_by_one(store: Store, shared: Path) -> None:
    done = stored(store, shared / "workloads" / "vcopy" / "MI200").id
    short = compute_metrics(store, done, ["18", "18.2.7"])
    every = records(compute_metrics(store, done, ["18"], detail="full", limit=1000).table)
    assert short.channels is not None and not any("[" in r["name"] for r in records(short.table) if r["id"] != "18.2.7")
    rows = {row["name"]: row for row in records(short.channels)}
    values = [r["avg"] for r in every if r["name"].startswith("l2.channel_read_req[")]
    read = rows["l2.channel_read_req"]
    assert (read["channels"], read["min"], read["max"]) == pytest.approx((32, min(values), max(values)), rel=1e-5)
    assert read["imbalance_pct"] == pytest.approx(100 * (1 - sum(values) / 32 / max(values)), rel=1e-4)
    nothing = rows["atomics.fabric_channel_latency_cycles"]
    assert (nothing["mean"], nothing["status"]) == (None, "undefined") and "denominator" in nothing["reason"]
    assert compute_metrics(store, done, ["18"], detail="full").channels is None


def test_unusable_times_are_called_so_and_no_counters_are_planned_against_them(store: Store, shared: Path) -> None:
    broken = stored(store, shared / "workloads" / "vcopy" / "MI300X_A1")
    found = compute_metrics(store, broken.id, metrics=["hbm.bw_gbs"])
    assert "start and end are missing, equal" in records(found.table)[0]["reason"]
    assert "profile_command" in " ".join(found.notes) and not found.next


def test_a_pattern_that_fits_several_kernels_gives_each_a_row_unless_asked_otherwise(
    store: Store, shared: Path
) -> None:
    many = stored(store, shared / "workloads" / "mixbench" / "MI200")
    each = compute_metrics(store, many.id, metrics=["hbm.bw_gbs"], kernel="<double")
    assert each.answer == "33 of 33 figures of the 33 kernels of mixbench that <double fits have a value."
    assert len({row["kernel"] for row in records(each.table)}) == 33
    one = compute_metrics(store, many.id, metrics=["hbm.bw_gbs"], kernel="<double", by="all")
    assert one.answer.startswith("hbm.bw_gbs of the 33 kernels of mixbench that <double fits is ")
    assert [row["kernel"] for row in records(one.table)] == [None]
    assert "measured ceilings" in " ".join(one.notes), "roofline.csv came with the profile"
    first = compute_metrics(store, many.id, metrics=["hbm.bw_gbs"], kernel="#1")
    assert first.answer.startswith("hbm.bw_gbs of kernel #1 of mixbench is ")


def test_kernels_are_ordered_by_a_metric_and_counts_are_summed_over_launches(samples: Store) -> None:
    found = compute_metrics(samples, "yax_before", metrics=["l2.req", "l2.hit_rate_pct"], total=True)
    by_name = {row["name"]: row for row in records(found.table)}
    assert by_name["l2.req"]["total"] == pytest.approx(by_name["l2.req"]["avg"] * by_name["l2.req"]["n"])
    assert by_name["l2.hit_rate_pct"]["total"] is None, "a ratio has no sum"
    assert any(note.startswith("total: ") for note in found.notes)


def test_the_time_has_a_total_which_ranks_kernels(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    workload(store, [*launches("often", [100.0] * 9, **flop(1e6)), *launches("long", [300.0], **flop(1e6))], name="w")
    wanted: dict[str, Any] = {"metrics": ["dispatch.duration_ns"], "order_by": "dispatch.duration_ns"}
    by_total = records(compute_metrics(store, "w", **wanted, total=True).table)
    assert [(row["kernel"], row["avg"], row["total"]) for row in by_total] == [("often", 100, 900), ("long", 300, 300)]
    assert [row["kernel"] for row in records(compute_metrics(store, "w", **wanted).table)] == ["long", "often"]


def test_orders_and_sums_that_mean_nothing_are_refused(samples: Store) -> None:
    with pytest.raises(BadArgument, match="not one metric"):
        compute_metrics(samples, "yax_before", order_by="overview")
    with pytest.raises(BadArgument, match="counts per launch"):
        compute_metrics(samples, "yax_before", total=True, normalization="per_wave")
