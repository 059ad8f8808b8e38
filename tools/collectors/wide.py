"""The wide table of counters: the columns of all passes side by side, row by row, without holding any of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.store import sql_name, sql_path, write_table
from .keys import Pass

if TYPE_CHECKING:
    import duckdb


def write_counters(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path) -> list[str]:
    """Write counters.parquet, in the order of the main pass, and return its counter columns.

    A hash join would hold or spill the columns of every pass at once; files whose rows stand in the same order
    are joined by position instead, which streams. Passes in another order are sorted first, one at a time.
    """
    main = passes[0].staged.parquet
    sources = [_write_identity(con, passes, main.with_suffix(".keys")), main]
    aliases, columns, picks = ["k", "p0"], [], ["k.dispatch_id", "k.kernel", "k.duration_ns"]
    for index, item in enumerate(passes):
        for read, name in item.counters.items():
            picks.append(f"{item.staged.cell(sql_name(read), f'p{index}.')} AS {sql_name(name)}")
        columns += list(item.counters.values())
        if index:
            picks.append(f"k.t{index} AS {sql_name(f'duration_ns@{item.staged.name}')}")
        if index and item.counters:
            sources.append(_aligned(con, passes, index))
            aliases.append(f"p{index}")
    reads = [f"read_parquet({sql_path(f)}, hive_partitioning = false)" for f in sources]
    side_by_side = " POSITIONAL JOIN ".join(f"{read} {alias}" for read, alias in zip(reads, aliases, strict=True))
    write_table(con, f"SELECT {', '.join(picks)} FROM {side_by_side}", folder / "counters.parquet")
    for file in set(sources) - {p.staged.parquet for p in passes}:
        file.unlink()
    return columns


def _write_identity(con: duckdb.DuckDBPyConnection, passes: list[Pass], path: Path) -> Path:
    """What every row is called, and how long it took in each pass."""
    others = range(1, len(passes))
    times = "".join(f", p{i}.duration_ns AS t{i}" for i in others)
    joins = "".join(f" LEFT JOIN pairs_{i} p{i} ON p{i}.main_row = k.row" for i in others)
    write_table(
        con,
        f"SELECT k.dispatch_id, n.kernel, k.duration_ns{times} FROM keys_0 k JOIN names n USING (name_id){joins} "
        "ORDER BY k.row",
        path,
    )
    return path


def _aligned(con: duckdb.DuckDBPyConnection, passes: list[Pass], index: int) -> Path:
    """The counters of a pass with one row per dispatch of the main pass, in its order."""
    item, rows = passes[index], passes[0].staged.rows
    (moved,) = con.execute(f"SELECT count(*) FILTER (main_row != row) FROM pairs_{index}").fetchone() or (0,)
    if not moved and item.matched == item.staged.rows == rows:
        return item.staged.parquet
    path = item.staged.parquet.with_suffix(".aligned")
    names = [sql_name(c) for c in item.counters]
    write_table(
        con,
        f"SELECT {', '.join(names)} FROM keys_0 k LEFT JOIN pairs_{index} p ON p.main_row = k.row "
        f"LEFT JOIN {item.staged.relation(names)} s ON s.row = p.row ORDER BY k.row",
        path,
    )
    return path
