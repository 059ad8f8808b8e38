"""Many workloads from one: copies of a sample under ids, names and commits of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

from rooflens.analysis.store.manifest import MANIFEST, PREFIX
from rooflens.analysis.store.store import Manifest, Store, new_id


def crowd(source: Store, reference: str, target: Store, number: int, label: str = "w") -> list[Manifest]:
    """``number`` copies of a workload in a folder of their own, a minute apart."""
    template = source.resolve(reference)
    made = []
    for n in range(number):
        at = template.created_ns + n * 60_000_000_000
        known = {"id": new_id(at), "name": f"{label}{n}", "created_ns": at, "commit": f"{n:040x}", "branch": "main"}
        manifest = template.model_copy(update=known)
        folder = target.root / f"{PREFIX}{manifest.id}"
        shutil.copytree(source.folder(template), folder)
        (folder / MANIFEST).write_text(manifest.model_dump_json())
        made.append(manifest)
    return made


def files(folder: Path) -> dict[str, bytes]:
    """The content of every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
