"""The commands for a store that a team shares: `init`, `push`, `pull`, `tag` and `prune`."""

from __future__ import annotations

import signal
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from ...analysis.store.store import Store, is_store
from ..terminal.outcome import Misuse, Outcome
from ..terminal.wording import problem


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
    there: list[str] = []
    with suppress(OSError):  # it does not exist, or is no folder
        there = sorted(entry.name for entry in target.root.iterdir())
    if there and not is_store(there):  # a project may have a folder called runs
        raise problem("foreign_target", root=target.root, names=there[:2])
    if not there and any(word in (m.name, m.id) for m in source.scan()[0]):
        raise problem("workload_as_store", word=word)


def foreign_entries(root: Path) -> list[str]:
    """The names in a folder that is no store; none if it is empty or a store."""
    entries = sorted(entry.name for entry in root.iterdir())
    return [] if is_store(entries) or _OF_STORES.intersection(entries) else entries


_OF_STORES = frozenset(("peak", "runs", "tmp", "plots", "derived"))
"""Folders of a store without workloads."""
_A_BATCH = 64


def create_catalogue(options: Namespace, store: Store) -> Outcome:
    """Create the catalogue, unless it exists."""
    from ...analysis.store.remote.lake_store import LakeStore

    if not isinstance(store, LakeStore):
        raise problem("no_setup", store=store)
    made = store.catalogue.create(options.data)
    told = "a new catalogue" if made else "the catalogue exists already"
    return Outcome({"store": store.address, "new": made}, [f"{store.address}: {told}"])


def push(options: Namespace, store: Store) -> Outcome:
    """Copy the workloads, and print which existed already."""
    target = Store.locate(options.to)
    _check_target(options.to, store, target)
    return moving(options, store, target)


def pull(options: Namespace, store: Store) -> Outcome:
    """Copy the workloads, and print which existed already."""
    return moving(options, Store.locate(options.source), store)


def tag_workloads(options: Namespace, store: Store) -> Outcome:
    """Change the tags, and print the resulting tags of each workload."""
    from ...tools.team.workload_choice import change_tags, choose_workloads

    if not (options.add or options.remove):
        raise Misuse("There is nothing to change", "Give --add TAG or --remove TAG")
    done = [change_tags(store, m, options.add, options.remove) for m in choose_workloads(store, options.workloads)]
    return Outcome(
        {"workloads": [{"workload": m.id, "name": m.name, "tags": m.tags} for m in done]},
        [f"{m.id}  {m.name}: {', '.join(m.tags) or 'no tags'}" for m in done],
    )


def prune(options: Namespace, store: Store) -> Outcome:
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
