"""The launches within a range that the program named (ROCTX, NVTX, operators)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.database import sql_literal, sql_path
from ...analysis.problems import NotFound, near
from .tables.names import plain_text

if TYPE_CHECKING:
    import duckdb

_NAMES = 1000
_MARKERS = "Is it marked (torch.cuda.nvtx.range_push), and was the run one that records ranges?"


def condition(con: duckdb.DuckDBPyConnection, folder: Path, name: str) -> str:
    """SQL that holds for the launches, in the dispatches of ``folder``, that a range ``name`` or one within it made.

    ``name`` is that of a range or the end of its path (``step/forward``). NotFound with near names where none is so
    called, or none of those launched a kernel.
    """
    ranges, dispatches = folder / "ranges.parquet", folder / "dispatches.parquet"
    shown = plain_text(name, 80)
    if not ranges.is_file():
        raise NotFound(f"The program has no range {shown!r}", "no range was recorded", _MARKERS)
    wanted = sql_literal(name)
    # Names and paths alike are between slashes then.
    inside = f"contains('/' || path || '/', '/' || {wanted} || '/')"
    found = f"(SELECT range_id FROM read_parquet({sql_path(ranges)}) WHERE {inside})"
    (known,) = con.execute(f"SELECT count(*) FROM {found}").fetchone() or (0,)
    if not known:
        rows = con.execute(f"SELECT DISTINCT name FROM read_parquet({sql_path(ranges)}) LIMIT {_NAMES}").fetchall()
        raise NotFound(f"The program has no range {shown!r}", near(name, [str(row[0]) for row in rows]), _MARKERS)
    held = f"range_id IN {found}"
    (launches,) = con.execute(f"SELECT count(*) FROM read_parquet({sql_path(dispatches)}) WHERE {held}").fetchone() or (
        0,
    )
    if not launches:
        raise NotFound(f"No kernel was launched in range {shown!r}", "", "Ranges count on the thread that launches")
    return held
