"""The table device_lines: device time by the line of the host's code that launched it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ..store.schema import SchemaColumn
from ..timeline.host_code import Frame, HostCode, host_code
from ..timeline.hot_code import path_of
from ..timeline.trace import COPY, FILL, NONE, Trace
from ..timeline.trace_loading import prepare
from ..workload import Workload
from .declaration import DeclaredTable, Row
from .host_lines import TABLE as HOST_LINES

if TYPE_CHECKING:
    from ..timeline.trace import Ints

_OTHER = {COPY: "(copy)", FILL: "(fill)"}


def rows(workload: Workload) -> list[Row]:
    """Return a row for each line and kernel that it launched, most device time first.

    Copies and fills are rows as well. Empty if no code of the host was recorded.
    """
    trace = prepare(workload)
    code = host_code(trace)
    if code is None:
        return []
    stacks, work = _stacks_of_work(trace, code), trace.work
    names = trace.kernel_names(sorted({int(kernel) for kernel in work.kernel if kernel >= 0}))
    sums: dict[tuple[Frame, str | None, str], list[int]] = defaultdict(lambda: [0, 0])
    places = [_place(code, number) for number in range(len(code.stacks))]
    for stack, kind, kernel, launches, ns in _grouped(trace, stacks):
        frame, below = places[stack]
        entry = sums[frame, below, names.get(kernel) or _OTHER.get(kind, "(unknown)")]
        entry[0] += launches
        entry[1] += ns
    total = sum(ns for _, ns in sums.values())
    made = [
        {
            **frame._asdict(),
            "called": below,
            "kernel": kernel,
            "launches": launches,
            "device_ns": ns,
            "share_pct": 100 * ns / total if total else None,
        }
        for (frame, below, kernel), (launches, ns) in sums.items()
    ]
    return sorted(made, key=lambda row: (-row["device_ns"], row["kernel"]))


def _stacks_of_work(trace: Trace, code: HostCode) -> Ints:
    """Return the number of the stack that requested each piece of device work; 0 if it is not known."""
    import numpy as np

    work = trace.work
    stacks = np.zeros(len(work.s), dtype=np.int64)
    asked = np.flatnonzero(work.a0 != NONE)
    for pid, thread in np.unique(np.stack([work.pid[asked], work.thread[asked]]), axis=1).T:
        mine = asked[(work.pid[asked] == pid) & (work.thread[asked] == thread)]
        stacks[mine] = code.stacks_at(int(pid), int(thread), work.a0[mine])
    return stacks


def _grouped(trace: Trace, stacks: Ints) -> list[tuple[int, int, int, int, int]]:
    """Return stack, class, kernel, number and total ns of the device work, grouped by the first three."""
    import numpy as np

    work = trace.work
    keys = np.stack([stacks, work.cls.astype(np.int64), work.kernel.astype(np.int64)])
    groups, where = np.unique(keys, axis=1, return_inverse=True)
    counts = np.bincount(where.ravel(), minlength=groups.shape[1])
    times = np.zeros(groups.shape[1], dtype=np.int64)
    np.add.at(times, where.ravel(), work.e - work.s)
    return [
        (int(stack), int(kind), int(kernel), int(count), int(ns))
        for (stack, kind, kernel), count, ns in zip(groups.T, counts, times, strict=True)
    ]


def _place(code: HostCode, number: int) -> tuple[Frame, str | None]:
    """Return the innermost frame of the program's own code, or else of a library, and the function that it calls."""
    stack = code.stacks[number]
    if not stack:
        return Frame("(unknown)", None, None, None, False), None
    path, below = path_of(stack)
    own = [at for at, frame in enumerate(path) if frame.own]
    at = own[-1] if own else len(path) - 1
    return path[at], path[at + 1].function if at + 1 < len(path) else below


TABLE = DeclaredTable(
    "device_lines",
    "Device time by the host line that launched it: SELECT function, file, line, kernel, device_ns FROM device_lines "
    "ORDER BY device_ns DESC LIMIT 10.",
    {
        "function": SchemaColumn("VARCHAR", "Innermost function of the program's own code, or else of a library"),
        "file": HOST_LINES.columns["file"],
        "line": HOST_LINES.columns["line"],
        "module": HOST_LINES.columns["module"],
        "own": HOST_LINES.columns["own"],
        "called": SchemaColumn("VARCHAR", "Function of a library that it calls for this"),
        "kernel": SchemaColumn("VARCHAR", "Kernel that was launched; (copy), (fill)"),
        "launches": SchemaColumn("BIGINT", "Number of launches"),
        "device_ns": SchemaColumn("BIGINT", "Sum of their times on the device", "ns", 4),
        "share_pct": SchemaColumn("DOUBLE", "Of the time of all device work", "%", 4),
        "text": HOST_LINES.columns["text"],
    },
    rows,
    HOST_LINES.exists,
)
