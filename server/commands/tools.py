"""`rooflens tools`: what there is to call."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store import Store
from ..exits import OK

HELP = "names of the tools, one line each"


def arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def run(options: Namespace, store: Store) -> int:
    from ..toolbox import TOOLS

    width = max(len(tool.name) for tool in TOOLS)
    for tool in TOOLS:
        print(f"{tool.name:{width}} {tool.description.split('. ')[0].rstrip('.')}")
    return OK
