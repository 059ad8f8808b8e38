"""The one DuckDB database of a process, and how names and texts are quoted in its SQL."""

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
"""Every thread takes address space, which is limited where a client's calls run; more bring little here. Without these
settings DuckDB 2 starts five threads for every core, four of them to wait for files."""
_alone = False
"""Whether the database has no threads."""
_MOST_PLANS = 128
_plan_lock = threading.Lock()


def connect() -> duckdb.DuckDBPyConnection:
    """A cursor of its own, for one thread; close it after use. Starting a database each time would cost 10 to 40 ms."""
    return _database().cursor()


def open_without_threads() -> None:
    """Open the database without any thread, so that this process can be forked: copies use it (``speed_up``)."""
    global _alone
    _alone = True
    _database()


def open_own_database(number: int | None = None, **settings: str) -> duckdb.DuckDBPyConnection:
    """A database of its own, with ``number`` of threads and ``settings``; close it after use."""
    import duckdb

    return duckdb.connect(config={**thread_settings(number or _threads()), **settings})


def speed_up(con: duckdb.DuckDBPyConnection) -> None:
    """Have a database that was opened without threads start some, for much data: that costs some milliseconds."""
    global _alone
    if _alone:
        start_threads(con, _threads())
        _alone = False


def thread_settings(number: int) -> dict[str, str]:
    """Settings with which DuckDB uses ``number`` of threads and one that waits for files; with 0 it starts none."""
    import duckdb

    settings = {"threads": str(max(1, number)), "async_threads": str(min(1, number))}
    return settings if int(duckdb.__version__.split(".")[0]) >= 2 else {"threads": settings["threads"]}


def start_threads(con: duckdb.DuckDBPyConnection, number: int) -> None:
    """Have a database that was opened without threads use ``number`` of them."""
    for name, value in thread_settings(number).items():
        con.execute(f"SET {name} = {value}")


def run_prepared(sql: str, lists: Sequence[Sequence[float | None]]) -> list[tuple[Any, ...]]:
    """The rows of a query over ``lists`` of finite numbers, $1::DOUBLE[] and so on, whose plan is kept.

    For much SQL over few rows planning takes ten times as long as the rest.
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
    """A connection of its own with the plans that it keeps: SQL -> name."""
    return connect(), {}


def _double(value: float | None) -> str:
    """A number as SQL that is read as exactly the same; without an exponent it would be a decimal."""
    text = "NULL" if value is None else repr(float(value))
    return text if value is None or "e" in text else f"{text}e0"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={**thread_settings(0 if _alone else _threads())})


def _threads() -> int:
    return min(_THREADS, os.cpu_count() or 1)


def sql_path(path: Path) -> str:
    """``path`` as a SQL literal for DuckDB's readers: characters of a glob pattern stand for themselves."""
    return sql_literal("".join(f"[{c}]" if c in "*?[" else c for c in str(path)))


def sql_literal(text: str) -> str:
    """``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
