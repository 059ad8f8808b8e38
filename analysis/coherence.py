"""Which pass of a profile holds all counters of a metric, so that numerator and denominator come from one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .store import Manifest, Store, sql_path

if TYPE_CHECKING:
    import duckdb

_OTHER_RULE = "rocprof-compute"
"""Its profiles are evaluated as that tool does, which divides across its files."""


def passes_of(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> dict[str, frozenset[str]]:
    """Pass -> its columns of the table counters; empty where no counter was measured twice, so that all is settled."""
    if manifest.format == _OTHER_RULE or not any("@" in c for c in manifest.counters):
        return {}
    return _columns(con, store, manifest)


def scattered(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, figures: Mapping[str, Iterable[str]]
) -> list[str]:
    """Of figures with the counters that they read, those that no single pass holds: they mix runs of the program.

    Counters that were not collected at all do not count.
    """
    passes = {
        name: frozenset(c.split("@")[0] for c in columns) for name, columns in _columns(con, store, manifest).items()
    }
    collected = frozenset[str]().union(*passes.values())
    found = []
    for name, counters in figures.items() if len(passes) > 1 else ():
        wanted = collected.intersection(counters)
        if not any(wanted <= columns for columns in passes.values()):
            found.append(name)
    return found


def _columns(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> dict[str, frozenset[str]]:
    path = store.file(manifest, "passes")
    if path is None:
        return {}
    rows = con.execute(f"SELECT name, counters FROM read_parquet({sql_path(path)}) ORDER BY pass_id").fetchall()
    return {name: frozenset(listed.split(",")) for name, listed in rows if listed}


def pass_of(wanted_counters: Iterable[str], passes: Mapping[str, frozenset[str]]) -> str | None:
    """The first pass with all of these counters, measured there for the first time or again; None where there is none,
    or where all are columns of that pass under their plain names anyway."""
    wanted = {c.split("@")[0] for c in wanted_counters}
    for name, columns in passes.items():
        if all(c in columns or f"{c}@{name}" in columns for c in wanted):
            return None if wanted <= columns else name
    return None
