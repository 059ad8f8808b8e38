"""The tables of kernels, copies, launch figures and ranges, and the balance of devices within windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .busy import Busy, Within
from .requested_work import RequestedWork, requested_work
from .rules import rules
from .trace import COMMUNICATION, COMPUTE, NONE, Ints, Trace, Window, is_same

_FEW_LAUNCHES = 5
"""With fewer launches than this, figures on their cost are not reliable."""
_OF_LAUNCHES = {
    "launch_call_us": "us",
    "host_us_per_launch": "us",
    "device_us_per_launch": "us",
    "launch_bound_index": "ratio",
    "queue_depth": "operations",
}


Row = dict[str, Any]
"""A row by the columns of its table in tools/answers/tables.toml, with times in ns."""


def kernels(trace: Trace, within: Within, limit: int, requested: RequestedWork | None = None) -> tuple[list[Row], int]:
    """Return the kernels with the most time in the windows, and the number of different kernels.

    Launches that are partly outside a window count with the part inside. With ``requested``, only its work counts.
    """
    mine = np.flatnonzero((trace.work.kernel >= 0) & (True if requested is None else requested.of_any()))
    s, e, of = trace.work.s[mine], trace.work.e[mine], trace.work.kernel[mine]
    calls, ns = (np.bincount(of, amounts) for amounts in (within.windows_touched(s, e), within.ns(s, e)))
    known = np.flatnonzero(calls)
    by_time = known[np.lexsort((known, -ns[known]))][:limit].tolist()  # numbers are in name order
    names, talking, whole = trace.kernel_names(by_time), set(trace.communicating), ns.sum()
    rows = []
    for k in by_time:
        n, spent = int(calls[k]), int(ns[k])
        share = 100 * spent / whole if whole else 0.0
        row = {"kernel": names[k], "calls": n, "ns": spent, "pct_of_kernels": share, "mean_us": spent / n / 1e3}
        rows.append(row | {"communication": k in talking})
    return rows, len(known)


def copies(trace: Trace, within: Within) -> list[Row]:
    """Return the copies in the windows by direction and kind of host memory, the longest total time first.

    Copies that are partly outside a window count with the part inside. Shares are of the time of all devices.
    """
    values = ", ".join(f"({w.start}, {w.end})" for w in within.windows)
    rows = trace.rows(
        "SELECT coalesce(direction, 'other') AS direction, if(pinned, 'pinned', if(pinned IS NULL, NULL, 'pageable')) "
        "AS host_memory, count(*), sum(ns) AS ns, "
        "sum(bytes * (ns / greatest(end_ns - start_ns, 1))) FROM (SELECT *, least(end_ns, w1) - greatest(start_ns, w0) "
        f"AS ns FROM {trace.events} JOIN (VALUES {values}) w(w0, w1) ON start_ns < w1 AND end_ns > w0 "
        "WHERE kind = 'copy') GROUP BY ALL ORDER BY ns DESC, direction"
    )
    wall, made = within.wall * len(trace.lanes), []
    for direction, memory, count, ns, moved in rows:
        row = {"direction": direction, "host_memory": memory, "copies": count, "ns": int(ns)}
        row |= {"pct": 100 * int(ns) / wall if wall else None, "bytes": None if moved is None else int(moved)}
        made.append(row | {"gbs": row["bytes"] / row["ns"] if row["bytes"] and row["ns"] else None})
    return made


def figures(trace: Trace, within: Within, busy: Mapping[int, Busy]) -> list[Row]:
    """Return the figures on kernels, launches and the queue."""
    work, total = trace.work, sum(busy.values(), Busy(0))
    ns = within.ns(work.s, work.e)
    kernel = work.of((COMPUTE, COMMUNICATION)) & (ns > 0)
    brief = kernel & (work.e - work.s < rules().limits.short_kernel_ns)
    n, time = int(kernel.sum()), int(ns[kernel].sum(dtype=np.float64))
    mean = time / n if n else None
    made = [
        measured("kernels", n, "launches"),
        measured("kernels_per_s", n / total.wall * 1e9 if total.wall else None, "1/s"),
        measured("mean_kernel_us", mean and mean / 1e3, "us"),
        measured("kernels_below_10us_pct", 100 * int(brief.sum()) / n if n else None, "%"),
        measured("time_in_kernels_below_10us_pct", 100 * ns[brief].sum(dtype=np.float64) / time if time else None, "%"),
        measured("operations_at_once", total.summed / total.any if total.any else None, "operations"),
    ]
    return [*made, *_launching(trace, within, ns)]  # rates and depths are per device


def _launching(trace: Trace, within: Within, ns: Ints) -> list[Row]:
    """Return figures that compare the cost of a launch on the host with the work on the device.

    ``device_us_per_launch`` is the mean time of the kernels that one call starts: one kernel, or all nodes of a graph.
    The launch-bound index is the host's time per launch divided by it; at most about 1 if the device is kept busy.
    """
    work, replay = trace.work, trace.launches.replay
    asked = np.flatnonzero((work.a0 != NONE) & (ns > 0))
    if not len(asked):
        why = "the profile contains no host calls that belong to device work"
        return [measured(name, None, unit, why, "not_collected") for name, unit in _OF_LAUNCHES.items()]
    # The time from one call to the next on the same thread is the cost of a launch on the host.
    mine = slice(None) if len(asked) == len(work.s) else asked  # a slice avoids a copy if all work is selected
    a0, a1, e = (column[mine] for column in (work.a0, work.a1, work.e))
    if is_same(work.thread) and is_same(work.pid):
        apart = np.diff(np.sort(a0, kind="stable"))
    else:
        thread, pid = work.thread[mine], work.pid[mine]
        order = np.lexsort((a0, thread, pid))
        apart = np.diff(a0[order])[(np.diff(thread[order]) == 0) & (np.diff(pid[order]) == 0)]
    apart = apart[apart > 0]
    typical = float(np.median(apart)) if len(apart) else None
    devices = within.wall * len(trace.lanes)
    queued = float((e - np.minimum(a0, e)).sum())
    launched = work.of((COMPUTE, COMMUNICATION), mine)  # copy calls last as long as the copy
    calls = int(launched.sum())
    if replay is not None:
        nodes = replay[mine][launched]
        calls += len(np.unique(nodes[nodes >= 0])) - int((nodes >= 0).sum())
    started = float(ns[mine][launched].sum(dtype=np.float64)) / max(calls, 1)
    values = {
        "launch_call_us": float((a1 - a0)[launched].mean()) / 1e3 if launched.any() else None,
        "host_us_per_launch": None if typical is None else typical / 1e3,
        "device_us_per_launch": started / 1e3 if calls else None,
        "launch_bound_index": typical / started if typical and started else None,
        "queue_depth": queued / devices if devices else None,
    }
    made = [measured(name, value, _OF_LAUNCHES[name]) for name, value in values.items()]
    if calls >= _FEW_LAUNCHES:
        return made
    why = f"fewer than {_FEW_LAUNCHES} launches"
    return [f if f["value"] is None else f | {"status": "suspect", "reason": why} for f in made]


def measured(
    name: str, value: float | None, unit: str, why: str = "there was nothing to measure", status: str = "undefined"
) -> Row:
    """Return a figure; without a value, its status and why there is none."""
    known = {"status": status, "reason": why} if value is None else {"status": "ok", "reason": None}
    return {"figure": name, "value": value, "unit": unit} | known


def ranges(trace: Trace, windows: Sequence[Window], limit: int) -> list[Row]:
    """Return the ranges by name, those of the user first, with their time on the host and that of their device work.

    A range counts if the device work that it requested first begins in the windows, or without any, if it begins there
    on the host. Work that overlaps counts once, so nested ranges take no longer than the one around them.
    """
    if not trace.ranges:
        return []
    own = "coalesce(source, '') NOT IN ('torch', 'python')"
    read: dict[str, Any] = trace.workload.cursor.execute(
        f"SELECT name, coalesce(pid, {NONE}) AS pid, any_value(source) AS source, bool_or({own}) AS own, "
        f"count(*) AS n, list(start_ns) AS s, list(end_ns) AS e FROM {trace.ranges} "
        f"GROUP BY name, coalesce(pid, {NONE}) ORDER BY name, pid"
    ).fetchnumpy()
    if not len(read["n"]):
        return []
    s, e = np.concatenate(read["s"]), np.concatenate(read["e"])
    of = np.repeat(np.arange(len(read["n"])), read["n"])
    requested = requested_work(trace, read["pid"][of], s, e)
    done = requested.times()
    mine = np.flatnonzero(np.searchsorted(Within(windows).edges, requested.start(s), side="right") % 2)
    mine = mine[np.lexsort((requested.first[mine], of[mine]))]
    first, last, of, length = (column[mine] for column in (requested.first, requested.last, of, e - s))
    # What an earlier range of the same name, such as one around it, has counted does not count again.
    before = of * len(done)
    counted = np.append(0, np.maximum.accumulate(before + last)[:-1]) - before
    ns = done[np.maximum(last, counted)] - done[np.maximum(first, counted)]
    n, host, device = (np.bincount(of, weights, len(read["n"])) for weights in (None, length, ns))
    sources = read["source"].tolist()
    return [
        {
            "range": read["name"][i],
            "source": sources[i],
            "count": int(n[i]),
            "host_ns": int(host[i]),
            "device_ns": int(device[i]) if trace.calls else None,
        }
        for i in np.lexsort((-host, ~read["own"], n == 0))[:limit]
        if n[i]
    ]
