"""The DuckDB database of the process, and quoting of names and text in SQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

_THREADS = 8
"""The number of threads. Each needs address space, which is limited where a client's calls run, and more barely help.
Without these settings DuckDB 2 starts five threads per core, four of them to wait for files."""
_alone = False
"""Whether the database was opened without threads."""
_MOST_PLANS = 128
_plan_lock = threading.Lock()


def connect() -> duckdb.DuckDBPyConnection:
    """A new cursor for use by one thread; close it after use. Starting a database each time would take 10 to 40 ms."""
    return _database().cursor()


def open_without_threads() -> None:
    """Open the database without threads, so that this process can be forked and the children use it (``speed_up``)."""
    global _alone
    _alone = True
    _database()


def open_own_database(number: int | None = None, **settings: str) -> duckdb.DuckDBPyConnection:
    """A separate database with ``number`` threads and ``settings``; close it after use."""
    import duckdb

    return duckdb.connect(config={**thread_settings(number or _threads()), **settings})


def speed_up(con: duckdb.DuckDBPyConnection) -> None:
    """Start threads in a database that was opened without any, for large data; this takes some milliseconds."""
    global _alone
    if _alone:
        start_threads(con, _threads())
        _alone = False


def thread_settings(number: int) -> dict[str, str]:
    """The settings for ``number`` DuckDB threads and one that waits for files; with 0 no thread is started."""
    import duckdb

    settings = {"threads": str(max(1, number)), "async_threads": str(min(1, number))}
    return settings if int(duckdb.__version__.split(".")[0]) >= 2 else {"threads": settings["threads"]}


def start_threads(con: duckdb.DuckDBPyConnection, number: int) -> None:
    """Let a database that was opened without threads use ``number`` of them."""
    for name, value in thread_settings(number).items():
        con.execute(f"SET {name} = {value}")


def run_prepared(sql: str, lists: Sequence[Sequence[float | None]]) -> list[tuple[Any, ...]]:
    """The rows of a query over ``lists`` of finite numbers ($1::DOUBLE[] and so on), with a cached plan.

    For long SQL over few rows, planning takes ten times as long as the execution.
    """
    arguments = ", ".join(f"[{', '.join(map(_double, values))}]::DOUBLE[]" for values in lists)
    with _plan_lock:
        con, plans = _planner()
        if sql not in plans and len(plans) >= _MOST_PLANS:
            _planner.cache_clear()
            con, plans = _planner()
        if sql not in plans:
            con.execute(f"PREPARE plan_{len(plans)} AS {sql}")
            plans[sql] = f"plan_{len(plans)}"
        return con.execute(f"EXECUTE {plans[sql]}({arguments})").fetchall()


@cache
def _planner() -> tuple[duckdb.DuckDBPyConnection, dict[str, str]]:
    """A separate connection with its prepared plans: SQL -> name."""
    return connect(), {}


def _double(value: float | None) -> str:
    """A number as SQL with exactly the same value; without an exponent it would be a DECIMAL."""
    text = "NULL" if value is None else repr(float(value))
    return text if value is None or "e" in text else f"{text}e0"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={**thread_settings(0 if _alone else _threads())})


def _threads() -> int:
    return min(_THREADS, os.cpu_count() or 1)


def sql_path(path: Path) -> str:
    """``path`` as an SQL literal for DuckDB's readers, with glob characters escaped."""
    return sql_literal("".join(f"[{c}]" if c in "*?[" else c for c in str(path)))


def sql_literal(text: str) -> str:
    """``text`` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def column_names(con: duckdb.DuckDBPyConnection, source: str) -> list[str]:
    """The names of the columns of a FROM item."""
    return [str(name) for name, *_ in con.execute(f"DESCRIBE FROM {source}").fetchall()]
