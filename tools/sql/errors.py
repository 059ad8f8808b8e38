"""Explain query errors so that the author can fix the query, without exposing anything about the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.base.problems import BadArgument, NotFound, Problem, near
from ...analysis.base.wording import Wordings
from ...analysis.store.schema import unreadable_table_problem
from .sandbox import ADDRESS_SPACE_BYTES, MEMORY_BYTES

_OUTSIDE = ("PermissionException", "IOException", "HTTPException", "ConnectionException")
_NOT_EXPLAINED = ("InternalException", "FatalException", "SerializationException", "InvalidTypeException")
"""Errors whose text describes DuckDB internals or this machine."""
_KEYWORD = "offset"
"""The only column whose name is an SQL keyword."""
_LONG_FORM = ("counter", "counter_name", "counter_value", "value")
"""Columns that a table with one row per counter would have."""


@dataclass(frozen=True)
class FailedQuery:
    """The query, every table with its columns, and the tables that the query reads."""

    sql: str
    tables: Mapping[str, Collection[str]]
    used: Collection[str] = ()


query_problem = Wordings(Path(__file__).with_suffix(".toml")).problem
"""Returns the problem with a code of errors.toml, such as one that the worker sends."""


def out_of_memory() -> Problem:
    """Return the Problem of a worker that reached its memory limits."""
    return query_problem("out_of_memory", data=MEMORY_BYTES / 1e9, everything=ADDRESS_SPACE_BYTES / 1e9)


def problem(error: Mapping[str, Any], query: FailedQuery) -> Problem:
    """Return the Problem for an ``error`` of the worker: its phase (parse, load or run), type and message."""
    phase, kind = error["phase"], error["type"]
    if kind == "Refused":
        return query_problem(error["message"])
    if kind in ("OutOfMemoryException", "MemoryError"):
        return out_of_memory()
    if kind == "InterruptException":
        return query_problem("interrupted")
    if phase == "load" or (phase == "parse" and kind != "ParserException"):
        return unreadable_table_problem()
    details = _parse_error(error["message"])
    text = " ".join(str(details.get("exception_message", "")).split("Candidate bindings")[0].split())[:600]
    name, table_missing = str(details.get("name", "")), details.get("type") == "Table"
    if kind in _OUTSIDE or "exists in the" in text or (table_missing and set("/.:\\") & set(name)):
        return query_problem("outside", tables=list(query.tables))
    if kind in _NOT_EXPLAINED or not text:
        return query_problem("not_explained")
    if "A CTE needs a SELECT" in text:
        return query_problem("statement")
    if "expression depth" in text:
        return query_problem("too_deep")
    return _mistake_problem(kind, details, text, query)


def _mistake_problem(kind: str, details: Mapping[str, Any], text: str, query: FailedQuery) -> Problem:
    """Return the Problem for a mistake in the SQL."""
    name, missing = str(details.get("name", "")), str(details.get("type", ""))
    where = _position_text(query.sql, details.get("position"))
    if kind == "ParserException":
        return BadArgument(f"The SQL cannot be parsed: {text}", where, _quoting(query))
    if column := _missing_column(details, text):
        return _no_column(column, where, query)
    if missing == "Table":
        return NotFound(f"There is no table {name}", where, near(name, query.tables) or _all_tables(query))
    if "Function" in missing:
        close = str(details.get("candidates", "")).split(",")[0]
        return NotFound(f"There is no function {name}", where, f"The nearest name is {close}" if close else "")
    if details.get("error_subtype") == "NO_MATCHING_FUNCTION":
        choices = [line.strip() for line in str(details["exception_message"]).split("\n\t")[2:8]]
        return BadArgument(f"No function takes {details.get('call', name)}", where, f"There are: {'; '.join(choices)}")
    return BadArgument(f"The query failed: {text}", where)


def _quoting(query: FailedQuery) -> str:
    """Point out a name that may lack its quotes, for a query that cannot be parsed."""
    if "@" in query.sql:
        return 'Names with @ need double quotes: "COUNTER@PASS"'
    words = set(re.findall(r'(?<!")\b\w+\b(?!")', query.sql.lower()))
    if _KEYWORD in words and any(_KEYWORD in columns for name, columns in query.tables.items() if name in words):
        return f'The column {_KEYWORD} needs double quotes: "{_KEYWORD}"'
    return ""


def _missing_column(details: Mapping[str, Any], text: str) -> str | None:
    """Return the column that an error reports as missing; not every such error has a field for it."""
    if details.get("error_subtype") == "COLUMN_NOT_FOUND":
        return str(details["name"])
    pieces = text.split('"')
    if len(pieces) > 3 and "does not have a column named" in text:
        return pieces[3]
    if len(pieces) > 1 and text.startswith('Column "') and ("not found" in text or "does not exist" in text):
        return pieces[1]
    return None


def _no_column(name: str, where: str, query: FailedQuery) -> Problem:
    """Explain an unknown column: name the tables that have it, or similar columns in the tables of the query."""
    used = [table for table in query.tables if table in query.used]
    what = f"There is no column {name!r}" + (f" in {', '.join(used)}" if used else "")
    if f'"{name}"' in query.sql and not name.replace("@", "_").isidentifier():
        return NotFound(what, where, "Text needs 'single quotes'; double quotes are for names")
    if "counters" in used and name.lower() in _LONG_FORM:
        fix = "Each counter is a column of counters: SELECT kernel, SQ_WAVES FROM counters. DESCRIBE counters lists all"
        return NotFound(what, where, fix)
    holders = [table for table, columns in query.tables.items() if name.lower() in {c.lower() for c in columns}]
    if holders and not set(holders) & set(used):
        return NotFound(what, where, f"It is a column of {', '.join(holders)}")
    if not used:
        return NotFound(what, where, f"Add a table in FROM. {_all_tables(query)}")
    hint = near(name, [column for table in used for column in query.tables[table]])
    listing = f"DESCRIBE {'counters' if 'counters' in used else used[0]} lists all"
    return NotFound(what, where, f"{hint}. {listing}" if hint else listing)


def _all_tables(query: FailedQuery) -> str:
    return f"The tables are {', '.join(query.tables)}"


def _parse_error(message: str) -> dict[str, Any]:
    """Return the structured part of an error message, or just its text."""
    _, brace, rest = message.partition("{")
    try:
        return dict(json.loads(brace + rest))
    except ValueError:
        return {"exception_message": message.split("\n\n")[0]}


def _position_text(sql: str, position: str | None) -> str:
    """Return ``Line 1, column 8, at: ...`` for a byte offset into the query."""
    if position is None or not position.isdigit():
        return ""
    before = sql.encode()[: int(position)].decode(errors="ignore")
    rest = sql[len(before) :].split("\n")[0].strip()
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"Line {line}, column {column}" + (f", at: {rest[:60]}" if rest else "")
