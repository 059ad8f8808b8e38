"""SQL of the user's own: the tables and refusals of query_counters, nothing cut, frames beside the tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import rooflens
from rooflens.analysis.base.problems import BadArgument, NotAllowed, NotFound, Problem
from rooflens.analysis.store.store import Store
from rooflens.tools.query_counters import query_counters


@pytest.fixture(scope="module")
def store(samples: Store) -> rooflens.OpenStore:
    return rooflens.open(samples.root)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kernel, duration_ns, SQ_WAVES FROM counters ORDER BY duration_ns",
        "SELECT metric, value, unit, status FROM metrics WHERE kernel IS NOT NULL ORDER BY workload, metric LIMIT 50",
        "SELECT name, arch, tags FROM workloads ORDER BY name",
        "SELECT TCC_EA0_RDREQ_sum = TCC_EA_RDREQ_sum AS same FROM counters",
        "WITH t AS (SELECT * FROM facts) SELECT fact, value FROM t ORDER BY ALL LIMIT 5",
        "SELECT sum(duration_ns) AS t FROM dispatches WHERE workload = 'nope'",
    ],
)
def test_it_answers_what_query_counters_answers(store: rooflens.OpenStore, samples: Store, sql: str) -> None:
    own, table = store.sql(sql).df(), query_counters(samples, sql).table
    assert list(own.columns) == table.columns
    assert own.astype(object).where(own.notna(), None).to_numpy().tolist() == table.rows
    assert own.attrs["units"] == {n: u for n, u in zip(table.columns, table.units, strict=True) if u}


@pytest.mark.parametrize(
    ("sql", "kind", "told"),
    [
        ("SELECT TCC_HITS FROM counters", NotFound, "no column 'TCC_HITS' in counters.*TCC_HIT_sum"),
        ("DROP TABLE dispatches", NotAllowed, "Only queries can run"),
        ("COPY (SELECT 1) TO 'x.csv'", NotAllowed, "Only queries can run"),
        ("SELECT 1 \0", BadArgument, "NUL"),
        ("FROM 'no_such_file.parquet'", BadArgument, "The query failed"),
        ("FROM store", NotFound, "no table store"),
    ],
)
def test_a_mistake_is_told_in_words(store: rooflens.OpenStore, sql: str, kind: type[Problem], told: str) -> None:
    with pytest.raises(kind, match=told):
        store.sql(sql)


def test_no_row_and_no_digit_is_cut(store: rooflens.OpenStore) -> None:
    rows = store.sql("SELECT i, repeat('x', 5000) AS long, i + 9007199254740993 AS big FROM range(20000) t(i)").df()
    assert len(rows) == 20_000 and rows["long"].str.len().min() == 5000
    assert rows["big"].dtype == "int64" and rows["big"].max() == 9007199254740993 + 19_999


def test_wide_sums_missing_values_and_repeated_names_keep_their_types(store: rooflens.OpenStore) -> None:
    rows = store.sql(
        "SELECT sum(i) AS s, max(i)::HUGEINT << 70 AS huge, any_value(CASE WHEN i > 99 THEN i END) AS none, "
        "1 AS a, 2 AS a, bool_or(i > 1) AS b, max(DATE '2026-01-02') AS d FROM range(5) t(i)"
    ).df()
    assert rows["s"].dtype == "int64" and rows["s"].item() == 10
    assert rows["huge"].item() == 4 << 70 and rows["none"].dtype == "Int64" and rows["none"].isna().item()
    assert list(rows.columns)[3:5] == ["a", "a_1"] and rows["b"].dtype == "bool"
    assert rows["d"].item() == pd.Timestamp("2026-01-02")


def test_a_frame_is_a_table_by_its_name(store: rooflens.OpenStore) -> None:
    limits = pd.DataFrame({"metric": ["l2.hit_rate_pct"], "least": [10.0]})
    found = store.sql(
        "SELECT w.name, m.value >= mine.least AS enough FROM metrics m JOIN mine USING (metric) "
        "JOIN workloads w USING (workload) ORDER BY 1",
        mine=limits,
    ).df()
    assert found.to_dict("list") == {"name": ["yax_after", "yax_before"], "enough": [True, False]}
    with pytest.raises(BadArgument, match="is a table of the store"):
        store.sql("FROM dispatches", dispatches=limits)
    with pytest.raises(BadArgument, match="is not a DataFrame"):
        store.sql("FROM mine", mine=[1])  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no table mine"):
        store.sql("FROM mine")


def test_a_damaged_workload_is_left_out_and_named(tmp_path: Path) -> None:
    store = rooflens.open(tmp_path)
    for name in ("yax_before", "yax_after"):
        store.import_profile(rooflens.samples()[name], name=name)
    spoilt = store["yax_before"]
    file = spoilt.folder / "counters.parquet"
    file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 8) + b"PAR1")
    found = store.sql("SELECT workload, SQ_WAVES FROM counters").df()
    assert list(found["workload"]) == [store["yax_after"].id]
    assert any(spoilt.id in note for note in found.attrs["notes"])
    with pytest.raises(Problem, match="could not be read"):
        spoilt.sql("SELECT SQ_WAVES FROM counters")
