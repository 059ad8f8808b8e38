"""Read rocprofv3's rocpd databases, and nothing of the environment that they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.database import sql_literal
from ....analysis.problems import BadInput
from ....analysis.store import write_table
from ..tables.contract import parquet
from ..tables.names import bounded_name, plain_text
from .agents import FIELDS, Agent, agent_of
from .database import Database, open_database
from .outputs import Output, rank_of
from .recording import LAUNCH, Recording, Spool, counter_list, describe

if TYPE_CHECKING:
    import duckdb


_DISPATCH = {  # column of spooled dispatches -> SQL over rocpd_kernel_dispatch
    "session": "guid", "event_id": "event_id", "process": "pid", "agent": "agent_id", "symbol": "kernel_id",
    "dispatch_id": "dispatch_id", "queue_id": "queue_id", "start_ns": '"start"', "end_ns": '"end"',
    "scratch_bytes": "private_segment_size", "lds_bytes": "group_segment_size",
    "grid": "grid_size_x * grid_size_y * grid_size_z",
    "workgroup_size": "workgroup_size_x * workgroup_size_y * workgroup_size_z",
}  # fmt: skip
_SYMBOL = {
    "session": "guid", "symbol": "id", "kernel": "coalesce(display_name, kernel_name)", "vgpr": "arch_vgpr_count",
    "agpr": "accum_vgpr_count", "sgpr": "sgpr_count",
}  # fmt: skip
_VALUE = {"session": "guid", "event_id": "event_id", "pmc": "pmc_id", "value": "value"}
_TYPE = {"kernel": "VARCHAR", "counter": "VARCHAR", "value": "DOUBLE"}
_MOST_SESSIONS = 2000
_PROCESS = (
    "id", "CAST(pid AS INTEGER)", "nid", "CAST(command AS TEXT)", 'CAST(coalesce(init, "start") AS INTEGER)',
    'CAST(coalesce(fini, "end") AS INTEGER)',
)  # fmt: skip
_VIEW = {  # the same from AMD's view of kernels
    "session": "guid", "process": "pid", "device": "agent_log_index", "dispatch_id": "dispatch_id", "kernel": "name",
    "queue_id": "queue_id", "grid": "grid_x * grid_y * grid_z", "lds_bytes": "lds_size",
    "workgroup_size": "workgroup_x * workgroup_y * workgroup_z", "scratch_bytes": "scratch_size",
    "vgpr": "vgpr_count", "agpr": "accum_vgpr_count", "sgpr": "sgpr_count", "start_ns": '"start"', "end_ns": '"end"',
}  # fmt: skip
_VIEW_VALUE = {
    "session": "guid", "process": "pid", "dispatch_id": "dispatch_id", "device": "agent_log_index",
    "counter": "counter_name", "value": "value",
}  # fmt: skip


def read_rocpd(con: duckdb.DuckDBPyConnection, file: Path, output: Output, work: Path) -> list[Recording]:
    """The recordings in one database; BadInput in words where it is none, or damaged.

    The base tables are read and joined here: AMD's view of counters has no index to join by. Where the tables are
    missing or laid out in another way, the views are read instead.
    """
    with open_database(file) as db:
        if db.parts("rocpd_kernel_dispatch"):
            values = _from_tables(con, db, work)
        elif db.parts("kernels"):
            values = _from_views(con, db, work)
        else:
            raise BadInput(f"{file.name} is no rocpd database", "it has no table of kernel dispatches")
        launches = work.with_name(f"{work.name}_launches.parquet")
        picks = ", ".join(f"TRY_CAST({c} AS {kind}) AS {c}" for c, kind in LAUNCH.items() if c != "kernel")
        kernel = bounded_name("kernel")
        write_table(con, f"SELECT session, process, {picks}, {kernel} AS kernel FROM found ORDER BY key", launches)
        counted = [work.with_name(f"{work.name}_counted.parquet")] if values else []
        for path in counted:
            write_table(con, values, path)
        con.execute("DROP TABLE found")
        return [_recording(con, db, output, launches, counted, *row) for row in _processes(con, launches)]


def _from_tables(con: duckdb.DuckDBPyConnection, db: Database, work: Path) -> str:
    """Table ``found`` of all launches; returns SQL for the counter values, empty where there are none."""
    dispatches = parquet(_spool(con, db, work, "dispatch", "rocpd_kernel_dispatch", _DISPATCH))
    symbols = parquet(_spool(con, db, work, "symbol", "rocpd_info_kernel_symbol", _SYMBOL))
    agents = {"session": "guid", "agent": "id", "device": "coalesce(logical_index, absolute_index)"}
    devices = parquet(_spool(con, db, work, "agent", "rocpd_info_agent", agents))
    pids = {"session": "guid", "process": "id", "pid": "pid"}
    processes = parquet(_spool(con, db, work, "process", "rocpd_info_process", pids))
    con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY session, process, dispatch_id, event_id) "
        "- 1 AS key, coalesce(p.pid, process) AS pid, device, kernel, vgpr, agpr, sgpr, d.* "
        f"FROM {dispatches} d "
        f"LEFT JOIN (SELECT DISTINCT ON (session, symbol) * FROM {symbols}) USING (session, symbol) "
        f"LEFT JOIN (SELECT DISTINCT ON (session, agent) * FROM {devices}) USING (session, agent) "
        f"LEFT JOIN (SELECT DISTINCT ON (session, process) * FROM {processes}) p USING (session, process)"
    )
    if not db.parts("rocpd_pmc_event") or not db.parts("rocpd_info_pmc"):
        return ""
    counters = {"session": "guid", "pmc": "id", "counter": "name"}
    names = parquet(_spool(con, db, work, "pmc", "rocpd_info_pmc", counters))
    given = _spool(con, db, work, "event", "rocpd_pmc_event", _VALUE)
    return (
        f"SELECT key, counter, value FROM {parquet(given)} JOIN found USING (session, event_id) "
        f"JOIN (SELECT DISTINCT ON (session, pmc) * FROM {names}) USING (session, pmc) WHERE value IS NOT NULL"
    )


def _from_views(con: duckdb.DuckDBPyConnection, db: Database, work: Path) -> str:
    dispatches = parquet(_spool(con, db, work, "dispatch", "kernels", _VIEW))
    con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY session, process, dispatch_id) - 1 "
        f"AS key, process AS pid, * FROM {dispatches}"
    )
    if not db.parts("counters_collection"):
        return ""
    given = parquet(_spool(con, db, work, "event", "counters_collection", _VIEW_VALUE))
    return (
        f"SELECT key, counter, value FROM {given} g JOIN found f ON f.session IS NOT DISTINCT FROM g.session "
        "AND f.process = g.process AND f.dispatch_id = g.dispatch_id AND f.device IS NOT DISTINCT FROM g.device "
        "WHERE value IS NOT NULL"
    )


def _spool(
    con: duckdb.DuckDBPyConnection, db: Database, work: Path, name: str, table: str, picks: dict[str, str]
) -> list[Path]:
    """The rows of a table as Parquet; a session is numbered instead of named, since every row repeats it."""
    columns = [(column, _TYPE.get(column, "BIGINT")) for column in picks]
    spool = Spool(con, work.with_name(f"{work.name}_{name}"), columns)
    wanted = {"VARCHAR": "TEXT", "DOUBLE": "REAL", "BIGINT": "INTEGER"}
    numbered = "".join(f" WHEN {sql_literal(guid)} THEN {i}" for i, guid in enumerate(_sessions(db)))
    sql_of = {c: f"CASE guid{numbered} ELSE -1 END" if c == "session" and numbered else s for c, s in picks.items()}
    # SQLite keeps any type in any column; NULL stays NULL, text that is no number becomes 0.
    cast = [f"CAST({sql} AS {wanted[kind]})" for (_, kind), sql in zip(columns, sql_of.values(), strict=True)]
    for batch in db.read(table, cast):
        spool.add(batch)
    return spool.close()


def _sessions(db: Database) -> list[str]:
    """The identities of the runs in the database: one, unless databases were merged."""
    table = "rocpd_kernel_dispatch" if db.parts("rocpd_kernel_dispatch") else "kernels"
    found = {str(guid) for batch in db.read(table, ["DISTINCT guid"]) for (guid,) in batch}
    if len(found) > _MOST_SESSIONS:
        raise BadInput(f"{db.path.name} holds more than {_MOST_SESSIONS} runs", fix="Import the single databases")
    return sorted(found)


def _processes(con: duckdb.DuckDBPyConnection, launches: Path) -> list[tuple[Any, ...]]:
    """Session, process, its id, first and last key and number of launches; one row for a run without launches."""
    found = con.execute(
        f"SELECT session, process, any_value(pid), min(key), max(key), count(*) FROM {parquet([launches])} "
        "GROUP BY session, process ORDER BY min(key)"
    ).fetchall()
    return found or [(-1, None, None, 0, -1, 0)]


def _recording(
    con: duckdb.DuckDBPyConnection, db: Database, output: Output, launches: Path, values: Sequence[Path],
    session: int, process: int | None, pid: int | None, low: int, high: int, rows: int,
) -> Recording:  # fmt: skip
    found = Recording(db.path, "rocpd", output.label, output.above, launches, (low, high), rows, list(values), pid=pid)
    found.counters = counter_list(con, values, (low, high))
    where = ""
    if session >= 0:
        found.session = _sessions(db)[session]
        where = f"WHERE guid = {sql_literal(found.session)}"
    for own, real, node, command, start, end in _small(db, "rocpd_info_process", _PROCESS, where):
        if process is None or own == process:
            found.pid, found.command = real, plain_text(command or "", 500) or None
            found.span = (start, end) if start and end and start < end else None
            nodes = dict(_small(db, "rocpd_info_node", ("id", "CAST(hostname AS TEXT)"), where))
            found.host = plain_text(nodes.get(node) or "", 80) or None
    found.rank = rank_of(output, found.host, found.pid)
    found.agents = _agents(db, where)
    return describe(con, found)


def _small(db: Database, table: str, picks: Sequence[str], where: str) -> list[tuple[Any, ...]]:
    return [row for batch in db.read(table, picks, where) for row in batch] if db.parts(table) else []


def _agents(db: Database, where: str) -> list[Agent]:
    """The GPUs; of the JSON beside them only the numbers that are used are extracted."""
    valid = "CASE WHEN json_valid(extdata) THEN extdata ELSE '{}' END"
    numbers = [f"json_extract({valid}, '$.{name}')" for name in FIELDS]
    texts = [f"CAST({c} AS TEXT)" for c in ("name", "product_name", "model_name")]
    picks = ["absolute_index", "logical_index", *texts, f"json_extract({valid}, '$.mem_banks')", *numbers]
    found = []
    for absolute, logical, name, product, model, banks, *values in _small(db, "rocpd_info_agent", picks, where):
        fields: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
        fields |= {"name": name, "product_name": product, "model_name": model, "mem_banks": _list(banks)}
        fields |= {"node_id": absolute, "logical_node_id": logical if logical is not None else absolute}
        if agent := agent_of(fields):
            found.append(agent)
    return found


def _list(text: object) -> list[Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
