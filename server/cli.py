"""The command line: options that every subcommand takes, and what becomes of its outcome."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..analysis.problems import Problem
from ..analysis.store import Store
from ..analysis.text import inert
from . import log
from .commands import NAMES, command
from .exits import OK, REFUSED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; exit status 0, 1 (refused, with advice on stderr) or 2 (usage)."""
    options = parser().parse_args(argv)
    log.start(getattr(options, "verbose", 0))
    try:
        status: int = options.run(options, Store.locate(getattr(options, "store", None)))
    except Problem as problem:
        print(inert(problem.text), file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def parser() -> argparse.ArgumentParser:
    """The whole command line; --store and -v are understood before and after a subcommand."""
    everywhere = argparse.ArgumentParser(add_help=False)
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
    whole = argparse.ArgumentParser(
        prog="rooflens", description="Measure, understand and improve GPU kernels.", parents=[everywhere]
    )
    whole.add_argument("--version", action="version", version=f"rooflens {__version__}")
    subcommands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name in NAMES:
        module = command(name)
        one = subcommands.add_parser(name, parents=[everywhere], help=module.HELP)
        module.arguments(one)
        one.set_defaults(run=module.run)
    return whole
