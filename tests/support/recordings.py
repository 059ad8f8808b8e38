"""Recorded profiles, each read once for all tests and workers: a store gets links to the files of the first import."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rooflens.analysis.store.manifest import PREFIX, Manifest
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support import once
from rooflens.tools.import_profile import import_profile

KERNELS = ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"
"""The example program on an H200, as a raw page of ncu."""
_place: list[Path] = []
"""The folder of the first imports, once a test run has one."""


def keep_in(folder: Path) -> None:
    """Import into ``folder`` what is asked for, where it is not there yet."""
    _place[:] = [folder]


def stored(store: Store, path: str | Path, name: str | None = None) -> Manifest:
    """The workload that ``import_profile`` makes of a profile that nobody changes while tests run."""
    if not _place:  # used by a script
        return store.resolve(import_profile(store, str(path), name=name).workload)
    place = _place[0] / hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()[:16]
    first = Store(place)
    with once.making(place) as missing:
        if missing:
            import_profile(first, str(path))
    (made,) = first.scan()[0]
    with store.draft() as folder:
        for file in made.files:
            os.link(first.root / f"{PREFIX}{made.id}" / file, folder / file)
        return store.publish(folder, made.model_copy(update={"name": name or made.name}))
