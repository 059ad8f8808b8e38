"""Read rocprofv3's rocpd databases, and nothing of the environment that they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.database import sql_literal
from ....analysis.notes import Note
from ....analysis.problems import BadInput
from ....analysis.store import write_table
from ... import progress
from ..tables import limits
from ..tables.contract import parquet
from ..tables.names import bounded_name, plain_text
from .agents import FIELDS, Agent, agent_of
from .database import Database, open_database
from .outputs import Output, rank_of
from .recording import LAUNCH, SPAN, Recording, Spool, describe

if TYPE_CHECKING:
    import duckdb


def _product(*sides: str) -> str:
    """SQL of a product; NULL where it fits no whole number."""
    product = " * ".join(sides)
    return f"CASE WHEN abs(CAST({sides[0]} AS REAL) * {' * '.join(sides[1:])}) < 9e18 THEN {product} END"


def _cut(column: str) -> str:
    """SQL of a text, cut where a view could make it endless."""
    return f"substr(CAST({column} AS TEXT), 1, {limits.TEXT})"


_AS = {  # SQL type -> SQL of a column for it, whatever SQLite holds there
    "VARCHAR": _cut("{0}"),
    "BIGINT": "CAST({0} AS INTEGER)",
    # A value of another type than the profiler writes is told as infinite, not read as 0.
    "DOUBLE": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) WHEN {0} IS NOT NULL THEN 9e999 END",
}
_DISPATCH = {  # column of spooled dispatches -> SQL over rocpd_kernel_dispatch
    "session": "guid", "event_id": "event_id", "process": "pid", "agent": "agent_id", "symbol": "kernel_id",
    "dispatch_id": "dispatch_id", "queue_id": "queue_id", "start_ns": '"start"', "end_ns": '"end"',
    "scratch_bytes": "private_segment_size", "lds_bytes": "group_segment_size",
    "grid": _product("grid_size_x", "grid_size_y", "grid_size_z"),
    "workgroup_size": _product("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"),
}  # fmt: skip
_SYMBOL = {
    "session": "guid", "symbol": "id", "kernel": "coalesce(display_name, kernel_name)", "vgpr": "arch_vgpr_count",
    "agpr": "accum_vgpr_count", "sgpr": "sgpr_count",
}  # fmt: skip
_VALUE = {"session": "guid", "event_id": "event_id", "pmc": "pmc_id", "value": "value"}
_EVENT = {
    "session": "guid", "event_id": "id", "correlation": "stack_id", "category": "category_id",
    "message": "CASE WHEN json_valid(extdata) THEN json_extract(extdata, '$.message') END",
}  # fmt: skip
_REGION = {
    "session": "guid", "pid": "pid", "thread": "tid", "start_ns": '"start"', "end_ns": '"end"', "name_id": "name_id",
    "event_id": "event_id",
}  # fmt: skip
_STRING = {"session": "guid", "string_id": "id", "text": "string"}
_RANGES = ("MARKER_CORE_API", "MARKER_CORE_RANGE_API")
_CALLS = ("HIP_RUNTIME_API", "HIP_RUNTIME_API_EXT")
_SMALL = 1000
_TYPE = {"kernel": "VARCHAR", "counter": "VARCHAR", "value": "DOUBLE", "message": "VARCHAR", "text": "VARCHAR"}
_PROCESS = (
    "id", "CAST(pid AS INTEGER)", "nid", _cut("command"), 'CAST(coalesce(init, "start") AS INTEGER)',
    'CAST(coalesce(fini, "end") AS INTEGER)',
)  # fmt: skip
_VIEW = {  # the same from AMD's view of kernels
    "session": "guid", "process": "pid", "device": "agent_log_index", "dispatch_id": "dispatch_id", "kernel": "name",
    "queue_id": "queue_id", "grid": _product("grid_x", "grid_y", "grid_z"), "lds_bytes": "lds_size",
    "workgroup_size": _product("workgroup_x", "workgroup_y", "workgroup_z"), "scratch_bytes": "scratch_size",
    "vgpr": "vgpr_count", "agpr": "accum_vgpr_count", "sgpr": "sgpr_count", "start_ns": '"start"', "end_ns": '"end"',
}  # fmt: skip
_VIEW_VALUE = {
    "session": "guid", "process": "pid", "dispatch_id": "dispatch_id", "device": "agent_log_index",
    "counter": "counter_name", "value": "value",
}  # fmt: skip


def read_rocpd(
    con: duckdb.DuckDBPyConnection, file: Path, output: Output, work: Path
) -> tuple[list[Recording], list[Note]]:
    """The recordings in one database, and a warning about values that are none; BadInput in words where it is none, or
    damaged.

    The base tables are read and joined here: AMD's view of counters has no index to join by. Where the tables are
    missing or laid out in another way, the views are read instead.
    """
    with open_database(file) as db:
        spans: dict[str, str] = {}
        if db.parts("rocpd_kernel_dispatch"):
            spans = _spans(con, db, work)
            values = _from_tables(con, db, work, spans.get("launches", ""))
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
        rows = _processes(con, db, launches)
        agents: dict[int, list[Agent]] = {}
        found = [_recording(db, output, launches, counted, agents, *row) for row in rows]
        describe(con, found)
        for item, (session, process, *_) in zip(found, rows, strict=True):
            own = f"WHERE session = {session} AND pid IS NOT DISTINCT FROM {'NULL' if process is None else process}"
            for kind in ("ranges", "calls"):
                if spans:
                    setattr(item, kind, f"SELECT * FROM ({spans[kind]}) {own}")
        return found, _strange(con, file, counted)


def _spans(con: duckdb.DuckDBPyConnection, db: Database, work: Path) -> dict[str, str]:
    """SQL for the ranges and for the calls that launch kernels, in the columns SPAN, and for the correlation of every
    event of a launch; nothing where the database has no range."""
    if not all(db.parts(f"rocpd_{name}") for name in ("string", "event", "region")):
        return {}
    wanted = ", ".join(map(sql_literal, (*_RANGES, *_CALLS)))
    named = [(int(i), str(t)) for i, t in _all(db, "rocpd_string", ("id", "string"), f"WHERE string IN ({wanted})")]
    if not any(text in _RANGES for _, text in named):
        return {}
    strings = parquet(_spool(con, db, work, "string", "rocpd_string", _STRING))
    events = parquet(_spool(con, db, work, "span_event", "rocpd_event", _EVENT))
    inside = ", ".join(str(i) for i, _ in named)
    only = f"WHERE event_id IN (SELECT id FROM rocpd_event WHERE category_id IN ({inside}))"
    whole = db.parts("rocpd_event") != ["rocpd_event"]
    regions = parquet(_spool(con, db, work, "region", "rocpd_region", _REGION, "" if whole else only))
    known = f"(SELECT DISTINCT ON (session, string_id) * FROM {strings})"
    spans = (
        "SELECT r.session, r.pid, r.thread, e.correlation, r.start_ns, r.end_ns, c.text AS category, "
        # The name is that of the call and the message beside it, or, in newer versions, the other way round.
        "CASE WHEN starts_with(n.text, 'roctx') THEN coalesce(e.message, n.text) ELSE n.text END AS name "
        f"FROM {regions} r JOIN {events} e USING (session, event_id) "
        f"JOIN {known} n ON n.session = r.session AND n.string_id = r.name_id "
        f"JOIN {known} c ON c.session = e.session AND c.string_id = e.category"
    )
    columns = ", ".join(SPAN)
    ranges, calls = (", ".join(map(sql_literal, names)) for names in (_RANGES, _CALLS))
    return {
        "ranges": f"SELECT {columns} FROM ({spans}) WHERE category IN ({ranges}) AND start_ns < end_ns",
        "calls": f"SELECT {columns} FROM ({spans}) WHERE category IN ({calls}) AND contains(name, 'aunch')",
        "launches": f"SELECT session, event_id, correlation FROM {events}",
    }


def _all(db: Database, table: str, picks: Sequence[str], where: str) -> list[tuple[Any, ...]]:
    return [row for batch in db.read(table, picks, where) for row in batch]


def _from_tables(con: duckdb.DuckDBPyConnection, db: Database, work: Path, correlated: str) -> str:
    """Table ``found`` of all launches; returns SQL for the counter values, empty where there are none.

    ``correlated`` is SQL for session, event_id and correlation, where those are wanted.
    """
    dispatches = parquet(_spool(con, db, work, "dispatch", "rocpd_kernel_dispatch", _DISPATCH))
    symbols = parquet(_spool(con, db, work, "symbol", "rocpd_info_kernel_symbol", _SYMBOL))
    agents = {"session": "guid", "agent": "id", "device": "coalesce(logical_index, absolute_index)"}
    devices = parquet(_spool(con, db, work, "agent", "rocpd_info_agent", agents))
    pids = {"session": "guid", "process": "id", "pid": "pid"}
    processes = parquet(_spool(con, db, work, "process", "rocpd_info_process", pids))
    con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY session, process, dispatch_id, event_id) "
        "- 1 AS key, coalesce(p.pid, process) AS pid, device, kernel, vgpr, agpr, sgpr, correlation, d.* "
        f"FROM {dispatches} d "
        f"LEFT JOIN ({correlated or 'SELECT -1 AS session, -1 AS event_id, NULL AS correlation'}) "
        "USING (session, event_id) "
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
        f"AS key, process AS pid, NULL AS symbol, NULL AS correlation, * FROM {dispatches}"
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
    con: duckdb.DuckDBPyConnection, db: Database, work: Path, name: str, table: str, picks: dict[str, str],
    where: str = "",
) -> list[Path]:  # fmt: skip
    """The rows of a table as Parquet; a session is numbered instead of named, since every row repeats it."""
    columns = [(column, _TYPE.get(column, "BIGINT")) for column in picks]
    spool = Spool(con, work.with_name(f"{work.name}_{name}"), columns)
    numbered = "".join(f" WHEN {sql_literal(guid)} THEN {i}" for i, guid in enumerate(_sessions(db)))
    sql_of = {c: f"CASE guid{numbered} ELSE -1 END" if c == "session" and numbered else s for c, s in picks.items()}
    # SQLite keeps any type in any column; NULL stays NULL, text among whole numbers becomes 0.
    cast = [_AS[kind].format(sql) for (_, kind), sql in zip(columns, sql_of.values(), strict=True)]
    cast = [
        f"substr({c}, 1, {limits.TEXT})" if kind == "VARCHAR" else c for (_, kind), c in zip(columns, cast, strict=True)
    ]
    # A value of another type than the profiler writes is no value, not 0; 9e999 is SQLite's infinity.
    number = "typeof({0}) IN ('integer', 'real')"
    cast = [
        f"CASE WHEN {number.format(sql)} THEN {c} WHEN {sql} IS NOT NULL THEN 9e999 END" if kind == "DOUBLE" else c
        for (_, kind), c, sql in zip(columns, cast, sql_of.values(), strict=True)
    ]
    rows = 0
    for batch in db.read(table, cast, where):
        spool.add(batch)
        rows += len(batch)
        progress.report(f"read {rows:,} rows of {table} of {db.path.name}")
    return spool.close()


def _sessions(db: Database) -> list[str]:
    """The identities of the runs in the database: one, unless databases were merged."""
    if db.sessions is None:
        table = "rocpd_kernel_dispatch" if db.parts("rocpd_kernel_dispatch") else "kernels"
        found = {str(guid) for batch in db.read(table, ["DISTINCT substr(guid, 1, 200)"]) for (guid,) in batch}
        if len(found) > limits.MOST_PROCESSES:
            why = f"{limits.MOST_PROCESSES} are read at most"
            raise BadInput(f"{db.path.name} holds {len(found)} runs", why, "Import the single databases")
        db.sessions = sorted(found)
    return db.sessions


def _processes(con: duckdb.DuckDBPyConnection, db: Database, launches: Path) -> list[tuple[Any, ...]]:
    """Session, process, its id, first and last key and number of launches; one row for a run without launches."""
    found = con.execute(
        f"SELECT session, process, any_value(pid), min(key), max(key), count(*) FROM {parquet([launches])} "
        "GROUP BY session, process ORDER BY min(key)"
    ).fetchall()
    if len(found) > limits.MOST_PROCESSES:
        raise BadInput(f"{db.path.name} holds launches of {len(found)} processes", "that is more than are read")
    return found or [(-1, None, None, 0, -1, 0)]


def _strange(con: duckdb.DuckDBPyConnection, file: Path, values: Sequence[Path]) -> list[Note]:
    """A warning about values that SQLite does not hold as numbers; they were read as infinite."""
    if not values:
        return []
    (count,) = con.execute(f"SELECT count(*) FROM {parquet(values)} WHERE NOT isfinite(value)").fetchone() or (0,)
    text = f"{file.name}: {count} counter values are no finite numbers; they are taken as not collected."
    return [Note("not_a_number", text)] if count else []


def _recording(
    db: Database, output: Output, launches: Path, values: Sequence[Path], agents: dict[int, list[Agent]],
    session: int, process: int | None, pid: int | None, low: int, high: int, rows: int,
) -> Recording:  # fmt: skip
    found = Recording(db.path, "rocpd", output.label, output.above, launches, (low, high), rows, list(values), pid=pid)
    where = ""
    if session >= 0:
        found.session = _sessions(db)[session]
        where = f"WHERE guid = {sql_literal(found.session)}"
    for own, real, node, command, start, end in _small(db, "rocpd_info_process", _PROCESS, where):
        if process is None or own == process:
            found.pid, found.command = real, plain_text(command or "", 500) or None
            found.span = (start, end) if start and end and start < end else None
            nodes = dict(_small(db, "rocpd_info_node", ("id", _cut("hostname")), where))
            found.host = plain_text(nodes.get(node) or "", 80) or None
    found.rank = rank_of(output, found.host, found.pid)
    if session not in agents:
        agents[session] = _agents(db, where)
    found.agents = agents[session]
    return found


def _small(db: Database, table: str, picks: Sequence[str], where: str) -> list[tuple[Any, ...]]:
    """The first rows of a table that has few."""
    rows = (row for batch in db.read(table, picks, where) for row in batch)
    return list(islice(rows, _SMALL)) if db.parts(table) else []


def _agents(db: Database, where: str) -> list[Agent]:
    """The GPUs; of the JSON beside them only the numbers that are used are extracted."""
    valid = "CASE WHEN json_valid(extdata) THEN extdata ELSE '{}' END"
    numbers = [f"json_extract({valid}, '$.{name}')" for name in FIELDS]
    texts = [_cut(c) for c in ("name", "product_name", "model_name")]
    picks = ["absolute_index", "logical_index", *texts, _cut(f"json_extract({valid}, '$.mem_banks')"), *numbers]
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
