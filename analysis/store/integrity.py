"""What is wrong with a workload whose files could not be read: looked for after a failure only, as it costs time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from ..base.database import connect, sql_path
from ..base.problems import StoreProblem, Unreachable
from .manifest import Manifest, read_manifest
from .store import Store

_NEEDED = {"dispatches": {"dispatch_id", "kernel", "duration_ns"}, "counters": {"dispatch_id"}}
"""Columns without which a table cannot be what its name says."""


def damage(store: Store, manifest: Manifest) -> StoreProblem | None:
    """Why a workload cannot be read: its files are gone, cut, damaged or exchanged; None where nothing is wrong."""
    what = f"Workload {manifest.id} cannot be read"
    try:
        folder = store.folder(manifest)
    except Unreachable:
        raise
    except StoreProblem as problem:
        return StoreProblem(f"{what}: {problem.what}", problem.why, problem.fix)
    if not folder.is_dir():
        return StoreProblem(what, "it was deleted meanwhile", "list_workloads shows what is left")
    try:
        read_manifest(str(folder), linked=folder.is_symlink())
    except StoreProblem as problem:
        return StoreProblem(f"{what}: {problem.what}", problem.why, "Import the profile again")
    for name in manifest.files:
        if why := _damage_of(folder / name, manifest):
            return StoreProblem(f"{what}: {name} is damaged", why, "Delete the workload, and import the profile again")
    return None


def readable_workloads(store: Store, manifests: Iterable[Manifest]) -> tuple[list[Manifest], list[str]]:
    """The workloads that can be read as a whole, and a sentence for each of the others. Raises Unreachable.

    Damaged files among those that are computed from workloads are removed: the next query computes them anew.
    """
    readable, sentences = [], []
    manifests = list(manifests)
    distant_ids = {m.id for m in distant.manifests} if (distant := store.distant(manifests)) else set()
    for manifest in manifests:
        if manifest.id in distant_ids:  # never looked at here
            readable.append(manifest)
        elif problem := damage(store, manifest):
            sentences.append(problem.text)
        else:
            readable.append(manifest)
            if not store.read_only:
                _drop_damaged(store.root.glob(f"derived/*/{manifest.id}/*.parquet"))
    return readable, sentences


def store_problem_behind(store: Store, error: BaseException) -> StoreProblem | None:
    """The problem behind an error of the system or of DuckDB: a file of the store that vanished; else None."""
    import duckdb

    if isinstance(error, OSError):
        name = str(error.filename or "")
        if not name or not Path(name).is_relative_to(store.root):
            return None
        why = error.strerror or str(error)
    elif isinstance(error, duckdb.IOException):
        why = "a file that was there a moment ago cannot be read"
    else:
        return None
    return StoreProblem(
        f"The store {store.address} changed meanwhile", why, "Call list_workloads to see what is left, and try again"
    )


def why_unreadable(path: Path) -> str:
    """Why a Parquet file cannot be read to its end; empty where it can."""
    import duckdb

    with connect() as con:
        try:
            con.execute(f"SELECT max(hash(t)) FROM read_parquet({sql_path(path)}) t").fetchall()
        except duckdb.Error:
            return "it is no Parquet file, or not as it was written"
    return ""


def _damage_of(path: Path, manifest: Manifest) -> str:
    if why := why_unreadable(path):
        return why
    with connect() as con:
        names = {str(n) for (n,) in con.execute(f"SELECT name FROM parquet_schema({sql_path(path)})").fetchall()}
    needed = _NEEDED.get(path.stem, set()) | (set(manifest.counters) if path.stem == "counters" else set())
    lacking = sorted(needed - names)
    return f"it has no column {lacking[0]}" if lacking else ""


def _drop_damaged(files: Iterable[Path]) -> None:
    for path in files:
        if why_unreadable(path):
            shutil.rmtree(path.parent, ignore_errors=True)
