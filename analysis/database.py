"""The process's in-memory DuckDB, which reads Parquet for the engine; client SQL never runs here."""

from __future__ import annotations

from functools import cache
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
