"""Runs written as rocpd databases: tables with the session's id as suffix, and views over them."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from rooflens.tests import DATA
from rooflens.tests.made.rocprofv3 import BANKS, CPU, GPU, Run

GUID = "0000091e-2236-7236-be77-fa10e27b{:04x}"


def write_rocpd(file: Path, *runs: Run, schema: Sequence[str] = ()) -> Path:
    """A database with one session a run; ``schema`` are the statements of a real one, else a short form of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    con = sqlite3.connect(file)
    con.execute("BEGIN")  # one transaction: else each table waits for the disk
    for made in runs:
        _fill(con, made, schema)
    _views(con, [r.guid for r in runs], schema)
    con.commit()
    con.close()
    return file


with (DATA / "rocpd_tables.csv").open(newline="") as _file:
    _TABLES = {row["table"]: row["columns"] for row in csv.DictReader(_file)}


def _fill(con: sqlite3.Connection, made: Run, schema: Sequence[str]) -> None:
    guid = GUID.format(made.guid)
    suffix = guid.replace("-", "_")
    if schema:
        for statement in schema:
            if statement.startswith("CREATE TABLE"):
                con.execute(statement.replace("{guid}", guid).replace("{suffix}", suffix))
    else:
        for table, columns in _TABLES.items():
            con.execute(f"CREATE TABLE rocpd_{table}_{suffix} ({columns})")

    def add(table: str, **values: object) -> None:
        marks = ", ".join("?" * len(values))
        names = ", ".join(f'"{n}"' for n in values)
        con.execute(f'INSERT INTO "rocpd_{table}_{suffix}" ({names}) VALUES ({marks})', list(values.values()))

    nid, own = 7_000_000 + made.guid, {"guid": guid, "nid": 7_000_000 + made.guid, "pid": made.pid}
    for number, (tag, value) in enumerate((("schema_version", "3"), ("guid", guid)), 1):
        add("metadata", id=number, tag=tag, value=value)
    add("string", id=1, guid=guid, string="KERNEL_DISPATCH")
    add("string", id=2, guid=guid, string="")
    add("info_node", id=nid, guid=guid, hash=nid, machine_id=f"m{nid}", system_name="Linux", hostname=made.host)
    add("info_process", id=made.pid, guid=guid, nid=nid, ppid=made.pid - 1, pid=made.pid, init=made.start - 100,
        fini=made.timed[-1][3] + 100, start=made.start - 100, end=made.timed[-1][3] + 100, command=made.command,
        environment=made.environment, extdata=made.environment)  # fmt: skip
    add("info_thread", id=made.pid, guid=guid, nid=nid, ppid=made.pid - 1, pid=made.pid, tid=made.pid, name="main")
    for number, (kind, fields, banks) in enumerate((("CPU", CPU, []), ("GPU", GPU, BANKS))):
        add("info_agent", id=number, **own, type=kind, absolute_index=number, logical_index=number, type_index=0,
            uuid=1, name=fields["name"], model_name=fields["model_name"], vendor_name="AMD", user_name="",
            product_name=fields["product_name"], extdata=json.dumps({**fields, "mem_banks": banks}))  # fmt: skip
    for number in sorted({d.queue for d in made.launches} | {0}):
        add("info_queue", id=number, **own, name=f"Queue {number}")
    add("info_stream", id=0, **own, name="Default Stream")
    add("info_code_object", id=1, **own, agent_id=1)
    kernels = sorted({d.kernel for d in made.launches})
    of_kernel = {d.kernel: d for d in made.launches}
    for number, name in enumerate(kernels, 1):
        vgpr, agpr, sgpr = of_kernel[name].registers
        add("info_kernel_symbol", id=number, **own, code_object_id=1, kernel_name=f"_Z{number}.kd", display_name=name,
            group_segment_size=of_kernel[name].static_lds, private_segment_size=0, sgpr_count=sgpr,
            arch_vgpr_count=vgpr, accum_vgpr_count=agpr)  # fmt: skip
    counters = sorted({c for d in made.launches for c in d.counters})
    for number, name in enumerate(counters, 100):
        add("info_pmc", id=number, **own, agent_id=1, target_arch="GPU", name=name, symbol=name, block="SQ",
            value_type="ABS", is_constant=0, is_derived=0)  # fmt: skip
    for i, d, start, end in made.timed:
        event = 1000 + i
        add("event", id=event, guid=guid, category_id=1, stack_id=0, parent_stack_id=0, correlation_id=i)
        add("kernel_dispatch", id=i, **own, tid=made.pid, agent_id=d.device, kernel_id=kernels.index(d.kernel) + 1,
            dispatch_id=i, queue_id=d.queue, stream_id=0, start=start, end=end, private_segment_size=d.scratch,
            group_segment_size=d.static_lds + d.dynamic_lds,
            **{f"workgroup_size_{a}": s for a, s in zip("xyz", d.group, strict=True)},
            **{f"grid_size_{a}": s for a, s in zip("xyz", d.grid, strict=True)},
            region_name_id=2, event_id=event)  # fmt: skip
        for name, values in d.counters.items():
            for value in values:
                add("pmc_event", guid=guid, event_id=event, pmc_id=100 + counters.index(name), value=value)


def _views(con: sqlite3.Connection, guids: Sequence[int], schema: Sequence[str]) -> None:
    """The views without suffix over the tables of every session, and AMD's own views where the schema has them."""
    suffixes = [GUID.format(g).replace("-", "_") for g in guids]
    if not schema:
        for table in _TABLES:
            parts = " UNION ALL ".join(f'SELECT * FROM "rocpd_{table}_{s}"' for s in suffixes)
            con.execute(f"CREATE VIEW rocpd_{table} AS {parts}")
    for statement in schema:
        if statement.startswith("CREATE VIEW"):
            con.execute(statement.replace("{suffix}", suffixes[0]))
