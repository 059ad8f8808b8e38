"""`rooflens tools`: what there is to call."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace

from ...analysis.store import Store
from ..outcome import Outcome

HELP = "names of the tools, one line each"


def arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def run(options: Namespace, store: Store) -> Outcome:
    """Names and first sentences."""
    from ..toolbox import TOOLS

    told = {tool.name: re.split(r"(?<!\.)\. ", tool.description)[0].rstrip(". ") for tool in TOOLS}
    width = max(map(len, told))
    return Outcome(
        {"tools": [{"name": name, "description": words} for name, words in told.items()]},
        [f"{name:{width}} {words}" for name, words in told.items()],
    )
