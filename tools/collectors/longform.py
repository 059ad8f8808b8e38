"""Long CSV forms (one row per dispatch and counter) into the wide form: one row per dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_literal, sql_name, write_table
from .columns import Column, classify, role_of
from .names import plain_text
from .staged import Staged, measure

if TYPE_CHECKING:
    import duckdb

_IDENTITY = ("pid", "device_id", "dispatch_id", "kernel", "grid", "workgroup_size", "lds_bytes")
_LAUNCH = ("queue_id", "scratch_bytes", "vgpr", "agpr", "sgpr")
_COUNTER_LIMIT = 20_000


def widen(con: duckdb.DuckDBPyConnection, staged: Staged) -> Staged:
    """The same dispatches with one column per counter.

    Rows belong together by process, device, dispatch, kernel and launch geometry; of several values of one
    counter the last one counts. Replays give a dispatch several pairs of timestamps: the duration is the median.
    """
    name, value = staged.header("counter_name"), staged.header("counter_value")
    if name is None or value is None:
        raise BadInput(f"{staged.source.name} has no column Counter_Value beside Counter_Name")
    counters = _counter_names(con, staged, name)
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
        f"CREATE OR REPLACE TABLE long_launch AS SELECT min(row) AS row, {keys}{firsts} "
        f"FROM {staged.all} GROUP BY {keys}"
    )
    con.execute(
        f"CREATE OR REPLACE TABLE long_wide AS PIVOT (SELECT {keys}, {name} AS counter, {value} AS value, "
        f"row AS source_row FROM {staged.all}) ON counter IN ({', '.join(map(sql_literal, counters))}) "
        f"USING last(value ORDER BY source_row) GROUP BY {keys}"
    )
    picks = ", ".join(f"w.{sql_name(c)}" for c in counters)
    same = " AND ".join(f"l.{h} IS NOT DISTINCT FROM w.{h}" for h in identity)
    rows = write_table(
        con, f"SELECT l.* EXCLUDE (row), {picks} FROM long_launch l JOIN long_wide w ON {same} ORDER BY l.row", wide
    )
    launched = [c[0] for c in con.execute("DESCRIBE long_launch").fetchall() if c[0] != "row"]
    con.execute("DROP TABLE long_launch; DROP TABLE long_wide")
    staged.parquet.unlink()
    columns = [*classify(launched), *(Column(c, role_of(c)) for c in counters)]
    found = Staged(staged.name, staged.source, wide, columns, rows, staged.warnings)
    measure(con, found)
    return found


def _counter_names(con: duckdb.DuckDBPyConnection, staged: Staged, column: str) -> list[str]:
    """The counters named in the file, sorted; what cannot be a counter is left out with a warning."""
    found = con.execute(
        f"SELECT DISTINCT {column} FROM {staged.all} WHERE {column} IS NOT NULL LIMIT {_COUNTER_LIMIT + 1}"
    ).fetchall()
    if len(found) > _COUNTER_LIMIT:
        raise BadInput(f"{staged.source.name} names more than {_COUNTER_LIMIT} counters", "no GPU has so many")
    names: dict[str, str] = {}
    strange = []
    for (name,) in sorted(found):
        if role_of(name) in ("counter", "instance") and name.casefold() not in names:
            names[name.casefold()] = name
        else:
            strange.append(plain_text(name, 40))
    if strange:
        staged.warnings.append(
            f"{staged.source.name}: {len(strange)} names that are no counters were left out: "
            f"{', '.join(strange[:8])}{' ...' if len(strange) > 8 else ''}."
        )
    if not names:
        raise BadInput(
            f"{staged.source.name} names no counter", "its column Counter_Name holds none that rooflens knows"
        )
    return list(names.values())
