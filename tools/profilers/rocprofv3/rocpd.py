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
from ..tables.database import Database, open_database
from ..tables.names import bounded_name, plain_text
from ..tables.spool import Spool
from .agents import FIELDS, Agent, agent_of
from .outputs import Output, place_of
from .pc_samples import DatabaseSamples, database_samples
from .recording import ACTIVITY, LAUNCH, SPAN, Recording, describe

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
_COPY = {
    "session": "guid", "pid": "pid", "thread": "tid", "start_ns": '"start"', "end_ns": '"end"', "name_id": "name_id",
    "event_id": "event_id", "source": "src_agent_id", "target": "dst_agent_id", "bytes": "size", "stream": "stream_id",
}  # fmt: skip
_ALLOCATION = {
    "session": "guid", "pid": "pid", "thread": "tid", "start_ns": '"start"', "end_ns": '"end"', "event_id": "event_id",
    "kind": "type", "device": "agent_id", "bytes": "size",
}  # fmt: skip
_DEVICE = "CASE WHEN type = 'GPU' THEN coalesce(logical_index, absolute_index) END"
_RANGES = ("MARKER_CORE_API", "MARKER_CORE_RANGE_API")
"""Categories of regions that are ranges of the program."""
_MARKERS = (*_RANGES, "MARKER_CONTROL_API", "MARKER_NAME_API")
_OWN = ("rocm_marker_api", "host", "user", "python", "causal")
"""Those of rocprof-sys: markers, and functions of the program."""
_SYSTEM, _KERNELS_OF_SYSTEM = "rocprof-sys", "rocm_kernel_dispatch"
_SMALL = 1000
_DISPATCHES = "rocpd_kernel_dispatch"
_TYPE = {"kernel": "VARCHAR", "counter": "VARCHAR", "value": "DOUBLE", "message": "VARCHAR", "text": "VARCHAR",
         "kind": "VARCHAR", "unit": "VARCHAR", "instruction": "VARCHAR", "comment": "VARCHAR", "uri": "VARCHAR",
         "linked": "VARCHAR", "reason_text": "VARCHAR", "mask_text": "VARCHAR"}  # fmt: skip
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
        spans: Spans | None = None
        if db.parts("rocpd_kernel_dispatch"):
            spans = _spans(con, db, work)
            values = _from_tables(con, db, work, spans.launches if spans else "")
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
        sampled = _samples(con, db, work)
        active = [*(spans.processes() if spans else []), *(sampled.processes(con) if sampled else [])]
        rows = _processes(con, db, launches, active)
        agents: dict[int, list[Agent]] = {}
        found = [_recording(db, output, launches, counted, agents, *row) for row in rows]
        describe(con, found)
        for item, (session, process, *_) in zip(found, rows, strict=True):
            if spans:
                spans.into(item, session, process)
                item.tool = _SYSTEM if spans.is_system else item.tool
            item.sampled = sampled.of(session, process) if sampled else None
        return found, _strange(con, file, counted)


def _samples(con: duckdb.DuckDBPyConnection, db: Database, work: Path) -> DatabaseSamples | None:
    def spooled(name: str, table: str, picks: dict[str, str]) -> str:
        return parquet(_spool(con, db, work, name, table, picks))

    return database_samples(con, db, spooled, work)


def _spans(con: duckdb.DuckDBPyConnection, db: Database, work: Path) -> Spans | None:
    """What the database holds beside launches; None where it has no regions, copies or allocations."""
    parts = [t for t in ("region", "memory_copy", "memory_allocate") if _has_rows(db, f"rocpd_{t}")]
    if not (parts and all(db.parts(f"rocpd_{name}") for name in ("string", "event"))):
        return None
    return Spans(con, db, work, parts)


def _has_rows(db: Database, table: str) -> bool:
    return bool(db.parts(table)) and any(batch for batch in db.read(table, ["1"], "LIMIT 1"))


class Spans:
    """Regions, copies, allocations and samples of a database, staged; ``by`` is SQL for each kind of ACTIVITY, with
    the columns session and process."""

    def __init__(self, con: duckdb.DuckDBPyConnection, db: Database, work: Path, parts: Sequence[str]) -> None:
        self.con, self.db, self.work = con, db, work
        self.by: dict[str, str] = {}
        self.ranges = ""
        strings = self._staged("string", "rocpd_string", _STRING)
        self.events = self._staged("span_event", "rocpd_event", _EVENT)
        self.strings = f"(SELECT DISTINCT ON (session, string_id) * FROM {strings})"
        self.agents = self._once("rocpd_info_agent", "agent", {"device": _DEVICE})
        self.launches = f"SELECT session, event_id, correlation FROM {self.events}"
        if "region" in parts:
            self._regions()
        if "memory_copy" in parts:
            self._copies()
        if "memory_allocate" in parts:
            self._allocations()
        if db.parts("rocpd_pmc_event") and db.parts("rocpd_info_pmc") and _has_rows(db, "rocpd_sample"):
            self._samples()
        self.is_system = bool(
            con.execute(f"SELECT 1 FROM {self.strings} WHERE text = '{_KERNELS_OF_SYSTEM}' LIMIT 1").fetchone()
        )

    def processes(self) -> list[tuple[int, int]]:
        """Session and process of all that did something."""
        did = " UNION ".join(f"SELECT session, process FROM ({sql})" for sql in (*self.by.values(), self.ranges) if sql)
        rows = self.con.execute(f"SELECT DISTINCT session, process FROM ({did}) WHERE process IS NOT NULL ORDER BY ALL")
        return [(int(session), int(process)) for session, process in rows.fetchmany(_SMALL)] if did else []

    def into(self, item: Recording, session: int, process: int | None) -> None:
        """Say where ranges and activity of one process are."""
        same = f"session = {session} AND process IS NOT DISTINCT FROM {'NULL' if process is None else process}"
        pid = "NULL" if item.pid is None else str(item.pid)
        if self.ranges:
            item.ranges = f"SELECT * REPLACE ({pid}::BIGINT AS pid) FROM ({self.ranges}) WHERE {same}"
        for what, sql in self.by.items():
            picks = ", ".join(f"{pid}::BIGINT AS pid" if c == "pid" else c for c in ACTIVITY[what])
            item.activity[what] = f"SELECT {picks} FROM ({sql}) WHERE {same}"

    def _staged(self, name: str, table: str, picks: dict[str, str]) -> str:
        return parquet(_spool(self.con, self.db, self.work, name, table, picks))

    def _once(self, table: str, key: str, picks: dict[str, str]) -> str:
        """A FROM item: the rows of a small table by their id, called ``key``."""
        rows = self._staged(f"span_{key}", table, {"session": "guid", key: "id", **picks})
        return f"(SELECT DISTINCT ON (session, {key}) * FROM {rows})"

    def _threads(self) -> str:
        return self._once("rocpd_info_thread", "thread", {"tid": "tid"}) if self.db.parts("rocpd_info_thread") else (
            "(SELECT -1 AS session, -1 AS thread, NULL::BIGINT AS tid)"
        )  # fmt: skip

    def _regions(self) -> None:
        self.threads = self._threads()
        rows = (
            "SELECT r.session, r.pid AS process, r.pid, coalesce(t.tid, r.thread) AS thread, "
            "nullif(e.correlation, 0) AS correlation, r.start_ns, r.end_ns, c.text AS kind, "
            # The name is that of the call and the message beside it, or, in newer versions, the other way round.
            "CASE WHEN starts_with(n.text, 'roctx') THEN coalesce(e.message, n.text) ELSE n.text END AS name "
            f"FROM {self._staged('region', 'rocpd_region', _REGION)} r JOIN {self.events} e USING (session, event_id) "
            f"LEFT JOIN {self.threads} t ON t.session = r.session AND t.thread = r.thread "
            f"JOIN {self.strings} n ON n.session = r.session AND n.string_id = r.name_id "
            f"JOIN {self.strings} c ON c.session = e.session AND c.string_id = e.category"
        )
        markers, own = (", ".join(map(sql_literal, names)) for names in (_MARKERS, _OWN))
        ranges = ", ".join(map(sql_literal, _RANGES))
        kinds = {str(kind) for (kind,) in self.con.execute(f"SELECT DISTINCT kind FROM ({rows})").fetchmany(_SMALL)}
        if kinds & set(_RANGES):
            columns = ", ".join(SPAN)
            self.ranges = f"SELECT process, {columns} FROM ({rows}) WHERE kind IN ({ranges}) AND start_ns < end_ns"
        if kinds & set(_OWN):
            self.by["regions"] = f"SELECT *, '{_SYSTEM}' AS source FROM ({rows}) WHERE kind IN ({own})"
        if kinds - {*_MARKERS, *_OWN}:
            rccl = "CASE WHEN contains(lower(kind), 'rccl') THEN 'rccl' END AS category"
            self.by["calls"] = f"SELECT *, {rccl} FROM ({rows}) WHERE kind NOT IN ({markers}, {own})"

    def _copies(self) -> None:
        side = f"LEFT JOIN {self.agents} {{0}} ON {{0}}.session = m.session AND {{0}}.agent = m.{{1}}"
        self.by["copies"] = (
            "SELECT m.* REPLACE (s.device AS source, t.device AS target), m.pid AS process, n.text AS name, "
            "nullif(e.correlation, 0) AS correlation "
            f"FROM {self._staged('copy', 'rocpd_memory_copy', _COPY)} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) {side.format('s', 'source')} {side.format('t', 'target')} "
            f"LEFT JOIN {self.strings} n ON n.session = m.session AND n.string_id = m.name_id"
        )

    def _allocations(self) -> None:
        self.by["allocations"] = (
            "SELECT m.* REPLACE (a.device AS device), m.pid AS process, nullif(e.correlation, 0) AS correlation, "
            "'memory_' || lower(kind) AS name "
            f"FROM {self._staged('allocation', 'rocpd_memory_allocate', _ALLOCATION)} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) LEFT JOIN {self.agents} a ON a.session = m.session AND a.agent = m.device"
        )

    def _samples(self) -> None:
        """Values that were read at some time, of devices or of the process."""
        sampled = self._staged(
            "sample", "rocpd_sample", {"session": "guid", "event_id": "event_id", "time": "timestamp"}
        )
        values = self._staged("sampled", "rocpd_pmc_event", _VALUE)
        counters = self._once(
            "rocpd_info_pmc", "pmc", {"process": "pid", "counter": "name", "unit": "units", "agent": "agent_id"}
        )
        # A sample names its event, and that has a value for every track.
        times = f"SELECT session, event_id, min(time) AS start_ns FROM {sampled} GROUP BY ALL"
        self.by["samples"] = (
            "SELECT v.session, c.process, NULL AS thread, NULL AS correlation, counter AS name, start_ns, "
            "start_ns AS end_ns, CASE WHEN isfinite(value) THEN value END AS value, unit, a.device "
            f"FROM {values} v JOIN ({times}) USING (session, event_id) JOIN {counters} c USING (session, pmc) "
            f"LEFT JOIN {self.agents} a ON a.session = c.session AND a.agent = c.agent"
        )


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
        tables = (
            ("rocpd_kernel_dispatch", "rocpd_region", "rocpd_memory_copy") if db.parts(_DISPATCHES) else ("kernels",)
        )
        found: set[str] = set()
        for table in tables:
            if not found and db.parts(table):
                found = {str(guid) for batch in db.read(table, ["DISTINCT substr(guid, 1, 200)"]) for (guid,) in batch}
        if len(found) > limits.MOST_PROCESSES:
            why = f"{limits.MOST_PROCESSES} are read at most"
            raise BadInput(f"{db.path.name} holds {len(found)} runs", why, "Import the single databases")
        db.sessions = sorted(found)
    return db.sessions


def _processes(
    con: duckdb.DuckDBPyConnection, db: Database, launches: Path, active: Sequence[tuple[int, int]]
) -> list[tuple[Any, ...]]:
    """Session, process, its id, first and last key and number of launches; ``active`` are those that did anything.
    One row for a run without either."""
    found = con.execute(
        f"SELECT session, process, any_value(pid), min(key), max(key), count(*) FROM {parquet([launches])} "
        "GROUP BY session, process ORDER BY min(key)"
    ).fetchall()
    if len(found) > limits.MOST_PROCESSES:
        raise BadInput(f"{db.path.name} holds launches of {len(found)} processes", "that is more than are read")
    launched = {(session, process) for session, process, *_ in found}
    found += [(*one, None, 0, -1, 0) for one in active if one not in launched]
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
    found.stands(place_of(output, found.host, found.pid))
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
    picks = [
        "absolute_index",
        "logical_index",
        _cut("type"),
        *texts,
        _cut(f"json_extract({valid}, '$.mem_banks')"),
        *numbers,
    ]
    found = []
    for absolute, logical, kind, name, product, model, banks, *values in _small(db, "rocpd_info_agent", picks, where):
        fields: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
        fields |= {"name": name, "product_name": product, "model_name": model, "mem_banks": _list(banks), "type": kind}
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
