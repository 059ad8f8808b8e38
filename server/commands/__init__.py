"""The subcommands: each is a function of its options and the store, which options.toml describes.

Those that call one tool and show its answer are verbs (verbs/). A command returns its result as an Outcome, which is
printed as text or, with --json, as JSON. To keep the start fast, a module imports what its command needs only when the
command runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import TYPE_CHECKING

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from .options import command_facts, declare
from .verbs import BY_NAME, VERBS

if TYPE_CHECKING:
    from .verbs.command import VerbCommand

NAMES = (*(verb.name for verb in VERBS), *(name for name, facts in command_facts().items() if "function" in facts))
"""The subcommands in the order of the help."""


class FunctionCommand:
    """A command that is a function of this package; options.toml has its help and its arguments."""

    def __init__(self, name: str) -> None:
        self.HELP, self._name = command_facts()[name]["help"], name

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        declare(parser, self._name)

    def execute(self, options: Namespace, store: Store) -> int | Outcome:
        """Run the command. Return its outcome, or the exit status if the command writes its output itself.

        Raises Problem for errors that the user can correct, and Misuse for an invalid command line.
        """
        module, _, function = command_facts()[self._name]["function"].partition(":")
        outcome: int | Outcome = getattr(import_module(f".{module}", __name__), function)(options, store)
        return outcome


def command(name: str) -> FunctionCommand | VerbCommand:
    """The command with this name: a function of this package, or a verb."""
    if name in BY_NAME:
        from .verbs.command import VerbCommand

        return VerbCommand(BY_NAME[name])
    return FunctionCommand(name)
