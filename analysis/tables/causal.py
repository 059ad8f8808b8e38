"""The table causal: how much faster a program became where rocprof-sys made parts of it seem faster."""

from __future__ import annotations

from ..store.schema import SchemaColumn
from .declaration import DeclaredTable

TABLE = DeclaredTable(
    "causal",
    "Causal profiling: a row per code, virtual speed-up and progress point.",
    {
        "function": SchemaColumn("VARCHAR", "Code that seemed faster"),
        "file": SchemaColumn("VARCHAR", "Its source file"),
        "line": SchemaColumn("INTEGER", "NULL: the whole function"),
        "progress_point": SchemaColumn("VARCHAR", "What was counted"),
        "virtual_speedup_pct": SchemaColumn("DOUBLE", "Of this code", "%"),
        "program_speedup_pct": SchemaColumn("DOUBLE", "Time saved per progress; NULL without a run at 0 %", "%", 4),
        "experiments": SchemaColumn("BIGINT", "Their number"),
        "samples": SchemaColumn("BIGINT", "In this code"),
    },
)
