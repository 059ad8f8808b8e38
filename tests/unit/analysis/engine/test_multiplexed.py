"""Multiplexed profiles: launches that hold different counters give the figures of a complete profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.engine.work_sums import WorkSelection, collect
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.workload import Workload
from rooflens.tests.support.figures import evaluate

COUNTERS = ("SQ_WAVES", "SQ_INSTS_SALU", "TCC_HIT_sum", "TCC_MISS_sum")
FACTS = {"num_xcd": 1.0, "max_sclk": 1700.0, "cu_per_gpu": 104.0, "wave_size": 64.0}


def launches(count: int, grid: int, kernel: str = "k") -> list[dict[str, Any]]:
    """Launches that hold every counter: work grows with the grid."""
    return [
        {
            "kernel": kernel,
            "grid": grid,
            "duration_ns": 1000.0 + grid,
            "SQ_WAVES": grid / 64,
            "SQ_INSTS_SALU": 3.0 * grid,
            "TCC_HIT_sum": 5.0 * grid,
            "TCC_MISS_sum": 2.0 * grid + 100,
        }
        for _ in range(count)
    ]


def store_of(
    folder: Path, rows: list[dict[str, Any]], multiplexed: str | None, sampled: bool = False
) -> tuple[Store, Manifest]:
    store, con = Store(folder), duckdb.connect()
    filled = [{"dispatch_id": i, "device_id": 0, "workgroup_size": 64} | row for i, row in enumerate(rows)]
    counted = ", ".join(f"{c} DOUBLE" for c in COUNTERS)
    launch = "dispatch_id BIGINT, kernel VARCHAR, device_id INT, grid BIGINT, workgroup_size INT, duration_ns DOUBLE"
    con.execute(f"CREATE TABLE t ({launch}, {counted})")
    for row in filled:
        known = ("dispatch_id", "kernel", "device_id", "grid", "workgroup_size", "duration_ns", *COUNTERS)
        con.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(known))})", [row.get(name) for name in known])
    with store.draft() as draft:
        sizes = ", ".join(f"NULL::INT AS {n}" for n in ("lds_bytes", "scratch_bytes", "vgpr", "agpr", "sgpr"))
        own = f"SELECT dispatch_id, kernel, device_id, grid, workgroup_size, {sizes}, duration_ns FROM t"
        write_table(con, own, draft / "dispatches.parquet")
        picks = f"dispatch_id, kernel, duration_ns, {', '.join(COUNTERS)}"
        write_table(con, f"SELECT {picks} FROM t", draft / "counters.parquet")
        manifest = Manifest(
            name=str(multiplexed), format="test", arch="gfx90a", facts=FACTS, multiplexed=multiplexed, sampled=sampled,
            counters=list(COUNTERS), dispatches=len(rows), kernels=len({r["kernel"] for r in rows}),
        )  # fmt: skip
        return store, store.publish(draft, manifest)


def with_ranges(store: Store, manifest: Manifest, paths: list[str | None], *further: str) -> Manifest:
    """The same workload with a range or none for each launch, and further ranges that launched nothing."""
    con = duckdb.connect()
    known = list(dict.fromkeys([*(path for path in paths if path), *further]))
    columns = "name VARCHAR, path VARCHAR, call_site VARCHAR, start_ns BIGINT, end_ns BIGINT"
    con.execute(f"CREATE TABLE r (range_id BIGINT, {columns})")
    rows = [(i, path.rpartition("/")[2], path, 100 * i, 100 * i + 10) for i, path in enumerate(known)]
    con.executemany("INSERT INTO r VALUES (?, ?, ?, NULL, ?, ?)", rows)
    con.execute("CREATE TABLE o (dispatch_id BIGINT, range_id BIGINT)")
    con.executemany("INSERT INTO o VALUES (?, ?)", [(i, known.index(p) if p else None) for i, p in enumerate(paths)])
    with store.draft() as draft:
        files = {name: store.file(manifest, name) for name in ("dispatches", "counters")}
        own = f"SELECT * FROM read_parquet('{files['dispatches']}') JOIN o USING (dispatch_id) ORDER BY dispatch_id"
        write_table(con, own, draft / "dispatches.parquet")
        write_table(con, f"FROM read_parquet('{files['counters']}')", draft / "counters.parquet")
        write_table(con, "FROM r", draft / "ranges.parquet")
        return store.publish(draft, manifest.model_copy(update={"id": "", "files": {}, "name": "ranged"}))


def counted(rows: list[dict[str, Any]], which: set[int]) -> list[dict[str, Any]]:
    """The same launches, of which only some hold counters."""
    return [row if i in which else {n: v for n, v in row.items() if n not in COUNTERS} for i, row in enumerate(rows)]


def in_turn(rows: list[dict[str, Any]], groups: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """The same launches, each with one group of its counters: the next of its kernel and grid has the next group."""
    seen: dict[tuple[str, int], int] = {}
    kept = []
    for row in rows:
        place = seen[key] = seen.get(key := (row["kernel"], row["grid"]), -1) + 1
        kept.append({n: v for n, v in row.items() if n not in COUNTERS or n in groups[place % len(groups)]})
    return kept


METRICS = ["l2.hit_rate_pct", "salu.instructions", "dispatch.duration_ns"]


@pytest.mark.parametrize(
    "groups",
    [
        [("SQ_WAVES", "SQ_INSTS_SALU"), ("TCC_HIT_sum", "TCC_MISS_sum")],
        [("SQ_WAVES",), ("SQ_INSTS_SALU",), ("TCC_HIT_sum",), ("TCC_MISS_sum",)],
    ],
)
def test_every_figure_is_that_of_the_complete_profile(tmp_path: Path, groups: Any) -> None:
    complete = [*launches(8, 6400), *launches(4, 64000), *launches(12, 1280, "other")]
    full, whole = store_of(tmp_path / "full", complete, None)
    turns, part = store_of(tmp_path / "part", in_turn(complete, groups), "kernel_launch_params")
    for norm, by_kernel in (("per_kernel", False), ("per_kernel", True), ("per_wave", True), ("per_second", False)):
        wanted = METRICS if norm == "per_kernel" else ["salu.instructions"]
        expected = evaluate(full, whole.id, wanted, by_kernel=by_kernel, normalization=norm)
        found = evaluate(turns, part.id, wanted, by_kernel=by_kernel, normalization=norm)
        assert [f.kernel for f in found] == [f.kernel for f in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.status == "ok" and ours.value == pytest.approx(theirs.value, rel=1e-12), (norm, ours.name)


def test_a_figure_of_one_launch_is_measured_and_one_of_several_says_so(tmp_path: Path) -> None:
    rows = in_turn(launches(2, 6400), [("TCC_HIT_sum", "TCC_MISS_sum", "SQ_WAVES"), ("SQ_INSTS_SALU",)])
    store, manifest = store_of(tmp_path, rows, "kernel")
    hits, per_wave = (
        evaluate(store, manifest.id, [name], normalization="per_wave")[0]
        for name in ("l2.hit_rate_pct", "salu.instructions")
    )
    assert (hits.over.combined, hits.n, hits.over.min) == (0, 1, hits.value)
    assert (bool(per_wave.over.combined), per_wave.over.min) == (True, None)


def test_a_kernel_with_too_few_launches_has_no_figure_and_does_not_disturb_the_others(tmp_path: Path) -> None:
    groups = [("TCC_HIT_sum",), ("TCC_MISS_sum",)]
    rows = in_turn([*launches(4, 6400), *launches(1, 640, "short")], groups)
    store, manifest = store_of(tmp_path, rows, "kernel")
    by_kernel = {f.kernel: f for f in evaluate(store, manifest.id, ["l2.hit_rate_pct"], by_kernel=True)}
    assert by_kernel["short"].value is None and by_kernel["short"].status == "not_collected"
    together = evaluate(store, manifest.id, ["l2.hit_rate_pct"])[0]
    assert together.value == by_kernel["k"].value


def test_the_work_of_a_kernel_is_scaled_to_all_of_its_launches(tmp_path: Path) -> None:
    complete = [*launches(8, 6400), *launches(4, 64000)]
    rows = in_turn(complete, [("SQ_INSTS_SALU",), ("TCC_HIT_sum",)])
    store, manifest = store_of(tmp_path, rows, "kernel")
    with Workload.open(store, manifest) as workload:
        page = WorkSelection(workload.select())
        (work,) = collect(workload, {"salu": "SQ_INSTS_SALU", "hits": "TCC_HIT_sum"}, page).groups
        one = collect(workload, {"hits": "TCC_HIT_sum"}, WorkSelection(workload.select(), "dispatch")).groups
    n, sums = work.sums_over(["salu", "hits", "time_ns"])
    assert n == 12 and sums["salu"] == sum(r["SQ_INSTS_SALU"] for r in complete)
    assert sums["hits"] == sum(r["TCC_HIT_sum"] for r in complete)
    assert sums["time_ns"] == sum(r["duration_ns"] for r in complete)
    assert sum(g.has("hits") for g in one) == 6


def test_a_few_counted_launches_of_each_configuration_give_the_figures_of_all(tmp_path: Path) -> None:
    complete = [*launches(8, 6400), *launches(4, 64000), *launches(12, 1280, "other")]
    full, whole = store_of(tmp_path / "full", complete, None)
    some, part = store_of(tmp_path / "part", counted(complete, {1, 2, 9, 13, 14, 15}), None, sampled=True)
    for by_kernel in (True, False):
        expected = evaluate(full, whole.id, METRICS, by_kernel=by_kernel)
        found = evaluate(some, part.id, METRICS, by_kernel=by_kernel)
        assert [f.value for f in found] == pytest.approx([f.value for f in expected], rel=1e-12)
        assert not any(f.over.combined for f in found)
    counts = {f.name: f.n for f in evaluate(some, part.id, METRICS)}
    assert counts == {"l2.hit_rate_pct": 6, "salu.instructions": 6, "dispatch.duration_ns": 24}


def test_counted_launches_stand_for_those_of_their_configuration_in_every_operator(tmp_path: Path) -> None:
    """The second operator launches one configuration of which only launches of the first were counted."""
    complete = [*launches(8, 6400), *launches(4, 64000), *launches(2, 1280)]
    operators: list[str | None] = ["first"] * 6 + ["second"] * 2 + ["first"] * 2 + ["second"] * 2 + ["third"] * 2
    for row, operator in zip(complete, operators, strict=True):
        row["duration_ns"] += 500.0 * (operator == "second")
    full, whole = store_of(tmp_path / "full", complete, None)
    some, part = store_of(tmp_path / "part", counted(complete, {0, 1, 8, 11}), None, sampled=True)
    values = []
    for store, manifest in ((full, whole), (some, part)):
        made = with_ranges(store, manifest, operators)
        with Workload.open(store, made) as workload:
            found = figures(workload, METRICS, FigureRequest(launched_by="operator"))
        values.append({(f.kernel, f.name): f.value for f in found})
    expected, known = values
    lost = {("third", name) for name in METRICS[:2]}
    assert {key for key, value in known.items() if value is None} == lost
    left = {key: value for key, value in expected.items() if key not in lost}
    assert {key: known[key] for key in left} == pytest.approx(left, rel=1e-12)
