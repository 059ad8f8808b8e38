"""The rows of the SQL tables of timelines: steps, phases, lanes, gaps, operators and collectives, computed on demand.

All figures refer to the whole trace; the column ``step`` restricts them to steps. One query each:

    The duration of each step:
        SELECT step, duration_ns / 1e6 AS ms FROM steps WHERE NOT warm_up ORDER BY step
    Idle time in which the host waited for the device, by step:
        SELECT step, sum(ns) / 1e6 AS ms FROM gaps WHERE cause = 'synchronisation' GROUP BY step ORDER BY step
    The share of each device's wall time in which nothing ran:
        SELECT rank, device_id, 100 * idle_ns / wall_ns AS idle_pct FROM lanes
    The time between tokens by batch size:
        SELECT requests, median(interval_ns) / 1e6 AS ms FROM phases WHERE phase = 'decode' GROUP BY requests
    Operators by the time that they take beyond their roofline:
        SELECT operator, sizes, ns - least_ns AS lost_ns, roofline_pct FROM operators ORDER BY lost_ns DESC
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np

from ..base.problems import BadInput
from ..store.schema import schema
from ..workload import Workload
from .busy import ANY, COMPUTING, Within, busy, covered_before
from .collectives import collectives
from .idle import CAUSES, attributed_gaps
from .operators import operators
from .phases import OPERATIONS, phases
from .steps import steps
from .trace import COMMUNICATION, COPY, NONE, Ints, Trace, lane_name
from .trace_loading import prepare

Row = dict[str, Any]


def _table(name: str) -> Callable[[Callable[[Trace], list[Row]]], Callable[[Workload], list[Row]]]:
    """Return a decorator for functions that compute the rows of a table, in any order of its columns.

    There are no rows without device work, or without usable times.
    """

    def for_workload(rows: Callable[[Trace], list[Row]]) -> Callable[[Workload], list[Row]]:
        @wraps(rows)
        def compute(workload: Workload) -> list[Row]:
            try:
                made = rows(prepare(workload))
            except BadInput:
                return []
            columns = schema()[name].columns
            return [{c: workload.id if c == "workload" else row[c] for c in columns} for row in made]

        return compute

    return for_workload


@_table("steps")
def step_rows(trace: Trace) -> list[Row]:
    """Return the complete steps of a program with the time of each part, as sums over all devices.

    Empty if the program has no steps, or no device work.
    """
    division = steps(trace)
    if division is None:
        return []
    edges = division.starts
    parts = {
        name: _busy_between(trace, edges, name, classes)
        for name, classes in (
            ("any", ANY),
            ("computing", COMPUTING),
            ("communication", (COMMUNICATION,)),
            ("copies", (COPY,)),
        )
    }
    return [
        {
            "step": n + 1,
            "name": division.name,
            "found_by": division.by,
            "warm_up": n < division.warm_up,
            "start_ns": start,
            "end_ns": end,
            "duration_ns": end - start,
            **{f"{name}_ns": int(parts[name][n]) for name in parts if name != "any"},
            "idle_ns": (end - start) * len(trace.lanes) - int(parts["any"][n]),
        }
        for n, (start, end) in enumerate(pairwise(edges))
    ]


@_table("phases")
def phase_rows(trace: Trace) -> list[Row]:
    """Return the phases that the program's ranges state, with the device work that they requested, by their start."""
    times = ("start", "end", "device_start", "device_end", "interval", "busy")
    return [
        {
            **{name: getattr(each, name) for name in ("phase", "name", "rank", "thread", "requests", "tokens")},
            "pid": None if each.pid == NONE else each.pid,
            **{f"{name}_ns": getattr(each, name) for name in times},
            **{f"{group}_ns": each.operations.get(group) for group in OPERATIONS},
        }
        for each in phases(trace)
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


@_table("lanes")
def lane_rows(trace: Trace) -> list[Row]:
    """Return the time of each part for every device; empty if there is no device work."""
    times = busy(trace, Within([trace.whole]))
    parts = (
        "wall", "computing", "communication", "exposed_communication", "copies", "exposed_copies", "idle"
    )  # fmt: skip
    return [
        {
            "lane": number,
            "name": lane_name(lane.rank, lane.device),
            "rank": lane.rank,
            "device_id": lane.device,
            "streams": lane.streams,
            "operations": lane.work,
            "busy_ns": times[lane.number].any,
            **{f"{part}_ns": getattr(times[lane.number], part) for part in parts},
        }
        for number, lane in enumerate(trace.lanes, 1)
    ]


@_table("operators")
def operator_rows(trace: Trace) -> list[Row]:
    """Return the operators of PyTorch by shapes and types, against their roofline; empty if no shapes were recorded.

    The sum of ``ns`` over all rows is the time of all device work.
    """
    return _pick_columns("operators", operators(trace).rows)


@_table("collectives")
def collective_rows(trace: Trace) -> list[Row]:
    """Return the collectives by kind and size, with their bandwidths; empty if the trace states none."""
    return _pick_columns("collectives", collectives(trace))


def _pick_columns(table: str, rows: Sequence[object]) -> list[Row]:
    """Return the attributes of each row that have the name of a column."""
    names = [name for name in schema()[table].columns if name != "workload"]
    return [{name: getattr(row, name) for name in names} for row in rows]


@_table("gaps")
def gap_rows(trace: Trace) -> list[Row]:
    """Return the parts of all gaps: one row for each cause to which a part of a gap is attributed.

    The sum of ``ns`` over all rows is the idle time of all devices; it is empty if there is no device work.
    """
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
