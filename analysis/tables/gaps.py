"""The table gaps: the idle time of devices, one row for each cause to which a part of a gap is attributed.

Idle time in which the host waited for the device, by step::

    SELECT step, sum(ns) / 1e6 AS ms FROM gaps WHERE cause = 'synchronisation' GROUP BY step ORDER BY step
"""

from __future__ import annotations

import numpy as np

from ..timeline.busy import Within
from ..timeline.idle import CAUSES, attributed_gaps
from ..timeline.steps import steps
from ..timeline.trace import NONE, Trace
from .declaration import Column, DerivedTable, Row, has_events, trace_rows


@trace_rows
def rows(trace: Trace) -> list[Row]:
    """Return the parts of all gaps; the sum of ``ns`` over all rows is the idle time of all devices."""
    division, lanes = steps(trace), {lane.number: (n, lane) for n, lane in enumerate(trace.lanes, 1)}
    starts = np.array(division.starts if division else [], dtype=np.int64)
    rows: list[Row] = []
    gap_number = 0
    for some, parts in attributed_gaps(trace, Within([trace.whole])):
        (number, lane), steps_begun = lanes[some.lane], np.searchsorted(starts, some.start, side="right")
        for i, step in enumerate(steps_begun):
            gap_number += 1
            gap = {
                "gap": gap_number,
                "lane": number,
                "rank": lane.rank,
                "device_id": lane.device,
                "pid": None if some.pid[i] == NONE else int(some.pid[i]),
                "step": int(step) if 0 < step < len(starts) else None,
                "start_ns": int(some.start[i]),
                "end_ns": int(some.end[i]),
                "main_cause": CAUSES[some.main[i]],
            }
            rows += [gap | {"cause": CAUSES[code], "ns": int(parts[code, i])} for code in np.flatnonzero(parts[:, i])]
    return rows


TABLE = DerivedTable(
    "gaps",
    "Idle time, a row per gap and cause: SELECT step, sum(ns) FROM gaps WHERE cause = 'synchronisation' GROUP BY 1.",
    {
        "gap": Column("BIGINT", "Number of the gap"),
        "lane": Column("INTEGER", "Device, as in lanes"),
        "rank": Column("INTEGER", "Rank"),
        "device_id": Column("INTEGER", "Number of the device"),
        "pid": Column("BIGINT", "Process"),
        "step": Column("INTEGER", "Step in which it starts"),
        "start_ns": Column("BIGINT", "End of the work before", "ns"),
        "end_ns": Column("BIGINT", "Start of the work after", "ns"),
        "main_cause": Column("VARCHAR", "Of its largest part"),
        "cause": Column("VARCHAR", "Such as launch, host or synchronisation"),
        "ns": Column("BIGINT", "This part; all add up to the idle time", "ns"),
    },
    rows=rows,
    exists=has_events,
)
