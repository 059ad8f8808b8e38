"""`rooflens tag`: give stored workloads tags, or take some away."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store import Store
from ..outcome import Misuse, Outcome

HELP = "give stored workloads tags, or take some away: for gate tag:NAME, push --tag, prune --keep-tag"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("workloads", metavar="WORKLOAD", nargs="+", help="id, unique id prefix, name or latest")
    parser.add_argument("--add", metavar="TAG", action="append", default=[], help="a tag to give (repeatable)")
    parser.add_argument("--remove", metavar="TAG", action="append", default=[], help="one to take away (repeatable)")


def run(options: Namespace, store: Store) -> Outcome:
    """Change the tags, and say which each workload has now."""
    from ...tools.team.choice import chosen
    from ...tools.team.tagging import tagged

    if not (options.add or options.remove):
        raise Misuse("Nothing is to be changed", "Give --add TAG or --remove TAG")
    done = [tagged(store, m, options.add, options.remove) for m in chosen(store, options.workloads)]
    return Outcome(
        {"workloads": [{"workload": m.id, "name": m.name, "tags": m.tags} for m in done]},
        [f"{m.id}  {m.name}: {', '.join(m.tags) or 'no tags'}" for m in done],
    )
