"""`rooflens init`: set up the catalogue of a store that a team shares."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "set up a store that a team shares: a DuckLake catalogue, once"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--data",
        metavar="PLACE",
        required=True,
        help="where the files of workloads go: s3://BUCKET/PREFIX, or a folder that all machines see",
    )


def execute(options: Namespace, store: Store) -> Outcome:
    """Make it, unless it is there."""
    from ...analysis.store.remote.lake_store import LakeStore

    if not isinstance(store, LakeStore):
        raise BadArgument(
            f"{store.address} needs no setting up",
            "a folder and a place in a bucket are made at the first import",
            "For a catalogue name --store 'ducklake:postgres:dbname=NAME host=HOST'",
        )
    made = store.catalogue.create(options.data)
    told = "a new catalogue" if made else "the catalogue is there already"
    return Outcome({"store": store.address, "new": made}, [f"{store.address}: {told}"])
