"""The one DuckDB database of a process, and how names and texts are quoted in its SQL."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """A cursor of its own, for one thread; close it after use. Starting a database each time would cost 10 ms."""
    return _database().cursor()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect()


def sql_path(path: Path) -> str:
    """``path`` as a SQL literal for DuckDB's readers: characters of a glob pattern stand for themselves."""
    return sql_literal("".join(f"[{c}]" if c in "*?[" else c for c in str(path)))


def sql_literal(text: str) -> str:
    """``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
