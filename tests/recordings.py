"""Recorded profiles, each read once for all tests and workers: a store gets links to the files of the first import."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import pytest
from rooflens.analysis.manifest import PREFIX, Manifest
from rooflens.analysis.store import Store
from rooflens.tools.import_profile import import_profile

_place: list[Path] = []
"""The folder of the first imports, which all workers of a run share."""


def keep_in(factory: pytest.TempPathFactory) -> None:
    """Share first imports with the other workers of this run, and leave their removal to pytest."""
    base = factory.getbasetemp()
    _place[:] = [(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recordings"]
    _place[0].mkdir(exist_ok=True)


def stored(store: Store, path: str | Path, name: str | None = None) -> Manifest:
    """The workload that ``import_profile`` makes of a profile that nobody changes while tests run."""
    if not _place:  # used by a script
        return store.resolve(import_profile(store, str(path), name=name).workload)
    place = _place[0] / hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()[:16]
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = Store(place)
        if not place.is_dir() or not first.scan()[0]:
            import_profile(first, str(path))
    (made,) = first.scan()[0]
    with store.draft() as folder:
        for file in made.files:
            os.link(first.root / f"{PREFIX}{made.id}" / file, folder / file)
        return store.publish(folder, made.model_copy(update={"name": name or made.name}))
