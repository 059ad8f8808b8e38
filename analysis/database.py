"""The one DuckDB database of a process, and how names and texts are quoted in its SQL."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_THREADS = 8
"""Every thread takes address space, which is limited where a client's calls run; more bring little here."""
_alone = False
"""Whether the database has no threads."""


def connect() -> duckdb.DuckDBPyConnection:
    """A cursor of its own, for one thread; close it after use. Starting a database each time would cost 10 to 40 ms."""
    return _database().cursor()


def open_alone() -> None:
    """Open the database without any thread, so that this process can be forked: copies use it (``speed_up``)."""
    global _alone
    _alone = True
    _database()


def speed_up(con: duckdb.DuckDBPyConnection) -> None:
    """Have a database that was opened without threads start some, for much data: that costs some milliseconds."""
    global _alone
    if _alone:
        start_threads(con, _threads())
        _alone = False


def without_threads() -> dict[str, int]:
    """Settings with which DuckDB starts no thread."""
    import duckdb

    return {"threads": 1} if duckdb.__version__ < "2" else {"threads": 1, "async_threads": 0}


def start_threads(con: duckdb.DuckDBPyConnection, number: int) -> None:
    """Have a database that was opened without threads use ``number`` of them."""
    con.execute(f"SET threads = {number}")
    if "async_threads" in without_threads():
        con.execute("SET async_threads = 1")


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    settings: dict[str, int] = without_threads() if _alone else {"threads": _threads()}
    return duckdb.connect(config={**settings})


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
