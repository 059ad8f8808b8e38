"""Which workloads are meant: by reference, by labels, or all."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.base.problems import BadArgument, NotFound, near
from ...analysis.store.store import Manifest, Store


def labels(manifest: Manifest) -> frozenset[str]:
    """Its tags, and what is known of where it comes from as labels of the same form: branch=main, host=node7."""
    known = {"commit": manifest.commit, "branch": manifest.branch, "host": manifest.host, "name": manifest.name}
    return frozenset([*manifest.tags, *(f"{key}={value}" for key, value in known.items() if value)])


def choose_workloads(
    store: Store, references: Sequence[str], tags: Sequence[str] = (), every: bool = False
) -> list[Manifest]:
    """The workloads of these references (each id, unique id prefix, name or latest), else of all that have every tag.

    Oldest first, each once. BadArgument where nothing was named; NotFound where nothing fits.
    """
    if bool(references) + bool(tags or every) != 1:
        raise BadArgument("Say which workloads", "by their names or ids, by --tag, or --all", "One of the three")
    if references:
        named_workloads = [store.resolve(reference) for reference in references]
        return list({m.id: m for m in named_workloads}.values())
    manifests = store.scan()[0]
    fitting = [m for m in manifests if labels(m).issuperset(tags)]
    if not fitting:
        every_label = sorted({label for m in manifests for label in labels(m)})
        if not manifests:
            raise NotFound(_nothing(store), fix="Name another store, or import a profile into it")
        raise NotFound(f"No workload of {store.address} has {' and '.join(tags)}", near(tags[0], every_label))
    return fitting


def _nothing(store: Store) -> str:
    """Why a store has no workload."""
    if store.address == str(store.root) and not store.root.exists():
        return f"There is no store at {store.address}"
    return f"The store {store.address} is empty"
