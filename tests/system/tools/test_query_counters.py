"""query_counters: right rows, well-shaped, with errors that help."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, LimitExceeded, NotAllowed, NotFound
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.tables import derived_tables, schema
from rooflens.analysis.tables.declaration import Row
from rooflens.analysis.workload import Workload
from rooflens.tools import query_counters as query
from rooflens.tools.query_counters import QueryResult, query_counters
from rooflens.tools.sql import references


def rows(store: Store, sql: str, **more: Any) -> list[list[Any]]:
    return query_counters(store, sql, **more).table.rows


def offer_metrics(patch: pytest.MonkeyPatch, metric_rows: Callable[[Workload], list[Row]]) -> None:
    """Let every workload have the rows given as its metrics."""
    metrics = replace(derived_tables()["metrics"], rows=metric_rows, exists=lambda _: True)
    patch.setitem(derived_tables(), "metrics", metrics)


def text_of(result: QueryResult) -> str:
    """The answer as strict JSON: NaN or Infinity would raise."""
    return json.dumps(result.model_dump(), allow_nan=False)


# -- what is read ----------------------------------------------------------------------------


def test_an_aggregate_over_counters_gives_rows_units_and_a_total(store: Store, workload: Manifest) -> None:
    """What was not collected is NULL, and zero is measured."""
    found = query_counters(
        store,
        "SELECT kernel, count(*) AS n, sum(SQ_WAVES) AS w, avg(duration_ns) AS t FROM counters GROUP BY 1 ORDER BY 1",
    )
    assert found.table.columns == ["kernel", "n", "w", "t"]
    assert found.table.units == [None, None, None, "ns"]
    assert found.table.rows[0] == ["kernel_0", 5, 64.0 * (1 + 5 + 9 + 13 + 17), 108.0]
    assert (found.table.total_rows, found.table.truncated, found.notes) == (4, False, [])
    assert rows(store, "SELECT TCC_MISS_sum FROM counters ORDER BY dispatch_id LIMIT 5") == [[0], [1], [2], [3], [None]]


def test_a_named_workload_is_read_alone_and_none_means_all(
    store: Store, workload: Manifest, make_workload: Any
) -> None:
    other = make_workload("second", {"OTHER": "i"}, dispatches=7)
    sql = "SELECT workload, count(*) FROM dispatches GROUP BY 1 ORDER BY 2"
    assert rows(store, sql) == [[other.id, 7], [workload.id, 20]]
    assert rows(store, sql, workload="second") == [[other.id, 7]]
    assert rows(store, sql, workload="latest") == [[other.id, 7]]


def test_all_tables_exist_and_are_described_even_when_empty(
    store: Store, workload: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_metrics(monkeypatch, lambda _: [])
    assert [name for (name,) in rows(store, "SHOW TABLES")] == sorted(schema())
    rows(store, "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in schema()))
    described = [row[0] for row in rows(store, "DESCRIBE counters")]
    assert described[-3:] == ["SQ_WAVES", "TCC_HIT_sum", "TCC_MISS_sum"]
    listed = rows(store, "SELECT column_name FROM information_schema.columns WHERE table_name = 'counters'")
    assert [name for (name,) in listed] == described


def test_the_time_of_a_pass_is_a_column_though_the_manifest_does_not_name_it(store: Store, make_workload: Any) -> None:
    make_workload("passes", {"SQ_X@P2": "i", "duration_ns@P3": "5"})
    found = query_counters(store, 'SELECT max("SQ_X@P2"), max("duration_ns@P3") FROM counters')
    assert (found.table.rows, found.table.units) == ([[19.0, 5.0]], [None, "ns"])


def test_an_empty_store_answers_with_empty_tables_and_says_so(store: Store) -> None:
    found = query_counters(store, "SELECT * FROM dispatches")
    assert found.table.rows == [] and found.table.columns == list(schema()["dispatches"].columns)
    assert any("no workloads" in note for note in found.notes)


# -- tables computed on request ----------------------------------------------------------------


def test_a_provider_is_asked_only_when_its_table_is_named(
    store: Store, workload: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def metrics(opened: Workload) -> list[Row]:
        asked.append(opened.id)
        return [{"workload": opened.id, "kernel": "k", "metric": "l2.hit_rate_pct", "value": math.nan, "n": 3}]

    offer_metrics(monkeypatch, metrics)
    rows(store, "SELECT 'metrics' FROM dispatches")
    rows(store, "WITH metrics AS (SELECT 1 AS x) SELECT x FROM metrics")
    rows(store, "DESCRIBE metrics")
    assert asked == []
    found = query_counters(store, "SELECT metric, value, n, reason FROM metrics")
    assert found.table.rows == [["l2.hit_rate_pct", None, 3, None]] and asked == [workload.id]


def test_the_time_of_a_provider_does_not_count(
    store: Store, workload: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed[0])

    def slow(_: Workload) -> list[Row]:
        passed[0] += 3600
        return [{"metric": "m"}]

    offer_metrics(monkeypatch, slow)
    assert rows(store, "SELECT metric FROM metrics", timeout_s=60) == [["m"]]


# -- only what is needed is copied -------------------------------------------------------------

SHAPES = [
    "SELECT * FROM counters LIMIT 3",
    "SELECT c.* EXCLUDE (workload) FROM counters c ORDER BY dispatch_id LIMIT 2",
    "SELECT COLUMNS('TCC.*') FROM counters ORDER BY dispatch_id",
    "TABLE facts",
    "SELECT c FROM counters c ORDER BY dispatch_id LIMIT 1",
    "SELECT a.b FROM counters a(b, c, d) LIMIT 1",
    "SELECT count(*) FROM counters NATURAL JOIN dispatches",
    "PIVOT counters ON kernel IN ('kernel_0') USING sum(SQ_WAVES) GROUP BY duration_ns ORDER BY ALL",
    "WITH dispatches AS (SELECT * FROM dispatches) SELECT count(DISTINCT vgpr) FROM dispatches",
    "SELECT kernel, vgpr FROM dispatches UNION ALL BY NAME SELECT kernel, SQ_WAVES FROM counters ORDER BY ALL",
    "WITH RECURSIVE r AS (SELECT 0 AS dispatch_id UNION ALL SELECT dispatch_id + 1 FROM r WHERE dispatch_id < 3) "
    "SELECT SQ_WAVES FROM r JOIN counters USING (dispatch_id) ORDER BY ALL",
    "SELECT kernel FROM dispatches d SEMI JOIN counters c ON c.dispatch_id = d.dispatch_id AND SQ_WAVES > 700",
]


@pytest.mark.parametrize("sql", SHAPES)
def test_copying_only_what_is_named_changes_no_answer(
    store: Store, workload: Manifest, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    lean = query_counters(store, sql).table

    def everything(tree: Any, known: Any) -> Any:
        found = real(tree, known)
        found.whole = set(found.tables)
        return found

    real = references.references
    monkeypatch.setattr(query, "references", everything)
    monkeypatch.setattr(query, "rows_needed", lambda *_: None)
    assert lean.rows and lean == query_counters(store, sql).table


def test_a_star_over_too_much_data_is_refused_at_once_with_advice(store: Store, make_workload: Any) -> None:
    make_workload("wide", dispatches=5).model_dump()
    huge = store.scan()[0][0].model_copy(update={"dispatches": 100_000_000})
    folder = store.root / f"workload={huge.id}"
    (folder / "manifest.json").write_text(huge.model_dump_json())
    with pytest.raises(LimitExceeded, match="Name the columns"):
        query_counters(store, "SELECT * FROM counters ORDER BY duration_ns")
    assert len(rows(store, "SELECT * FROM counters LIMIT 3")) == 3


# -- the shape of an answer ----------------------------------------------------------------------


def test_units_follow_columns_casts_aggregates_and_subqueries(store: Store, workload: Manifest) -> None:
    sql = (
        "WITH t AS (SELECT kernel, max(lds_bytes) AS l, sum(duration_ns) AS d, sum(duration_ns) / 1e6 AS ms "
        "FROM dispatches GROUP BY 1) SELECT * FROM t"
    )
    assert query_counters(store, sql).table.units == [None, "bytes", "ns", None]
    found = query_counters(
        store, "SELECT start_ns, duration_ns::INT, avg(d.grid) OVER (), count(*) OVER () FROM dispatches d"
    )
    assert found.table.units == ["ns", "ns", "work-items", None]
    assert query_counters(store, "EXPLAIN SELECT start_ns, end_ns FROM dispatches").table.units == [None, None]


def test_a_limit_cuts_and_reports_the_exact_total(store: Store, workload: Manifest) -> None:
    for sql in (
        "SELECT * FROM dispatches",
        "SELECT dispatch_id FROM dispatches ORDER BY 1",
        "SELECT kernel FROM counters",
    ):
        found = query_counters(store, sql, limit=6)
        assert (len(found.table.rows), found.table.total_rows, found.table.truncated) == (6, 20, True)
        assert "first 6 of 20" in found.notes[0]
    exact = query_counters(store, "SELECT kernel FROM counters", limit=20).table
    assert (exact.total_rows, exact.truncated) == (20, False)
    own = query_counters(store, "SELECT * FROM counters LIMIT 10 OFFSET 13", limit=5).table
    assert (own.total_rows, own.truncated) == (7, True)


def test_a_total_that_cannot_be_counted_soon_is_unknown(store: Store) -> None:
    # Counting it would take days on any machine, and the query is given more time than it needs for its rows.
    found = query_counters(store, "SELECT range FROM range(1000000000000000) WHERE range % 7 > 0", timeout_s=60)
    assert (len(found.table.rows), found.table.total_rows, found.table.truncated) == (100, None, True)


def test_values_that_json_cannot_hold_become_null_or_text_with_a_note(store: Store) -> None:
    found = query_counters(
        store,
        "SELECT 'nan'::DOUBLE AS a, -1e308::DOUBLE * 10 AS b, [1.5::DOUBLE, 'inf'::DOUBLE] AS c, "
        "9007199254740993 AS d, 9007199254740992 AS e, 12345678901234567890123::HUGEINT AS f",
    )
    assert found.table.rows == [[None, None, [1.5, None], "9007199254740993", 2**53, "12345678901234567890123"]]
    assert any(note.startswith("3 values are NaN") for note in found.notes)
    assert any(note.startswith("2 integers are beyond") for note in found.notes)


def test_every_type_survives_to_valid_json(store: Store) -> None:
    found = query_counters(store, "SELECT * FROM test_all_types()")
    assert len(found.table.rows) == 3 and all(value is None for value in found.table.rows[2])
    assert json.loads(text_of(found))


def test_types_keep_their_value(store: Store) -> None:
    cases = {
        "DATE '2026-11-20'": "2026-11-20",
        "'infinity'::DATE": "infinity",
        "TIMESTAMP_NS '2026-01-01 00:00:00.123456789'": "2026-01-01 00:00:00.123456789",
        "TIMESTAMPTZ '2026-01-01 00:00:00+00'": "2026-01-01 00:00:00+00",
        "TIME '12:30:00'": "12:30:00",
        "INTERVAL 3 MONTHS": "3 months",
        "'00000000-0000-0000-0000-00000000000a'::UUID": "00000000-0000-0000-0000-00000000000a",
        "'\\xAA\\x01'::BLOB": "aa01",
        "1.50::DECIMAL(5,2)": 1.5,
        "12345678901234567890.25::DECIMAL(30,2)": "12345678901234567890.25",
        "{'a': 1, 'b': [1, 2]}": {"a": 1, "b": [1, 2]},
        "MAP {1: 'x'}": {"1": "x"},
        "'{\"a\": 1}'::JSON": '{"a": 1}',
        "true": True,
        "NULL": None,
        "'a' || chr(0) || 'é🦆'": "a\0é🦆",
    }
    assert rows(store, f"SELECT {', '.join(cases)}") == [list(cases.values())]


def test_long_values_and_long_answers_are_cut_and_told(store: Store) -> None:
    found = query_counters(
        store, "SELECT repeat('x', 1000000) AS a, range(100000) AS b, repeat('y', 100000)::BLOB AS c"
    )
    assert len(text_of(found)) < 8_000 and "3 long values were truncated" in found.notes[-1]
    assert found.table.rows[0][0].endswith("... (1,000,000 characters)")
    assert found.table.rows[0][2].endswith("... (100,000 bytes)")
    long = query_counters(store, "SELECT repeat('x', 1500) FROM range(5000)", limit=5000)
    assert len(text_of(long)) < 210_000 and long.table.truncated and long.table.total_rows == 5000
    assert "cut after" in long.notes[-1]


def test_a_wide_answer_keeps_named_columns_and_the_first_that_hold_a_value(store: Store) -> None:
    columns = ", ".join(f'{"NULL" if i < 10 else i} AS c{i}, {i} AS "c{i}@pass_1"' for i in range(100))
    sql = f'SELECT *, c99 AS last, c3 AS empty FROM (SELECT {columns}) WHERE "c7@pass_1" = 7'
    whole = query_counters(store, sql)
    short = whole.brief({"sql": 'SELECT *, c99 AS last, c3 AS empty FROM wide WHERE "c7@pass_1" = 7'})
    assert len(whole.table.columns) == 202 and len(short.table.columns) == query.MOST_COLUMNS
    assert {"last", "empty", "c99", "c3", "c7@pass_1", "c10"} <= set(short.table.columns)
    assert short.table.rows[0][short.table.columns.index("last")] == 99
    assert not {"c0", "c8", "c8@pass_1"} & set(short.table.columns)
    assert short.notes[0].startswith("162 of 202 columns are omitted: 9 without a value in these rows and 153 more")
    narrow = query_counters(store, "SELECT 1 AS a")
    assert narrow.brief({"sql": "SELECT 1 AS a"}) is narrow


def test_the_plan_of_a_query_can_be_read(store: Store, workload: Manifest) -> None:
    for sql in ("EXPLAIN SELECT sum(SQ_WAVES) FROM counters", "/* é */ explain -- x\n analyze FROM counters;"):
        found = query_counters(store, sql)
        assert found.table.columns == ["explain_key", "explain_value"] and "counters" in found.table.rows[0][1]


@pytest.mark.parametrize("sql", ["SELECT 1 AS a; -- it's", "/* ; */ SELECT 1 AS a;;"])
def test_comments_and_semicolons_around_a_statement_do_not_matter(store: Store, sql: str) -> None:
    assert rows(store, sql) == [[1]]
    assert rows(store, sql.replace("1 AS a", "DATE '2026-01-01' AS a")) == [["2026-01-01"]]
    assert query_counters(store, sql.replace("1 AS a", "unnest([1, 2, 3])"), limit=1).table.total_rows == 3


# -- errors that help ------------------------------------------------------------------------------

MISTAKES = [
    ("SELECT TCC_HITS FROM counters", NotFound, ["TCC_HITS", "TCC_HIT_sum", "column 8"]),
    ("SELECT SQ_WAVES FROM dispatches", NotFound, ["It is a column of counters"]),
    ("SELECT nothing_like_it", NotFound, ["The tables are workloads"]),
    ("SELECT value FROM counters", NotFound, ["Each counter is a column of counters"]),
    ('SELECT count(*) FROM counters WHERE kernel = "kernel 0"', NotFound, ["single quotes"]),
    ("FROM dispatch", NotFound, ["Near names: dispatches"]),
    ("FROM zzz", NotFound, ["The tables are workloads, dispatches, counters"]),
    ("SELECT summ(SQ_WAVES) FROM counters", NotFound, ["no function summ", "sum"]),
    ("SELECT sqrt(kernel, 2) FROM counters", BadArgument, ["No function takes"]),
    ("SELECT kernel FORM counters", BadArgument, ["cannot be parsed", "Line 1"]),
    ("SELECT kernel, sum(SQ_WAVES) FROM counters", BadArgument, ["GROUP BY"]),
    ("SELECT kernel::INT FROM counters", BadArgument, ["convert", "kernel_0"]),
    ("SELECT 1; SELECT 2", NotAllowed, ["one statement"]),
    ("PIVOT counters ON kernel USING sum(SQ_WAVES)", NotAllowed, ["IN ('a', 'b')"]),
    ("UPDATE counters SET SQ_WAVES = 1", NotAllowed, ["read-only"]),
    ("", BadArgument, ["empty"]),
    ("SELECT $1", BadArgument, ["parameters"]),
    ("SELECT '\ud800'", BadArgument, ["Unicode"]),
    ("SELECT 'a\0b'", BadArgument, ["NUL"]),
    ("SELECT 1 --" + "x" * 70_000, LimitExceeded, ["65536"]),
    ("SELECT " + "NOT " * 3000 + "true", LimitExceeded, ["nested too deeply"]),
]


@pytest.mark.parametrize(
    ("sql", "kind", "says"), MISTAKES, ids=[case[0][:40].encode("ascii", "replace").decode() for case in MISTAKES]
)
def test_a_mistake_is_explained(store: Store, workload: Manifest, sql: str, kind: type, says: list[str]) -> None:
    with pytest.raises(kind) as error:
        query_counters(store, sql)
    assert all(part in error.value.text for part in says), error.value.text
    assert not any(word in error.value.text for word in (str(store.root), "Traceback", "Error:", "Candidate bindings"))


# -- stumbles of models ----------------------------------------------------------------------


def test_a_name_where_the_column_workload_holds_ids_gets_the_id_to_use(store: Store, workload: Manifest) -> None:
    found = query_counters(store, "SELECT count(*) FROM dispatches WHERE workload = 'first'")
    assert found.table.rows == [[0]]
    assert len(found.notes) == 1
    assert repr(workload.id) in found.notes[0]
    by_id = query_counters(store, f"SELECT count(*) FROM dispatches WHERE workload = '{workload.id}'")
    by_name = query_counters(store, "SELECT count(*) FROM workloads WHERE name = 'first'")
    assert (by_id.notes, by_name.notes) == ([], [])


def test_a_column_called_like_a_word_of_sql_is_said_to_need_quotes(store: Store, workload: Manifest) -> None:
    with pytest.raises(BadArgument) as refused:
        query_counters(store, "SELECT offset, count(*) FROM samples GROUP BY 1")
    assert refused.value.fix == 'The column offset needs double quotes: "offset"'
    with pytest.raises(BadArgument) as other:
        query_counters(store, 'SELECT "offset" FROM samples WHERE')
    assert not other.value.fix


def test_a_short_description_has_names_and_types_and_the_first_of_many_columns(store: Store, make_workload) -> None:
    make_workload("wide", {f"C{i}": "i" for i in range(300)}, dispatches=5)
    whole = query_counters(store, "DESCRIBE counters")
    short = whole.brief({"sql": "DESCRIBE counters"})
    assert short.table.columns == ["column_name", "column_type"]
    assert len(short.table.rows) == 40
    assert "LIKE '%HIT%'" in short.notes[-1]
    assert len(whole.brief({"sql": "DESCRIBE counters", "limit": 100}).table.rows) == 100
    every = query_counters(store, "DESCRIBE")
    brief = every.brief({"sql": "DESCRIBE"})
    assert len(text_of(brief)) < len(text_of(every)) / 2
    named = dict(brief.table.rows)
    assert "C1, " in named["counters"]
    assert named["counters"].endswith(", ...")
    assert ", name, " in named["workloads"]
