"""Find out what is wrong with a workload whose files could not be read; used only after a failure, as it takes time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from ..base.database import connect, sql_path
from ..base.problems import Problem, StoreProblem, Unreachable
from .manifest import Manifest, read_manifest
from .store import Store
from .wording import problem

_NEEDED = {"dispatches": {"dispatch_id", "kernel", "duration_ns"}, "counters": {"dispatch_id"}}
"""The columns that a table must have."""


def damage(store: Store, manifest: Manifest) -> Problem | None:
    """Why a workload cannot be read: its files are missing, truncated, damaged or replaced; None if nothing is
    wrong."""
    what = f"Workload {manifest.id} cannot be read"
    try:
        folder = store.folder(manifest)
    except Unreachable:
        raise
    except StoreProblem as error:
        return problem("workload_unusable", what=what, problem=error)
    if not folder.is_dir():
        return StoreProblem(what, "it was deleted in the meantime", "list_workloads shows the remaining ones")
    try:
        read_manifest(folder)
    except StoreProblem as error:
        return problem("workload_damaged", what=what, problem=error)
    for name in manifest.files:
        if why := _damage_of(folder / name, manifest):
            return problem("table_unreadable", what=what, name=name, why=why)
    return None


def readable_workloads(store: Store, manifests: Iterable[Manifest]) -> tuple[list[Manifest], list[str]]:
    """The workloads that can be read completely, and a message for each of the others. Raises Unreachable.

    Damaged files that were computed from workloads are deleted, so that the next query computes them again.
    """
    readable, sentences = [], []
    manifests = list(manifests)
    distant_ids = {m.id for m in distant.manifests} if (distant := store.distant(manifests)) else set()
    for manifest in manifests:
        if manifest.id in distant_ids:  # not read on this machine
            readable.append(manifest)
        elif problem := damage(store, manifest):
            sentences.append(problem.text)
        else:
            readable.append(manifest)
            for path in [] if store.read_only else store.root.glob(f"derived/*/{manifest.id}/*.parquet"):
                if why_unreadable(path):
                    shutil.rmtree(path.parent, ignore_errors=True)
    return readable, sentences


def store_problem_behind(store: Store, error: BaseException) -> Problem | None:
    """The problem if a file of the store disappeared, behind an error of the system or of DuckDB; otherwise None."""
    import duckdb

    if isinstance(error, OSError):
        name = str(error.filename or "")
        if not name or not Path(name).is_relative_to(store.root):
            return None
        why = error.strerror or str(error)
    elif isinstance(error, duckdb.IOException):
        why = "a file that existed a moment ago cannot be read"
    else:
        return None
    return problem("store_changed", store=store, why=why)


def why_unreadable(path: Path) -> str:
    """Why a Parquet file cannot be read completely; empty if it can."""
    import duckdb

    with connect() as con:
        try:
            con.execute(f"SELECT max(hash(t)) FROM read_parquet({sql_path(path)}) t").fetchall()
        except duckdb.Error:
            return "it is not a Parquet file, or was changed after it was written"
    return ""


def _damage_of(path: Path, manifest: Manifest) -> str:
    if why := why_unreadable(path):
        return why
    with connect() as con:
        names = {str(n) for (n,) in con.execute(f"SELECT name FROM parquet_schema({sql_path(path)})").fetchall()}
    needed = _NEEDED.get(path.stem, set()) | (set(manifest.counters) if path.stem == "counters" else set())
    lacking = sorted(needed - names)
    return f"it has no column {lacking[0]}" if lacking else ""
