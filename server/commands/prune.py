"""`rooflens prune`: delete the workloads that no rule keeps; without --yes, only list them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "delete the workloads that no rule keeps; only lists them without --yes"
_A_BATCH = 64


def arguments(parser: ArgumentParser) -> None:
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


def execute(options: Namespace, store: Store) -> Outcome:
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
