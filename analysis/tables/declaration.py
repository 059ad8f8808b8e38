"""How a table is declared whose rows follow from a workload, or from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..store.manifest import Manifest
from ..store.schema import Column, TableSchema
from ..store.store import Store
from ..workload import Workload

if TYPE_CHECKING:
    from ..timeline.trace import Trace

__all__ = ["Column", "DerivedTable", "Row", "has_events", "trace_rows"]

Row = dict[str, Any]
"""Values by column; columns that are absent are NULL."""


@dataclass(frozen=True)
class DerivedTable(TableSchema):
    """A table whose rows are computed: once for each workload, unless ``fill`` returns those of some workloads."""

    rows: Callable[[Any], list[Row]] | None = None
    """Returns the rows for a workload, or for what ``source`` returns for it."""
    source: Callable[[Workload], Any] | None = None
    """Returns what the tables with this source are made of, which are therefore computed together."""
    exists: Callable[[Manifest], bool] = lambda manifest: True
    """Whether a workload can have rows."""
    measured: bool = False
    """Whether the rows also depend on the measured ceilings."""
    fill: Callable[[Store, Sequence[Manifest]], list[Row]] | None = None
    """Returns the rows of some workloads, which are not kept."""


def has_events(manifest: Manifest) -> bool:
    """Whether a workload has a timeline."""
    return bool(manifest.events)


def trace_rows(rows: Callable[[Trace], list[Row]]) -> Callable[[Workload], list[Row]]:
    """Return a function for workloads from one for traces; without device work, or usable times, it has no rows."""

    @wraps(rows)
    def compute(workload: Workload) -> list[Row]:
        from ..timeline.trace_loading import device_work  # with NumPy, which a server loads when a tool needs it

        trace = device_work(workload)
        return rows(trace) if trace else []

    return compute
