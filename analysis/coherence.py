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
    path = store.file(manifest, "passes")
    if path is None or manifest.format == _OTHER_RULE or not any("@" in c for c in manifest.counters):
        return {}
    rows = con.execute(f"SELECT name, counters FROM read_parquet({sql_path(path)}) ORDER BY pass_id").fetchall()
    return {name: frozenset(counters.split(",")) for name, counters in rows if counters}


def pass_of(counters: Iterable[str], passes: Mapping[str, frozenset[str]]) -> str | None:
    """The first pass with all of these counters, measured there for the first time or again; None where there is none,
    or where all are columns of that pass under their plain names anyway."""
    wanted = {c.split("@")[0] for c in counters}
    for name, columns in passes.items():
        if all(c in columns or f"{c}@{name}" in columns for c in wanted):
            return None if wanted <= columns else name
    return None
