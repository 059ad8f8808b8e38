"""`rooflens push`: copy workloads of this store to another, such as the team's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store import Store
from ..outcome import Outcome
from .moving import moving, selection

HELP = "copy workloads to another store, such as s3://... or ducklake:...; can be repeated and interrupted"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    selection(parser)
    parser.add_argument("to", metavar="TO", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder")


def run(options: Namespace, store: Store) -> Outcome:
    """Copy, and say of each workload whether it was there."""
    return moving(options, store, Store.locate(options.to))
