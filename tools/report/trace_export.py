"""The command export-trace: write a timeline as Chrome trace (JSON) for Perfetto, with steps, idleness and findings."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from ...analysis.base.database import speed_up
from ...analysis.base.problems import BadArgument, BadInput, StoreProblem
from ...analysis.base.temporary_files import draft_of
from ...analysis.base.text import count_text, visible
from ...analysis.store.store import Store
from ...analysis.timeline.rules import rules
from ...analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from ...analysis.timeline.trace import Trace, lane_name, ranges_of, usable_events
from ...analysis.workload import Workload
from ..base.progress import report

_AT_ONCE = 10_000
_MOST_GAPS = 200_000
"""Maximum number of idle stretches to draw, longest first."""
_DEVICES, _FOUND = 2_000_000_000, 2_100_000_000
"""Process numbers for devices and findings, larger than any pid on Linux."""
_Event = dict[str, Any]


def export_trace(store: Store, workload: str, target: Path) -> int:
    """Write ``target``, which must not exist, and return its number of events; it appears only when complete.

    Raises BadArgument if it exists, BadInput if the workload has no timeline, and StoreProblem if the file cannot be
    written.
    """
    if target.exists():
        raise BadArgument(f"{target} exists already", fix="Name a new file or delete it first")
    with Workload.open(store, workload) as opened:
        analysed = timeline(opened, TimelineRequest(top_n=1))
        try:
            open_output = gzip.open if target.suffix == ".gz" else Path.open
            with draft_of(target) as draft, closing(open_output(draft, "wt", encoding="utf-8")) as out:
                count = _write(out, analysed)
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreProblem(f"{target} cannot be written", why, "Name a file in a writable folder") from error
    return count


def _write(out: IO[str], analysed: Timeline) -> int:
    base = analysed.trace.whole.start
    out.write(f'{{"displayTimeUnit": "ms", "baseTimeNanoseconds": {base}, "traceEvents": [\n')
    count = 0
    for event in _events(analysed):
        if "ts" in event:
            event["ts"] = (event["ts"] - base) / 1000
        if "dur" in event:
            event["dur"] = event["dur"] / 1000
        out.write(f"{',' if count else ''}{json.dumps(event)}\n")
        count += 1
        if count % _AT_ONCE == 0:
            report(f"export: {count_text(count, 'event')}")
    out.write("]}\n")
    return count


def _events(analysed: Timeline) -> Iterator[_Event]:
    trace = analysed.trace
    yield from _analysis_events(analysed)
    for number, lane in enumerate(trace.lanes):
        yield _process(_DEVICES + number, lane_name(lane.rank, lane.device))
    yield from _recorded_events(trace)


def _process(pid: int, name: str) -> _Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _thread(tid: int, name: str) -> _Event:
    return {"ph": "M", "name": "thread_name", "pid": _FOUND, "tid": tid, "args": {"name": name}}


def _slice(name: str, span: tuple[int, int], place: tuple[int, int], category: str, **args: Any) -> _Event:
    start, end = span
    known = {k: v for k, v in args.items() if v is not None}
    return {"ph": "X", "name": visible(name), "cat": category, "pid": place[0], "tid": place[1], "ts": start,
            "dur": end - start, "args": known}  # fmt: skip


def _analysis_events(analysed: Timeline) -> Iterator[_Event]:
    """Yield what rooflens found: the verdict over the whole window, findings, steps, and idle stretches by cause."""
    yield _process(_FOUND, "rooflens")
    yield _thread(0, "verdict and findings")
    window = (analysed.windows[0].start, analysed.windows[-1].end)
    verdict = analysed.verdict
    yield _slice(f"verdict: {verdict.height}", window, (_FOUND, 0), "verdict", share_pct=verdict.share_pct,
                 confidence=verdict.confidence, speedup_bound=verdict.speedup_bound)  # fmt: skip
    for number, finding in enumerate(analysed.findings, 1):
        yield _thread(number, f"finding {number}: {finding.height}")
        yield _slice(finding.claim, window, (_FOUND, number), "finding", share_pct=finding.share_pct,
                     evidence=list(finding.evidence), advice=list(finding.advice), falsify=finding.falsify)  # fmt: skip
    if analysed.steps:
        own = len(analysed.findings) + 1
        yield _thread(own, "steps")
        starts = analysed.steps.starts
        for number, span in enumerate(pairwise(starts)):
            kind = "warm-up" if number < analysed.steps.warm_up else "step"
            yield _slice(f"{kind} {number + 1}", (int(span[0]), int(span[1])), (_FOUND, own), "step")
    places = {lane.number: 1000 + n for n, lane in enumerate(analysed.trace.lanes)}
    for lane in analysed.trace.lanes:
        yield _thread(places[lane.number], f"idle: {lane_name(lane.rank, lane.device)}")
    for gap in analysed.all_gaps.longest(_MOST_GAPS):
        meaning = rules().causes[gap.cause].title
        yield _slice(gap.cause, (gap.start, gap.end), (_FOUND, places[gap.lane]), "idle", meaning=meaning)


_RECORDED = """
SELECT kind, coalesce(name, kind), device_id, rank, stream, coalesce(pid, 0), coalesce(thread, 0), start_ns, end_ns,
    value, {'bytes': bytes, 'direction': direction, 'pinned': pinned, 'correlation': correlation} FROM """
_RANGES = """
SELECT coalesce(source, 'range'), name, NULL, NULL, NULL, coalesce(pid, 0), coalesce(thread, 0), start_ns, end_ns, NULL,
    {'path': path, 'call_site': call_site} FROM """


def _recorded_events(trace: Trace) -> Iterator[_Event]:
    """Yield the events as recorded: devices by stream, host calls and ranges by thread, samples as counters."""
    lanes = {(lane.rank, lane.device): _DEVICES + n for n, lane in enumerate(trace.lanes)}
    first = min(lanes.values())
    for sql in (_RECORDED + trace.events, _RANGES + trace.ranges if trace.ranges else ""):
        for kind, name, device, rank, stream, pid, thread, start, end, value, args in _rows(trace, sql) if sql else ():
            if kind != "sample":
                place = (lanes.get((rank, device), first), stream or 0) if kind in _ON_DEVICE else (pid, thread)
                yield _slice(name, (start, end), place, kind, **args)
            elif value is not None and math.isfinite(value):
                yield {"ph": "C", "name": visible(name), "pid": pid, "ts": start, "args": {"value": value}}


def _rows(trace: Trace, sql: str) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query in batches."""
    with closing(trace.workload.cursor.cursor()) as cursor:
        cursor.execute(sql)
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows


_ON_DEVICE = ("kernel", "copy", "fill")
_PICTURE = """
WITH longest AS (
    SELECT kind, left(coalesce(name, kind), 1000) AS name, device_id, stream, pid, thread, rank, depth, correlation,
        start_ns, end_ns - start_ns AS duration, kind IN {on_device} AS works
    FROM {events} ORDER BY duration DESC, start_ns LIMIT {most}
), placed AS (
    SELECT *, CASE WHEN works THEN 'device' WHEN kind = 'range' THEN 'ranges' ELSE 'host' END AS lane_kind,
        CASE WHEN works THEN concat('rank ' || rank || ', ', 'GPU ', coalesce(device_id, 0), ', stream ' || stream)
            WHEN kind = 'range' THEN concat('thread ' || thread || ', ', 'ranges ', depth + 1)
            WHEN rank IS NOT NULL THEN concat('rank ', rank, ', thread ' || thread)
            WHEN thread IS NULL THEN concat('thread ', pid)
            WHEN (SELECT count(DISTINCT pid) > 1 FROM longest WHERE NOT works) THEN concat('thread ', pid, '/', thread)
            ELSE concat('thread ', thread) END AS lane_name,
        CASE WHEN works THEN [0, coalesce(rank, 0), coalesce(device_id, 0), coalesce(stream, 0)]
            WHEN kind = 'range' THEN [2, coalesce(thread, 0), depth]
            ELSE [1, coalesce(pid, 0), coalesce(thread, 0)] END AS place
    FROM longest
), busiest AS (
    SELECT lane_kind, lane_name, place, sum(duration) AS busy, count(*) OVER () AS lanes
    FROM placed GROUP BY lane_kind, lane_name, place ORDER BY busy DESC LIMIT 60
), numbered AS (
    SELECT *, row_number() OVER (ORDER BY place, busy DESC) - 1 AS lane FROM busiest
), drawn AS (
    SELECT *, row_number() OVER (ORDER BY lane, start_ns, duration DESC) - 1 AS number
    FROM placed JOIN numbered USING (lane_kind, lane_name, place)
)
SELECT lane, lane_name, lane_kind, lanes, name, kind,
    start_ns - lag(start_ns, 1, {origin}) OVER (PARTITION BY lane ORDER BY number), duration,
    CASE WHEN works AND correlation IS NOT NULL
        THEN min(number) FILTER (NOT works) OVER (PARTITION BY rank, pid, correlation) END
FROM drawn ORDER BY number
"""
"""The longest events by the lanes with the most time: a stream, the thread that called (process ids repeat on other
hosts, so with its rank), or the ranges of a thread. The last column is the first event that started the same work, by
its rank, process and correlation. Names are cut, because there may be as many as events."""


def events(store: Store, workload: str, most: int) -> dict[str, Any] | None:
    """Return the ``most`` longest events and ranges of a workload; None if it has no timeline.

    ``start`` is in ns from the previous event in the same lane, or from ``origin`` for its first event; ``duration`` is
    in ns. ``window`` is the analysed part, in ns from the first event. ``calls`` and ``called`` are pairs of events:
    a call and the work on a device that it started. Raises NotFound for an unknown workload.
    """
    with Workload.open(store, workload) as opened:
        if not opened.has("events"):
            return None
        if opened.manifest.events > most:
            speed_up(opened.cursor)
        sql = _events_and_ranges(opened)
        total, origin, end = opened.rows(f"SELECT count(*), min(start_ns), max(end_ns) FROM {sql}")[0]
        origin = origin or 0
        rows = opened.rows(_PICTURE.format(events=sql, on_device=_ON_DEVICE, most=most, origin=origin))
        window: list[int] | None = None
        with suppress(BadInput):  # the timeline cannot be analysed
            windows = timeline(opened, TimelineRequest(top_n=1)).windows
            window = [windows[0].start - origin, windows[-1].end - origin]
    lanes = dict.fromkeys(row[:3] for row in rows)
    names = {name: number for number, name in enumerate(dict.fromkeys(row[4:6] for row in rows))}
    return {
        "origin_ns": origin if total else None,
        "span_ns": end - origin if total else 0,
        "window": window,
        "total": total,
        "lanes_left_out": rows[0][3] - len(lanes) if rows else 0,
        "calls": [row[8] for row in rows if row[8] is not None],
        "called": [at for at, row in enumerate(rows) if row[8] is not None],
        "lanes": [{"name": name, "kind": kind} for _, name, kind in lanes],
        "names": [name for name, _ in names],
        "kinds": [kind for _, kind in names],
        "lane": [row[0] for row in rows],
        "name": [names[row[4:6]] for row in rows],
        "start": [row[6] for row in rows],
        "duration": [row[7] for row in rows],
    }


def _events_and_ranges(opened: Workload) -> str:
    """Return SQL for all events and ranges with the same columns, except values that a profiler sampled."""
    parts = [
        "SELECT kind, name, device_id, stream, pid, thread, rank, 0 AS depth, correlation, start_ns, end_ns "
        f"FROM {usable_events(opened)} WHERE kind <> 'sample'"
    ]
    if ranges := ranges_of(opened):
        parts.append(
            "SELECT 'range', name, NULL, NULL, NULL, thread, NULL, least(coalesce(depth, 0), 12), NULL, start_ns, "
            f"end_ns FROM {ranges}"
        )
    return f"({' UNION ALL '.join(parts)})"
