"""The child of sandbox.py: parses one query, copies in the data it needs, locks everything, runs it, sends the rows.

The arguments are sql, memory_bytes and timeout_s. Messages:

    out  tree, explain                                               or error
    in   load (trusted SQL statements), count (trusted SQL or null), limit, cell_bytes, total_bytes
    out  columns, rows, complete, cut_cells, cut_bytes, not_finite, big_integers     or error
    out  total_rows                                                  when complete is false

``error`` contains phase (parse, load or run), type and message.
"""

import json
import math
import sys
from decimal import Decimal
from typing import Any

from ...analysis.base.database import start_threads, thread_settings
from ...analysis.base.text import count_text
from ..isolation.channel import Channel
from ..isolation.limits import no_more_files
from .statement_gate import StatementRefused, columns_as_text, gate, query_relation, wrap

_SETTINGS = {
    "temp_directory": "",
    "max_temp_directory_size": "0KB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    # By default, this setting contains the home folder.
    "secret_directory": "none",
    "python_enable_replacements": "false",
    # This cache keeps the names of files that were read, and shows them to SQL.
    "enable_external_file_cache": "false",
}
_SETTINGS_SINCE_2 = {"allow_extension_repositories": "forbidden"}
_THREADS = 2
_EXACT = 2**53
_AS_TEXT = ("date", "time", "interval", "uuid", "variant", "geometry")
"""Types whose Python values lose range or precision, or need a module that can no longer be imported then."""


def answer_query(channel: Channel, job: dict[str, Any]) -> None:
    """Process one query."""
    import duckdb

    phase = "parse"
    try:
        con = _connect(duckdb, job)
        # max_expression_depth limits the depth of the tree, but Python's own limit is lower.
        sys.setrecursionlimit(20_000)
        sql, explain, tree = gate(duckdb, con, job["sql"])
        channel.send({"tree": tree, "explain": bool(explain)})
        phase, plan = "load", channel.receive()
        for statement in plan["load"]:
            con.execute(statement)
        total = con.execute(plan["count"]).fetchone()[0] if plan["count"] else None
        _lock(duckdb, con, job["timeout_s"])
        phase = "run"
        if explain:
            columns, cursor = ["explain_key", "explain_value"], con.execute(f"{explain} {sql}")
        else:
            columns, cursor = _run_query(duckdb, con, sql)
        answer = _RowShaper(plan).fetch(cursor, columns)
        channel.send(answer)
        if not (answer["complete"] or explain):
            if total is None:
                # The parent does not wait long for this; if the rows cannot be counted in time, the child is killed.
                total = con.cursor().execute(wrap(duckdb, con, "count(*)", sql)).fetchone()[0]
            channel.send({"total_rows": total})
    except StatementRefused as error:
        channel.send({"error": {"phase": phase, "type": "Refused", "message": str(error)}})
    except (duckdb.Error, MemoryError, RuntimeError, ValueError, ArithmeticError) as error:
        # The last three are raised for values that Python cannot represent.
        channel.send({"error": {"phase": phase, "type": type(error).__name__, "message": str(error)[:20_000]}})


_prepared: Any = None
"""A database opened in the process that this one was forked from."""


def prepare() -> None:
    """Open a query's database in advance, without threads, so that every forked copy of this process has one."""
    global _prepared
    import duckdb

    _prepared = _open_database(duckdb)


def _connect(duckdb: Any, job: dict[str, Any]) -> Any:
    con = _prepared or _open_database(duckdb)
    start_threads(con, _THREADS)
    con.execute(f"SET memory_limit = '{job['memory_bytes']}B'")
    return con


def _open_database(duckdb: Any) -> Any:
    """Open a database without threads."""
    since_2 = int(duckdb.__version__.split(".")[0]) >= 2
    con = duckdb.connect(
        ":memory:", config={**_SETTINGS, **(_SETTINGS_SINCE_2 if since_2 else {}), **thread_settings(0)}
    )
    con.execute("SET max_expression_depth = 250")
    con.execute("SET errors_as_json = true")
    return con


def _lock(duckdb: Any, con: Any, timeout_s: float) -> None:
    """Forbid opening, configuring and writing anything from here on, in DuckDB and in the operating system."""
    if int(duckdb.__version__.split(".")[0]) >= 2:
        con.execute(f"SET max_execution_time = {max(1, int(timeout_s * 1000))}")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    no_more_files()


def _run_query(duckdb: Any, con: Any, sql: str) -> tuple[list[str], Any]:
    """Start the query; DuckDB converts columns of types that Python cannot represent exactly to text."""
    relation = query_relation(duckdb, con, sql)
    columns, needs_text = list(relation.columns), [_python_would_spoil(kind) for kind in relation.types]
    del relation
    if any(needs_text):
        sql = wrap(duckdb, con, columns_as_text(needs_text), sql)
    return columns, con.execute(sql)


def _python_would_spoil(kind: Any) -> bool:
    if kind.id in ("list", "array", "struct", "map", "union", "tuple"):
        return any(_python_would_spoil(child) for _, child in kind.children if not isinstance(child, int))
    return any(kind.id.startswith(name) for name in _AS_TEXT)


class _RowShaper:
    """Converts rows to JSON values within the limits, and counts what had to be changed."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.limit, self.cell, self.left = plan["limit"], plan["cell_bytes"], plan["total_bytes"]
        self.cut_cells = self.not_finite = self.big = 0

    def fetch(self, cursor: Any, columns: list[str]) -> dict[str, Any]:
        """Read up to the limit of rows or bytes; one further row shows whether that was everything."""
        names = [name if len(name) <= 200 else f"{name[:200]}..." for name in columns]
        self.left -= len(json.dumps(names))
        if self.left < 0:
            raise StatementRefused("columns")
        rows: list[list[Any]] = []
        more = cut = False
        # Fetch few rows at a time, so that wide or long ones are noticed before they fill the memory.
        while not more and (batch := cursor.fetchmany(min(64, self.limit + 1 - len(rows)))):
            for row in batch:
                if more := len(rows) == self.limit:
                    break
                values = [self._value(value) for value in row]
                self.left -= len(json.dumps(values, ensure_ascii=False).encode())
                if self.left < 0:
                    more = cut = True
                    break
                rows.append(values)
        return {
            "columns": names, "rows": rows, "complete": not more, "cut_bytes": cut, "cut_cells": self.cut_cells,
            "not_finite": self.not_finite, "big_integers": self.big,
        }  # fmt: skip

    def _value(self, value: Any) -> Any:
        plain = self._plain(value)
        if isinstance(plain, dict | list):
            text = json.dumps(plain, ensure_ascii=False)
            if len(text) <= self.cell:
                return plain
            plain = text
        if isinstance(plain, str) and len(plain) > self.cell + 50:  # room for the truncation mark
            self.cut_cells += 1
            return f"{plain[: self.cell]}... ({count_text(len(plain), 'character')})"
        return plain

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            if -_EXACT <= value <= _EXACT:
                return value
            self.big += 1
            return str(value)
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            self.not_finite += 1
            return None
        if isinstance(value, Decimal):
            return float(value) if Decimal(repr(float(value))) == value else str(value)
        if isinstance(value, bytes | bytearray):
            if 2 * len(value) <= self.cell:
                return value.hex()
            self.cut_cells += 1
            return f"{value[: self.cell // 2].hex()}... ({count_text(len(value), 'byte')})"
        if isinstance(value, dict):
            return {str(key): self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        return str(value)
