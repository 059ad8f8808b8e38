"""What push and pull share: which workloads, and what is told of each."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ...analysis.store import Store
from ...analysis.text import inert
from ...tools.progress import listening
from ..exits import OK
from .shared import to_a_terminal


def selection(parser: ArgumentParser) -> None:
    """Declare which workloads are meant."""
    parser.add_argument("workloads", metavar="WORKLOAD", nargs="*", help="id, unique id prefix, name or latest")
    parser.add_argument(
        "--tag", action="append", default=[], help="all with this tag, or with branch=, commit=, host= (repeatable)"
    )
    parser.add_argument("--all", action="store_true", help="all workloads")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def moving(options: Namespace, source: Store, target: Store) -> int:
    """Copy the workloads that are meant, and say of each whether it was there."""
    from ...tools.team.choice import chosen
    from ...tools.team.transfer import transfer

    manifests = chosen(source, options.workloads, options.tag, options.all)
    with listening(to_a_terminal):
        moved = transfer(source, target, manifests)
    if options.json:
        rows = [{"workload": one.manifest.id, "name": one.manifest.name, "copied": one.new} for one in moved]
        print(json.dumps({"from": source.address, "to": target.address, "workloads": rows}))
        return OK
    for one in moved:
        print(inert(f"{one.manifest.id}  {one.manifest.name}: {'copied' if one.new else 'was there'}"))
    return OK
