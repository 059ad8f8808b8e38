"""The table operators: the operators of PyTorch by shapes and types, against their roofline.

The sum of ``ns`` over all rows is the time of all device work. Operators by the time that they take beyond their
roofline::

    SELECT operator, sizes, ns - least_ns AS lost_ns, roofline_pct FROM operators ORDER BY lost_ns DESC
"""

from __future__ import annotations

from ..timeline.operators import operators
from ..timeline.trace import Trace
from .declaration import Column, DerivedTable, Row, has_events, trace_rows


@trace_rows
def rows(trace: Trace) -> list[Row]:
    """Return a row for each operator; empty if no shapes were recorded."""
    return [*operators(trace).rows]


TABLE = DerivedTable(
    "operators",
    "PyTorch operators by shapes against their roofline: SELECT operator, sizes, ns - least_ns FROM operators.",
    {
        "operator": Column("VARCHAR", "Innermost around the launch; NULL: none, see reason"),
        "sizes": Column("VARCHAR", "Of its arguments, JSON"),
        "types": Column("VARCHAR", "Likewise"),
        "category": Column("VARCHAR", "Such as matrix product or attention", answer=False),
        "calls": Column("BIGINT", "That launched work"),
        "ns": Column("BIGINT", "Device work; all add up to that of the trace", "ns"),
        "flop": Column("DOUBLE", "Of all calls", answer=False),
        "bytes": Column("DOUBLE", "Likewise, every tensor once", "bytes", answer=False),
        "tflops": Column("DOUBLE", "flop / ns", "TFLOP/s", 4),
        "gbs": Column("DOUBLE", "bytes / ns", "GB/s", 4),
        "intensity": Column("DOUBLE", "flop / bytes", "FLOP/byte", 4),
        "least_ns": Column("DOUBLE", "max(flop / peak, bytes / bandwidth)", "ns"),
        "roofline_pct": Column("DOUBLE", "least_ns / ns; can exceed 100 (caches)", "%", 4),
        "bound": Column("VARCHAR", "The ceiling that determines it"),
        "reason": Column("VARCHAR", "Why a figure is NULL"),
    },
    rows=rows,
    exists=has_events,
    measured=True,
)
