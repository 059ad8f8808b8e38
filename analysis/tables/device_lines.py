"""The table device_lines: device time by the line of the host's code that launched it."""

from __future__ import annotations

import numpy as np

from ..timeline.host_code import Frame, HostCode, host_code
from ..timeline.host_findings import name
from ..timeline.hot_code import path_of
from ..timeline.trace import COPY, FILL
from ..timeline.trace_loading import device_trace
from ..workload import Workload
from .declaration import Column, DerivedTable, Row
from .host_lines import TABLE as HOST_LINES

_OTHER = {COPY: "(copy)", FILL: "(fill)"}


def rows(workload: Workload) -> list[Row]:
    """Return a row for each line and kernel that it launched, most device time first.

    Copies and fills are rows as well. Empty if no code of the host was recorded.
    """
    trace = device_trace(workload)
    code = host_code(trace) if trace else None
    if trace is None or code is None:
        return []
    work = trace.work
    stacks = code.requesting_stacks(work, np.arange(len(work.s)))
    groups, where = np.unique(np.stack([*stacks, work.cls, work.kernel]), axis=1, return_inverse=True)
    times = np.zeros(groups.shape[1], dtype=np.int64)
    np.add.at(times, where.ravel(), work.e - work.s)
    names = trace.kernel_names(sorted({int(kernel) for kernel in work.kernel if kernel >= 0}))
    rows: dict[tuple[Frame, str | None, str | None, str], Row] = {}
    for (stack, forward, kind, kernel), launches, ns in zip(groups.T, np.bincount(where.ravel()), times, strict=True):
        frame, below = _place(code, stack)
        gradient_of = name(_place(code, forward)[0]) if forward else None
        what = names.get(int(kernel)) or _OTHER.get(int(kind), "(unknown)")
        made = {
            **frame._asdict(),
            "called": below,
            "kernel": what,
            "gradient_of": gradient_of,
            "launches": 0,
            "device_ns": 0,
        }
        row = rows.setdefault((frame, below, gradient_of, what), made)
        row["launches"] += int(launches)
        row["device_ns"] += int(ns)
    total = int(times.sum())
    for row in rows.values():
        row["share_pct"] = 100 * row["device_ns"] / total if total else None
    return sorted(rows.values(), key=lambda row: (-row["device_ns"], row["kernel"]))


def _place(code: HostCode, number: int) -> tuple[Frame, str | None]:
    """Return the innermost frame of the program's own code, or else of a library, and the function that it calls."""
    stack = code.stacks[number]
    if not stack:
        return Frame("(unknown)", None, None, None, False), None
    path, below = path_of(stack)
    own = [at for at, frame in enumerate(path) if frame.own]
    at = own[-1] if own else len(path) - 1
    return path[at], path[at + 1].function if at + 1 < len(path) else below


TABLE = DerivedTable(
    "device_lines",
    "Device time by the host line that launched it: SELECT function, file, line, kernel, device_ns FROM device_lines "
    "ORDER BY device_ns DESC LIMIT 10.",
    {
        "function": Column("VARCHAR", "Innermost own function, or else of a library"),
        "file": HOST_LINES.columns["file"],
        "line": HOST_LINES.columns["line"],
        "module": HOST_LINES.columns["module"],
        "own": HOST_LINES.columns["own"],
        "called": Column("VARCHAR", "Function of a library that it calls for this"),
        "kernel": Column("VARCHAR", "Kernel that was launched; (copy), (fill)"),
        "gradient_of": Column("VARCHAR", "Caller of the operator whose gradient it computes"),
        "launches": Column("BIGINT", "Number of launches"),
        "device_ns": Column("BIGINT", "Sum of their times on the device", "ns", 4),
        "share_pct": Column("DOUBLE", "Of the time of all device work", "%", 4),
        "text": HOST_LINES.columns["text"],
    },
    rows=rows,
    exists=HOST_LINES.exists,
)
