"""The events of a timeline for a picture that can be zoomed: lanes, names, and one column per quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...analysis.database import speed_up
from ...analysis.store import Store
from ...analysis.timeline.timeline import lane_name
from ...analysis.timeline.trace import ranges_of, usable_events
from ...analysis.workload import Workload

_ON_DEVICE = ("kernel", "copy", "fill")
_MOST_LANES = 60
"""Lanes that are drawn: those in which most of the time passes."""
_DEEPEST = 12


@dataclass(frozen=True)
class _Lane:
    """One row of the picture: what it is called, and where it stands."""

    kind: str
    name: str
    place: tuple[int, ...]


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
        sql = _everything(opened)
        total, origin, end = opened.rows(f"SELECT count(*), min(start_ns), max(end_ns) FROM {sql}")[0]
        rows = opened.rows(
            "SELECT kind, name, device_id, stream, pid, thread, rank, depth, start_ns, end_ns - start_ns "
            f"FROM {sql} ORDER BY end_ns - start_ns DESC, start_ns LIMIT {most}"
        )
    lanes: dict[_Lane, list[tuple[int, int, str, str]]] = {}
    for row in rows:
        lanes.setdefault(_lane(*row[:8]), []).append((row[8], row[9], row[1] or row[0], row[0]))
    busiest = sorted(lanes, key=lambda lane: -sum(event[1] for event in lanes[lane]))[:_MOST_LANES]
    drawn = sorted(busiest, key=lambda lane: lane.place)
    return {
        "origin_ns": origin,
        "span_ns": 0 if origin is None else end - origin,
        "total": total,
        "lanes_left_out": len(lanes) - len(drawn),
        **_columns(drawn, lanes, origin or 0),
    }


def _everything(opened: Workload) -> str:
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


def _lane(
    kind: str, name: str, device: int | None, stream: int | None, pid: int | None, thread: int | None, rank: int | None,
    depth: int,
) -> _Lane:  # fmt: skip
    """Where an event is drawn: on its stream, on the thread that called, or among the ranges of that thread."""
    if kind in _ON_DEVICE:
        called = f"{lane_name(rank, device)}{'' if stream is None else f' · {stream}'}"
        return _Lane("device", called, (0, rank or 0, device or 0, stream or 0))
    if kind == "range":
        return _Lane("ranges", f"ranges{'' if thread is None else f' {thread}'}·{depth + 1}", (2, thread or 0, depth))
    return _Lane("host", f"thread {thread if thread is not None else pid}", (1, pid or 0, thread or 0))


def _columns(
    drawn: list[_Lane], lanes: dict[_Lane, list[tuple[int, int, str, str]]], origin: int
) -> dict[str, list[Any]]:
    """The lanes, the names and kinds that occur, and of each event its lane, name, start and duration."""
    names: dict[tuple[str, str], int] = {}
    lane_of, name_of, starts, durations = [], [], [], []
    for number, lane in enumerate(drawn):
        before = origin
        for start, duration, name, kind in sorted(lanes[lane]):
            lane_of.append(number)
            name_of.append(names.setdefault((name, kind), len(names)))
            starts.append(start - before)
            durations.append(duration)
            before = start
    return {
        "lanes": [{"name": lane.name, "kind": lane.kind} for lane in drawn],
        "names": [name for name, _ in names],
        "kinds": [kind for _, kind in names],
        "lane": lane_of,
        "name": name_of,
        "start": starts,
        "duration": durations,
    }
