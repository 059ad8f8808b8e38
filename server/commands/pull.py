"""`rooflens pull`: copy workloads from another store, such as the team's, to this one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from .push import moving, selection

HELP = "copy workloads from another store, such as s3://... or ducklake:...; can be repeated and interrupted"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    selection(parser)
    parser.add_argument("source", metavar="FROM", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder")


def execute(options: Namespace, store: Store) -> Outcome:
    """Copy the workloads, and print which existed already."""
    return moving(options, Store.locate(options.source), store)
