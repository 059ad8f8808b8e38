"""Read rocprofv3's rocpd databases, except for the environment variables that they contain."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.untrusted_text import plain_text
from ..merging.contract import count_rows, parquet
from ..merging.wording import note, refusal
from ..parsing.spool import Spool
from ..parsing.sqlite_database import Database, open_database
from .agents import FIELDS, Rocprofv3Agent, agent_of
from .layouts import AGENT, IDS, MISSING, OPTIONAL, ROCPD, ROCPD_LISTS, SELECTS, TABLES
from .outputs import Output, place_of
from .pc_samples import database_samples
from .recorded_activity import (
    DISPATCHES,
    SMALL,
    DatabaseActivity,
    sampled_values,
    stage_activity,
    unread_tables,
)
from .recording import ProcessRecording, describe_recordings, stage_launches

if TYPE_CHECKING:
    import duckdb


VIEW = "kernels"
"""AMD's view of the table of launches."""


def cut_text(column: str) -> str:
    """Return SQL for a text, cut in case a view makes it very long."""
    return f"substr(CAST({column} AS TEXT), 1, {size_limits.TEXT})"


_CASTS = {  # SQL type -> SQL of a column for it; NULL stays NULL, text among whole numbers becomes 0
    "VARCHAR": cut_text("{0}"),
    "BIGINT": "CAST({0} AS INTEGER)",
    # A value of an unexpected type becomes infinite (9e999 in SQLite) instead of 0.
    "DOUBLE": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) WHEN {0} IS NOT NULL THEN 9e999 END",
}
_TYPES = dict.fromkeys(ROCPD_LISTS["text"], "VARCHAR") | {"value": "DOUBLE"}
"""SQL types by column; all other columns are whole numbers."""


@dataclass(frozen=True)
class Staging:
    """An open database, and the path prefix ``work`` for files with copies of its tables."""

    con: duckdb.DuckDBPyConnection
    db: Database
    work: Path
    _staged: dict[str, str] = field(default_factory=dict)
    """What was staged already, by its name in layouts.toml."""

    def select(self, which: str, **words: str) -> str:
        """Return the SQL ``which`` of layouts.toml with ``words`` and rows of the database in place of their names."""
        names = {part for _, part, *_ in Formatter().parse(SELECTS[which]) if part}
        return SELECTS[which].format(**words, **{rows: self.rows(rows) for rows in names - words.keys()})

    def rows(self, name: str) -> str:
        """Return a FROM item with rows of the database, as in layouts.toml, each once if other rows refer to them.

        The session, which every row repeats, is replaced by a number.
        """
        table = TABLES.get(name, name)
        if name in MISSING and not self.db.parts(table):
            return MISSING[name]
        if name not in self._staged:
            self._staged[name] = self._stage(table, dict(ROCPD[name]))
        rows = self._staged[name]
        return f"(SELECT DISTINCT ON (session, {IDS[name]}) * FROM {rows})" if name in IDS else rows

    def _stage(self, table: str, picks: dict[str, str]) -> str:
        """Copy the rows of a table; ``picks`` is SQL of SQLite by column."""
        for missing in {*OPTIONAL.get(table, ())} - self.db.columns(table):
            picks |= {name: "NULL" for name, sql in picks.items() if missing in re.findall(r"\w+", sql)}
        columns = {column: _TYPES.get(column, "BIGINT") for column in picks}
        numbered = "".join(f" WHEN {sql_literal(guid)} THEN {i}" for i, guid in enumerate(self.sessions))
        sqlite_columns = dict(picks)
        if numbered and "session" in sqlite_columns:
            sqlite_columns["session"] = f"CASE guid{numbered} ELSE -1 END"
        spool, row_count = Spool(self.con, self.file(str(len(self._staged))), columns), 0
        for batch in self.db.read(
            table, [_CASTS[kind].format(sqlite_columns[column]) for column, kind in columns.items()]
        ):
            spool.add(batch)
            row_count += len(batch)
            progress.report(f"read {count_text(row_count, 'row')} of {table} of {self.db.path.name}")
        return parquet(spool.close())

    def few_rows(self, table: str, picks: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """Return the first rows of a small table; none if it is missing."""
        rows = (row for batch in self.db.read(table, picks, where) for row in batch)
        return list(islice(rows, SMALL)) if self.db.parts(table) else []

    def has_rows(self, table: str) -> bool:
        """Return whether a table exists and is not empty."""
        return bool(self.db.parts(table)) and any(batch for batch in self.db.read(table, ["1"], "LIMIT 1"))

    def file(self, name: str) -> Path:
        """Return the path of a file to write."""
        return self.work.with_name(f"{self.work.name}_{name}")

    @cached_property
    def sessions(self) -> list[str]:
        """The identities of the runs in the database: one, unless databases were merged."""
        tables = (DISPATCHES, "rocpd_region", "rocpd_memory_copy") if self.db.parts(DISPATCHES) else (VIEW,)
        guids: set[str] = set()
        for table in tables:
            if not guids and self.db.parts(table):
                batches = self.db.read(table, ["DISTINCT substr(guid, 1, 200)"])
                guids = {str(guid) for batch in batches for (guid,) in batch}
        if len(guids) > size_limits.MOST_PROCESSES:
            raise refusal("too_many_sessions", file=self.db.path, runs=len(guids), most=size_limits.MOST_PROCESSES)
        return sorted(guids)


_PROCESS = (
    "id", "CAST(pid AS INTEGER)", "nid", cut_text("command"), 'CAST(coalesce(init, "start") AS INTEGER)',
    'CAST(coalesce(fini, "end") AS INTEGER)',
)  # fmt: skip


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
            spans = stage_activity(staging)
            found, values = _from_tables(staging, spans.launches if spans else "")
            over_time = sampled_values(staging)
        elif db.parts(VIEW):
            (found, values), over_time = _from_views(staging), ""
        else:
            raise refusal("no_dispatches", file=file)
        launches, *paths = (staging.file(f"{name}.parquet") for name in ("launches", "counted", "over_time"))
        more = {path: sql for path, sql in zip(paths, (values, over_time), strict=True) if sql}
        order = "session, process, dispatch_id" + (", event_id" if db.parts(DISPATCHES) else "")
        launched, filled = stage_launches(
            con, found, order=order, owner="session, process, any_value(pid)", launches=launches, more=more
        )
        value_files = paths[:1] if values else []
        sampled = database_samples(staging)
        active = [*(spans.processes() if spans else []), *(sampled.processes(con) if sampled else [])]
        agents: dict[int, list[Rocprofv3Agent]] = {}
        recordings = []
        for process in _processes(staging, launched, active):
            item = ProcessRecording(
                file, "rocpd", output.label, output.above, launches, (process.first, process.last), process.rows,
                list(value_files), pid=process.pid, over_time=paths[1] if paths[1] in filled else None,
            )  # fmt: skip
            _describe_process(staging, item, process, agents)
            item.set_place(place_of(output, item.host, item.pid))
            if spans:
                spans.add_to(item, process)
                item.tool = spans.tool
            item.sampled = sampled.of_process(process.session, process.number) if sampled else None
            recordings.append(item)
        describe_recordings(con, recordings)
        warnings = [*unread_tables(staging), *(spans.warnings if spans else [])]
        # Values that are not numbers in SQLite were read as infinite.
        if bad := count_rows(con, f"{parquet(value_files)} WHERE NOT isfinite(value)") if value_files else 0:
            warnings.insert(0, note("not_a_number.counters", file=file, count=bad))
        return recordings, warnings


def _from_tables(staging: Staging, correlated: str) -> tuple[str, str]:
    """Return SQL for all launches, and for the counter values by key, which is empty if there are none.

    ``correlated`` is SQL for session, event_id and correlation, or empty if these are not needed.
    """
    nothing = "SELECT -1 AS session, -1 AS event_id, NULL AS correlation"
    found = staging.select("launches", correlated=correlated or nothing)
    counted = staging.db.parts("rocpd_pmc_event") and staging.db.parts("rocpd_info_pmc")
    return found, staging.select("values") if counted else ""


def _from_views(staging: Staging) -> tuple[str, str]:
    found = staging.select("launches_of_view", nothing=", ".join(f"NULL AS {c}" for c in ROCPD_LISTS["of_tables"]))
    return found, staging.select("values_of_view") if staging.db.parts("counters_collection") else ""


class RocpdProcess(NamedTuple):
    """A process: its run, its number there, its pid, and its launches."""

    session: int
    number: int | None
    pid: int | None
    first: int
    last: int
    """First and last key of its launches."""
    rows: int


def _processes(
    staging: Staging, rows: Sequence[tuple[Any, ...]], active: Sequence[tuple[int, int]]
) -> list[RocpdProcess]:
    """Return processes with launches, then others that are ``active``; one placeholder for a run without either."""
    if len(rows) > size_limits.MOST_PROCESSES:
        raise refusal("too_many_launched", file=staging.db.path, processes=rows)
    processes = [RocpdProcess(*row) for row in rows]
    launched_processes = {(one.session, one.number) for one in processes}
    processes += [
        RocpdProcess(session, number, None, 0, -1, 0)
        for session, number in active
        if (session, number) not in launched_processes
    ]
    return processes or [RocpdProcess(-1, None, None, 0, -1, 0)]


def _describe_process(
    staging: Staging, item: ProcessRecording, process: RocpdProcess, agents: dict[int, list[Rocprofv3Agent]]
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
    picks = {name: f"json_extract(CASE WHEN json_valid(extdata) THEN extdata END, '$.{name}')" for name in FIELDS}
    picks |= {name: sql if name in FIELDS else cut_text(sql) for name, sql in AGENT.items()}
    agents = []
    for row in staging.few_rows("rocpd_info_agent", list(picks.values()), where):
        fields: dict[str, Any] = dict(zip(picks, row, strict=True))
        if agent := agent_of(fields | {"mem_banks": _parse_list(fields["mem_banks"])}):
            agents.append(agent)
    return agents


def _parse_list(text: object) -> list[Any]:
    try:
        items = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return items if isinstance(items, list) else []
