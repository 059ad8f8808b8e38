"""The commands for a store that a team shares: `init`, `push`, `pull`, `tag` and `prune`."""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store, is_store
from ..terminal.outcome import Misuse, Outcome


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
    """Copy the selected workloads, and print which existed already. SIGTERM leaves no partial copy, like Ctrl-C."""
    from ...tools.team.workload_choice import choose_workloads, transfer

    signal.signal(signal.SIGTERM, signal.default_int_handler)
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


_A_BATCH = 64


class InitCommand:
    """`rooflens init`: create the catalogue of a store that a team shares."""

    HELP = "set up a store that a team shares, with a DuckLake catalogue"

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        parser.add_argument(
            "--data",
            metavar="PLACE",
            required=True,
            help="where the files of workloads are stored: s3://BUCKET/PREFIX, or a folder that all machines can "
            "access",
        )

    def execute(self, options: Namespace, store: Store) -> Outcome:
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


class PushCommand:
    """`rooflens push`: copy workloads of this store to another, such as the team's."""

    HELP = "copy workloads to another store, such as s3://... or ducklake:...; can be repeated and interrupted"

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        selection(parser)
        parser.add_argument("to", metavar="TO", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder")

    def execute(self, options: Namespace, store: Store) -> Outcome:
        """Copy the workloads, and print which existed already."""
        target = Store.locate(options.to)
        _check_target(options.to, store, target)
        return moving(options, store, target)


class PullCommand:
    """`rooflens pull`: copy workloads from another store, such as the team's, to this one."""

    HELP = "copy workloads from another store, such as s3://... or ducklake:...; can be repeated and interrupted"

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        selection(parser)
        parser.add_argument(
            "source", metavar="FROM", help="the other store: s3://BUCKET/PREFIX, ducklake:..., or a folder"
        )

    def execute(self, options: Namespace, store: Store) -> Outcome:
        """Copy the workloads, and print which existed already."""
        return moving(options, Store.locate(options.source), store)


class TagCommand:
    """`rooflens tag`: add tags to stored workloads, or remove them."""

    HELP = "add tags to stored workloads, or remove them; used by gate tag:NAME, push --tag, prune --keep-tag"

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        parser.add_argument("workloads", metavar="WORKLOAD", nargs="+", help="id, unique id prefix, name or latest")
        parser.add_argument("--add", metavar="TAG", action="append", default=[], help="a tag to add (repeatable)")
        parser.add_argument("--remove", metavar="TAG", action="append", default=[], help="a tag to remove (repeatable)")

    def execute(self, options: Namespace, store: Store) -> Outcome:
        """Change the tags, and print the resulting tags of each workload."""
        from ...tools.team.workload_choice import change_tags, choose_workloads

        if not (options.add or options.remove):
            raise Misuse("There is nothing to change", "Give --add TAG or --remove TAG")
        done = [change_tags(store, m, options.add, options.remove) for m in choose_workloads(store, options.workloads)]
        return Outcome(
            {"workloads": [{"workload": m.id, "name": m.name, "tags": m.tags} for m in done]},
            [f"{m.id}  {m.name}: {', '.join(m.tags) or 'no tags'}" for m in done],
        )


class PruneCommand:
    """`rooflens prune`: delete the workloads that no rule keeps; without --yes, only list them."""

    HELP = "delete the workloads that no rule keeps; only lists them without --yes"

    def arguments(self, parser: ArgumentParser) -> None:
        """Define the arguments of the command."""
        parser.add_argument("--keep", metavar="AGE", help="keep workloads younger than this: 90d, 12w, 6h, 2y")
        parser.add_argument("--keep-last", metavar="N", type=int, help="keep the newest N workloads of every name")
        parser.add_argument(
            "--keep-tag",
            metavar="TAG",
            action="append",
            default=[],
            help="keep workloads with this tag, or branch=, commit=, host=, name= (repeatable)",
        )
        parser.add_argument("--yes", action="store_true", help="delete the workloads; without it, nothing is changed")

    def execute(self, options: Namespace, store: Store) -> Outcome:
        """List the workloads that no rule keeps, and delete them with --yes."""
        from ...analysis.store.schema import iso
        from ...tools.team.workload_choice import RetentionRules, expired_workloads

        rules = RetentionRules.parse(options.keep, options.keep_last, options.keep_tag)
        known, unreadable = store.scan()
        going = expired_workloads(known, rules)
        if options.yes:
            for first in range(0, len(going), _A_BATCH):
                store.remove(going[first : first + _A_BATCH])
        size = sum(sum(m.files.values()) for m in going)
        done = "deleted" if options.yes else "would be deleted; --yes deletes them"
        return Outcome(
            {
                "deleted": options.yes,
                "kept": len(known) - len(going),
                "bytes": size,
                "workloads": [{"workload": m.id, "name": m.name, "created": iso(m.created_ns)} for m in going],
                "unreadable": unreadable,
            },
            [
                *(f"Skipped: {sentence}" for sentence in unreadable),
                *(f"{one.id}  {iso(one.created_ns)}  {one.name}" for one in going),
                f"{len(going)} of {len(known)} workloads, {size / 1e6:.1f} MB: {done}",
            ],
        )
