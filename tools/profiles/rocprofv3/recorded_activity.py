"""What a profile states besides launches: calls, ranges, copies, graphs, events of HIP and of the kernel driver."""

from __future__ import annotations

from collections.abc import Sequence, Set
from enum import IntEnum
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ..merging.contract import one_row
from ..merging.ranks import sql_value
from ..merging.wording import note
from .layouts import LIBRARIES, ROCPD, ROCPD_LISTS
from .recording import ACTIVITY, SPAN, ProcessRecording

if TYPE_CHECKING:
    from .rocpd import RocpdProcess, Staging

DISPATCHES = "rocpd_kernel_dispatch"
"""The table of launches."""
SMALL = 1000
"""Maximum number of rows read from small tables."""
_LAUNCHED = {"session": "guid", "event_id": "event_id"}
_NEEDED = 4
_DEVICE = "CASE WHEN type = 'GPU' THEN coalesce(logical_index, absolute_index) END"
_RANGES = ROCPD_LISTS["ranges"]
_DRIVER = "KFD_"
"""Beginning of the categories of page faults, migrations and evictions, which the kernel driver reports."""
_DRIVER_DEVICE = r""""(?:dst_)?agent_id"[\s,:"]*(?:value)?[\s,:"]*(\d{1,9})"""
"""Where such an event names its GPU; the JSON around it differs between versions."""
_SPM = "SPM"
_BARRIERS, _REPLAYS = "hip_events", "rocpd_graph_launch"
_SYSTEM_CATEGORIES, _SAMPLING = ROCPD_LISTS["system"], ROCPD_LISTS["sampling"]
_SYSTEM, _KERNELS_OF_SYSTEM = "rocprof-sys", "rocm_kernel_dispatch"


def stage_activity(staging: Staging) -> DatabaseActivity | None:
    """Stage activity in addition to launches; None if the database has none."""
    tables = ("rocpd_region", "rocpd_memory_copy", "rocpd_memory_allocate", _REPLAYS, _BARRIERS)
    parts = [name for name in tables if staging.has_rows(name)]
    if not (parts and all(staging.db.parts(f"rocpd_{name}") for name in ("string", "event"))):
        return None
    return DatabaseActivity(staging, parts)


def unread_tables(staging: Staging) -> list[Note]:
    """Return a warning that names tables with rows that are not understood."""
    names = sorted({*staging.db.tables("rocpd_")} - {f"rocpd_{name}" for name in ROCPD_LISTS["read"]})
    unread = [name for name in names if staging.has_rows(name)]
    return [note("not_read.tables", file=staging.db.path, tables=unread)] if unread else []


class Recorded(IntEnum):
    """A kind of record in a JSON file."""

    CALL = 0
    COPY = 1
    ALLOCATION = 2
    REPLAY = 3
    """A launch of a graph."""
    BARRIER = 4
    """A HIP event on the GPU."""
    LIBRARY = 5
    """A call of a library that is a range too."""


def json_activity(pid: int | None, run: int, staged: Sequence[str], active: Set[int]) -> dict[str, str]:
    """Return SQL by kind of ACTIVITY for what one process of a JSON file did in addition to its kernels.

    ``staged`` are FROM items of all processes: records, names of operations, and GPUs by agent.
    """
    acts, operations, devices = staged
    named = f"(SELECT DISTINCT ON (run, kind, operation) * FROM {operations} WHERE run = {run})"
    rows = (
        f"SELECT a.*, coalesce(o.name, '') AS name, {sql_value(pid)}::BIGINT AS pid, o.domain, "
        "CASE WHEN starts_with(o.domain, 'RCCL') THEN 'rccl' END AS category, s.device AS source_gpu, t.device AS gpu "
        f"FROM {acts} a LEFT JOIN {named} o USING (run, kind, operation) "
        f"LEFT JOIN {devices} s ON s.run = a.run AND s.agent = a.source "
        f"LEFT JOIN {devices} t ON t.run = a.run AND t.agent = a.agent WHERE a.run = {run}"
    )
    of = {"source": "source_gpu", "target": "gpu", "device": "gpu"}
    barrier = _barrier_columns("name", "waits_for")
    columns = {
        "calls": ((Recorded.CALL, Recorded.LIBRARY), of), "copies": ((Recorded.COPY,), of),
        "allocations": ((Recorded.ALLOCATION,), of), "barriers": ((Recorded.BARRIER,), of | barrier),
    }  # fmt: skip
    selects = {}
    for name, (kinds, known) in columns.items():
        if active & set(kinds):
            picks = ", ".join(f"{known.get(c, c)} AS {c}" for c in ACTIVITY[name])
            selects[name] = f"SELECT {picks} FROM ({rows}) WHERE what IN ({', '.join(str(int(k)) for k in kinds)})"
    ranges = [
        f"SELECT NULL AS session, pid, thread, correlation, {name} AS name, start_ns, end_ns, {source} AS source "
        f"FROM ({rows}) WHERE what = {int(kind)} AND start_ns < end_ns"
        for kind, name, source in (
            (Recorded.REPLAY, "concat('graph ', graph)", "'graph'"),
            (Recorded.LIBRARY, "name", "CASE WHEN starts_with(domain, 'ROCSHMEM') THEN 'rocshmem' ELSE 'hipfile' END"),
        )
        if kind in active
    ]
    return selects | ({"regions": " UNION ALL ".join(ranges)} if ranges else {})


def json_sampled_values(spm: str, counter: str) -> str:
    """Return SQL for the values sampled inside launches (sampled_value in layouts.toml).

    The bits of an instance id hold the XCC, the shader engine and the instance (rocprofiler-sdk; as AMD's viewer).
    """
    part = "CAST((instance >> {}) & {} AS BIGINT)".format
    return (
        f"SELECT key, counter, time, {part(0, 0x3F)} AS xcd, {part(12, 0x3F)} AS engine, "
        f"{part(36, 0x3FF)} AS unit_number, value, device FROM {spm} JOIN (SELECT DISTINCT ON (run, handle) * "
        f"FROM {counter}) USING (run, handle) JOIN found USING (run, dispatch_id, agent) WHERE value IS NOT NULL"
    )


def _barrier_columns(operation: str, source: str) -> dict[str, str]:
    """Return SQL for name and category of an event on the GPU from its operation and the queue that it waits for."""
    waits = f"contains(upper({operation}), 'WAIT')"
    words = f"concat('wait for an event of queue ', coalesce({source}::VARCHAR, '?'))"
    return {
        "name": f"CASE WHEN {waits} THEN {words} ELSE 'record of an event' END",
        "category": f"CASE WHEN {waits} THEN 'wait' ELSE 'record' END",
    }


class DatabaseActivity:
    """Staged regions, copies, allocations and samples of a database.

    ``selects`` is SQL for each kind of ACTIVITY, with the columns session and process."""

    def __init__(self, staging: Staging, parts: Sequence[str]) -> None:
        self.staging = staging
        self.selects: dict[str, str] = {}
        self.ranges = ""
        strings = staging.rows("rocpd_string")
        self.events = staging.rows("rocpd_event")
        self.strings = f"(SELECT DISTINCT ON (session, string_id) * FROM {strings})"
        self.agents = staging.rows_by_id("rocpd_info_agent", "agent", {"device": _DEVICE})
        self.launches = f"SELECT session, event_id, correlation FROM {self.events}"
        self.warnings: list[Note] = []
        for table, stage in (
            ("rocpd_region", self._regions), ("rocpd_memory_copy", self._copies), (_REPLAYS, self._replays),
            ("rocpd_memory_allocate", self._allocations), (_BARRIERS, self._barriers),
        ):  # fmt: skip
            if table in parts:
                stage()
        if all(staging.db.parts(f"rocpd_{n}") for n in ("pmc_event", "info_pmc")) and staging.has_rows("rocpd_sample"):
            self._samples()
        system = f"SELECT 1 FROM {self.strings} WHERE text = '{_KERNELS_OF_SYSTEM}' LIMIT 1"
        self.tool = _SYSTEM if staging.con.execute(system).fetchone() else "rocprofv3"

    def processes(self) -> list[tuple[int, int]]:
        """Return session and process of all processes with any activity."""
        activity = " UNION ".join(
            f"SELECT session, process FROM ({sql})" for sql in (*self.selects.values(), self.ranges) if sql
        )
        distinct = f"SELECT DISTINCT session, process FROM ({activity}) WHERE process IS NOT NULL ORDER BY ALL"
        rows = self.staging.con.execute(distinct).fetchmany(SMALL) if activity else []
        return [(int(session), int(process)) for session, process in rows]

    def add_to(self, item: ProcessRecording, process: RocpdProcess) -> None:
        """Set the SQL for ranges and activity of one process."""
        same = f"session = {process.session} AND process IS NOT DISTINCT FROM {sql_value(process.number)}"
        pid = sql_value(item.pid)
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
            "SELECT r.session, r.event_id, r.pid AS process, r.pid, coalesce(t.tid, r.thread) AS thread, "
            "nullif(e.correlation, 0) AS correlation, r.start_ns, r.end_ns, c.text AS kind, e.driver, "
            # The name is that of the call and the message is separate, or, in newer versions, the other way round.
            "CASE WHEN starts_with(n.text, 'roctx') THEN coalesce(e.message, n.text) ELSE n.text END AS name "
            f"FROM {self.staging.rows('rocpd_region')} r JOIN {self.events} e USING (session, event_id) "
            f"LEFT JOIN {self.threads} t ON t.session = r.session AND t.thread = r.thread "
            f"JOIN {self.strings} n ON n.session = r.session AND n.string_id = r.name_id "
            f"JOIN {self.strings} c ON c.session = e.session AND c.string_id = e.category"
        )
        own = ", ".join(map(sql_literal, _SYSTEM_CATEGORIES))
        ranges = ", ".join(map(sql_literal, _RANGES))
        kinds = {
            str(kind) for (kind,) in self.staging.con.execute(f"SELECT DISTINCT kind FROM ({rows})").fetchmany(SMALL)
        }
        of_libraries = {kind: source for kind in kinds for begin, source in LIBRARIES.items() if kind.startswith(begin)}
        of_driver = {kind for kind in kinds if kind.startswith(_DRIVER)}
        if kinds & set(_RANGES):
            columns = ", ".join(SPAN)
            self.ranges = f"SELECT process, {columns} FROM ({rows}) WHERE kind IN ({ranges}) AND start_ns < end_ns"
        if kinds & set(_SYSTEM_CATEGORIES):
            self._add_ranges(f"SELECT *, '{_SYSTEM}' AS source FROM ({rows}) WHERE kind IN ({own})")
        for kind, source in sorted(of_libraries.items()):
            self._add_ranges(
                f"SELECT *, '{source}' AS source FROM ({rows}) WHERE kind = {sql_literal(kind)} AND start_ns < end_ns"
            )
        if of_driver:
            self._driver_events(rows, of_driver)
        if kinds & set(_SAMPLING):
            sampling = ", ".join(map(sql_literal, _SAMPLING))
            frames = self.staging.rows("rocpd_event", ROCPD["frame"])
            # The names of frames are also in their texts; the category distinguishes samples of two kinds.
            self.selects["frames"] = (
                f"SELECT r.* REPLACE (kind AS name), call_stack, line_info FROM ({rows}) r "
                f"JOIN {frames} USING (session, event_id) WHERE kind IN ({sampling})"
            )
        # Calls of a library explain why the host was busy; OpenMP reports regions of the program, not calls.
        openmp = {kind for kind, source in of_libraries.items() if source == "openmp"}
        no_calls = {*ROCPD_LISTS["markers"], *_SYSTEM_CATEGORIES, *_SAMPLING, *of_driver, *openmp}
        if kinds - no_calls:
            others = ", ".join(map(sql_literal, sorted(no_calls)))
            rccl = "CASE WHEN contains(lower(kind), 'rccl') THEN 'rccl' END AS category"
            self.selects["calls"] = f"SELECT *, {rccl} FROM ({rows}) WHERE kind NOT IN ({others})"

    def _add_ranges(self, select: str) -> None:
        known = self.selects.get("regions")
        columns = ", ".join(("process", *SPAN, "source"))
        self.selects["regions"] = f"{f'{known} UNION ALL ' if known else ''}SELECT {columns} FROM ({select})"

    def _driver_events(self, rows: str, kinds: set[str]) -> None:
        """Set the SQL for page faults, migrations and evictions; the first GPU that an event names is its device."""
        listed = ", ".join(map(sql_literal, sorted(kinds)))
        node = f"TRY_CAST(nullif(regexp_extract(driver, {sql_literal(_DRIVER_DEVICE)}, 1), '') AS BIGINT)"
        self.selects["driver"] = (
            f"SELECT r.* REPLACE (replace(name, 'ROCPROFILER_', '') AS name), lower(kind) AS category, a.device, "
            f"NULL AS queue FROM (SELECT *, {node} AS agent FROM ({rows}) WHERE kind IN ({listed})) r "
            f"LEFT JOIN {self.agents} a USING (session, agent)"
        )

    def _replays(self) -> None:
        """Set the SQL for launches of graphs as ranges: the work of a replay belongs to the range of its launch."""
        replays = (
            "SELECT g.session, g.pid AS process, g.pid, coalesce(t.tid, g.thread) AS thread, "
            "nullif(e.correlation, 0) AS correlation, g.start_ns, g.end_ns, concat('graph ', g.graph) AS name, "
            f"'graph' AS source, g.nodes FROM {self.staging.rows(_REPLAYS)} g "
            f"LEFT JOIN {self.events} e USING (session, event_id) "
            f"LEFT JOIN {self._threads()} t ON t.session = g.session AND t.thread = g.thread"
        )
        self._add_ranges(replays)
        launched = f"SELECT session, event_id FROM {self.staging.rows(DISPATCHES, _LAUNCHED)}"
        of_graph = (
            f"SELECT e.session, e.correlation, count(*) AS n FROM ({launched}) JOIN {self.events} e "
            "USING (session, event_id) GROUP BY ALL"
        )
        lost, stated, replayed, launches = one_row(
            self.staging.con,
            "SELECT sum(greatest(nodes - coalesce(n, 0), 0)), sum(nodes), count(*) FILTER (nodes > coalesce(n, 0)), "
            f"(SELECT count(*) FROM ({launched})) FROM ({replays}) LEFT JOIN ({of_graph}) USING (session, correlation)",
        )
        if lost and launches:
            file = self.staging.db.path
            self.warnings.append(note("lost_nodes", file=file, lost=lost, stated=stated, replayed=replayed))

    def _barriers(self) -> None:
        """Set the SQL for recorded events and waits for them on the GPU, as AMD's view states them."""
        known, stated = self.staging.db.columns(_BARRIERS), ROCPD[_BARRIERS]
        fields = {"agent_log_index", "agent_abs_index"} <= known
        picks = {name: sql for name, sql in stated.items() if sql.strip('"') in known or (name == "device" and fields)}
        if missing := [name for name in list(stated)[:_NEEDED] if name not in picks]:
            self.warnings.append(note("not_read.view", file=self.staging.db.path, view=_BARRIERS, missing=missing))
            return
        picks = {name: picks.get(name, "NULL") for name in stated} | {"text": picks["name"]}
        del picks["name"]
        named = ", ".join(f"{sql} AS {name}" for name, sql in _barrier_columns("text", "source").items())
        self.selects["barriers"] = (
            "SELECT * REPLACE (nullif(correlation, 0) AS correlation), pid AS process, NULL AS thread, "
            f"{named} FROM {self.staging.rows(_BARRIERS, picks)}"
        )

    def _copies(self) -> None:
        side = f"LEFT JOIN {self.agents} {{0}} ON {{0}}.session = m.session AND {{0}}.agent = m.{{1}}"
        self.selects["copies"] = (
            "SELECT m.* REPLACE (s.device AS source, t.device AS target), m.pid AS process, n.text AS name, "
            "nullif(e.correlation, 0) AS correlation "
            f"FROM {self.staging.rows('rocpd_memory_copy')} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) {side.format('s', 'source')} {side.format('t', 'target')} "
            f"LEFT JOIN {self.strings} n ON n.session = m.session AND n.string_id = m.name_id"
        )

    def _allocations(self) -> None:
        self.selects["allocations"] = (
            "SELECT m.* REPLACE (a.device AS device), m.pid AS process, nullif(e.correlation, 0) AS correlation, "
            "'memory_' || lower(kind) AS name "
            f"FROM {self.staging.rows('rocpd_memory_allocate')} m LEFT JOIN {self.events} e "
            f"USING (session, event_id) LEFT JOIN {self.agents} a ON a.session = m.session AND a.agent = m.device"
        )

    def _samples(self) -> None:
        """Set the SQL for values sampled over time, of devices or of the process."""
        times = self.staging.rows("rocpd_sample", {"session": "guid", "event_id": "event_id", "time": "timestamp"})
        counters = self.staging.rows_by_id(
            "rocpd_info_pmc", "pmc", {"process": "pid", "counter": "name", "unit": "units", "agent": "agent_id"}
        )
        # A sample refers to its event, which has a value for every track.
        times = f"SELECT session, event_id, min(time) AS start_ns FROM {times} GROUP BY ALL"
        self.selects["samples"] = (
            "SELECT v.session, c.process, NULL AS thread, NULL AS correlation, counter AS name, start_ns, "
            "start_ns AS end_ns, CASE WHEN isfinite(value) THEN value END AS value, unit, a.device "
            f"FROM {self.staging.rows('rocpd_pmc_event')} v JOIN ({times}) USING (session, event_id) "
            f"JOIN {counters} c USING (session, pmc) LEFT JOIN {self.agents} a ON a.session = c.session "
            "AND a.agent = c.agent WHERE v.sample IS NULL"
        )


def sampled_values(staging: Staging) -> str:
    """Return SQL for the values sampled inside the launches of the table ``found``; empty if there are none.

    The columns are those of sampled_value in layouts.toml. A value that was sampled on a whole device, on a track named
    SPM, has no launch.
    """
    tables = ("rocpd_pmc_event", "rocpd_info_pmc", "rocpd_sample", "rocpd_track", "rocpd_string")
    if not all(map(staging.db.parts, tables)) or "sample_id" not in staging.db.columns("rocpd_pmc_event"):
        return ""
    values = f"(SELECT * FROM {staging.rows('rocpd_pmc_event')} WHERE sample IS NOT NULL AND value IS NOT NULL)"
    if not staging.con.execute(f"SELECT 1 FROM {values} LIMIT 1").fetchone():
        return ""
    names = staging.rows_by_id("rocpd_info_pmc", "pmc", {"counter": "name", "agent": "agent_id"})
    times = staging.rows_by_id("rocpd_sample", "sample", {"time": "timestamp", "track": "track_id"})
    tracks = staging.rows_by_id("rocpd_track", "track", {"string_id": "name_id"})
    agents = staging.rows_by_id("rocpd_info_agent", "agent", {"device": _DEVICE})
    return (
        f"SELECT f.key, counter, time, xcd, engine, unit_number, value, coalesce(f.device, a.device) AS device "
        f"FROM {values} v JOIN {times} USING (session, sample) JOIN {names} USING (session, pmc) "
        f"LEFT JOIN {tracks} USING (session, track) LEFT JOIN {staging.rows('rocpd_string')} s "
        f"USING (session, string_id) LEFT JOIN {agents} a USING (session, agent) "
        f"LEFT JOIN found f USING (session, event_id) WHERE f.key IS NOT NULL OR s.text = '{_SPM}'"
    )
