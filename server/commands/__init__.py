"""The subcommands: each module or class is one, with HELP, arguments(parser) and execute(options, store).

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

_PLACES = {
    "demo": "first_steps:DemoCommand",
    "report": "exports:ReportCommand",
    "gate": "gate",
    "connect": "connect",
    "serve": "serve",
    "call": "call:CallCommand",
    "tools": "call:ToolsCommand",
    "doctor": "machine:DoctorCommand",
    "check": "machine:CheckCommand",
    "export-db": "exports:ExportDbCommand",
    "export-trace": "exports:ExportTraceCommand",
    "tag": "team:TagCommand",
    "init": "team:InitCommand",
    "push": "team:PushCommand",
    "pull": "team:PullCommand",
    "prune": "team:PruneCommand",
    "completion": "completion",
}
"""Command -> the module of this package that is the command, or the module and class."""
NAMES = (*(verb.name for verb in VERBS), *_PLACES)
"""The subcommands in the order of the help."""


class Subcommand(Protocol):
    """The interface of a command: a module or a class of this package, or a verb."""

    HELP: str

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Run the command. Return its outcome, or the exit status if the command writes its output itself.

        Raises Problem for errors that the user can correct, and Misuse for an invalid command line.
        """


def command(name: str) -> Subcommand:
    """The command with this name."""
    if name in BY_NAME:
        from .verbs.answers import VerbCommand

        return VerbCommand(BY_NAME[name])
    module, _, kind = _PLACES[name].partition(":")
    place = import_module(f".{module}", __name__)
    return cast(Subcommand, getattr(place, kind)() if kind else place)
