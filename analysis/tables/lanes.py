"""The table lanes: the time of each part for every device.

The share of each device's wall time in which nothing ran::

    SELECT rank, device_id, 100 * idle_ns / wall_ns AS idle_pct FROM lanes
"""

from __future__ import annotations

from ..timeline.busy import Within, busy
from ..timeline.trace import Trace, lane_name
from .declaration import Column, DerivedTable, Row, has_events, trace_rows

_PARTS = ("wall", "computing", "communication", "exposed_communication", "copies", "exposed_copies", "idle")


@trace_rows
def rows(trace: Trace) -> list[Row]:
    """Return a row for each device."""
    times = busy(trace, Within([trace.whole]))
    return [
        {
            "lane": number,
            "name": lane_name(lane.rank, lane.device),
            "rank": lane.rank,
            "device_id": lane.device,
            "streams": lane.streams,
            "operations": lane.work,
            "busy_ns": times[lane.number].any,
            **{f"{part}_ns": getattr(times[lane.number], part) for part in _PARTS},
        }
        for number, lane in enumerate(trace.lanes, 1)
    ]


TABLE = DerivedTable(
    "lanes",
    "Time of each device in the trace: SELECT name, 100 * idle_ns / wall_ns FROM lanes.",
    {
        "lane": Column("INTEGER", "Number, from 1"),
        "name": Column("VARCHAR", "Device"),
        "rank": Column("INTEGER", "Rank"),
        "device_id": Column("INTEGER", "Number of the device"),
        "streams": Column("INTEGER", "Streams"),
        "operations": Column("BIGINT", "Kernels, copies and fills"),
        "wall_ns": Column("BIGINT", "First event to last", "ns"),
        "busy_ns": Column("BIGINT", "Anything runs", "ns"),
        "computing_ns": Column("BIGINT", "A kernel that computes runs", "ns"),
        "communication_ns": Column("BIGINT", "A kernel that communicates runs", "ns"),
        "exposed_communication_ns": Column("BIGINT", "Likewise, and nothing computes", "ns"),
        "copies_ns": Column("BIGINT", "A copy runs", "ns"),
        "exposed_copies_ns": Column("BIGINT", "A copy or a fill runs, and no kernel", "ns"),
        "idle_ns": Column("BIGINT", "Nothing runs", "ns"),
    },
    rows=rows,
    exists=has_events,
)
