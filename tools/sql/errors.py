"""What went wrong with a query, told so that its author can mend it; nothing of the machine shows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...analysis.base.problems import BadArgument, LimitExceeded, NotAllowed, NotFound, Problem, near
from ...analysis.base.text import count_text
from ...analysis.store.schema import unreadable_table_problem
from .sandbox import ADDRESS_SPACE_BYTES, MEMORY_BYTES

_READS = "Write one SELECT (or WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES, EXPLAIN)"
_LESS = "Filter or aggregate earlier, name fewer columns, or name one workload"
_REFUSED: dict[str, tuple[type[Problem], str, str, str]] = {
    "statement": (NotAllowed, "Only queries can run", "This statement is none, and the store is read-only", _READS),
    "explain": (
        NotAllowed,
        "EXPLAIN can run only with a SELECT",
        "The store is read-only",
        "Write EXPLAIN SELECT ... or EXPLAIN ANALYZE SELECT ..., without options in parentheses",
    ),
    "multi": (
        NotAllowed,
        "PIVOT without a list of values cannot run",
        "It amounts to two statements",
        "List the values: PIVOT t ON column IN ('a', 'b') USING sum(value)",
    ),
    "several": (NotAllowed, "Only one statement can run at a time", "", "Send them one by one"),
    "empty": (BadArgument, "The SQL is empty", "", _READS),
    "complex": (
        LimitExceeded,
        "The SQL is too complex",
        "Its parse tree is too large",
        "Split it, or shorten its lists",
    ),
    "columns": (LimitExceeded, "The result has too many columns", "", "Name the columns that you need"),
}
_OUTSIDE = ("PermissionException", "IOException", "HTTPException", "ConnectionException")
_NOT_EXPLAINED = ("InternalException", "FatalException", "SerializationException", "InvalidTypeException")
"""Errors whose text speaks of DuckDB's inside or of this machine."""


_KEYWORD = "offset"
"""The only column that is called like a word of SQL."""
_LONG_FORM = ("counter", "counter_name", "counter_value", "value")
"""Columns that a table with a row for each counter would have."""


@dataclass(frozen=True)
class FailedQuery:
    """The query, every table with its columns, and the tables that the query reads."""

    sql: str
    tables: Mapping[str, Collection[str]]
    used: Collection[str] = ()


def refusal_problem(reason: str) -> Problem:
    """The Problem for a statement that may not run; ``reason`` is a word of the worker."""
    kind, what, why, fix = _REFUSED[reason]
    return kind(what, why, fix)


def out_of_time(timeout_s: float) -> Problem:
    """The query was still running at its deadline."""
    return LimitExceeded(
        f"The query took more than {timeout_s:g} s and was stopped", "", f"{_LESS}, or raise timeout_s (60 at most)"
    )


def out_of_memory() -> Problem:
    """The worker ran into its limits of memory."""
    data, everything = MEMORY_BYTES / 1e9, ADDRESS_SPACE_BYTES / 1e9
    why = f"The limit is {data:g} GB for tables, joins and sorts, {everything:g} GB in all"
    return LimitExceeded("The query needed too much memory and was stopped", why, _LESS)


def too_deep() -> Problem:
    """The parse tree is nested too deeply to be looked at."""
    return LimitExceeded("The SQL is nested too deeply", "", "Split it with WITH, or use lists instead of long chains")


def too_wide(table: str, rows: int, columns: int) -> Problem:
    """Copying the columns in would exceed the memory limit."""
    what = f"The query would read {count_text(columns, 'column')} of {count_text(rows, 'row')} of {table}"
    return LimitExceeded(what, f"That exceeds {MEMORY_BYTES / 1e9:g} GB", f"Name the columns instead of *. {_LESS}")


def not_available(function: str, available: Collection[str]) -> Problem:
    """A function that reads something else than the tables, or hides what it reads."""
    what = f"The function {function} is not available"
    why = "SQL reaches no files, settings or extensions, and names its tables in FROM"
    return NotAllowed(what, why, f"Table functions are {', '.join(sorted(available))}")


def problem(error: Mapping[str, Any], query: FailedQuery) -> Problem:
    """The Problem behind an ``error`` of the worker: its phase (parse, load or run), type and message."""
    phase, kind = error["phase"], error["type"]
    if kind == "Refused":
        return refusal_problem(error["message"])
    if kind in ("OutOfMemoryException", "MemoryError"):
        return out_of_memory()
    if kind == "InterruptException":
        return LimitExceeded("The query took too long and was stopped", "", f"{_LESS}, or raise timeout_s")
    if phase == "load" or (phase == "parse" and kind != "ParserException"):
        return unreadable_table_problem()
    details = _parse_error(error["message"])
    text = " ".join(str(details.get("exception_message", "")).split("Candidate bindings")[0].split())[:600]
    name, table_missing = str(details.get("name", "")), details.get("type") == "Table"
    if kind in _OUTSIDE or "exists in the" in text or (table_missing and set("/.:\\") & set(name)):
        why = "A query sees the tables of the store only"
        return NotAllowed("SQL reaches no files, networks or extensions", why, f"Use {', '.join(query.tables)}")
    if kind in _NOT_EXPLAINED or not text:
        return BadArgument("The query failed", "This form of it is not supported", "Write it in another way")
    if "A CTE needs a SELECT" in text:
        return refusal_problem("statement")
    if "expression depth" in text:
        return too_deep()
    return _mistake_problem(kind, details, text, query)


def _mistake_problem(kind: str, details: Mapping[str, Any], text: str, query: FailedQuery) -> Problem:
    """An honest mistake in the SQL."""
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
        return BadArgument(f"No function fits {details.get('call', name)}", where, f"There are: {'; '.join(choices)}")
    return BadArgument(f"The query failed: {text}", where)


def _quoting(query: FailedQuery) -> str:
    """Which name of a query that cannot be parsed may lack its quotes."""
    if "@" in query.sql:
        return 'Names with @ need double quotes: "COUNTER@PASS"'
    words = set(re.findall(r'(?<!")\b\w+\b(?!")', query.sql.lower()))
    if _KEYWORD in words and any(_KEYWORD in columns for name, columns in query.tables.items() if name in words):
        return f'The column {_KEYWORD} needs double quotes: "{_KEYWORD}"'
    return ""


def _missing_column(details: Mapping[str, Any], text: str) -> str | None:
    """The column that an error says is missing; not every such error names it in a field of its own."""
    if details.get("error_subtype") == "COLUMN_NOT_FOUND":
        return str(details["name"])
    pieces = text.split('"')
    if len(pieces) > 3 and "does not have a column named" in text:
        return pieces[3]
    if len(pieces) > 1 and text.startswith('Column "') and ("not found" in text or "does not exist" in text):
        return pieces[1]
    return None


def _no_column(name: str, where: str, query: FailedQuery) -> Problem:
    """An unknown column: the tables that do have it, or near names in the tables of the query."""
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
        return NotFound(what, where, f"Name a table in FROM. {_all_tables(query)}")
    hint = near(name, [column for table in used for column in query.tables[table]])
    listing = f"DESCRIBE {'counters' if 'counters' in used else used[0]} lists all"
    return NotFound(what, where, f"{hint}. {listing}" if hint else listing)


def _all_tables(query: FailedQuery) -> str:
    return f"The tables are {', '.join(query.tables)}"


def _parse_error(message: str) -> dict[str, Any]:
    """The structured part of an error message, or just its text."""
    _, brace, rest = message.partition("{")
    try:
        return dict(json.loads(brace + rest))
    except ValueError:
        return {"exception_message": message.split("\n\n")[0]}


def _position_text(sql: str, position: str | None) -> str:
    """``Line 1, column 8, at: ...`` for a byte offset into the query."""
    if position is None or not position.isdigit():
        return ""
    before = sql.encode()[: int(position)].decode(errors="ignore")
    rest = sql[len(before) :].split("\n")[0].strip()
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"Line {line}, column {column}" + (f", at: {rest[:60]}" if rest else "")
