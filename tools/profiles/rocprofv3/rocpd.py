"""Read rocprofv3's rocpd databases, except for the environment variables that they contain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import size_limits
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import parquet
from ..parsing.sqlite_database import open_database
from .agents import FIELDS, Rocprofv3Agent, agent_of
from .outputs import Output, place_of
from .pc_samples import database_samples
from .recording import (
    ACTIVITY,
    DISPATCHES,
    LAUNCH,
    SMALL,
    SPAN,
    VIEW,
    ProcessRecording,
    Staging,
    cut_text,
    describe_recordings,
)

if TYPE_CHECKING:
    import duckdb


def _product(*sides: str) -> str:
    """Return SQL for a product; NULL if it does not fit a whole number."""
    product = " * ".join(sides)
    return f"CASE WHEN abs(CAST({sides[0]} AS REAL) * {' * '.join(sides[1:])}) < 9e18 THEN {product} END"


_DISPATCH = {  # column of spooled dispatches -> SQL over rocpd_kernel_dispatch
    "session": "guid", "event_id": "event_id", "process": "pid", "agent": "agent_id", "symbol": "kernel_id",
    "dispatch_id": "dispatch_id", "queue_id": "queue_id", "start_ns": '"start"', "end_ns": '"end"',
    "scratch_bytes": "private_segment_size", "lds_bytes": "group_segment_size",
    "grid": _product("grid_size_x", "grid_size_y", "grid_size_z"),
    "workgroup_size": _product("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"),
}  # fmt: skip
_SYMBOL = {
    "kernel": "coalesce(display_name, kernel_name)", "vgpr": "arch_vgpr_count", "agpr": "accum_vgpr_count",
    "sgpr": "sgpr_count",
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
_SYSTEM_CATEGORIES = ("rocm_marker_api", "host", "user", "python", "causal")
"""Categories of rocprof-sys: markers, and functions of the program."""
_SYSTEM, _KERNELS_OF_SYSTEM = "rocprof-sys", "rocm_kernel_dispatch"
_PROCESS = (
    "id", "CAST(pid AS INTEGER)", "nid", cut_text("command"), 'CAST(coalesce(init, "start") AS INTEGER)',
    'CAST(coalesce(fini, "end") AS INTEGER)',
)  # fmt: skip
_VIEW = {  # the same columns from AMD's view of kernels
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
) -> tuple[list[ProcessRecording], list[Note]]:
    """Return the recordings in one database and a warning about invalid values; BadInput if it is not readable rocpd.

    The base tables are read and joined here, because AMD's view of counters cannot be joined by an index. If the tables
    are missing or have another layout, the views are read instead.
    """
    with open_database(file) as db:
        staging = Staging(con, db, work)
        spans: DatabaseActivity | None = None
        if db.parts(DISPATCHES):
            spans = _stage_activity(staging)
            values = _from_tables(staging, spans.launches if spans else "")
        elif db.parts(VIEW):
            values = _from_views(staging)
        else:
            raise BadInput(f"{file.name} is not a rocpd database", "it has no table of kernel dispatches")
        launches = staging.file("launches.parquet")
        picks = ", ".join(f"TRY_CAST({c} AS {kind}) AS {c}" for c, kind in LAUNCH.items() if c != "kernel")
        kernel = bounded_name("kernel")
        write_table(con, f"SELECT session, process, {picks}, {kernel} AS kernel FROM found ORDER BY key", launches)
        value_files = [staging.file("counted.parquet")] if values else []
        for path in value_files:
            write_table(con, values, path)
        con.execute("DROP TABLE found")
        sampled = database_samples(staging)
        active = [*(spans.processes() if spans else []), *(sampled.processes(con) if sampled else [])]
        agents: dict[int, list[Rocprofv3Agent]] = {}
        recordings = []
        for process in _processes(staging, launches, active):
            item = ProcessRecording(
                file, "rocpd", output.label, output.above, launches, process.keys, process.rows, list(value_files),
                pid=process.pid,
            )  # fmt: skip
            _describe_process(staging, item, process, agents)
            item.set_place(place_of(output, item.host, item.pid))
            if spans:
                spans.add_to(item, process)
                item.tool = _SYSTEM if spans.is_system else item.tool
            item.sampled = sampled.of_process(process.session, process.number) if sampled else None
            recordings.append(item)
        describe_recordings(con, recordings)
        return recordings, _warn_of_infinite_values(con, file, value_files)


def _stage_activity(staging: Staging) -> DatabaseActivity | None:
    """Stage activity in addition to launches; None if the database has no regions, copies or allocations."""
    parts = [name for name in ("region", "memory_copy", "memory_allocate") if staging.has_rows(f"rocpd_{name}")]
    if not (parts and all(staging.db.parts(f"rocpd_{name}") for name in ("string", "event"))):
        return None
    return DatabaseActivity(staging, parts)


class DatabaseActivity:
    """Staged regions, copies, allocations and samples of a database.

    ``selects`` is SQL for each kind of ACTIVITY, with the columns session and process."""

    def __init__(self, staging: Staging, parts: Sequence[str]) -> None:
        self.staging = staging
        self.selects: dict[str, str] = {}
        self.ranges = ""
        strings = staging.rows("rocpd_string", _STRING)
        self.events = staging.rows("rocpd_event", _EVENT)
        self.strings = f"(SELECT DISTINCT ON (session, string_id) * FROM {strings})"
        self.agents = staging.rows_by_id("rocpd_info_agent", "agent", {"device": _DEVICE})
        self.launches = f"SELECT session, event_id, correlation FROM {self.events}"
        if "region" in parts:
            self._regions()
        if "memory_copy" in parts:
            self._copies()
        if "memory_allocate" in parts:
            self._allocations()
        if all(staging.db.parts(f"rocpd_{n}") for n in ("pmc_event", "info_pmc")) and staging.has_rows("rocpd_sample"):
            self._samples()
        system = f"SELECT 1 FROM {self.strings} WHERE text = '{_KERNELS_OF_SYSTEM}' LIMIT 1"
        self.is_system = bool(staging.con.execute(system).fetchone())

    def processes(self) -> list[tuple[int, int]]:
        """Return session and process of all processes with any activity."""
        activity = " UNION ".join(
            f"SELECT session, process FROM ({sql})" for sql in (*self.selects.values(), self.ranges) if sql
        )
        distinct = f"SELECT DISTINCT session, process FROM ({activity}) WHERE process IS NOT NULL ORDER BY ALL"
        rows = self.staging.con.execute(distinct).fetchmany(SMALL) if activity else []
        return [(int(session), int(process)) for session, process in rows]

    def add_to(self, item: ProcessRecording, process: _RocpdProcess) -> None:
        """Set the SQL for ranges and activity of one process."""
        number = "NULL" if process.number is None else process.number
        same = f"session = {process.session} AND process IS NOT DISTINCT FROM {number}"
        pid = "NULL" if item.pid is None else str(item.pid)
        if self.ranges:
            item.ranges = f"SELECT * REPLACE ({pid}::BIGINT AS pid) FROM ({self.ranges}) WHERE {same}"
        for what, sql in self.selects.items():
            picks = ", ".join(f"{pid}::BIGINT AS pid" if c == "pid" else c for c in ACTIVITY[what])
            item.activity[what] = f"SELECT {picks} FROM ({sql}) WHERE {same}"

    def _threads(self) -> str:
        if not self.staging.db.parts("rocpd_info_thread"):
            return "(SELECT -1 AS session, -1 AS thread, NULL::BIGINT AS tid)"
        return self.staging.rows_by_id("rocpd_info_thread", "thread", {"tid": "tid"})

    def _regions(self) -> None:
        self.threads = self._threads()
        rows = (
            "SELECT r.session, r.pid AS process, r.pid, coalesce(t.tid, r.thread) AS thread, "
            "nullif(e.correlation, 0) AS correlation, r.start_ns, r.end_ns, c.text AS kind, "
            # The name is that of the call and the message is separate, or, in newer versions, the other way round.
            "CASE WHEN starts_with(n.text, 'roctx') THEN coalesce(e.message, n.text) ELSE n.text END AS name "
            f"FROM {self.staging.rows('rocpd_region', _REGION)} r JOIN {self.events} e USING (session, event_id) "
            f"LEFT JOIN {self.threads} t ON t.session = r.session AND t.thread = r.thread "
            f"JOIN {self.strings} n ON n.session = r.session AND n.string_id = r.name_id "
            f"JOIN {self.strings} c ON c.session = e.session AND c.string_id = e.category"
        )
        markers, own = (", ".join(map(sql_literal, names)) for names in (_MARKERS, _SYSTEM_CATEGORIES))
        ranges = ", ".join(map(sql_literal, _RANGES))
        kinds = {
            str(kind) for (kind,) in self.staging.con.execute(f"SELECT DISTINCT kind FROM ({rows})").fetchmany(SMALL)
        }
        if kinds & set(_RANGES):
            columns = ", ".join(SPAN)
            self.ranges = f"SELECT process, {columns} FROM ({rows}) WHERE kind IN ({ranges}) AND start_ns < end_ns"
        if kinds & set(_SYSTEM_CATEGORIES):
            self.selects["regions"] = f"SELECT *, '{_SYSTEM}' AS source FROM ({rows}) WHERE kind IN ({own})"
        if kinds - {*_MARKERS, *_SYSTEM_CATEGORIES}:
            rccl = "CASE WHEN contains(lower(kind), 'rccl') THEN 'rccl' END AS category"
            self.selects["calls"] = f"SELECT *, {rccl} FROM ({rows}) WHERE kind NOT IN ({markers}, {own})"

    def _copies(self) -> None:
        side = f"LEFT JOIN {self.agents} {{0}} ON {{0}}.session = m.session AND {{0}}.agent = m.{{1}}"
        self.selects["copies"] = (
            "SELECT m.* REPLACE (s.device AS source, t.device AS target), m.pid AS process, n.text AS name, "
            "nullif(e.correlation, 0) AS correlation "
            f"FROM {self.staging.rows('rocpd_memory_copy', _COPY)} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) {side.format('s', 'source')} {side.format('t', 'target')} "
            f"LEFT JOIN {self.strings} n ON n.session = m.session AND n.string_id = m.name_id"
        )

    def _allocations(self) -> None:
        self.selects["allocations"] = (
            "SELECT m.* REPLACE (a.device AS device), m.pid AS process, nullif(e.correlation, 0) AS correlation, "
            "'memory_' || lower(kind) AS name "
            f"FROM {self.staging.rows('rocpd_memory_allocate', _ALLOCATION)} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) LEFT JOIN {self.agents} a ON a.session = m.session AND a.agent = m.device"
        )

    def _samples(self) -> None:
        """Set the SQL for values sampled over time, of devices or of the process."""
        sample_rows = self.staging.rows(
            "rocpd_sample", {"session": "guid", "event_id": "event_id", "time": "timestamp"}
        )
        values = self.staging.rows("rocpd_pmc_event", _VALUE)
        counters = self.staging.rows_by_id(
            "rocpd_info_pmc", "pmc", {"process": "pid", "counter": "name", "unit": "units", "agent": "agent_id"}
        )
        # A sample refers to its event, which has a value for every track.
        times = f"SELECT session, event_id, min(time) AS start_ns FROM {sample_rows} GROUP BY ALL"
        self.selects["samples"] = (
            "SELECT v.session, c.process, NULL AS thread, NULL AS correlation, counter AS name, start_ns, "
            "start_ns AS end_ns, CASE WHEN isfinite(value) THEN value END AS value, unit, a.device "
            f"FROM {values} v JOIN ({times}) USING (session, event_id) JOIN {counters} c USING (session, pmc) "
            f"LEFT JOIN {self.agents} a ON a.session = c.session AND a.agent = c.agent"
        )


def _from_tables(staging: Staging, correlated: str) -> str:
    """Create the table ``found`` of all launches; return SQL for the counter values, empty if there are none.

    ``correlated`` is SQL for session, event_id and correlation, or empty if these are not needed.
    """
    device = {"device": "coalesce(logical_index, absolute_index)"}
    staging.con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY session, process, dispatch_id, event_id) "
        "- 1 AS key, coalesce(p.pid, process) AS pid, device, kernel, vgpr, agpr, sgpr, correlation, d.* "
        f"FROM {staging.rows(DISPATCHES, _DISPATCH)} d "
        f"LEFT JOIN ({correlated or 'SELECT -1 AS session, -1 AS event_id, NULL AS correlation'}) "
        "USING (session, event_id) "
        f"LEFT JOIN {staging.rows_by_id('rocpd_info_kernel_symbol', 'symbol', _SYMBOL)} USING (session, symbol) "
        f"LEFT JOIN {staging.rows_by_id('rocpd_info_agent', 'agent', device)} USING (session, agent) "
        f"LEFT JOIN {staging.rows_by_id('rocpd_info_process', 'process', {'pid': 'pid'})} p USING (session, process)"
    )
    if not staging.db.parts("rocpd_pmc_event") or not staging.db.parts("rocpd_info_pmc"):
        return ""
    names = staging.rows_by_id("rocpd_info_pmc", "pmc", {"counter": "name"})
    return (
        f"SELECT key, counter, value FROM {staging.rows('rocpd_pmc_event', _VALUE)} JOIN found "
        f"USING (session, event_id) JOIN {names} USING (session, pmc) WHERE value IS NOT NULL"
    )


def _from_views(staging: Staging) -> str:
    staging.con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY session, process, dispatch_id) - 1 "
        f"AS key, process AS pid, NULL AS symbol, NULL AS correlation, * FROM {staging.rows(VIEW, _VIEW)}"
    )
    if not staging.db.parts("counters_collection"):
        return ""
    return (
        f"SELECT key, counter, value FROM {staging.rows('counters_collection', _VIEW_VALUE)} g JOIN found f "
        "ON f.session IS NOT DISTINCT FROM g.session AND f.process = g.process AND f.dispatch_id = g.dispatch_id "
        "AND f.device IS NOT DISTINCT FROM g.device WHERE value IS NOT NULL"
    )


class _RocpdProcess(NamedTuple):
    """A process: its run, its number there, its pid, and its launches."""

    session: int
    number: int | None
    pid: int | None
    first: int
    last: int
    rows: int

    @property
    def keys(self) -> tuple[int, int]:
        """First and last key of its launches."""
        return self.first, self.last


def _processes(staging: Staging, launches: Path, active: Sequence[tuple[int, int]]) -> list[_RocpdProcess]:
    """Return processes with launches, then others that are ``active``; one placeholder for a run without either."""
    rows = staging.con.execute(
        f"SELECT session, process, any_value(pid), min(key), max(key), count(*) FROM {parquet([launches])} "
        "GROUP BY session, process ORDER BY min(key)"
    ).fetchall()
    if len(rows) > size_limits.MOST_PROCESSES:
        name = staging.db.path.name
        raise BadInput(
            f"{name} contains launches of {count_text(len(rows), 'process')}", "that is more than can be read"
        )
    processes = [_RocpdProcess(*row) for row in rows]
    launched_processes = {(one.session, one.number) for one in processes}
    processes += [
        _RocpdProcess(session, number, None, 0, -1, 0)
        for session, number in active
        if (session, number) not in launched_processes
    ]
    return processes or [_RocpdProcess(-1, None, None, 0, -1, 0)]


def _warn_of_infinite_values(con: duckdb.DuckDBPyConnection, file: Path, values: Sequence[Path]) -> list[Note]:
    """Return a warning about values that are not numbers in SQLite, which were read as infinite."""
    if not values:
        return []
    (count,) = con.execute(f"SELECT count(*) FROM {parquet(values)} WHERE NOT isfinite(value)").fetchone() or (0,)
    text = f"{file.name}: {count} counter values are not finite numbers; they are treated as not collected."
    return [Note("not_a_number", text)] if count else []


def _describe_process(
    staging: Staging, item: ProcessRecording, process: _RocpdProcess, agents: dict[int, list[Rocprofv3Agent]]
) -> None:
    """Set what the database states about a process and its host; ``agents`` caches the agents of each run."""
    where = ""
    if process.session >= 0:
        item.session = staging.sessions[process.session]
        where = f"WHERE guid = {sql_literal(item.session)}"
    for own, pid, node, command, start, end in staging.few_rows("rocpd_info_process", _PROCESS, where):
        if process.number is None or own == process.number:
            item.pid, item.command = pid, plain_text(command or "", 500) or None
            item.span = (start, end) if start and end and start < end else None
            nodes = dict(staging.few_rows("rocpd_info_node", ("id", cut_text("hostname")), where))
            item.host = plain_text(nodes.get(node) or "", 80) or None
    if process.session not in agents:
        agents[process.session] = _agents(staging, where)
    item.agents = agents[process.session]


def _agents(staging: Staging, where: str) -> list[Rocprofv3Agent]:
    """Return the GPUs; only the numbers that are used are extracted from the JSON column."""
    valid = "CASE WHEN json_valid(extdata) THEN extdata ELSE '{}' END"
    numbers = [f"json_extract({valid}, '$.{name}')" for name in FIELDS]
    texts = [cut_text(c) for c in ("name", "product_name", "model_name")]
    picks = [
        "absolute_index",
        "logical_index",
        cut_text("type"),
        *texts,
        cut_text(f"json_extract({valid}, '$.mem_banks')"),
        *numbers,
    ]
    agents = []
    for absolute, logical, kind, name, product, model, banks, *values in staging.few_rows(
        "rocpd_info_agent", picks, where
    ):
        fields: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
        fields |= {
            "name": name,
            "product_name": product,
            "model_name": model,
            "mem_banks": _parse_list(banks),
            "type": kind,
        }
        fields |= {"node_id": absolute, "logical_node_id": logical if logical is not None else absolute}
        if agent := agent_of(fields):
            agents.append(agent)
    return agents


def _parse_list(text: object) -> list[Any]:
    try:
        items = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return items if isinstance(items, list) else []
