"""The subcommands: each module is one, with HELP, arguments(parser) and run(options, store) -> exit status.

A module loads little by itself; what its command needs is imported when it runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Protocol, cast

from ...analysis.store import Store

NAMES = (
    "serve", "call", "tools", "report", "demo", "doctor", "check", "export-db", "export-trace", "init", "push", "pull",
    "history", "prune",
)  # fmt: skip
"""In the order of the help."""


class Command(Protocol):
    """What a module of this package holds."""

    HELP: str

    def arguments(self, parser: ArgumentParser) -> None:
        """Declare what the command takes."""
        ...

    def run(self, options: Namespace, store: Store) -> int:
        """Do it; its exit status. Raises Problem for what the user can mend."""
        ...


def command(name: str) -> Command:
    """The subcommand of that name."""
    return cast(Command, import_module(f".{name.replace('-', '_')}", __name__))
