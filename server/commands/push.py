"""`rooflens push`: copy workloads of this store to another, such as the team's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store, is_store
from ..terminal.outcome import Outcome


def selection(parser: ArgumentParser) -> None:
    """Define the arguments that select workloads."""
    parser.add_argument("workloads", metavar="WORKLOAD", nargs="*", help="id, unique id prefix, name or latest")
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        help="all workloads with this tag, or with branch=, commit=, host= (repeatable)",
    )
    parser.add_argument("--all", action="store_true", help="all workloads")


def moving(options: Namespace, source: Store, target: Store) -> Outcome:
    """Copy the selected workloads, and print which existed already."""
    from ...tools.team.workload_choice import choose_workloads, transfer

    manifests = choose_workloads(source, options.workloads, options.tag, options.all)
    moved = transfer(source, target, manifests)
    return Outcome(
        {
            "from": source.address,
            "to": target.address,
            "workloads": [{"workload": one.manifest.id, "name": one.manifest.name, "copied": one.new} for one in moved],
        },
        [
            *(f"{one.manifest.id}  {one.manifest.name}: {'copied' if one.new else 'existed'}" for one in moved),
            f"{sum(one.new for one in moved)} of {len(moved)} copied to {target.address}",
        ],
    )


HELP = "copy workloads to another store, such as s3://... or ducklake:...; can be repeated and interrupted"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    selection(parser)
    parser.add_argument("to", metavar="TO", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder")


def execute(options: Namespace, store: Store) -> Outcome:
    """Copy the workloads, and print which existed already."""
    target = Store.locate(options.to)
    _check_target(options.to, store, target)
    return moving(options, store, target)


def _check_target(word: str, source: Store, target: Store) -> None:
    """Raise BadArgument if TO is probably another workload to copy, or a folder with other files."""
    if target.address != str(target.root):
        return
    try:
        there = sorted(entry.name for entry in target.root.iterdir())
    except OSError:
        there = []
    if not there and any(m.name == word or m.id == word for m in source.scan()[0]):
        why = "it is the name of a workload here"
        raise BadArgument(
            f"{word!r} is not a store", why, f"Give the store as the last argument; use ./{word} for a new folder"
        )
    if there and not is_store(there):
        why = f"it contains other files ({', '.join(there[:2])})"
        raise BadArgument(f"{target.root} is not a store", why, "Give a store, or a folder that is new or empty")
