"""The tables shown to SQL: described in full, and read with the right columns from any files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.database import connect, sql_name
from rooflens.analysis.store.schema import manifest_rows, pass_times, relation
from rooflens.analysis.store.store import TABLES, Manifest, Store, write_table
from rooflens.analysis.tables import columns, render, schema


def add(store: Store, name: str, counters: dict[str, float]) -> Manifest:
    """Publish a workload whose table counters has three rows of the given values."""
    wide = "".join(f", CAST({value} AS DOUBLE) AS {sql_name(column)}" for column, value in counters.items())
    con = connect()
    with store.draft() as folder:
        select = f"SELECT i AS dispatch_id, 'k' AS kernel, CAST(5 AS DOUBLE) AS duration_ns{wide} FROM range(3) t(i)"
        write_table(con, select, folder / "counters.parquet")
        collected = [column for column in counters if not column.startswith("duration_ns@")]
        made = Manifest(name=name, format="test", counters=collected, facts={"cu": 304}, tags=["x", "y"])
        return store.publish(folder, made)


def rows(sql: str | None) -> list[tuple[object, ...]]:
    assert sql is not None
    return duckdb.sql(sql).fetchall()


def test_counters_gain_the_columns_of_the_workloads_and_the_times_of_their_passes() -> None:
    a = Manifest(name="a", format="t", counters=["SQ_WAVES", "SQ_X@P2"])
    b = Manifest(name="b", format="t", counters=["TCC_HIT_sum", "SQ_WAVES"])
    found = columns("counters", [a, b], ["duration_ns@P2"])
    assert list(found)[6:] == ["SQ_WAVES", "SQ_X@P2", "TCC_HIT_sum", "duration_ns@P2"]
    assert found["duration_ns@P2"].unit == "ns" and found["SQ_WAVES"].unit is None
    assert columns("dispatches", [a]) == schema()["dispatches"].columns


def test_one_workload_is_read_with_its_id_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = add(store, "a", {"SQ_WAVES": 7})
    assert rows(relation(store, [made], "counters")) == [(made.id, i, "k", 5.0, None, None, 7.0) for i in range(3)]


def test_only_the_named_columns_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = add(store, "a", {"SQ_WAVES": 7, "TCC_HIT_sum": 8})
    assert rows(relation(store, [made], "counters", ["TCC_HIT_sum"])) == [(8.0,)] * 3


def test_workloads_with_different_counters_unite_and_missing_ones_are_null(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a, b = add(store, "a", {"SQ_WAVES": 0}), add(store, "b", {"TCC_HIT_sum": 2})
    found = set(rows(relation(store, [a, b], "counters", ["workload", "SQ_WAVES", "TCC_HIT_sum"])))
    assert found == {(a.id, 0.0, None), (b.id, None, 2.0)}


def test_a_column_that_no_file_has_is_null_and_keeps_its_type(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = add(store, "a", {}).model_copy(update={"counters": ["SQ_WAVES"]})
    sql = relation(store, [made], "counters", ["SQ_WAVES"])
    assert rows(sql) == [(None,)] * 3 and str(duckdb.sql(str(sql)).types[0]) == "DOUBLE"


def test_a_table_without_files_has_no_relation(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = add(store, "a", {"SQ_WAVES": 7})
    assert relation(store, [made], "ceilings") is None
    assert relation(store, [], "counters") is None
    assert all(relation(store, [made], table) is None for table in schema() if table not in TABLES)


def test_times_of_passes_are_found_in_the_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = add(store, "a", {"SQ_WAVES": 7, "duration_ns@P2": 3})
    other = add(store, "b", {"SQ_WAVES": 7, "duration_ns@P1": 3})
    assert pass_times(store, [made]) == ["duration_ns@P2"]
    assert pass_times(store, [made, other]) == ["duration_ns@P1", "duration_ns@P2"]
    assert pass_times(store, []) == []


@pytest.mark.parametrize("folder", ["it's", "a*b", "[x]", "workload=other"])
def test_any_path_of_the_store_can_be_read(tmp_path: Path, folder: str) -> None:
    store = Store(tmp_path / folder)
    made = add(store, "a", {"SQ_WAVES": 7})
    assert rows(relation(store, [made], "counters", ["workload", "SQ_WAVES"])) == [(made.id, 7.0)] * 3


def test_manifests_give_the_rows_of_workloads_and_facts(tmp_path: Path) -> None:
    made = add(Store(tmp_path), "a", {"SQ_WAVES": 7})
    (shown,) = manifest_rows("workloads", [made])
    assert list(shown) == list(schema()["workloads"].columns)
    assert (shown["workload"], shown["name"], shown["tags"]) == (made.id, "a", "x,y")
    assert shown["created"].endswith("Z") and "T" in shown["created"]
    assert manifest_rows("facts", [made]) == [{"workload": made.id, "fact": "cu", "value": 304.0}]


def test_configurations_of_older_workloads_are_numbered_and_those_of_newer_ones_read(tmp_path: Path) -> None:
    store, con = Store(tmp_path), connect()
    sizes = "CASE WHEN i < 3 THEN 256 ELSE 1024 END"
    launches = f"SELECT i AS dispatch_id, 'k' AS kernel, {sizes} AS grid, 128 AS workgroup_size, 10.0 * (i + 1) AS "
    launches += "duration_ns FROM range(5) t(i)"
    made = []
    for name, select in (
        ("old", launches),
        ("new", f"SELECT *, 7 AS launch, 'own' AS configuration FROM ({launches})"),
    ):
        with store.draft() as folder:
            write_table(con, select, folder / "dispatches.parquet")
            made.append(store.publish(folder, Manifest(name=name, format="test", dispatches=5, kernels=1)))
    names = ["workload", "dispatch_id", "launch", "configuration", "cluster"]
    found = sorted(rows(relation(store, made, "dispatches", names)))
    old = [(made[0].id, i, *((2, "2 x 128") if i < 3 else (1, "8 x 128")), None) for i in range(5)]
    assert found == sorted([*old, *((made[1].id, i, 7, "own", None) for i in range(5))])
    assert len(rows(relation(store, made, "dispatches", ["dispatch_id"]))) == 10


def test_the_rendered_schema_is_short_and_names_every_column() -> None:
    text = render()
    assert len(text) < 29_500
    for name, table in schema().items():
        assert f"CREATE TABLE {name} (" in text
        assert all(f"  {column} {facts.type}," in text for column, facts in table.columns.items())
