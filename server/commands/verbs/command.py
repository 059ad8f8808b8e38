"""The subcommand of a verb: its arguments, and the call of its tool."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import Any

from ....analysis.base.problems import Problem
from ....analysis.store.store import Store
from ...mcp.tool_calls import ask
from ...terminal import log
from ...terminal.outcome import OK, REFUSED, Outcome, complain
from ..options import declare
from . import Verb, arguments
from .answers import Form, chosen_form, print_answer
from .command_names import name_commands
from .files import import_all, write_scripts


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
        for group in ("forms", *self.verb.options):
            declare(parser, group)
        arguments.declare_options(parser, tool_named(self.verb.tool).schemas)

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Call the tool and print its answer."""
        from ...mcp.toolbox import tool_named

        form = chosen_form(options)
        tool = tool_named(self.verb.tool)
        given = arguments.words_of(self.verb, options, tool.schemas)
        if self.verb.name == "import":
            return import_all(store, self.verb, given, form)
        arguments.validate(tool, self.verb, given)
        if getattr(options, "write", None) is not None:
            return write_scripts(store, given, options)
        return call_and_print(store, self.verb, given, form, getattr(options, "source_root", []))


def call_and_print(store: Store, verb: Verb, given: dict[str, Any], form: Form, roots: list[str]) -> int:
    """Call the tool of a verb, print its answer and return the exit status. Raises a refusal of the tool."""
    from ....tools.answers.source_text import allowing, roots_of
    from ....tools.isolation.limits import keep_freed_memory

    keep_freed_memory()
    began = time.monotonic()
    try:
        with allowing(roots_of(roots)):
            answer = ask(store, verb.tool, given)
    except Problem as refusal:
        log.log_call(verb.tool, time.monotonic() - began, type(refusal).__name__, len(refusal.text))
        raise
    size = print_answer(answer, verb, given, form)
    log.log_call(verb.tool, time.monotonic() - began, "ok", size)
    if problem := getattr(answer, "problem", None):
        complain(problem if form.name != "text" else name_commands(problem))
        return REFUSED
    return OK
