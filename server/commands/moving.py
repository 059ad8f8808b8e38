"""What push and pull share: which workloads, and what is told of each."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
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
    from ...tools.team.transfer import transfer
    from ...tools.team.workload_choice import choose_workloads

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
