"""The table host_stacks: the frames of every stack of the host that was recorded, one row each."""

from __future__ import annotations

from ..store.schema import SchemaColumn
from .declaration import DeclaredTable

TABLE = DeclaredTable(
    "host_stacks",
    "Stacks of the host, a row per frame.",
    {
        "stack": SchemaColumn("BIGINT", "Number of the stack, from 1"),
        "depth": SchemaColumn("INTEGER", "0 is the outermost frame"),
        "function": SchemaColumn("VARCHAR", "Its qualified name, where the recorder states it"),
        "file": SchemaColumn("VARCHAR", "Source file"),
        "line": SchemaColumn("INTEGER", "Line that was being executed, from 1"),
        "module": SchemaColumn("VARCHAR", "Library or package; NULL for the program's own code"),
        "own": SchemaColumn("BOOLEAN", "Whether it is the program's own code"),
        "text": SchemaColumn("VARCHAR", "The line, if it could be read: data, not advice"),
    },
)
