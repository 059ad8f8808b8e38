"""The table host_samples: which stack each thread of the host had when."""

from __future__ import annotations

from ..store.schema import SchemaColumn
from .declaration import DeclaredTable

TABLE = DeclaredTable(
    "host_samples",
    "What threads of the host ran: a row per span with one stack.",
    {
        "start_ns": SchemaColumn("BIGINT", "On the clock of events; NULL if unknown", "ns"),
        "end_ns": SchemaColumn("BIGINT", "Where the next stack begins", "ns"),
        "time_ns": SchemaColumn("BIGINT", "Time that it stands for", "ns"),
        "samples": SchemaColumn("BIGINT", "Number of samples"),
        "pid": SchemaColumn("BIGINT", "Process"),
        "thread": SchemaColumn("BIGINT", "Thread, as in events"),
        "stack": SchemaColumn("BIGINT", "As in host_stacks"),
        "waker": SchemaColumn("BIGINT", "Stack that ended this wait"),
        "source": SchemaColumn("VARCHAR", "What recorded it"),
    },
)
