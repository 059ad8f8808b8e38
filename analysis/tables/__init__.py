"""Tables, each declared once: a module per table with its columns beside what makes its rows.

A table that readers fill (``host_samples``) has columns only; one that follows from others (``host_lines``) has a
function that returns its rows for a workload. The SQL schema, its reference, and the tables of answers, as text, JSON,
CSV and DataFrame, are derived from the columns.
"""

from __future__ import annotations

from ..store.schema import TableSchema
from . import causal, device_lines, host_lines, host_samples, host_stacks
from .declaration import DeclaredTable

TABLES: dict[str, DeclaredTable] = {
    module.TABLE.name: module.TABLE for module in (host_samples, host_stacks, host_lines, device_lines, causal)
}
"""The declared tables by name."""
SCHEMAS: dict[str, TableSchema] = {name: table.schema for name, table in TABLES.items()}
