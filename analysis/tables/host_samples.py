"""The table host_samples: which stack each thread of the host had when."""

from __future__ import annotations

from ..store.schema import SchemaColumn
from .declaration import DeclaredTable

TABLE = DeclaredTable(
    "host_samples",
    "What threads of the host ran: a row for as long as a stack stayed the same.",
    {
        "start_ns": SchemaColumn("BIGINT", "Half an interval before its first sample, on the clock of events", "ns"),
        "end_ns": SchemaColumn("BIGINT", "Half an interval before the next sample with another one", "ns"),
        "pid": SchemaColumn("BIGINT", "Process"),
        "thread": SchemaColumn("BIGINT", "Thread, as in events"),
        "stack": SchemaColumn("BIGINT", "As in host_stacks"),
        "source": SchemaColumn("VARCHAR", "What recorded it: py-spy, or in-process"),
    },
)
