"""`rooflens demo`: the whole loop on the shipped samples."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "the whole loop on the shipped samples, without a GPU"


def arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def execute(options: Namespace, store: Store) -> Outcome:
    """All of it; told while it works."""
    from ..demo import demo

    facts: dict[str, Any] = {}
    return Outcome(facts, demo(store if getattr(options, "store", None) else None, facts))
