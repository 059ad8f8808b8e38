"""Whether samples have source lines, and what would give them some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.notes import Note
from ....analysis.hotspots.line_info import advice
from ....analysis.store.manifest import Manifest
from ..merging.contract import parquet
from ..merging.merge import MergedProfile

if TYPE_CHECKING:
    import duckdb

_MOST_KERNELS = 1000


def missing_line_info(
    con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: MergedProfile
) -> list[Note]:
    """The flags that kernels of a profile in ``folder`` need for lines in their samples; none where all have them."""
    stored = folder / "samples.parquet"
    if not stored.is_file():
        return []
    return advice(manifest, shares_without_lines(con, parquet([stored])), merged.dispatches)


def shares_without_lines(con: duckdb.DuckDBPyConnection, samples: str) -> dict[str, float]:
    """Kernel -> its samples without a line as a share of all samples, in per cent; ``samples`` is a FROM item with
    the columns of the table samples. Where not even the instruction is known, the program may well have lines."""
    rows = con.execute(
        "SELECT kernel, 100.0 * sum(count) FILTER (source_line IS NULL AND instruction IS NOT NULL) "
        "/ sum(sum(count)) OVER () AS share "
        f"FROM {samples} GROUP BY kernel QUALIFY share > 0 ORDER BY share DESC, kernel LIMIT {_MOST_KERNELS}"
    ).fetchall()
    return {kernel: float(share) for kernel, share in rows}
