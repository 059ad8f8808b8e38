"""Long CSV forms (one row per dispatch and counter) into the wide form: one row per dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_name, write_table
from .columns import classify
from .csvfile import Staged

if TYPE_CHECKING:
    import duckdb

_IDENTITY = ("pid", "device_id", "dispatch_id", "kernel", "grid", "workgroup_size", "lds_bytes")
_LAUNCH = ("queue_id", "scratch_bytes", "vgpr", "agpr", "sgpr")


def widen(con: duckdb.DuckDBPyConnection, staged: Staged) -> Staged:
    """The same dispatches with one column per counter.

    Rows belong together by process, device, dispatch, kernel and launch geometry; of several values of one
    counter the last one counts. Replays give a dispatch several pairs of timestamps: the duration is the median.
    """
    name, value = staged.header("counter_name"), staged.header("counter_value")
    if name is None or value is None:
        raise BadInput(f"{staged.source.name} has no column Counter_Value beside Counter_Name")
    identity = [h for role in _IDENTITY if (h := staged.header(role))]
    launch = [h for role in _LAUNCH if (h := staged.header(role))]
    start, end = staged.header("start"), staged.header("end")
    keys = ", ".join(identity)
    firsts = "".join(f", first({h} ORDER BY row) AS {h}" for h in launch)
    if start and end:
        span = f"median(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT))"
        firsts += f", '0' AS Start_Timestamp, CAST({span} AS VARCHAR) AS End_Timestamp"
    wide = staged.parquet.with_suffix(".wide")
    con.execute(
        f"CREATE OR REPLACE TABLE long_launch AS SELECT min(row) AS row, {keys}{firsts} FROM {staged.relation} GROUP BY {keys}"
    )
    con.execute(
        f"CREATE OR REPLACE TABLE long_wide AS PIVOT (SELECT * EXCLUDE (row), row AS source_row FROM "
        f"(SELECT row, {keys}, {name} AS counter, {value} AS value FROM {staged.relation})) "
        f"ON counter USING last(value ORDER BY source_row) GROUP BY {keys}"
    )
    counters = [c[0] for c in con.execute("DESCRIBE long_wide").fetchall()]
    plain = {h.strip('"') for h in identity}
    picks = ", ".join(f"w.{sql_name(c)}" for c in counters if c not in plain)
    same = " AND ".join(f"l.{h} IS NOT DISTINCT FROM w.{h}" for h in identity)
    rows = write_table(
        con,
        f"SELECT row_number() OVER (ORDER BY l.row) - 1 AS row, l.* EXCLUDE (row), {picks} "
        f"FROM long_launch l JOIN long_wide w ON {same} ORDER BY l.row",
        wide,
    )
    con.execute("DROP TABLE long_launch; DROP TABLE long_wide")
    staged.parquet.unlink()
    headers = [c[0] for c in con.execute(f"DESCRIBE FROM read_parquet('{wide}')").fetchall() if c[0] != "row"]
    return Staged(staged.name, staged.source, wide, classify(headers), rows, staged.warnings)
