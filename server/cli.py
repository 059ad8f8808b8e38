"""The command line: the options that all subcommands accept, and the output of their outcome."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NoReturn

from .. import __version__
from ..analysis.base.problems import Problem
from ..analysis.store.store import Store
from .commands import NAMES, command
from .terminal import log
from .terminal.outcome import INTERRUPTED, MEANINGS, OK, Misuse, Outcome, misunderstood, refuse, tell, unread
from .terminal.progress_bar import show_progress

_JSON = "--json"
_COMPLETES = "_ARGCOMPLETE"
"""The environment variable with which a shell asks for completions."""
_SPEAKS_MCP = "serve"
"""The subcommand whose standard output is reserved for the protocol."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status, one of ``MEANINGS``."""
    words = sys.argv[1:] if argv is None else list(argv)
    as_json = _JSON in words
    try:
        whole = parser()
        if _COMPLETES in os.environ:
            from .commands.completion import complete

            complete(whole)
        options = whole.parse_args(words)
        as_json = getattr(options, "json", False)
        log.start(getattr(options, "verbose", 0))
        store = Store.locate(getattr(options, "store", None))
        with nullcontext() if options.subcommand == _SPEAKS_MCP else show_progress():
            result: int | Outcome = options.run(options, store)
        return tell(result, as_json) if isinstance(result, Outcome) else result
    except Misuse as misuse:
        return misunderstood(misuse, as_json)
    except Problem as problem:
        return refuse(problem, as_json)
    except BrokenPipeError:
        unread()
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED


class _Parser(argparse.ArgumentParser):
    """A parser that raises Misuse instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{self.prog}: error: {message}", self.format_usage().rstrip())


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; --store, --json and -v are accepted before and after a subcommand."""
    everywhere = _Parser(add_help=False)
    everywhere.add_argument(
        "--store",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the workload store (default: $ROOFLENS_STORE, else the user's data folder)",
    )
    everywhere.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="log every tool call to stderr (tool, outcome, time, size; never contents); twice for more",
    )
    for_programs = _Parser(add_help=False)
    for_programs.add_argument(
        _JSON,
        action="store_true",
        default=argparse.SUPPRESS,
        help="print one JSON object on the standard output instead of text: the result, or the error",
    )
    meanings = "\n".join(f"  {status:<4}{meaning}" for status, meaning in MEANINGS.items())
    whole = _Parser(
        prog="rooflens",
        description="Measure, understand and improve GPU kernels.",
        epilog=f"exit status:\n{meanings}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[everywhere, for_programs],
    )
    whole.add_argument("--version", action="version", version=f"rooflens {__version__}")
    subcommands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name in NAMES:
        module = command(name)
        parents = [everywhere] if name == _SPEAKS_MCP else [everywhere, for_programs]
        one = subcommands.add_parser(name, parents=parents, help=module.HELP)
        module.arguments(one)
        one.set_defaults(run=module.execute, subcommand=name)
    return whole
