"""`rooflens demo`: the whole loop on the shipped samples."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store import Store

HELP = "the whole loop on the shipped samples, without a GPU"


def arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def run(options: Namespace, store: Store) -> int:
    from ..demo import demo

    return demo(store if getattr(options, "store", None) else None)
