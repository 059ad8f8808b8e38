"""The table of ranks: a row per process of a program with several, and what the import tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.store.store import Manifest, write_table
from .contract import parquet
from .merge import MergedProfile
from .ranks import rank_notes, sql_place

if TYPE_CHECKING:
    import duckdb

_KNOWN = ("rank", "host", "pid")


def write_ranks(con: duckdb.DuckDBPyConnection, out: Path, manifest: Manifest, merged: MergedProfile) -> None:
    """Write the table where the profile is of several processes that are told apart; says so in the notes."""
    places = merged.places
    if len(places) < 2:
        return
    rows = ", ".join(f"({sql_place(place)})" for place in dict.fromkeys(places))
    places_sql = f"SELECT DISTINCT rank::INT AS rank, host::VARCHAR AS host, pid::BIGINT AS pid FROM (VALUES {rows}) "
    places_sql += "p(rank, host, pid)"
    figures = (
        "NULL::INT AS devices, 0::BIGINT AS dispatches, 0::INT AS kernels, NULL::DOUBLE AS kernel_ns, "
        "NULL::DOUBLE AS work_items, NULL::BIGINT AS first_ns, NULL::BIGINT AS last_ns"
    )
    select = f"SELECT *, {figures} FROM ({places_sql})"
    stored = out / "dispatches.parquet"
    if stored.exists():
        select = _launch_sums(con, stored, places_sql)
    manifest.ranks = write_table(con, f"{select} ORDER BY rank NULLS LAST, host, pid", out / "ranks.parquet")
    notes, warnings = rank_notes(places, merged.world_size)
    merged.notes[:0] = notes
    merged.warnings += warnings


def _launch_sums(con: duckdb.DuckDBPyConnection, stored: Path, places_sql: str) -> str:
    """SQL: the places with what each launched."""
    launches = parquet([stored])
    stated = {row[0] for row in con.execute(f"DESCRIBE FROM {launches}").fetchall()}
    keys = ", ".join(c if c in stated else f"NULL AS {c}" for c in _KNOWN)
    same = " AND ".join(f"p.{c} IS NOT DISTINCT FROM l.{c}" for c in _KNOWN[:2] if c in stated)
    within = ", ".join(f"p.{c}" for c in _KNOWN[:2] if c in stated)
    alone = f"count(*) OVER ({f'PARTITION BY {within}' if within else ''}) = 1 AS alone"
    sums = (
        f"SELECT {keys}, count(DISTINCT device_id)::INT AS devices, count(*) AS dispatches, "
        "count(DISTINCT kernel)::INT AS kernels, sum(duration_ns) AS kernel_ns, sum(grid::DOUBLE) AS work_items, "
        f"min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM {launches} GROUP BY ALL"
    )
    return (
        "SELECT p.* EXCLUDE (alone), l.devices, coalesce(l.dispatches, 0) AS dispatches, "
        "coalesce(l.kernels, 0)::INT AS kernels, l.kernel_ns, l.work_items, l.first_ns, l.last_ns "
        f"FROM (SELECT *, {alone} FROM ({places_sql}) p) p LEFT JOIN ({sums}) l "
        f"ON {same or 'true'} AND (l.pid IS NOT DISTINCT FROM p.pid OR p.alone AND coalesce(l.pid = p.pid, true))"
    )
