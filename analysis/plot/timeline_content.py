"""The contents of a timeline picture: shares of the wall time, lanes of devices and host, and facts in words.

Lanes consist of columns one pixel wide that show the share of the pixel's time, so that thousands of short kernels
appear with their total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.text import count_text
from ..timeline.busy import COMPUTING, KERNELS, MEMORY
from ..timeline.idle import CAUSES
from ..timeline.slow_rank import Balance, RankRow
from ..timeline.timeline import Timeline
from ..timeline.trace import BLOCKING, NONE, Ints, Lane, Window, covered_before, lane_name

_PARTS = ("computing", "communication", "copies")


@dataclass(frozen=True)
class RankBars:
    """The contents of the panel: ms per device of each rank by key, the ranks in order, and which one computes
    longest."""

    ranks: Sequence[int | None]
    parts: Mapping[str, Sequence[float]]
    mean_ms: float
    slowest: int
    """Its index in ``ranks``."""
    title: str


def of_balance(balance: Balance) -> RankBars:
    """The panel for the balance of ranks."""

    def ms(row: RankRow, key: str) -> float:
        return float(getattr(row, key)) / row.devices / 1e6

    parts = {key: [ms(row, key) for row in balance.rows] for key in _PARTS}
    ranks = count_text(len(balance.rows), "rank")
    title = f"{ranks}: load balance {balance.load_balance_pct or 0:.3g} % (mean over maximum)"
    if excess := balance.late_excess_pct:
        title += f", {balance.late.name} computes {excess:.3g} % longer than the mean"
    return RankBars(
        [row.rank for row in balance.rows],
        {key: values for key, values in parts.items() if any(values)},
        balance.mean / 1e6,
        balance.rows.index(balance.slowest),
        title,
    )


PIXELS = 660
"""The number of columns of a lane."""
STEPS = 3
"""The number of steps shown in the lanes."""
_DEVICES, _DEPTHS, _RANGES = 4, 3, 400
_LEAST_PCT = 0.05


@dataclass(frozen=True)
class Strip:
    """One lane: the share of every column, 0 to 1, for each key (a class of work or a cause)."""

    name: str
    columns: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Box:
    """A range of the program: its row, its start and end in ms from the start of the lanes, and its name."""

    row: int
    start: float
    end: float
    name: str


@dataclass(frozen=True)
class TimelinePicture:
    """The contents of the picture; ``shares`` are in % of the wall time of all devices, by key, largest first."""

    title: str
    subtitle: str
    shares: Sequence[tuple[str, float]]
    strips: Sequence[Strip]
    boxes: Sequence[Box]
    rows: int
    lane_ms: float
    lane_title: str
    statements: Sequence[str] = ()
    ranks: RankBars | None = None


def of_timeline(analysed: Timeline) -> tuple[TimelinePicture, list[str]]:
    """The picture of a timeline, and its facts in words."""
    window, lane_title = _visible_window(analysed)
    boxes = _boxes(analysed, window)
    shares = _shares(analysed)
    hidden = len(analysed.trace.lanes) - _DEVICES
    statements = [f"{hidden} more devices are not drawn."] if hidden > 0 else []
    picture = TimelinePicture(
        title=f"Timeline: {analysed.trace.workload.name}",
        subtitle=_subtitle(analysed),
        shares=shares,
        strips=[*_devices(analysed, window), *_host(analysed, window)],
        boxes=boxes,
        rows=max((box.row for box in boxes), default=-1) + 1,
        lane_ms=(window.end - window.start) / 1e6,
        lane_title=lane_title,
        statements=statements,
        ranks=of_balance(analysed.balance) if analysed.balance else None,
    )
    facts = [
        picture.subtitle,
        f"Of {analysed.wall_ns / 1e6:.4g} ms of wall time: "
        + ", ".join(f"{label(key)} {pct:.1f} %" for key, pct in shares)
        + ".",
        *(f.claim for f in analysed.findings),
        *([f"{picture.ranks.title}."] if picture.ranks else []),
        *statements,
    ]
    return picture, facts


def label(key: str) -> str:
    """The label of a key."""
    names = {"computing": "kernels", "communication": "communication alone", "copying": "copies alone"}
    return names.get(key) or f"idle: {key.replace('_', ' ')}"


def _subtitle(analysed: Timeline) -> str:
    verdict = analysed.verdict
    if verdict.height == "unknown" or verdict.share_pct is None:
        return "The cause of the time is unknown: the profile contains no host calls"
    bound = "" if verdict.speedup_bound is None else f", at most x {verdict.speedup_bound:.3g} without it"
    whose = "the wall time"
    if verdict.height == "communication" and len(analysed.trace.lanes) > 1:
        whose = "the time of the device that waits most"
    return f"Verdict: {verdict.height}, {verdict.share_pct:.1f} % of {whose}{bound}"


def _shares(analysed: Timeline) -> list[tuple[str, float]]:
    total = analysed.total
    parts = [
        ("computing", total.computing),
        ("communication", total.exposed_communication),
        ("copying", total.exposed_copies),
        *((idle.cause, idle.ns) for idle, _ in analysed.causes),
    ]
    return [(key, pct) for key, ns in parts if (pct := 100 * ns / max(total.wall, 1)) >= _LEAST_PCT]


def _visible_window(analysed: Timeline) -> tuple[Window, str]:
    """The first steps of the window, or the whole window, with a title."""
    windows, steps, part = analysed.windows, analysed.steps, ""
    if analysed.selected == "steady" and steps:
        starts = steps.starts[steps.warm_up :]
        window = Window(starts[0], starts[min(STEPS, len(starts) - 1)])
        part = f"{min(STEPS, steps.count)} of {count_text(steps.count, steps.noun)} in the steady state, "
    else:
        last = windows[:STEPS][-1] if analysed.selected == "range" else windows[-1]
        window = Window(windows[0].start, last.end)
    return window, f"{part}{(window.end - window.start) / 1e6:.4g} ms"


def _columns(window: Window, start: Ints, end: Ints) -> list[float]:
    """The share of each column that sorted, disjoint intervals cover."""
    edges = np.linspace(window.start, window.end, PIXELS + 1).astype(np.int64)
    keep = end > start
    covered = np.diff(covered_before(edges, start[keep], end[keep]))
    return [float(v) for v in np.clip(covered / np.maximum(np.diff(edges), 1), 0, 1)]


def _select_lanes(analysed: Timeline) -> list[Lane]:
    """The lanes to draw: if there are many, those with the longest and the shortest computation, then the first
    ones."""
    lanes = list(analysed.trace.lanes)
    if len(lanes) <= _DEVICES:
        return lanes
    ordered = sorted(lanes, key=lambda lane: -analysed.lanes[lane.number].computing)
    return list({lane.number: lane for lane in (ordered[0], ordered[-1], *lanes)}.values())[:_DEVICES]


def _devices(analysed: Timeline, window: Window) -> list[Strip]:
    made = []
    trace = analysed.trace
    for lane in _select_lanes(analysed):
        name = lane_name(None, lane.device) if lane.rank is None else f"r{lane.rank} GPU {lane.device or 0}"
        kernels = _union(analysed, lane, "kernels", KERNELS, window)
        columns = {"computing": kernels}
        if trace.communicates:
            computing = _union(analysed, lane, "computing", COMPUTING, window)
            alone = [max(0.0, k - c) for k, c in zip(kernels, computing, strict=True)]
            columns = {"computing": computing, "communication": alone}
        made.append(Strip(f"{name} kernels", columns))
        if analysed.lanes[lane.number].copies:
            made.append(Strip(f"{name} copies", {"copying": _union(analysed, lane, "memory", MEMORY, window)}))
        causes = {
            cause: _columns(window, *gaps)
            for cause in CAUSES
            if len((gaps := analysed.all_gaps.of(lane.number, cause))[0])
        }
        made.append(Strip(f"{name} idle", causes))
    return made


def _union(analysed: Timeline, lane: Lane, name: str, classes: Sequence[int], window: Window) -> list[float]:
    """The share of each column covered by some classes of a lane's work."""
    work, own = analysed.trace.work, slice(lane.first, lane.last)
    mine = np.isin(work.cls[own], classes)
    ahead = analysed.trace.ahead(name, classes)[own][mine]
    return _columns(window, np.maximum(work.s[own][mine], ahead), work.e[own][mine])


def _host(analysed: Timeline, window: Window) -> list[Strip]:
    """The calls of the process that launched most of the work shown, by all its threads that launched any."""
    work = analysed.trace.work
    touching = np.flatnonzero((work.s < window.end) & (work.e > window.start) & (work.a0 != NONE))
    if not len(touching):
        return []
    processes, count = np.unique(work.pid[touching], return_counts=True)
    pid = int(processes[int(count.argmax())])
    mine = touching[work.pid[touching] == pid]
    columns = {"launch": _disjoint(window, work.a0[mine], work.a1[mine])}
    asking = {int(t) for t in np.unique(work.thread[mine])}
    blocks = [each for (owner, thread), each in analysed.trace.blocks.items() if owner == pid and thread in asking]
    for code, cause in enumerate(BLOCKING):
        if own := [(each.s[each.cls == code], each.e[each.cls == code]) for each in blocks]:
            starts, ends = (np.concatenate(part) for part in zip(*own, strict=True))
            columns[cause] = _disjoint(window, starts, ends)
    left = [1 - min(1.0, sum(each[i] for c, each in columns.items() if c != "launch")) for i in range(PIXELS)]
    columns["launch"] = [min(v, room) for v, room in zip(columns["launch"], left, strict=True)]
    return [Strip("host calls", {c: v for c, v in columns.items() if max(v) > 0})]


def _disjoint(window: Window, start: Ints, end: Ints) -> list[float]:
    """The share of each column that intervals cover, in any order and with overlaps."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    start = np.concatenate([start[:1], np.maximum(start[1:], reached[:-1])])
    return _columns(window, start, np.maximum(start, end))


def _boxes(analysed: Timeline, window: Window) -> list[Box]:
    """The user's ranges in the lanes' time, outermost first."""
    if not analysed.trace.ranges:
        return []
    rows = analysed.trace.rows(
        f"SELECT name, start_ns, end_ns, coalesce(depth, 0) AS d FROM {analysed.trace.ranges} "
        "WHERE coalesce(source, '') NOT IN ('torch', 'python') "
        f"AND start_ns < {window.end} AND end_ns > {window.start} ORDER BY end_ns - start_ns DESC LIMIT {_RANGES}"
    )
    depths = sorted({d for *_, d in rows})[:_DEPTHS]
    return [
        Box(
            depths.index(d),
            (max(a, window.start) - window.start) / 1e6,
            (min(b, window.end) - window.start) / 1e6,
            name,
        )
        for name, a, b, d in rows
        if d in depths
    ]
