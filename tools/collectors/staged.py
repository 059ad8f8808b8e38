"""One file of a profile as Parquet, and what is known about its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.store import sql_name, sql_path
from .columns import UNUSED, Column
from .names import plain_text

if TYPE_CHECKING:
    import duckdb

TEXT_ROLES = {"kernel", "start", "end", "duration", "counter_name", "device_id", *UNUSED}


@dataclass
class Staged:
    """One CSV file as Parquet: the columns of use under their original headers, in file order."""

    name: str
    source: Path
    parquet: Path
    columns: list[Column]
    rows: int
    warnings: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest value of every numeric column that holds any."""
    infinite: set[str] = field(default_factory=set)
    """Quoted names of columns that hold infinities, which are read as NULL."""
    xcds: int = 1
    """Chiplets seen, where the file has rows per chiplet."""

    def header(self, role: str) -> str | None:
        """The header that plays ``role``, quoted for SQL, or None."""
        return next((sql_name(c.header) for c in self.columns if c.role == role), None)

    def relation(self, names: Iterable[str]) -> str:
        """The staged rows as a FROM clause: ``row``, from 0 in file order, and the columns quoted in ``names``."""
        picks = [f"{self.cell(n)} AS {n}" if n in self.infinite else n for n in dict.fromkeys(names)]
        return (
            f"(SELECT {', '.join(['file_row_number AS row', *picks])} FROM read_parquet("
            f"{sql_path(self.parquet)}, file_row_number = true, hive_partitioning = false))"
        )

    def cell(self, name: str, prefix: str = "") -> str:
        """The value of the column quoted in ``name``; infinities are NULL."""
        value = prefix + name
        return f"CASE WHEN isfinite({value}) THEN {value} END" if name in self.infinite else value

    def named(self, *roles: str) -> list[str]:
        """The quoted headers of those of ``roles`` that the file has."""
        return [header for role in roles if (header := self.header(role))]

    @property
    def all(self) -> str:
        """The staged rows with every column."""
        return self.relation(sql_name(c.header) for c in self.columns if c.role not in UNUSED)

    def counters(self) -> list[str]:
        """The plain counter columns, in file order."""
        return [c.header for c in self.columns if c.role == "counter"]


def measure(con: duckdb.DuckDBPyConnection, staged: Staged) -> None:
    """Note the bounds of every numeric column; infinities and NaN become NULL, with a warning.

    Parquet states the bounds of a column unless it holds such values, so only those columns are read.
    """
    numeric = {c.header for c in staged.columns if c.role not in TEXT_ROLES}
    found = con.execute(
        "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS DOUBLE)), max(TRY_CAST(stats_max_value AS DOUBLE)), "
        "bool_or((stats_min_value IS NULL OR stats_max_value IS NULL) AND coalesce(stats_null_count, 0) < num_values) "
        f"FROM parquet_metadata({sql_path(staged.parquet)}) GROUP BY path_in_schema"
    ).fetchall()
    for header, low, high, doubtful in found:
        if header not in numeric:
            continue
        if doubtful:
            low, high = _finite_bounds(con, staged, header)
        if low is not None:
            staged.bounds[header] = (low, high)


def _finite_bounds(con: duckdb.DuckDBPyConnection, staged: Staged, header: str) -> tuple[float | None, float | None]:
    name = sql_name(header)
    count, low, high = con.execute(
        f"SELECT count(*) FILTER (NOT isfinite({name})), min({name}) FILTER (isfinite({name})), "
        f"max({name}) FILTER (isfinite({name})) FROM {staged.relation([name])}"
    ).fetchone() or (0, None, None)
    if count:
        staged.infinite.add(name)
        staged.warnings.append(not_a_number(staged, header, count, staged.rows, "infinity"))
    return low, high


def not_a_number(staged: Staged, header: str, count: int, rows: int, example: str) -> str:
    return (
        f"{staged.source.name}: column {header} holds text in {count} of {rows} rows "
        f"(for instance {plain_text(str(example), 40)!r}); those cells are taken as not collected."
    )
