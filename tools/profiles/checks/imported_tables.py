"""The launches and counters of a workload that is being written, for the checks to query, and the result of a check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_name, sql_path
from ....analysis.base.notes import Note
from ....analysis.store.doubts import Doubt
from ....analysis.store.store import Manifest
from ..merging.merge import StoredProfile

if TYPE_CHECKING:
    import duckdb

WAVE = 64
"""Work-items of a wave, for profiles that do not state it."""
LISTED = 6


@dataclass(frozen=True)
class CheckResult:
    """Result of one check: a sentence for the user, and the figures that it casts doubt on, if any."""

    code: str
    text: str
    doubts: tuple[Doubt, ...] = ()

    @property
    def note(self) -> Note:
        """The warning, which starts with the code of its check."""
        return Note(self.code, f"{self.code}: {self.text}")


CheckResults = Iterator[CheckResult]


class ImportedTables:
    """The counters (alias c) joined with the dispatches (alias d), as written."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: StoredProfile) -> None:
        self.con, self.facts, self.merged, self.arch = con, manifest.facts, merged, manifest.arch
        counters, dispatches = (sql_path(folder / f"{name}.parquet") for name in ("counters", "dispatches"))
        counted = f"read_parquet({counters}, hive_partitioning = false)"
        for name in manifest.replayed[:1]:
            # Counters of replayed kernels go with the duration of their replays.
            counted = f"(SELECT * REPLACE ({sql_name(f'duration_ns@{name}')} AS duration_ns) FROM {counted})"
        self.relation = f"{counted} c JOIN read_parquet({dispatches}, hive_partitioning = false) d USING (dispatch_id)"

    def ask(self, *picks: str) -> list[float]:
        """Return one row of numbers; NULL counts as 0."""
        row = self.con.execute(f"SELECT {', '.join(picks)} FROM {self.relation}").fetchone() or ()
        return [float(v or 0) for v in row]

    def count_where(self, condition: str) -> tuple[float, float]:
        """Return in how many dispatches a condition holds, and in how many it can be evaluated."""
        holds, known = self.ask(f"count(*) FILTER ({condition})", f"count(*) FILTER (({condition}) IS NOT NULL)")
        return holds, known

    def count_above(self, rate: str, limit: float) -> tuple[float, float, float]:
        """Return in how many dispatches a rate exceeds a limit, in how many it is known, and the highest rate."""
        high, known, highest = self.ask(f"count(*) FILTER ({rate} > {limit!r})", f"count({rate})", f"max({rate})")
        return high, known, highest

    def kernels_where(self, condition: str) -> tuple[str, ...] | None:
        """Return the kernels with a dispatch for which a condition holds; None if it holds for all kernels."""
        rows = self.con.execute(
            f"SELECT DISTINCT c.kernel FROM {self.relation} WHERE {condition} ORDER BY ALL"
        ).fetchall()
        return tuple(str(name) for (name,) in rows) if len(rows) < self.merged.kernels else None

    def highest_by_kernel(self, figure: str, limit: float) -> dict[str, float]:
        """Return the kernels for which a figure exceeds a limit, with its maximum, the highest first."""
        rows = self.con.execute(
            f"SELECT c.kernel, max({figure}) AS most FROM {self.relation} GROUP BY ALL HAVING most > {limit!r} "
            "ORDER BY 2 DESC, 1"
        ).fetchall()
        return {str(name): float(value) for name, value in rows}

    def has(self, *counters: str) -> bool:
        """Return whether all of these counters were collected."""
        return set(counters) <= set(self.merged.counters)

    def first_collected(self, *counters: str) -> str | None:
        """Return the first of these counters that was collected."""
        return next((c for c in counters if self.has(c)), None)

    def bounds(self, counter: str) -> tuple[float, float] | None:
        """Return the minimum and maximum of a counter in the pass that has it under this name; None without values."""
        for item in self.merged.passes:
            for read, name in item.counters.items():
                if name == counter:
                    return item.bounds.get(read)
        return None


def launched_waves(wave: int) -> str:
    """Return SQL for the number of waves of a launch."""
    return f"ceil(d.grid / nullif(d.workgroup_size, 0)) * ceil(d.workgroup_size / {wave})"


def some_names(counters: list[str]) -> str:
    """Return the first names of a list, and how many follow."""
    more = f" and {len(counters) - LISTED} more" if len(counters) > LISTED else ""
    return ", ".join(counters[:LISTED]) + more
