"""rocpd, the SQLite database of rocprofv3: tables with the run's guid in their names, views without."""

from __future__ import annotations

import json
import sqlite3
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from . import devices
from .launches import block_of, event_of, split
from .result import Process

_HERE = Path(__file__).parent
_TABLES = tomllib.loads((_HERE / "rocpd_tables.toml").read_text(encoding="utf-8"))
"""The columns of each table."""
_VIEWS = (_HERE / "rocpd_views.sql").read_text(encoding="utf-8")
_NODE = 884468036


def write(base: Path, process: Process) -> Path:
    """``base``_results.db of one process."""
    path = base.with_name(f"{base.name}_results.db")
    path.unlink(missing_ok=True)
    guid = str(uuid.uuid4())
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("PRAGMA journal_mode = OFF")
        con.execute("PRAGMA synchronous = OFF")
        con.executescript("BEGIN;" + "".join(_schema(guid)) + _VIEWS + "COMMIT;")
        _fill(con, guid, process)
    return path


def _schema(guid: str) -> Iterator[str]:
    suffix = guid.replace("-", "_")
    meta = f'"rocpd_metadata_{suffix}"'
    key = "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
    yield f"CREATE TABLE {meta} ({key}, tag TEXT NOT NULL, value TEXT NOT NULL);"
    facts = {"schema_version": "3.0.1", "schema_version_major": "3", "uuid": f"_{suffix}", "guid": guid}
    for tag, value in facts.items():
        yield f"INSERT INTO {meta} (tag, value) VALUES ('{tag}', '{value}');"
    yield f"CREATE VIEW rocpd_metadata AS SELECT * FROM {meta};"
    for table, columns in _TABLES.items():
        parts = [key, f"guid TEXT DEFAULT '{guid}' NOT NULL"]
        for column in columns.split():
            name, _, kind = column.rstrip("!").partition(":")
            default = " DEFAULT '{}'" if kind == "JSONB" else ""
            parts.append(f'"{name}" {kind or "INTEGER"}{default}{" NOT NULL" if column.endswith("!") else ""}')
        yield f'CREATE TABLE "rocpd_{table}_{suffix}" ({", ".join(parts)});'
        yield f'CREATE VIEW "rocpd_{table}" AS SELECT * FROM "rocpd_{table}_{suffix}";'


def _fill(con: sqlite3.Connection, guid: str, process: Process) -> None:
    suffix = guid.replace("-", "_")

    def add(table: str, **values: Any) -> None:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        con.execute(f'INSERT INTO "rocpd_{table}_{suffix}" ({names}) VALUES ({marks})', list(values.values()))

    own = {"nid": _NODE, "pid": process.pid}
    add("string", id=1, string="")
    add("string", id=2, string="KERNEL_DISPATCH")
    add("info_node", id=_NODE, hash=1, machine_id="0" * 32, system_name="Linux", hostname=process.host)
    # The real program stores the whole environment of the profiled process here.
    add(
        "info_process", id=process.pid, **own, ppid=process.ppid, init=process.init, fini=process.fini,
        start=process.init, end=process.fini, command=" ".join(process.command),
        environment=json.dumps(process.environment),
    )  # fmt: skip
    add("info_thread", id=process.pid, **own, ppid=process.ppid, tid=process.pid)
    for index, row in enumerate((devices.cpu(), devices.gpu(process.target))):
        facts: dict[str, Any] = {name.lower(): value for name, value in row.items()}
        facts["mem_banks"] = devices.banks(process.target) if index else []
        add(
            "info_agent", id=index, **own, type=row["Agent_Type"], absolute_index=index, logical_index=index,
            type_index=0, uuid=row["Device_Id"], name=row["Name"], model_name=row["Model_Name"],
            vendor_name=row["Vendor_Name"], product_name=row["Product_Name"], user_name=row["Product_Name"],
            extdata=json.dumps(facts),
        )  # fmt: skip
    add("info_code_object", id=1, **own, agent_id=1, uri="file:///app", load_base=0, load_size=4096, load_delta=0)
    for number, symbol in enumerate(process.symbols, 1):
        add(
            "info_kernel_symbol", id=number, **own, code_object_id=1, kernel_name=symbol.mangled,
            display_name=symbol.kernel, group_segment_size=symbol.static_lds, private_segment_size=symbol.scratch,
            sgpr_count=symbol.sgpr, arch_vgpr_count=symbol.vgpr, accum_vgpr_count=symbol.agpr,
        )  # fmt: skip
    for queue in sorted({c.launch.queue for c in process.launches}):
        add("info_queue", id=queue, **own, name=f"Queue {queue - 1}")
    for stream in sorted({c.launch.stream for c in process.launches}):
        add("info_stream", id=stream, **own, name=f"Stream {stream}")
    for number, name in enumerate(process.counters, 1):
        add(
            "info_pmc", id=number, **own, agent_id=1, target_arch="GPU", name=name, symbol=name, description="",
            component="rocm", value_type="ABS", block=block_of(event_of(name)), is_constant=0, is_derived=0,
        )  # fmt: skip
    for event, c in enumerate(process.launches if process.tracing else process.counted, 1):
        launched = c.launch
        axes = {
            f"{what}_size_{axis}": size
            for what, sizes in (("workgroup", launched.workgroup), ("grid", launched.grid))
            for axis, size in zip("xyz", sizes, strict=True)
        }
        add("event", id=event, category_id=2, stack_id=c.correlation, parent_stack_id=c.correlation, correlation_id=0)
        add(
            "kernel_dispatch", **own, tid=process.pid, agent_id=1, kernel_id=process.symbol_id(launched),
            dispatch_id=c.number, queue_id=launched.queue, stream_id=launched.stream, start=c.start, end=c.end,
            private_segment_size=launched.scratch, group_segment_size=launched.lds, **axes, region_name_id=1,
            event_id=event,
        )  # fmt: skip
        for name, value in (c.values or {}).items():
            for share in split(value, 4):
                add("pmc_event", event_id=event, pmc_id=process.counters.index(name) + 1, value=share)
    if process.ranges:
        add("string", id=3, string="MARKER_CORE_RANGE_API")
        add("string", id=4, string="roctxThreadRangeA")
    for event, one in enumerate(process.ranges, 1_000_000):
        message = json.dumps({"message": one.name})
        add("event", id=event, category_id=3, stack_id=one.correlation, parent_stack_id=0, correlation_id=0,
            extdata=message)  # fmt: skip
        add("region", **own, tid=process.pid, start=one.start, end=one.end, name_id=4, event_id=event)
    strings = {"HIP_RUNTIME_API": 5, "MEMORY_COPY": 6}
    for name in sorted({one.name for one in (*process.calls, *process.copies)}):
        strings[name] = len(strings) + 5
    for text, number in strings.items():
        add("string", id=number, string=text)
    for event, one in enumerate((*process.calls, *process.copies), 2_000_000):
        category = strings["HIP_RUNTIME_API" if one.bytes is None else "MEMORY_COPY"]
        add("event", id=event, category_id=category, stack_id=one.correlation, parent_stack_id=0, correlation_id=0)
        span = {"start": one.start, "end": one.end, "name_id": strings[one.name], "event_id": event}
        if one.bytes is None:
            add("region", **own, tid=process.pid, **span)
        else:
            add("memory_copy", **own, tid=process.pid, **span, src_agent_id=0, dst_agent_id=1, size=one.bytes,
                stream_id=0)  # fmt: skip
