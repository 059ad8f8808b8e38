"""The tables of kernels, copies, launch figures, ranges and operators, and the balance of devices within windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..base.database import sql_literal
from .busy import Busy, Within
from .rules import rules
from .trace import COMMUNICATION, COMPUTE, NONE, Trace, Window, is_same, pieces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .trace import Ints

    Floats = NDArray[np.float64]

_NAMES = 40
"""The maximum number of range names whose device time is computed."""
_INSTANCES = 200_000
"""The maximum number of instances of these ranges."""
_FEW_LAUNCHES = 5
"""With fewer launches than this, figures on their cost are not reliable."""
_OF_LAUNCHES = {
    "launch_call_us": "us",
    "host_us_per_launch": "us",
    "device_us_per_launch": "us",
    "launch_bound_index": "ratio",
    "queue_depth": "operations",
}


@dataclass(frozen=True)
class TimelineFigure:
    """A figure with its unit; if ``value`` is None, ``reason`` says why."""

    name: str
    value: float | None
    unit: str
    status: str = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class KernelRow:
    """A kernel: launches, total and mean ns, share of the time of all kernels in %, and whether it communicates."""

    name: str
    calls: int
    ns: int
    mean_ns: float
    share_pct: float
    communication: bool


@dataclass(frozen=True)
class CopyRow:
    """The copies of one direction and kind of host memory; ``pinned`` is None if the kind is unknown."""

    direction: str
    pinned: bool | None
    copies: int
    ns: int
    bytes: int | None

    @property
    def gbs(self) -> float | None:
        """The mean bandwidth of the copies in GB/s."""
        return self.bytes / self.ns if self.bytes and self.ns else None


@dataclass(frozen=True)
class RangeRow:
    """The ranges with one name: instances, ns on the host, and ns of the device work that they requested."""

    name: str
    source: str | None
    count: int
    host_ns: int
    device_ns: int | None


@dataclass(frozen=True)
class OperatorRow:
    """An operator with one set of shapes and types; ``operator`` is None for work without an operator.

    ``flop``, ``bytes`` and the least time are sums over all calls; if one is None, ``reason`` says why.
    """

    operator: str | None
    sizes: str | None
    types: str | None
    category: str | None
    calls: int | None
    """How often it launched work on the device."""
    ns: int
    flop: float | None = None
    bytes: float | None = None
    least_ns: float | None = None
    """max(operations / peak, bytes / bandwidth of the memory)."""
    bound: str | None = None
    """The ceiling that determines the least time, such as hbm.bw or matrix.bf16."""
    reason: str | None = None

    @property
    def tflops(self) -> float | None:
        """The rate in TFLOP/s."""
        return self.flop / self.ns / 1e3 if self.flop is not None and self.ns else None

    @property
    def gbs(self) -> float | None:
        """The bytes that must be moved by the time, in GB/s."""
        return self.bytes / self.ns if self.bytes is not None and self.ns else None

    @property
    def intensity(self) -> float | None:
        """Operations per byte."""
        return self.flop / self.bytes if self.flop is not None and self.bytes else None

    @property
    def roofline_pct(self) -> float | None:
        """The least time in % of the time; above 100 % if data came from a cache."""
        return 100 * self.least_ns / self.ns if self.least_ns is not None and self.ns else None


@dataclass(frozen=True)
class Imbalance:
    """The spread of the devices' computing times in % of the longest, and the lanes with the shortest and longest."""

    pct: float
    least: int
    most: int


def kernels(trace: Trace, within: Within, limit: int) -> tuple[list[KernelRow], int]:
    """Return the kernels with the most time in the windows, and the number of different kernels.

    Launches that are partly outside a window count with the part inside.
    """
    import numpy as np

    work = trace.work
    calls, low, high = sums = np.zeros((3, int(work.kernel.max(initial=-1)) + 1), dtype=np.int64)
    for piece in pieces(0, len(work.s)):
        kernel = work.kernel[piece]
        mine = kernel >= 0
        s, e, of = work.s[piece][mine], work.e[piece][mine], kernel[mine]
        ns = within.ns(s, e)
        # Sums of times may need more than 64 bits, so they are computed in two halves.
        for total, part in zip(sums, (within.windows_touched(s, e), ns & 0xFFFFFFFF, ns >> 32), strict=True):
            np.add.at(total, of, part)
    known = np.flatnonzero(calls)
    by_time = known[np.lexsort((known, -(low + high * 2.0**32)[known]))]  # numbers are in name order
    whole = int(low.sum()) + (int(high.sum()) << 32)
    names, talking = trace.kernel_names([int(k) for k in by_time[:limit]]), set(trace.communicating)
    rows = []
    for k in map(int, by_time[:limit]):
        n, spent = int(calls[k]), int(low[k]) + (int(high[k]) << 32)
        rows.append(KernelRow(names[k], n, spent, spent / n, 100 * spent / whole if whole else 0.0, k in talking))
    return rows, len(known)


def copies(trace: Trace, windows: Sequence[Window]) -> list[CopyRow]:
    """Return the copies in the windows by direction and kind of host memory, the longest total time first.

    Copies that are partly outside a window count with the part inside.
    """
    source, time = _clipped_events_sql(trace, windows)
    rows = trace.rows(
        f"SELECT coalesce(direction, 'other') AS direction, pinned, count(*), sum({time}) AS ns, "
        f"sum(bytes * (({time}) / greatest(end_ns - start_ns, 1))) FROM {source} WHERE kind = 'copy' GROUP BY ALL "
        "ORDER BY ns DESC, direction"
    )
    return [CopyRow(d, pinned, n, int(ns), None if b is None else int(b)) for d, pinned, n, ns, b in rows]


def _clipped_events_sql(trace: Trace, windows: Sequence[Window]) -> tuple[str, str]:
    """SQL for the events that overlap the windows, one row for each window, and for their ns within it."""
    if len(windows) == 1:
        start, end = windows[0]
        return (
            f"(FROM {trace.events} WHERE start_ns < {end} AND end_ns > {start})",
            f"least(end_ns, {end}) - greatest(start_ns, {start})",
        )
    values = ", ".join(f"({w.start}, {w.end})" for w in windows)
    return (
        f"(FROM {trace.events} JOIN (VALUES {values}) w(w0, w1) ON start_ns < w1 AND end_ns > w0)",
        "least(end_ns, w1) - greatest(start_ns, w0)",
    )


def figures(trace: Trace, within: Within, busy: Mapping[int, Busy]) -> list[TimelineFigure]:
    """Return the figures on kernels, launches and the queue."""
    import numpy as np

    work, total = trace.work, sum(busy.values(), Busy(0))
    ns = within.ns(work.s, work.e)
    kernel = work.of((COMPUTE, COMMUNICATION)) & (ns > 0)
    brief = kernel & (work.e - work.s < rules().limits.short_kernel_ns)
    n, time = int(kernel.sum()), int(ns[kernel].sum(dtype=np.float64))
    mean = time / n if n else None
    made = [
        TimelineFigure("kernels", n, "launches"),
        _figure("kernels_per_s", n / total.wall * 1e9 if total.wall else None, "1/s"),
        _figure("mean_kernel_us", mean and mean / 1e3, "us"),
        _figure("kernels_below_10us_pct", 100 * int(brief.sum()) / n if n else None, "%"),
        _figure("time_in_kernels_below_10us_pct", 100 * ns[brief].sum(dtype=np.float64) / time if time else None, "%"),
        _figure("operations_at_once", total.summed / total.any if total.any else None, "operations"),
    ]
    return [*made, *_launching(trace, within, ns)]  # rates and depths are per device


def _launching(trace: Trace, within: Within, ns: Ints) -> list[TimelineFigure]:
    """Return figures that compare the cost of a launch on the host with the work on the device.

    ``device_us_per_launch`` is the mean time of the kernels that one call starts: one kernel, or all nodes of a graph.
    The launch-bound index is the host's time per launch divided by it; at most about 1 if the device is kept busy.
    """
    import numpy as np

    work, replay = trace.work, trace.launches.replay
    asked = np.flatnonzero((work.a0 != NONE) & (ns > 0))
    if not len(asked):
        why = "the profile contains no host calls that belong to device work"
        return [TimelineFigure(name, None, unit, "not_collected", why) for name, unit in _OF_LAUNCHES.items()]
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
        calls += int(np.count_nonzero(np.bincount(nodes + 1)[1:])) - int((nodes >= 0).sum())
    started = float(ns[mine][launched].sum(dtype=np.float64)) / calls if calls else None
    made = [
        _figure("launch_call_us", float((a1 - a0)[launched].mean()) / 1e3 if launched.any() else None, "us"),
        _figure("host_us_per_launch", None if typical is None else typical / 1e3, "us"),
        _figure("device_us_per_launch", None if started is None else started / 1e3, "us"),
        _figure("launch_bound_index", typical / started if typical and started else None, "ratio"),
        _figure("queue_depth", queued / devices if devices else None, "operations"),
    ]
    if calls >= _FEW_LAUNCHES:
        return made
    why = f"fewer than {_FEW_LAUNCHES} launches"
    return [f if f.value is None else replace(f, status="suspect", reason=why) for f in made]


def _figure(name: str, value: float | None, unit: str) -> TimelineFigure:
    return (
        TimelineFigure(name, value, unit)
        if value is not None
        else TimelineFigure(name, None, unit, "undefined", "there was nothing to measure")
    )


def ranges(trace: Trace, windows: Sequence[Window], limit: int) -> list[RangeRow]:
    """Return the ranges by name, those of the user first, with their time on the host and that of their device work.

    Device work counts for every range of its process that is open when the work is requested, on any thread. So the
    launches of autograd's thread count for the range in which the main thread waits for it.
    """
    if not trace.ranges:
        return []
    low, high = min(w.start for w in windows), max(w.end for w in windows)
    own = "coalesce(source, '') NOT IN ('torch', 'python')"
    rows = trace.rows(
        f"SELECT name, any_value(source), count(*), sum(end_ns - start_ns), bool_or({own}) AS own, "
        f"coalesce(pid, {NONE}) "
        f"FROM {trace.ranges} WHERE start_ns >= {low} AND start_ns < {high} GROUP BY name, pid "
        f"ORDER BY own DESC, sum(end_ns - start_ns) DESC LIMIT {limit}"
    )
    device = _asked_within(trace, [r[0] for r in rows[:_NAMES]], low, high) if trace.calls else {}
    return [
        RangeRow(str(name), source, n, int(ns), int(device.get((name, pid), 0)) if trace.calls else None)
        for name, source, n, ns, _, pid in rows
    ]


def _asked_within(trace: Trace, names: Sequence[str], low: int, high: int) -> dict[tuple[str, int], int]:
    """Return the ns of device work by the name and process of the ranges in which it was requested."""
    import numpy as np

    if not names:
        return {}
    listed = ", ".join(sql_literal(name) for name in names)
    rows = trace.rows(
        f"SELECT name, coalesce(pid, {NONE}), list(start_ns), list(end_ns) FROM (FROM {trace.ranges} WHERE name IN "
        f"({listed}) AND start_ns >= {low} AND start_ns < {high} LIMIT {_INSTANCES}) GROUP BY ALL"
    )
    sums: dict[int, tuple[Ints, Floats]] = {}
    work, rows_by_work = trace.work, {}
    for name, pid, starts, ends in rows:
        if pid not in sums:
            mine = np.flatnonzero((work.pid == pid) & (work.a0 != NONE))
            mine = mine[np.argsort(work.a0[mine], kind="stable")]
            sums[pid] = work.a0[mine], np.concatenate([[0], np.cumsum((work.e - work.s)[mine], dtype=np.float64)])
        asked, done = sums[pid]
        first, last = np.searchsorted(asked, starts, side="left"), np.searchsorted(asked, ends, side="right")
        rows_by_work[name, pid] = int((done[last] - done[first]).sum())
    return rows_by_work


def imbalance(trace: Trace, busy: Mapping[int, Busy]) -> Imbalance | None:
    """Return how unevenly the devices compute; None for one device, or if nothing computes."""
    if len(trace.lanes) < 2:
        return None
    by_time = sorted(busy, key=lambda lane: busy[lane].computing)
    least, most = by_time[0], by_time[-1]
    longest = busy[most].computing
    return Imbalance(100 * (longest - busy[least].computing) / longest, least, most) if longest else None
