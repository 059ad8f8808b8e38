"""The subcommands: each module is one, with HELP, arguments(parser) and execute(options, store).

Those that call one tool and show its answer are verbs (verbs/). A command returns its result as an Outcome, which is
printed as text or, with --json, as JSON. To keep the start fast, a module imports what its command needs only when the
command runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Protocol, cast

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from .verbs import BY_NAME, VERBS

OWN_MODULES = (
    "demo",
    "report",
    "gate",
    "history",
    "connect",
    "serve",
    "call",
    "tools",
    "doctor",
    "check",
    "export-db",
    "export-trace",
    "tag",
    "init",
    "push",
    "pull",
    "prune",
    "completion",
)
NAMES = (*(verb.name for verb in VERBS), *OWN_MODULES)
"""The subcommands in the order of the help."""


class Subcommand(Protocol):
    """The interface of a command: a module of this package, or a verb."""

    HELP: str

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        ...

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Run the command. Return its outcome, or the exit status if the command writes its output itself.

        Raises Problem for errors that the user can correct, and Misuse for an invalid command line.
        """
        ...


def command(name: str) -> Subcommand:
    """The command with this name."""
    if name in BY_NAME:
        from .verbs.command import VerbCommand

        return VerbCommand(BY_NAME[name])
    return cast(Subcommand, import_module(f".{name.replace('-', '_')}", __name__))
