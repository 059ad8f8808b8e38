"""The table steps: the complete steps of a program with the time of each part.

The duration of each step::

    SELECT step, duration_ns / 1e6 AS ms FROM steps WHERE NOT warm_up ORDER BY step
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..timeline.busy import ANY, COMPUTING
from ..timeline.steps import steps
from ..timeline.trace import COMMUNICATION, COPY, Ints, Trace, covered_before
from .declaration import Column, DerivedTable, Row, has_events, trace_rows

_PARTS = {
    "busy": ("any", ANY),
    "computing": ("computing", COMPUTING),
    "communication": ("communication", (COMMUNICATION,)),
    "copies": ("copies", (COPY,)),
}


@trace_rows
def rows(trace: Trace) -> list[Row]:
    """Return the steps with the time of each part, as sums over all devices; empty if the program has no steps."""
    division = steps(trace)
    if division is None:
        return []
    edges = division.starts
    parts = {part: _busy_between(trace, edges, *work) for part, work in _PARTS.items()}
    return [
        {
            "step": n + 1,
            "name": division.name,
            "found_by": division.by,
            "warm_up": n < division.warm_up,
            "start_ns": start,
            "end_ns": end,
            "duration_ns": end - start,
            **{f"{part}_ns": int(ns[n]) for part, ns in parts.items()},
            "idle_ns": (end - start) * len(trace.lanes) - int(parts["busy"][n]),
        }
        for n, (start, end) in enumerate(pairwise(edges))
    ]


def _busy_between(trace: Trace, edges: Sequence[int], name: str, classes: Sequence[int]) -> Ints:
    """Return the ns of work of these classes between each time and the next, summed over all devices.

    Work of one device that overlaps counts once.
    """
    at, work, ahead = np.array(edges, dtype=np.int64), trace.work, trace.ahead(name, classes)
    total = np.zeros(len(at) - 1, dtype=np.int64)
    for _, own in trace.per_lane():
        s, e = np.maximum(work.s[own], ahead[own]), work.e[own]
        mine = work.of(classes, own) & (e > s)
        total += np.diff(covered_before(at, s[mine], e[mine]))
    return total


TABLE = DerivedTable(
    "steps",
    "Steps of a timeline: SELECT step, duration_ns FROM steps WHERE NOT warm_up.",
    {
        "step": Column("INTEGER", "Number, from 1"),
        "name": Column("VARCHAR", "Repeating range or kernel"),
        "found_by": Column("VARCHAR", "range, or kernels (uncertain)"),
        "warm_up": Column("BOOLEAN", "One of the first, slower ones"),
        "start_ns": Column("BIGINT", "Of its first work on the device", "ns"),
        "end_ns": Column("BIGINT", "Start of the next step", "ns"),
        "duration_ns": Column("BIGINT", "Wall time", "ns"),
        "computing_ns": Column("BIGINT", "Sum over devices; overlap counts once", "ns"),
        "communication_ns": Column("BIGINT", "Likewise", "ns"),
        "copies_ns": Column("BIGINT", "Likewise", "ns"),
        "idle_ns": Column("BIGINT", "Likewise", "ns"),
    },
    rows=rows,
    exists=has_events,
)
