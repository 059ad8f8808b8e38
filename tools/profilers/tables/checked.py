"""The written tables of an import, as the checks of its plausibility query them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_name, sql_path
from ....analysis.store import Manifest
from .merge import Merged

if TYPE_CHECKING:
    import duckdb

CLOCK_TOLERANCE = 1.05
_SHOWN = 6


class Tables:
    """Counters (c) joined with dispatches (d)."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> None:
        self.con, self.manifest, self.merged = con, manifest, merged
        counters, dispatches = (sql_path(folder / f"{name}.parquet") for name in ("counters", "dispatches"))
        self.relation = (
            f"read_parquet({counters}, hive_partitioning = false) c "
            f"JOIN read_parquet({dispatches}, hive_partitioning = false) d USING (dispatch_id)"
        )

    def ask(self, picks: str) -> list[float]:
        """One row of numbers; NULL counts as 0."""
        row = self.con.execute(f"SELECT {picks} FROM {self.relation}").fetchone() or ()
        return [float(v or 0) for v in row]

    def has(self, *counters: str) -> bool:
        """Whether all of them were collected."""
        return set(counters) <= set(self.merged.counters)

    def first(self, *counters: str) -> str | None:
        """The first of them that was collected, quoted for SQL."""
        return next((sql_name(c) for c in counters if self.has(c)), None)

    def bounds(self, counter: str) -> tuple[float, float] | None:
        """Least and greatest value of a counter in the pass that holds it under this name; None without any value."""
        for item in self.merged.passes:
            for read, name in item.counters.items():
                if name == counter:
                    return item.staged.bounds.get(read)
        return None


def listed(counters: list[str]) -> str:
    """Some of many names."""
    more = f" and {len(counters) - _SHOWN} more" if len(counters) > _SHOWN else ""
    return ", ".join(counters[:_SHOWN]) + more
