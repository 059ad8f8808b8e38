"""Check an SQL text before it runs: whether it is a single query, what its parse tree is, and how to wrap it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_TREE_BYTES = 4_000_000


class StatementRefused(Exception):
    """The statement may not run; the argument is a reason code that the parent knows."""


def gate(duckdb: Any, con: Any, sql: str) -> tuple[str, str, Any]:
    """Return what may run: (the SELECT, ``EXPLAIN``, ``EXPLAIN ANALYZE`` or nothing, the parse tree of the SELECT).

    Raises StatementRefused for anything else, and RecursionError if the tree is deeper than Python's limit.
    """
    kind = _single(con, sql)
    explain = ""
    if kind == "EXPLAIN":
        # What runs is rebuilt from the inner statement, so that nothing runs that was not checked.
        explain, sql = _split_explain(duckdb, sql)
        try:
            kind = _single(con, sql)
        except duckdb.ParserException:  # options follow
            raise StatementRefused("explain") from None
    if kind != "SELECT":
        raise StatementRefused("explain" if explain else "multi" if kind == "MULTI" else "statement")
    text = con.execute(
        "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)", [sql]
    ).fetchone()[0]
    if len(text) > _TREE_BYTES:
        raise StatementRefused("complex")
    tree = json.loads(text)
    if tree["error"]:
        raise StatementRefused("statement")
    return sql, explain, tree["statements"][0]["node"]


def _single(con: Any, sql: str) -> str:
    """Return the type of the single statement in ``sql``."""
    statements = con.extract_statements(sql)
    if not statements:
        raise StatementRefused("empty")
    try:
        kinds = [statement.type.name for statement in statements]
    except ValueError:  # a type newer than the enumeration of the Python module
        raise StatementRefused("statement") from None
    if kinds == ["CREATE", "SELECT"] and not statements[0].query:
        raise StatementRefused("multi")  # how 1.5 extracts a PIVOT without an IN list
    if len(kinds) > 1:
        raise StatementRefused("several")
    return str(kinds[0])


def _split_explain(duckdb: Any, sql: str) -> tuple[str, str]:
    """Split off ``EXPLAIN [ANALYZE]``; comments are ignored."""
    data = sql.encode()
    tokens = [*duckdb.tokenize(sql), (len(data), None)]
    spans = [(a, b) for (a, kind), (b, _) in pairwise(tokens) if kind != duckdb.token_type.comment]
    second, end = spans[1]
    if data[second:end].strip().lower() == b"analyze":
        return "EXPLAIN ANALYZE", data[end:].decode()
    return "EXPLAIN", data[second:].decode()


def query_relation(duckdb: Any, con: Any, sql: str) -> Any:
    """Return the relation of a query, which is bound but did not run yet."""
    try:
        return con.sql(sql)
    except duckdb.Error:
        con.execute(sql)  # also fails, with a better message
        raise


def columns_as_text(chosen: Sequence[bool]) -> str:
    """Return what to SELECT for all columns of a query, with the chosen ones as text."""
    return ", ".join(f"CAST(#{i} AS VARCHAR)" if as_text else f"#{i}" for i, as_text in enumerate(chosen, 1))


def wrap(duckdb: Any, con: Any, picks: str, sql: str) -> str:
    """Return a SELECT of ``picks`` from the query; the line break ends any trailing comment."""
    data = sql.encode()
    ends = [
        at for at, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.operator and data[at:].startswith(b";")
    ]
    text = f"SELECT {picks} FROM (\n{data[: min(ends, default=len(data))].decode()}\n)"
    _single(con, text)
    return text
