"""The table gaps: the idle time of devices, one row for each cause to which a part of a gap is attributed.

Idle time in which the host waited for the device, by step::

    SELECT step, sum(ns) / 1e6 AS ms FROM gaps WHERE cause = 'synchronisation' GROUP BY step ORDER BY step
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from ..timeline.busy import Within
from ..timeline.idle import CAUSES, Gap, attributed_gaps
from ..timeline.steps import steps
from ..timeline.trace import Trace, lane_name
from .declaration import Column, DerivedTable, Row, has_events, trace_rows


@trace_rows
def rows(trace: Trace) -> list[Row]:
    """Return the parts of all gaps; the sum of ``ns`` over all rows is the idle time of all devices."""
    describe, made, number = describe_gaps(trace), list[Row](), 0
    for some, parts in attributed_gaps(trace, Within([trace.whole])):
        for i in range(len(some.ns)):
            number += 1
            gap = describe(some.gap(i)) | {"gap": number}
            made += [gap | {"cause": CAUSES[code], "ns": int(parts[code, i])} for code in np.flatnonzero(parts[:, i])]
    return made


def describe_gaps(trace: Trace) -> Callable[[Gap], Row]:
    """Return a function that returns the row of a gap as a whole, with its main cause."""
    division, lanes = steps(trace), {lane.number: (n, lane) for n, lane in enumerate(trace.lanes, 1)}
    starts = division.starts if division else []

    def row(gap: Gap) -> Row:
        number, lane = lanes[gap.lane]
        step = bisect_right(starts, gap.start)
        return {
            "at_ns": gap.start - trace.whole.start,
            "ns": gap.ns,
            "device": lane_name(lane.rank, lane.device),
            "cause": gap.cause,
            "main_cause": gap.cause,
            "lane": number,
            "rank": lane.rank,
            "device_id": lane.device,
            "pid": gap.pid,
            "step": step if 0 < step < len(starts) else None,
            "start_ns": gap.start,
            "end_ns": gap.end,
        }

    return row


TABLE = DerivedTable(
    "gaps",
    "Idle time, a row per gap and cause: SELECT step, sum(ns) FROM gaps WHERE cause = 'synchronisation' GROUP BY 1.",
    {
        "gap": Column("BIGINT", "Number of the gap", answer=False),
        "at_ns": Column("BIGINT", "From the first event", "ns"),
        "ns": Column("BIGINT", "This part; all add up to the idle time", "ns"),
        "device": Column("VARCHAR", "Device"),
        "cause": Column("VARCHAR", "Such as launch, host or synchronisation"),
        "main_cause": Column("VARCHAR", "Of its largest part", answer=False),
        "lane": Column("INTEGER", "As in lanes", answer=False),
        "rank": Column("INTEGER", "Rank", answer=False),
        "device_id": Column("INTEGER", "Its number", answer=False),
        "pid": Column("BIGINT", "Process", answer=False),
        "step": Column("INTEGER", "Step in which it starts", answer=False),
        "start_ns": Column("BIGINT", "End of the work before", "ns", answer=False),
        "end_ns": Column("BIGINT", "Start of the work after", "ns", answer=False),
    },
    rows=rows,
    exists=has_events,
)
