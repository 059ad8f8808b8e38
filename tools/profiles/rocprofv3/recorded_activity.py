"""What a profile states besides launches: calls, ranges, copies, graphs, events of HIP and of the kernel driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
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
_NEEDED = 4
_RANGES = ROCPD_LISTS["ranges"]
_DRIVER = "KFD_"
"""Beginning of the categories of page faults, migrations and evictions, which the kernel driver reports."""
_BARRIERS = "hip_events"
_KINDS = {
    "rocpd_region": "regions", "rocpd_memory_copy": "copies", "rocpd_graph_launch": "replays",
    "rocpd_memory_allocate": "allocations", _BARRIERS: "barriers",
}  # fmt: skip
"""Table -> the SQL in layouts.toml for its activity."""
_SYSTEM_CATEGORIES, _SAMPLING = ROCPD_LISTS["system"], ROCPD_LISTS["sampling"]
_SYSTEM, _KERNELS_OF_SYSTEM = "rocprof-sys", "rocm_kernel_dispatch"


def stage_activity(staging: Staging) -> DatabaseActivity | None:
    """Stage activity in addition to launches; None if the database has none."""
    parts = [name for name in _KINDS if staging.has_rows(name)]
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


def json_activity(select: Callable[..., str], pid: int | None, active: Set[int]) -> dict[str, str]:
    """Return SQL by kind of ACTIVITY for what one process of a JSON file did in addition to its kernels.

    ``select`` returns the SQL of layouts.toml for the rows of the process.
    """
    rows = select("activity", pid=sql_value(pid))
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
        select(name, rows=rows, kind=int(kind))
        for kind, name in ((Recorded.REPLAY, "replays"), (Recorded.LIBRARY, "libraries"))
        if kind in active
    ]
    return selects | ({"regions": " UNION ALL ".join(ranges)} if ranges else {})


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
        self.launches = staging.select("correlated")
        self.warnings: list[Note] = []
        for table, kind in _KINDS.items():
            if table in parts:
                stage = {"regions": self._regions, "replays": self._replays, "barriers": self._barriers}.get(kind)
                if stage:
                    stage()
                else:
                    self.selects[kind] = staging.select(kind)
        if all(staging.db.parts(f"rocpd_{n}") for n in ("pmc_event", "info_pmc")) and staging.has_rows("rocpd_sample"):
            self.selects["samples"] = staging.select("samples")
        system = f"SELECT 1 FROM {staging.rows('strings')} WHERE text = '{_KERNELS_OF_SYSTEM}' LIMIT 1"
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

    def _regions(self) -> None:
        rows = self.staging.select("regions")
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
            driver = ", ".join(map(sql_literal, sorted(of_driver)))
            self.selects["driver"] = self.staging.select("driver", rows=rows, kinds=driver)
        if kinds & set(_SAMPLING):
            sampling = ", ".join(map(sql_literal, _SAMPLING))
            self.selects["frames"] = self.staging.select("frames", rows=rows, kinds=sampling)
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

    def _replays(self) -> None:
        """Set the SQL for launches of graphs as ranges: the work of a replay belongs to the range of its launch."""
        replays = self.staging.select("replays")
        self._add_ranges(replays)
        counted = self.staging.select("lost_nodes", replays=replays)
        lost, stated, replayed, launches = one_row(self.staging.con, counted)
        if lost and launches:
            file = self.staging.db.path
            self.warnings.append(note("lost_nodes", file=file, lost=lost, stated=stated, replayed=replayed))

    def _barriers(self) -> None:
        """Set the SQL for recorded events and waits for them on the GPU, as AMD's view states them."""
        known = self.staging.db.columns(_BARRIERS)
        needed = list(ROCPD[_BARRIERS].items())[:_NEEDED]
        if missing := [name for name, sql in needed if sql.strip('"') not in known]:
            self.warnings.append(note("not_read.view", file=self.staging.db.path, view=_BARRIERS, missing=missing))
            return
        self.selects["barriers"] = self.staging.select("barriers", **_barrier_columns("name", "source"))


def sampled_values(staging: Staging) -> str:
    """Return SQL for the values sampled inside the launches of the table ``found``; empty if there are none.

    The columns are those of sampled_value in layouts.toml.
    """
    tables = ("rocpd_pmc_event", "rocpd_info_pmc", "rocpd_sample", "rocpd_track", "rocpd_string")
    if not all(map(staging.db.parts, tables)) or "sample_id" not in staging.db.columns("rocpd_pmc_event"):
        return ""
    values = f"(SELECT * FROM {staging.rows('rocpd_pmc_event')} WHERE sample IS NOT NULL AND value IS NOT NULL)"
    if not staging.con.execute(f"SELECT 1 FROM {values} LIMIT 1").fetchone():
        return ""
    return staging.select("sampled_values")
