"""Databases of every rocpd schema from 3.0.0 to 3.0.4, made from rocprofiler-sdk's rocpd_tables.sql and versions.yml.

The SQL of 3.0.1 and 3.0.3 is public; 3.0.2 follows from the history in versions.yml. Of 3.0.4, the view hip_events is
made with the columns that rocprofiler-sdk's own tests query, and those that its sibling views have.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflens.tests.made.rocprofv3 import GPU
from rooflens.tests.standins.write_rocpd import _TABLES

VERSIONS = ("3.0.0", "3.0.1", "3.0.2", "3.0.3", "3.0.4")
GUID = "0000091e-2236-7236-be77-fa10e27b0001"
PID, NODE = 4711, 77
_ADDED = {  # schema -> table -> columns that it adds, at the place where the SQL has them; types as in _TABLES
    "3.0.2": {
        "kernel_dispatch": ("region_name_id", "graph_exec_id graph_node_id"),
        "memory_copy": ("region_name_id", "graph_exec_id graph_node_id"),
        "graph_launch": ("", "nid! pid! tid agent_id queue_id start! end! graph_exec_id! kernel_dispatch_count "
                             "event_id extdata:JSONB!"),
    },
    "3.0.3": {
        "pmc_event": ("pmc_id!", "sample_id"),
        "pmc_event ": ("extdata:JSONB", "xcc shader_engine instance"),
        "info_pmc": ("extdata:JSONB!", "spm_support"),
    },
    "3.0.4": {
        "hip_event": ("", "nid! pid! tid agent_id queue_id stream_id source_queue_id name_id start! end! event_id "
                          "extdata:JSONB!"),
    },
}  # fmt: skip
_KINDS = dict.fromkeys(VERSIONS, "'CPU', 'GPU', 'NIC'") | {"3.0.0": "'CPU', 'GPU'"}
_HIP_EVENTS = (
    "CREATE VIEW hip_events AS SELECT h.id, h.guid, h.nid, h.pid, h.tid, s.string AS name, h.queue_id, "
    'h.source_queue_id, h.start, h."end", a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index, '
    "e.stack_id FROM rocpd_hip_event h JOIN rocpd_string s ON s.id = h.name_id JOIN rocpd_event e ON e.id = h.event_id "
    "LEFT JOIN rocpd_info_agent a ON a.id = h.agent_id"
)


def tables_of(version: str) -> dict[str, str]:
    """Table -> its columns in order, as the SQL of a schema states them."""
    tables = dict(_TABLES)
    for added, changes in _ADDED.items():
        if added > version:
            break
        for table, (before, columns) in changes.items():
            name = table.strip()
            known = tables.get(name, "").split()
            place = known.index(before) if before else len(known)
            tables[name] = " ".join([*known[:place], *columns.split(), *known[place:]])
    return tables


@dataclass
class Recorder:
    """A database that is being filled; rows get the numbers that rocprofv3 would give them."""

    con: sqlite3.Connection
    version: str
    strings: dict[str, int] = field(default_factory=dict)
    events: int = 0

    def add(self, table: str, **values: Any) -> None:
        names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
        suffix = GUID.replace("-", "_")
        self.con.execute(f'INSERT INTO "rocpd_{table}_{suffix}" ({names}) VALUES ({marks})', list(values.values()))

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.add("string", id=self.strings[text], string=text)
        return self.strings[text]

    def event(self, category: str, correlation: int = 0, **extdata: Any) -> int:
        self.events += 1
        self.add("event", id=self.events, category_id=self.string(category), stack_id=correlation,
                 parent_stack_id=correlation, correlation_id=0, extdata=json.dumps(extdata))  # fmt: skip
        return self.events

    def region(self, category: str, name: str, start: int, end: int, correlation: int = 0, **extdata: Any) -> None:
        event = self.event(category, correlation, **extdata)
        self.add("region", nid=NODE, pid=PID, tid=PID, start=start, end=end, name_id=self.string(name), event_id=event)

    def launch(self, number: int, start: int, end: int, correlation: int, **more: Any) -> int:
        """Add a launch of kernel 1 on agent 1 and return its event."""
        event = self.event("KERNEL_DISPATCH", correlation)
        axes = {f"{what}_size_{axis}": size for what, size in (("grid", 64), ("workgroup", 64)) for axis in "xyz"}
        row = {"agent_id": 1, "kernel_id": 1, "queue_id": 1, "stream_id": 0} | more
        self.add("kernel_dispatch", id=number, nid=NODE, pid=PID, tid=PID, dispatch_id=number, start=start, end=end,
                 private_segment_size=0, group_segment_size=0, region_name_id=self.string(""), event_id=event,
                 **axes, **row)  # fmt: skip
        return event

    def replay(self, graph: int, start: int, end: int, correlation: int, kernels: int) -> None:
        event = self.event("HIP_GRAPH", correlation)
        self.add("graph_launch", nid=NODE, pid=PID, tid=PID, agent_id=1, queue_id=1, start=start, end=end,
                 graph_exec_id=graph, kernel_dispatch_count=kernels, event_id=event)  # fmt: skip

    def barrier(self, operation: str, queues: tuple[int, int], start: int, end: int, correlation: int = 0) -> None:
        """Add an event on the GPU: of the first queue, recorded in the second one."""
        event = self.event("HIP_EVENT", correlation)
        self.add("hip_event", nid=NODE, pid=PID, tid=PID, agent_id=1, queue_id=queues[0], source_queue_id=queues[1],
                 name_id=self.string(f"HIP_EVENT_{operation}"), start=start, end=end, event_id=event)  # fmt: skip

    def spm(self, event: int, counter: int, rows: Sequence[tuple[int, int, int, int, float]]) -> None:
        """Add values (timestamp, xcc, shader engine, instance, value) sampled inside the launch of an event."""
        self.con.execute(f"INSERT OR IGNORE INTO \"rocpd_track_{GUID.replace('-', '_')}\" (id, nid, pid, name_id) "
                         "VALUES (1, ?, ?, ?)", (NODE, PID, self.string("SPM")))  # fmt: skip
        for time, xcc, engine, instance, value in rows:
            cursor = self.con.execute("SELECT coalesce(max(id), 0) + 1 FROM rocpd_sample")
            (sample,) = cursor.fetchone()
            self.add("sample", id=sample, track_id=1, timestamp=time, event_id=event)
            self.add("pmc_event", event_id=event, sample_id=sample, pmc_id=counter, value=value, xcc=xcc,
                     shader_engine=engine, instance=instance)  # fmt: skip


def database(file: Path, version: str, fill: Any, agents: Sequence[str] = ("CPU", "GPU")) -> Path:
    """Make a database of a schema with one process and its agents, and fill it."""
    suffix, key = GUID.replace("-", "_"), "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("BEGIN")  # one transaction: else each table waits for the disk
        for table, columns in tables_of(version).items():
            parts = [key, f"guid TEXT DEFAULT '{GUID}' NOT NULL"]
            for column in columns.split():
                name, _, kind = column.rstrip("!").partition(":")
                default = " DEFAULT '{}'" if kind == "JSONB" else " DEFAULT 0" if name.startswith("graph_") else ""
                check = f' CHECK ("type" IN ({_KINDS[version]}))'
                parts.append(
                    f'"{name}" {kind or "INTEGER"}{default}{" NOT NULL" if column.endswith("!") else ""}'
                    f"{check if (table, name) == ('info_agent', 'type') else ''}"
                )
            con.execute(f'CREATE TABLE "rocpd_{table}_{suffix}" ({", ".join(parts)})')
            con.execute(f'CREATE VIEW "rocpd_{table}" AS SELECT * FROM "rocpd_{table}_{suffix}"')
        if version >= "3.0.4":
            con.execute(_HIP_EVENTS)
        made = Recorder(con, version)
        _add_process(made, agents)
        fill(made)
    return file


def _add_process(made: Recorder, agents: Sequence[str]) -> None:
    own = {"nid": NODE, "pid": PID}
    made.add("info_node", id=NODE, hash=1, machine_id="m1", hostname="node01")
    made.add("info_process", id=PID, **own, ppid=1, init=1, fini=10**9, command="./app")
    made.add("info_thread", id=PID, **own, tid=PID)
    for number, kind in enumerate(agents):
        facts = GPU if kind == "GPU" else dict.fromkeys(GPU, 0)
        made.add("info_agent", id=number, **own, type=kind, absolute_index=number, logical_index=number,
                 name=GPU["name"] if kind == "GPU" else kind, extdata=json.dumps(facts))  # fmt: skip
    for queue in (1, 2):
        made.add("info_queue", id=queue, **own, name=f"Queue {queue}")
    made.add("info_code_object", id=1, **own, agent_id=1)
    made.add("info_kernel_symbol", id=1, **own, code_object_id=1, kernel_name="k.kd", display_name="k(float*)")
    for number, name in enumerate(("SQ_INSTS_VALU", "SQ_CYCLES"), 1):
        made.add("info_pmc", id=number, **own, agent_id=1, target_arch="GPU", name=name, symbol=name)
