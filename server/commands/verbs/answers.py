"""The answer of a tool on the standard output: words for people, JSON for programs, or its main table as CSV."""

from __future__ import annotations

import csv
import io
import json
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....analysis.base.text import inert
from ....tools.base.results import Result, Table
from ...terminal.outcome import Misuse, complain, print_line
from ...terminal.tables import TerminalTables
from . import Verb
from .command_names import command_line, name_commands

if TYPE_CHECKING:
    from ....tools.rendering.document import Document

_LIMITS = ("limit", "top_n")
"""The arguments that limit the rows of a table."""


@dataclass(frozen=True)
class Form:
    """How an answer is printed."""

    name: str
    """text, json or csv."""
    full: bool = False
    """Whether the size of the answer is not limited."""
    store: str | None = None
    """The address given with --store, which the suggested commands repeat."""


def chosen_form(options: Namespace, *, default: str = "text") -> Form:
    """The form that the options choose. Raises Misuse for two."""
    chosen = [name for name in ("text", "json", "csv") if getattr(options, name, False)]
    if len(chosen) > 1:
        raise Misuse(f"--{chosen[0]} and --{chosen[1]} exclude each other", "Omit one of them")
    return Form(chosen[0] if chosen else default, getattr(options, "full", False), getattr(options, "store", None))


def print_answer(result: Result, verb: Verb, arguments: dict[str, Any], form: Form) -> int:
    """Print an answer and return the number of characters. Raises Misuse if --csv asks for a table that is missing."""
    from ....tools.rendering import render
    from ....tools.rendering.document import Document

    if form.name == "csv":
        table = getattr(result, verb.table, None) if verb.table else None
        if not isinstance(table, Table):
            what = f"this answer has no table {verb.table}" if verb.table else f"the answer of {verb.name} has no table"
            raise Misuse(f"--csv prints a table, and {what}", "Use --json, or omit --csv")
        if table.truncated:
            complain(_cut_table_text(table, verb))
        return print_rows(table.columns, table.rows)
    document = Document(result) if form.full else render.fit_answer(result, verb.tool, arguments)
    json_text = form.name == "json"
    text = json.dumps(document.content, ensure_ascii=False) if json_text else answer_text(document, form)
    print_line(text, verbatim=True)
    return len(text)


def answer_text(document: Document, form: Form) -> str:
    """The words that MCP clients read, with tables that fit, and with commands in place of tools and calls."""
    from ....tools.rendering import render

    data, tables = "\n".join(document.data), TerminalTables()
    words = name_commands(tables.shorten_paths(render.text(document, tables, following=False)), data)
    if not document.result.next:
        return words
    calls = [(command_line(call, form.store), name_commands(call.why, data)) for call in document.result.next]
    return "\n".join(
        [*([words, ""] if words else []), "next", *(inert(f"  {line}\n      {why}") for line, why in calls)]
    )


def _cut_table_text(table: Table, verb: Verb) -> str:
    """A sentence about the rows that are not printed, with the argument that gives more."""
    from ...mcp.toolbox import tool_named

    total = f" of {table.total_rows}" if table.total_rows is not None else ""
    more = [f"{name}=N gives more" for name in _LIMITS if name in tool_named(verb.tool).arguments.model_fields]
    return "; ".join([f"{len(table.rows)}{total} rows are printed", *more[:1]])


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Print a table as CSV and return the number of characters; a missing value is an empty cell."""
    from ....tools.rendering.document import clean

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(clean(value)) for value in row] for row in rows)
    print_line(text.getvalue().removesuffix("\n"), verbatim=True)
    return len(text.getvalue())


def _csv_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | list | dict) else value
