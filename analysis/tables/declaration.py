"""How a table is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..store.manifest import Manifest
from ..store.schema import SchemaColumn, TableSchema
from ..workload import Workload

Row = dict[str, Any]
"""Values by column; columns that are absent are NULL."""
WORKLOAD = SchemaColumn("VARCHAR", "Id of the workload")


@dataclass(frozen=True)
class DeclaredTable:
    """A table: its name, what one row is, and its columns with type, unit, digits and meaning."""

    name: str
    description: str
    columns: Mapping[str, SchemaColumn]
    rows: Callable[[Workload], list[Row]] | None = None
    """Returns the rows of a table that follows from others; None for a table that readers fill."""
    exists: Callable[[Manifest], bool] = lambda manifest: True
    """Whether a workload can have rows."""

    @property
    def schema(self) -> TableSchema:
        """The table as SQL knows it, with the id of the workload first."""
        return TableSchema(self.description, {"workload": WORKLOAD, **self.columns})
