"""The subcommands: each module is one, with HELP, arguments(parser) and run(options, store).

What a command found it returns as an Outcome, which is printed in words or, with --json, as JSON.
A module loads little by itself; what its command needs is imported when it runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Protocol, cast

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

NAMES = (
    "serve",
    "call",
    "tools",
    "report",
    "gate",
    "demo",
    "doctor",
    "connect",
    "check",
    "export-db",
    "export-trace",
    "init",
    "push",
    "pull",
    "tag",
    "history",
    "prune",
    "completion",
)
"""In the order of the help."""


class Subcommand(Protocol):
    """What a module of this package holds."""

    HELP: str

    def arguments(self, parser: ArgumentParser) -> None:
        """Declare what the command takes."""
        ...

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Do it: what was found, or the exit status where the command writes its output itself.

        Raises Problem for what the user can mend, Misuse for a command line that makes no sense.
        """
        ...


def command(name: str) -> Subcommand:
    """The subcommand of that name."""
    return cast(Subcommand, import_module(f".{name.replace('-', '_')}", __name__))
