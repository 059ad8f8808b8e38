"""Samples that another run of the program gave, for the launches of a workload that they repeat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.store.store import write_table
from .contract import parquet
from .repeated_launches import pair_repeated_launches

if TYPE_CHECKING:
    import duckdb


def take_samples(con: duckdb.DuckDBPyConnection, source: Path, out: Path) -> None:
    """Move the tables of samples below ``source`` to ``out``, whose launches they then name.

    ``pair_repeated_launches`` says which launch stands for which; samples of a kernel or size that ``out`` lacks
    name none.
    """
    theirs, ours = (folder / "dispatches.parquet" for folder in (source, out))
    for table in ("samples", "instructions", "source_lines"):
        file = source / f"{table}.parquet"
        if not file.exists():
            continue
        if table == "source_lines":
            file.rename(out / file.name)
            continue
        of = _launches(theirs, ours) if theirs.exists() else _NO_LAUNCHES
        own = f"SELECT * FROM {parquet([file])}"
        if table == "samples":
            rows = f"SELECT t.* REPLACE (m.id AS dispatch_id, m.launch AS launch) FROM ({own}) t LEFT JOIN ({of}) m "
            rows += "ON m.their_id = t.dispatch_id"
        else:
            sizes = f"SELECT kernel, their_launch, min(launch) AS launch FROM ({of}) GROUP BY ALL"
            rows = f"SELECT t.* REPLACE (m.launch AS launch) FROM ({own}) t LEFT JOIN ({sizes}) m "
            rows += "ON m.kernel = t.kernel AND m.their_launch = t.launch"
        write_table(con, f'{rows} ORDER BY kernel, launch, code_object, "offset"', out / file.name)


_NO_LAUNCHES = (
    "SELECT NULL::BIGINT AS their_id, NULL::INT AS their_launch, NULL::VARCHAR AS kernel, NULL::BIGINT AS id, "
    "NULL::INT AS launch"
)


def _launches(theirs: Path, ours: Path) -> str:
    """SQL: each of their launches, and ours that it repeats."""
    launched = "SELECT dispatch_id AS id, launch, kernel, grid, workgroup_size FROM"
    repeats = pair_repeated_launches(f"{launched} {parquet([theirs])}", f"{launched} {parquet([ours])}")
    return (
        "SELECT t.id AS their_id, t.launch AS their_launch, t.kernel, o.dispatch_id AS id, o.launch "
        f"FROM ({repeats}) t LEFT JOIN {parquet([ours])} o ON o.dispatch_id = t.repeats"
    )
