"""`rooflens push`: copy workloads of this store to another, such as the team's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store, is_store
from ..terminal.outcome import Outcome


def selection(parser: ArgumentParser) -> None:
    """Declare which workloads are meant."""
    parser.add_argument("workloads", metavar="WORKLOAD", nargs="*", help="id, unique id prefix, name or latest")
    parser.add_argument(
        "--tag", action="append", default=[], help="all with this tag, or with branch=, commit=, host= (repeatable)"
    )
    parser.add_argument("--all", action="store_true", help="all workloads")


def moving(options: Namespace, source: Store, target: Store) -> Outcome:
    """Copy the workloads that are meant, and say of each whether it was there."""
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
            *(f"{one.manifest.id}  {one.manifest.name}: {'copied' if one.new else 'was there'}" for one in moved),
            f"{sum(one.new for one in moved)} of {len(moved)} copied to {target.address}",
        ],
    )


HELP = "copy workloads to another store, such as s3://... or ducklake:...; can be repeated and interrupted"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    selection(parser)
    parser.add_argument("to", metavar="TO", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder")


def execute(options: Namespace, store: Store) -> Outcome:
    """Copy, and say of each workload whether it was there."""
    target = Store.locate(options.to)
    _check_target(options.to, store, target)
    return moving(options, store, target)


def _check_target(word: str, source: Store, target: Store) -> None:
    """BadArgument where TO is probably another workload to copy, or a folder of something else."""
    if target.address != str(target.root):
        return
    try:
        there = sorted(entry.name for entry in target.root.iterdir())
    except OSError:
        there = []
    if not there and any(m.name == word or m.id == word for m in source.scan()[0]):
        why = "it is the name of a workload here"
        raise BadArgument(f"{word!r} is no store", why, f"Name the store last; ./{word} if you mean a new folder")
    if there and not is_store(there):
        why = f"it holds other things ({', '.join(there[:2])})"
        raise BadArgument(f"{target.root} is no store", why, "Name a store, or a folder that is new or empty")
