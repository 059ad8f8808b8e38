"""A verb as a subcommand: its options, its call, and its answer."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from ....analysis.base.problems import Problem
from ....analysis.store.store import Store
from ...terminal import log
from ...terminal.outcome import OK, REFUSED, Outcome
from . import Verb, arguments, imports, plans
from .answers import Form, chosen_form, declare_forms, print_answer

_SHOWS_SOURCE = "find_hotspots"


class VerbCommand:
    """The subcommand of a verb. ``import`` and ``plan --write`` do more than one call."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        self.HELP = verb.help

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command, which imports the tool."""
        from ..call import source_roots

        parser.usage = self.verb.usage
        parser.epilog = f"for example: rooflens {self.verb.example}"
        words = " ".join(one.name.upper() for one in self.verb.positionals if one.kind != "program")
        about = "in this order; every other argument is KEY=VALUE or an option" if words else "an argument as KEY=VALUE"
        place = parser.add_argument(arguments.WORDS, metavar=words or "KEY=VALUE", nargs="*", help=about)
        place.verb = self.verb  # type: ignore[attr-defined]
        declare_forms(parser)
        if self.verb.tool == _SHOWS_SOURCE:
            source_roots(parser)
        if self.verb.name == "plan":
            plans.declare_options(parser)
        arguments.declare_options(parser, self._schemas())

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Call the tool and print its answer."""
        from ...mcp.toolbox import tool_named

        form = chosen_form(options)
        given = arguments.words_of(self.verb, options, self._schemas())
        tool = tool_named(self.verb.tool)
        if self.verb.name == "import":
            return imports.import_all(store, self.verb, given, form)
        arguments.validate(tool, self.verb, given)
        if self.verb.name == "plan" and options.write is not None:
            return plans.write_scripts(store, given, options)
        return call_and_print(store, self.verb, given, form, getattr(options, "source_root", []))

    def _schemas(self) -> dict[str, Any]:
        from ...mcp.toolbox import parameters, tool_named

        schemas: dict[str, Any] = parameters(tool_named(self.verb.tool).arguments).get("properties", {})
        return schemas


def call_and_print(store: Store, verb: Verb, given: dict[str, Any], form: Form, roots: list[str]) -> int:
    """Call the tool of a verb, print its answer and return the exit status. Raises a refusal of the tool."""
    from ....tools.answers.source_text import allowing, roots_of
    from ....tools.isolation.limits import keep_freed_memory
    from ...rendering import render
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
        print(render.clean(problem), file=sys.stderr)
        return REFUSED
    return OK
