"""Tests of analysis/base/database.py: databases take few threads, whatever the machine has, and plans are kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from rooflens.analysis.base import database

SINCE_2 = int(duckdb.__version__.split(".")[0]) >= 2


def threads_of(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    names = ["threads", *(["async_threads"] if SINCE_2 else [])]
    return {name: int(con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]) for name in names}


def test_a_database_of_a_machine_with_many_cores_takes_few_threads(
    monkeypatch: pytest.MonkeyPatch, usual_threads: int
) -> None:
    """Every thread takes address space, of which a client's call has 3 GB: 80 threads took more."""
    monkeypatch.setattr(database, "_THREADS", usual_threads)
    monkeypatch.setattr("os.cpu_count", lambda: 128)
    for number, expected in [(None, 8), (2, 2)]:
        con = database.open_own_database(number)
        assert threads_of(con) == {"threads": expected, **({"async_threads": 1} if SINCE_2 else {})}
        con.close()
    assert threads_of(database.connect()).get("async_threads", 0) <= 1


def test_a_query_whose_plan_is_kept_reads_every_number_as_it_is() -> None:
    numbers = [None, 0.0, -0.1, 1 / 3, 123456789.123456789, 5e-324, -1.7976931348623157e308, 2**53 + 2.0, 7]
    for given in (numbers, numbers[::-1], [], [None]):
        rows = database.run_prepared("SELECT unnest($1::DOUBLE[]), unnest($2::DOUBLE[])", [given, given])
        assert rows == [(number, number) for number in given]


def test_as_many_plans_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_MOST_PLANS", 3)
    database._planner.cache_clear()
    for i in range(8):
        for _ in range(2):
            assert database.run_prepared(f"SELECT {i} + unnest($1::DOUBLE[])", [[0.5]]) == [(i + 0.5,)]
        assert len(database._planner()[1]) <= 3
    database._planner.cache_clear()


def test_threads_do_not_get_the_rows_of_others() -> None:
    def asked(i: int) -> bool:
        return database.run_prepared(f"SELECT {i % 3} + unnest($1::DOUBLE[])", [[i] * 50]) == [(i % 3 + i,)] * 50

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(asked, range(200)))
