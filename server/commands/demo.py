"""`rooflens demo`: the whole loop on the shipped samples."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "show the whole loop on the shipped samples, without a GPU"


def arguments(parser: ArgumentParser) -> None:
    """The command has no arguments."""


def execute(options: Namespace, store: Store) -> Outcome:
    """Run the demonstration; the text appears while it works."""
    from ..demo import demo

    facts: dict[str, Any] = {}
    return Outcome(facts, demo(store if getattr(options, "store", None) else None, facts))
