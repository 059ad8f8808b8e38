"""The events of a timeline for a picture that can be zoomed: lanes, names, and one column per quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...analysis.base.database import speed_up
from ...analysis.store.store import Store
from ...analysis.timeline.timeline import lane_name
from ...analysis.timeline.trace import ranges_of, usable_events
from ...analysis.workload import Workload

_ON_DEVICE = ("kernel", "copy", "fill")
_MOST_LANES = 60
"""Lanes that are drawn: those in which most of the time passes."""
_DEEPEST = 12
_CHARACTERS = 1_000
"""Of a name: there may be as many as events."""


@dataclass(frozen=True)
class _PictureLane:
    """One row of the picture: what it is called, and where it stands."""

    kind: str
    name: str
    place: tuple[int, ...]


class _PictureEvent(NamedTuple):
    """An event or a range; times in ns."""

    kind: str
    name: str
    device: int | None
    stream: int | None
    pid: int | None
    thread: int | None
    rank: int | None
    depth: int
    start: int
    duration: int


def events(store: Store, workload: str, most: int) -> dict[str, Any] | None:
    """The ``most`` longest events and ranges of a workload; None where it has no timeline.

    ``start`` holds ns from the event before in the same lane, and of a lane's first from ``origin``; ``duration`` ns.
    Raises NotFound for a workload that is not there.
    """
    with Workload.open(store, workload) as opened:
        if not opened.has("events"):
            return None
        if opened.manifest.events > most:
            speed_up(opened.cursor)
        sql = _events_and_ranges(opened)
        total, origin, end = opened.rows(f"SELECT count(*), min(start_ns), max(end_ns) FROM {sql}")[0]
        what = f"kind, left(coalesce(name, kind), {_CHARACTERS}), device_id, stream, pid, thread, rank, depth"
        longest = f"SELECT {what}, start_ns, end_ns - start_ns FROM {sql} ORDER BY end_ns - start_ns DESC, start_ns"
        rows = [_PictureEvent(*row) for row in opened.rows(f"{longest} LIMIT {most}")]
    processes = {row.pid for row in rows if row.kind not in _ON_DEVICE and row.pid is not None}
    lanes: dict[_PictureLane, list[_PictureEvent]] = {}
    for row in rows:
        lanes.setdefault(_lane(row, apart=len(processes) > 1), []).append(row)
    busiest = sorted(lanes, key=lambda lane: -sum(event.duration for event in lanes[lane]))[:_MOST_LANES]
    drawn_lanes = sorted(busiest, key=lambda lane: lane.place)
    return {
        "origin_ns": origin,
        "span_ns": 0 if origin is None else end - origin,
        "total": total,
        "lanes_left_out": len(lanes) - len(drawn_lanes),
        **_columns(drawn_lanes, lanes, origin or 0),
    }


def _events_and_ranges(opened: Workload) -> str:
    """SQL for all events and ranges with the same columns; values that a profiler sampled take no time."""
    parts = [
        "SELECT kind, name, device_id, stream, pid, thread, rank, 0 AS depth, start_ns, end_ns "
        f"FROM {usable_events(opened)} WHERE kind <> 'sample'"
    ]
    if ranges := ranges_of(opened):
        parts.append(
            "SELECT 'range', name, NULL, NULL, NULL, thread, NULL, "
            f"least(coalesce(depth, 0), {_DEEPEST}), start_ns, end_ns FROM {ranges}"
        )
    return f"({' UNION ALL '.join(parts)})"


def _lane(event: _PictureEvent, *, apart: bool) -> _PictureLane:
    """Where an event is drawn: on its stream, on the thread that called, or among the ranges of that thread.

    Threads are called by their process too where that is to be told ``apart`` from others.
    """
    thread = event.thread
    if event.kind in _ON_DEVICE:
        stream = "" if event.stream is None else f" · {event.stream}"
        on = (0, event.rank or 0, event.device or 0, event.stream or 0)
        return _PictureLane("device", f"{lane_name(event.rank, event.device)}{stream}", on)
    if event.kind == "range":
        called = f"ranges{'' if thread is None else f' {thread}'}·{event.depth + 1}"
        return _PictureLane("ranges", called, (2, thread or 0, event.depth))
    on_host = (1, event.pid or 0, thread or 0)
    if event.rank is not None:  # ids of processes repeat on other hosts
        return _PictureLane("host", f"rank {event.rank}{'' if thread is None else f', thread {thread}'}", on_host)
    whose = f"{event.pid}/" if apart and thread is not None else ""
    return _PictureLane("host", f"thread {whose}{event.pid if thread is None else thread}", on_host)


def _columns(
    drawn_lanes: list[_PictureLane], lanes: dict[_PictureLane, list[_PictureEvent]], origin: int
) -> dict[str, list[Any]]:
    """The lanes, the names and kinds that occur, and of each event its lane, name, start and duration."""
    names: dict[tuple[str, str], int] = {}
    lane_of, name_of, starts, durations = [], [], [], []
    for number, lane in enumerate(drawn_lanes):
        before = origin
        for event in sorted(lanes[lane], key=lambda event: (event.start, -event.duration)):
            lane_of.append(number)
            name_of.append(names.setdefault((event.name, event.kind), len(names)))
            starts.append(event.start - before)
            durations.append(event.duration)
            before = event.start
    return {
        "lanes": [{"name": lane.name, "kind": lane.kind} for lane in drawn_lanes],
        "names": [name for name, _ in names],
        "kinds": [kind for _, kind in names],
        "lane": lane_of,
        "name": name_of,
        "start": starts,
        "duration": durations,
    }
