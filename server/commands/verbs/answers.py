"""The answer of a tool on the standard output: words for people, JSON for programs, or its main table as CSV."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import Problem
from ....analysis.base.text import inert
from ....analysis.store.store import Store
from ....tools.base.results import Result, Table
from ...terminal import log
from ...terminal.outcome import OK, REFUSED, Misuse, Outcome, print_line
from ...terminal.tables import TerminalTables
from ..options import declare
from . import Verb, arguments
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
            print(_cut_table_text(table, verb), file=sys.stderr)
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


_SHOWS_SOURCE = "find_hotspots"


class VerbCommand:
    """The subcommand of a verb. ``import`` and ``plan --write`` do more than one call."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        self.HELP = verb.help

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command, which imports the tool."""
        from ...mcp.toolbox import tool_named

        parser.usage = self.verb.usage
        parser.epilog = f"for example: rooflens {self.verb.example}"
        words = " ".join(one.name.upper() for one in self.verb.positionals if one.kind != "program")
        about = "in this order; every other argument is KEY=VALUE or an option" if words else "an argument as KEY=VALUE"
        place = parser.add_argument(arguments.WORDS, metavar=words or "KEY=VALUE", nargs="*", help=about)
        place.verb = self.verb  # type: ignore[attr-defined]
        declare(parser, "forms")
        if self.verb.tool == _SHOWS_SOURCE:
            declare(parser, "source_roots")
        if self.verb.name == "plan":
            declare(parser, "scripts")
        arguments.declare_options(parser, tool_named(self.verb.tool).schemas)

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Call the tool and print its answer."""
        from ...mcp.toolbox import tool_named

        form = chosen_form(options)
        tool = tool_named(self.verb.tool)
        given = arguments.words_of(self.verb, options, tool.schemas)
        if self.verb.name == "import":
            from .files import import_all

            return import_all(store, self.verb, given, form)
        arguments.validate(tool, self.verb, given)
        if self.verb.name == "plan" and options.write is not None:
            from .files import write_scripts

            return write_scripts(store, given, options)
        return call_and_print(store, self.verb, given, form, getattr(options, "source_root", []))


def call_and_print(store: Store, verb: Verb, given: dict[str, Any], form: Form, roots: list[str]) -> int:
    """Call the tool of a verb, print its answer and return the exit status. Raises a refusal of the tool."""
    from ....tools.answers.source_text import allowing, roots_of
    from ....tools.isolation.limits import keep_freed_memory
    from ..call import finish_call

    keep_freed_memory()
    began = time.monotonic()
    with allowing(roots_of(roots)):
        answer = finish_call(store, verb.tool, given)
    if isinstance(answer, Problem):
        log.log_call(verb.tool, time.monotonic() - began, type(answer).__name__, len(answer.text))
        raise answer
    size = print_answer(answer, verb, given, form)
    log.log_call(verb.tool, time.monotonic() - began, "ok", size)
    if problem := getattr(answer, "problem", None):
        print(inert(problem if form.name != "text" else name_commands(problem)), file=sys.stderr)
        return REFUSED
    return OK
