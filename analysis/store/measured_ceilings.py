"""Measured ceilings of devices in the store: one immutable Parquet file per run of the micro-benchmarks.

Layout: ``<store>/peak/<vendor>-<device uuid>-<partition>/<time>-<id>.parquet``, a row per ceiling or point of a sweep.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.database import open_own_database, sql_path
from ..base.problems import StoreProblem
from ..catalogue import files as data_files
from .integrity import why_unreadable
from .manifest import refuse_unusual_table
from .store import Store, insert_rows, new_id, write_table

if TYPE_CHECKING:
    import duckdb

USABLE = ("ok", "suspect")
"""The statuses of figures that can be used as ceilings."""
MODES = ("full", "quick")
"""The modes of measurement whose figures can be used as ceilings, the most thorough one first."""
COLUMNS = {name: kind for kind, names in data_files.load(Path(__file__).with_suffix(".toml")).items() for name in names}
"""The columns of every file, with their DuckDB types."""


def save(store: Store, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Store the rows of one run on one device; missing values are NULL. Raises StoreProblem if the disk cannot be
    written."""
    first, now = rows[0], time.time_ns()
    words = (str(first.get(name) or "") for name in ("vendor", "device_uuid", "partition"))
    key = "-".join(re.sub(r"[^\w.-]+", "_", word).strip("._")[:80] for word in words if word)
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now / 1e9))
    target = store.root / "peak" / key / f"{at}-{new_id(now)}.parquet"
    with open_own_database() as con, store.draft() as folder:
        insert_rows(con, "peak", COLUMNS, rows)
        draft = folder / "peak.parquet"
        write_table(con, "FROM peak", draft)
        store.keep(draft, target)
    return target


def files(store: Store) -> list[Path]:
    """The complete files of all devices, oldest first."""
    store.verify()
    complete_files = [path for path in store.root.glob("peak/*/*.parquet") if is_complete(path)]
    return sorted(complete_files, key=lambda path: path.name.rpartition("-")[2])


def latest(con: duckdb.DuckDBPyConnection, store: Store) -> list[dict[str, Any]]:
    """The newest row of every ceiling, mode and point on every device and partition, newest first."""
    import duckdb

    source = _source(store)
    if source is None:
        return []
    names = list(COLUMNS)
    query = (
        f"SELECT {', '.join(names)} FROM ({source}) QUALIFY row_number() OVER (PARTITION BY device_uuid, partition, "
        "ceiling, mode, intensity ORDER BY measured_at DESC) = 1 ORDER BY measured_at DESC, ceiling, intensity"
    )
    try:
        rows = con.execute(query).fetchall()
    except duckdb.Error as error:
        if damaged := [path for path in files(store) if why_unreadable(path)]:
            what = f"Measured ceilings cannot be read: {damaged[0].relative_to(store.root)} is damaged"
            raise StoreProblem(what, fix="Delete it, and run run_peak_benchmarks again") from error
        raise
    return [dict(zip(names, row, strict=True)) for row in rows]


def fullest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each ceiling and each sweep of a device, the rows of the most thorough mode that it was measured in."""
    best: dict[tuple[str, bool], int] = {}
    for row in rows:
        key, rank = (row["ceiling"], row["intensity"] is None), MODES.index(row["mode"])
        best[key] = min(rank, best.get(key, rank))
    return [row for row in rows if MODES.index(row["mode"]) == best[row["ceiling"], row["intensity"] is None]]


def relation(store: Store) -> str | None:
    """Trusted SQL for the table ``ceilings``: the measured figures, and the theoretical figure of each."""
    source = _source(store)
    if source is None:
        return None
    shared = "device_uuid, device, partition, gpu, ceiling, intensity, unit, measured_at"
    return (
        f"(SELECT *, 'empirical' AS kind FROM ({source}) WHERE value IS NOT NULL UNION ALL BY NAME "
        f"SELECT DISTINCT {shared}, theoretical AS value, 'theoretical' AS kind, 'units x rate x clock' AS method "
        f"FROM ({source}) WHERE theoretical IS NOT NULL)"
    )


def _source(store: Store) -> str | None:
    """SQL that reads all files with all of ``COLUMNS``, including files of older versions that lack some."""
    listed = ", ".join(map(sql_path, files(store)))
    if not listed:
        return None
    typed = ", ".join(f"NULL::{kind} AS {name}" for name, kind in COLUMNS.items())
    return (
        f"SELECT {typed} WHERE false UNION ALL BY NAME "
        f"SELECT * FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    )


def is_complete(path: Path) -> bool:
    """Whether a regular file starts and ends like Parquet; a truncated file would make every query fail."""
    try:
        refuse_unusual_table(path)
    except StoreProblem:
        return False
    return True
