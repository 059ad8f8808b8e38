"""`rooflens init`: create the catalogue of a store that a team shares."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "set up a store that a team shares, with a DuckLake catalogue"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument(
        "--data",
        metavar="PLACE",
        required=True,
        help="where the files of workloads are stored: s3://BUCKET/PREFIX, or a folder that all machines can access",
    )


def execute(options: Namespace, store: Store) -> Outcome:
    """Create the catalogue, unless it exists."""
    from ...analysis.store.remote.lake_store import LakeStore

    if not isinstance(store, LakeStore):
        raise BadArgument(
            f"{store.address} needs no setup",
            "folders and places in a bucket are created at the first import",
            "For a catalogue, use --store 'ducklake:postgres:dbname=NAME host=HOST'",
        )
    made = store.catalogue.create(options.data)
    told = "a new catalogue" if made else "the catalogue exists already"
    return Outcome({"store": store.address, "new": made}, [f"{store.address}: {told}"])
