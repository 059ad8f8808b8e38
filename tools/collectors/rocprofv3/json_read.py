"""JSON of rocprofv3 (results.json): launches of the trace, launches with counters, processes and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.store import write_table
from ..names import bounded_name
from .json_records import COLUMNS, UNKNOWN_AGENT, JsonRun, collect
from .outputs import Output, rank_of
from .recording import LAUNCH, Recording, Spool, counter_list, describe, relation

if TYPE_CHECKING:
    import duckdb


def read_json(con: duckdb.DuckDBPyConnection, file: Path, output: Output, work: Path) -> list[Recording]:
    """The recordings in one JSON file, one for every process; BadInput where it is cut or another JSON."""
    spools = {name: Spool(con, work.with_name(f"{work.name}_{name}"), columns) for name, columns in COLUMNS.items()}
    runs = collect(file, spools)
    launch, value, symbol, counter = (relation(spool.close()) for spool in spools.values())
    typed = ", ".join(f"TRY_CAST({c} AS {kind}) AS {c}" for c, kind in LAUNCH.items() if c not in ("key", "kernel"))
    device = _numbers(runs)
    con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY run, dispatch_id) - 1 AS key, run, "
        f"{bounded_name('kernel')} AS kernel, agent, {typed} FROM (SELECT l.* EXCLUDE (vgpr, sgpr), kernel, agpr, "
        f"coalesce(l.vgpr, s.vgpr) AS vgpr, coalesce(l.sgpr, s.sgpr) AS sgpr, {device} AS device, {_pids(runs)} AS pid "
        f"FROM (FROM {launch} QUALIFY row_number() OVER (PARTITION BY run, dispatch_id, agent ORDER BY origin) = 1) l "
        f"LEFT JOIN (SELECT DISTINCT ON (run, symbol) * FROM {symbol}) s USING (run, symbol))"
    )
    launches, values = (work.with_name(f"{work.name}_{n}.parquet") for n in ("launches", "values"))
    write_table(con, f"SELECT {', '.join(LAUNCH)} FROM found ORDER BY key", launches)
    write_table(
        con,
        f"SELECT key, counter, value FROM {value} JOIN (SELECT DISTINCT ON (run, handle) * FROM {counter}) "
        "USING (run, handle) JOIN found USING (run, dispatch_id, agent) WHERE isfinite(value)",
        values,
    )
    keys = {
        run: (low, high, n)
        for run, low, high, n in con.execute(
            "SELECT run, min(key), max(key), count(*) FROM found GROUP BY run"
        ).fetchall()
    }
    con.execute("DROP TABLE found")
    found = []
    for number, run in enumerate(runs):
        low, high, rows = keys.get(number, (0, -1, 0))
        item = Recording(
            file, "json", output.label, output.above, launches, (low, high), rows, [values], host=run.host, pid=run.pid,
            command=run.command, span=run.span, agents=run.agents,
        )  # fmt: skip
        item.rank = rank_of(output, run.host, run.pid)
        item.counters = counter_list(con, [values], item.keys)
        found.append(describe(con, item))
    return found


def _numbers(runs: list[JsonRun]) -> str:
    """SQL for the number of an agent among those of its process; ``agent`` is its node in the machine's topology."""
    cases = [
        f"WHEN run = {r} AND agent = {a.numbers[1]} THEN {a.numbers[0]}"
        for r, run in enumerate(runs)
        for a in run.agents
        if a.numbers[0] is not None and a.numbers[1] is not None
    ]
    return (
        f"CASE {' '.join(cases)} ELSE nullif(agent, {UNKNOWN_AGENT}) END"
        if cases
        else f"nullif(agent, {UNKNOWN_AGENT})"
    )


def _pids(runs: list[JsonRun]) -> str:
    cases = [f"WHEN {r} THEN {run.pid}" for r, run in enumerate(runs) if run.pid is not None]
    return f"CASE run {' '.join(cases)} END" if cases else "NULL"
