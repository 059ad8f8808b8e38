"""`rooflens tag`: add tags to stored workloads, or remove them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
from ..terminal.outcome import Misuse, Outcome

HELP = "add tags to stored workloads, or remove them; used by gate tag:NAME, push --tag, prune --keep-tag"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("workloads", metavar="WORKLOAD", nargs="+", help="id, unique id prefix, name or latest")
    parser.add_argument("--add", metavar="TAG", action="append", default=[], help="a tag to add (repeatable)")
    parser.add_argument("--remove", metavar="TAG", action="append", default=[], help="a tag to remove (repeatable)")


def execute(options: Namespace, store: Store) -> Outcome:
    """Change the tags, and print the resulting tags of each workload."""
    from ...tools.team.workload_choice import change_tags, choose_workloads

    if not (options.add or options.remove):
        raise Misuse("There is nothing to change", "Give --add TAG or --remove TAG")
    done = [change_tags(store, m, options.add, options.remove) for m in choose_workloads(store, options.workloads)]
    return Outcome(
        {"workloads": [{"workload": m.id, "name": m.name, "tags": m.tags} for m in done]},
        [f"{m.id}  {m.name}: {', '.join(m.tags) or 'no tags'}" for m in done],
    )
