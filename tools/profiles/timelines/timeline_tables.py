"""The tables of a timeline: what host and devices did when, on one clock, and the enclosing ranges of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import progress
from ...base.profile_files import WORK, rows_in_order
from ...base.untrusted_text import bounded_name, visible_name
from ..merging.contract import (
    Connection,
    PassTable,
    all_rows,
    count_rows,
    launch_pass,
    one_row,
    parquet,
    write_relation,
)
from ..merging.demangled_names import kernel_names
from ..merging.ranks import plain_pid
from ..merging.wording import note
from ..parsing.module_data import module_data
from .call_kinds import HOST, category_of, kind_of
from .nesting import NestedRanges, nest

_STATED: dict[str, dict[str, str]] = module_data(__file__)
EVENT, RANGE, _FAULTS, _WORDS = (_STATED[part] for part in ("event", "range", "faults", "words"))
"""Columns of events and ranges -> SQL types; what is wrong with them -> SQL; and kinds of events in words."""
_NAME = 1000
_GROUP = 6144
"""Rows of the table ranges that are in memory at a time."""
_LATEST = 1 << 62
_DEVICE = "('kernel', 'copy', 'fill')"
_HOST = f"({', '.join(map(sql_literal, HOST))})"
_FAULTY = " OR ".join(f"({condition})" for condition in _FAULTS.values())


def kernel_launches(con: Connection, source: Path, path: Path, decided: str, *columns: str) -> PassTable:
    """Return the kernels of a trace as launches, in the order of their start, and write them to ``path``.

    ``decided`` is a FROM item with role, text, times, process, device and ``columns`` of everything in the trace.
    """
    order = "ORDER BY start_ns, end_ns, device_id, stream, text"
    kernels = f"SELECT row_number() OVER ({order}) - 1 AS row, * FROM {decided} WHERE role = 'kernel'"
    count = write_table(con, kernels, path)
    if not count:
        return PassTable("main", source)
    own = {
        "row": "row", "dispatch_id": "row", "kernel": bounded_name("text"), "queue_id": "stream",
        "duration_ns": "CASE WHEN end_ns > start_ns THEN end_ns - start_ns END",
        **{c: c for c in ("device_id", "pid", "start_ns", "end_ns", *columns)},
    }  # fmt: skip
    return launch_pass(source, parquet([path]), count, own)


@dataclass(frozen=True)
class TimelineQueries:
    """The timeline of a profile, as SELECTs with the columns EVENT and RANGE.

    Processes on different hosts may have the same id; readers that know the hosts pass ``ranks.distinct_pid``.
    """

    events: str
    ranges: str = ""
    ranges_of_events: Callable[[str], str] | None = None
    """Returns SQL for the columns id and range_id of the given FROM item, which has id and the columns EVENT, if the
    reader itself writes the table ranges."""
    refusal: Callable[[Sequence[Note]], BadInput] | None = None
    """Returns the error for a timeline without usable events and ranges, from the warnings about skipped ones."""
    unassigned: str = ""
    """What to tell the user if the program has ranges but no device work belongs to any."""
    notes: Sequence[Note] = ()


def write_timeline(con: Connection, out: Path, timeline: TimelineQueries) -> tuple[int, list[Note], list[Note]]:
    """Write the tables events and ranges below ``out``, and add the range of each launch to its table dispatches.

    Return the number of events that were written, warnings, and notes about the tables.

    The table dispatches, if the profile has launches, must already exist; kernels get the same names as there. Events
    without usable times are skipped, with a warning. Raises what ``timeline.refusal`` returns if nothing is left.
    """
    work = out / WORK
    staged = parquet([work / "timeline_events.parquet"], numbered=True)
    events = f"SELECT *, coalesce(kind IN {_DEVICE}, false) AS device FROM ({timeline.events})"
    warnings = _faults(con, events, "events")
    _name_events(con, out, timeline.events)
    alone = "SELECT CASE WHEN count(DISTINCT pid) = 1 THEN any_value(pid) END"
    (pid,) = one_row(con, f"{alone} FROM ({timeline.events})")
    pid_of = "pid" if pid is None else f"coalesce(pid, {pid})"
    if pid is None:
        events = _with_callers(events)
    picks = {
        "kind": "n.kind", "name": "n.shown", "device_id": "TRY_CAST(device_id AS INTEGER)", "pid": pid_of,
        "rank": "TRY_CAST(rank AS INTEGER)", "category": f"CASE WHEN n.kind IN {_HOST} THEN coalesce(e.category, "
        "n.category) WHEN n.kind IN ('sample', 'barrier', 'driver') THEN e.category END",
        "bytes": "CASE WHEN bytes >= 0 THEN bytes END",
    }  # fmt: skip
    columns = ", ".join(f"{picks.get(c, c)} AS {c}" for c in EVENT)
    count = write_table(
        con,
        f"SELECT {columns} FROM ({events}) e JOIN event_names n "
        "ON n.name = coalesce(e.name, '') AND n.given IS NOT DISTINCT FROM e.kind "
        f"WHERE NOT ({_FAULTY}) ORDER BY start_ns, end_ns DESC, kind, e.name, row, thread, correlation",
        work / "timeline_events.parquet",
    )
    progress.report(f"sorted {count_text(count, 'event')}")
    ranges, steps, range_warnings = _ranges(con, out, timeline.ranges)
    warnings += range_warnings
    if timeline.refusal and not (count or ranges):
        raise timeline.refusal(warnings)
    own = timeline.ranges_of_events or (partial(_ranges_of_events, con, work, ranges, steps) if ranges else None)
    within = _in_order_of_events(con, work, staged, own)
    last = ("rank", "host", "value", "category", "arguments", "graph", "graph_node", "stack")
    columns = ", ".join(f"{plain_pid()} AS pid" if c == "pid" else c for c in EVENT if c not in ("row", *last))
    write_table(
        con,
        f"SELECT e.file_row_number + 1 AS event_id, {columns}, w.range_id, {', '.join(last)} "
        f"FROM {staged} e POSITIONAL JOIN {within} w",
        out / "events.parquet",
    )
    if ranges:
        _add_range_ids(
            con, out, f"SELECT row, w.range_id FROM {staged} e POSITIONAL JOIN {within} w WHERE row IS NOT NULL"
        )
    counts = dict(all_rows(con, f"SELECT kind, count(*) FROM {parquet([out / 'events.parquet'])} GROUP BY kind"))
    contents = [f"{counts[kind]} {word}" for kind, word in _WORDS.items() if kind in counts]
    notes = [note("timeline", contents=contents or ["no events"])]
    if ranges:
        in_ranges = f"{parquet([out / 'events.parquet'])} WHERE kind IN {_DEVICE} AND range_id IS NOT NULL"
        inside = count_rows(con, in_ranges)
        by_source = f"SELECT count(*) || ' ' || source FROM {parquet([out / 'ranges.parquet'])} GROUP BY source"
        sources = [text for (text,) in all_rows(con, f"{by_source} ORDER BY count(*) DESC, source")]
        notes.append(note("ranges.sources", sources=sources, inside=inside))
        if timeline.unassigned and not inside:
            notes.append(Note("ranges", timeline.unassigned))
    notes += timeline.notes
    con.execute("DROP TABLE event_names")
    for file in work.glob("timeline_*.parquet"):
        file.unlink()
    return count, warnings, notes


def _with_callers(events: str) -> str:
    """Return SQL for events, in which device work without a pid gets that of the only process that made its call."""
    callers = (
        f"SELECT correlation, rank, host, any_value(pid) AS caller FROM ({events}) WHERE NOT device AND "
        "correlation IS NOT NULL GROUP BY ALL HAVING count(DISTINCT pid) = 1"
    )
    return (
        f"SELECT e.* REPLACE (coalesce(e.pid, CASE WHEN e.device THEN c.caller END) AS pid) FROM ({events}) e "
        f"LEFT JOIN ({callers}) c ON c.correlation = e.correlation AND c.rank IS NOT DISTINCT FROM e.rank "
        "AND c.host IS NOT DISTINCT FROM e.host"
    )


def _faults(con: Connection, rows: str, what: str) -> list[Note]:
    """Return warnings about rows that are skipped."""
    cases = " ".join(f"WHEN {condition} THEN {i}" for i, condition in enumerate(_FAULTS.values()))
    counts = all_rows(con, f"SELECT CASE {cases} END AS fault, count(*) FROM ({rows}) GROUP BY ALL ORDER BY 1")
    words = list(_FAULTS)
    return [
        note("events_left_out.faulty", count=count, what=what, fault=words[fault])
        for fault, count in counts
        if fault is not None
    ]


def _name_events(con: Connection, out: Path, events: str) -> None:
    """Create the table event_names: every name once, with its display name and the kind and category of a call."""
    distinct = f"SELECT DISTINCT coalesce(name, '') AS name, kind AS given FROM ({events})"
    kernels = kernel_names(con, out, f"SELECT name FROM ({distinct}) WHERE given = 'kernel'")
    con.execute(
        "CREATE OR REPLACE TABLE event_names AS "
        f"SELECT name, 'kernel' AS given, 'kernel' AS kind, shown, NULL AS category FROM ({kernels}) UNION ALL "
        f"SELECT name, given, coalesce(given, {kind_of('name')}), left({visible_name('name')}, {_NAME}), "
        f"{category_of('name')} FROM ({distinct}) WHERE given IS DISTINCT FROM 'kernel'"
    )


def _ranges(con: Connection, out: Path, ranges: str) -> tuple[str, str, list[Note]]:
    """Write the table ranges; return FROM items of the ranges and their steps, empty if there are none."""
    if not ranges:
        return "", "", []
    work = out / WORK
    warnings = _faults(con, f"SELECT *, false AS device FROM ({ranges})", "ranges")
    staged = work / "timeline_ranges.parquet"
    count = write_table(
        con,
        f"SELECT * REPLACE (left({visible_name('name')}, {_NAME}) AS name) FROM (SELECT *, false AS device "
        f"FROM ({ranges})) WHERE NOT ({_FAULTY}) "
        "ORDER BY pid, thread, start_ns, end_ns DESC, source, correlation, name",
        staged,
    )
    if not count:
        return "", "", warnings
    staged_rows = parquet([staged], numbered=True)
    nested = nest(
        con,
        work,
        "SELECT file_row_number + 1, coalesce(pid, -1), coalesce(thread, -1), start_ns, end_ns, name "
        f"FROM {staged_rows} ORDER BY file_row_number",
    )
    _write_ranges(con, work, parquet([staged]), nested).replace(out / "ranges.parquet")
    numbered = f"(SELECT *, file_row_number + 1 AS range_id FROM {staged_rows})"
    return numbered, nested.steps, warnings


def _write_ranges(con: Connection, work: Path, staged: str, nested: NestedRanges) -> Path:
    """Write the table ranges in the order of its rows and return the file.

    Paths are often some kB long. They are added part by part and without sorting, which would keep those of all ranges
    in memory.
    """
    columns = (
        "range_id, name, path, call_site, thread, start_ns, end_ns, CAST(depth AS INT) AS depth, source, "
        f"{plain_pid()} AS pid, TRY_CAST(rank AS INTEGER) AS rank, host, arguments, "
        "forward_thread, forward_ns"
    )
    files = []
    with rows_in_order(con):
        for number, (first_range, first_path) in enumerate(nested.parts, 1):
            last_range, last_path = nested.parts[number] if number < len(nested.parts) else (_LATEST, _LATEST)
            rows = f"(FROM (FROM {staged} POSITIONAL JOIN {nested.placed}) "
            rows += f"WHERE range_id >= {first_range} AND range_id < {last_range})"
            paths = f"(FROM {nested.paths} WHERE path_id >= {first_path} AND path_id < {last_path})"
            files.append(work / f"timeline_ranges_{number}.parquet")
            write_table(con, f"SELECT {columns} FROM {rows} LEFT JOIN {paths} USING (path_id)", files[-1], _GROUP)
        if len(files) > 1:
            files.append(work / "timeline_ranges_all.parquet")
            write_table(con, f"FROM {parquet(files[:-1])}", files[-1], _GROUP)
    return files[-1]


def _in_order_of_events(con: Connection, work: Path, events: str, ranges_of: Callable[[str], str] | None) -> str:
    """Return a FROM item with the range_id of every event, in their order; ``ranges_of`` is SQL for id and range_id."""
    if ranges_of is None:
        return f"(SELECT NULL::BIGINT AS range_id FROM {events})"
    numbered = f"(SELECT *, file_row_number AS id FROM {events})"
    within = f"SELECT * FROM ({ranges_of(numbered)}) WHERE range_id IS NOT NULL"
    ordered = f"SELECT range_id FROM (SELECT id FROM {numbered}) LEFT JOIN ({within}) USING (id) ORDER BY id"
    return write_relation(con, ordered, work / "timeline_within.parquet")


def _ranges_of_events(con: Connection, work: Path, ranges: str, steps: str, events: str) -> str:
    """Return SQL for id and range_id of ``events``.

    A host call belongs to the innermost open range of its thread. Device work belongs to the range of the call that
    started it, else to the range that it refers to itself.
    """
    calls = f"SELECT id, pid, correlation, coalesce(pid, -1) AS p, coalesce(thread, -1) AS t, start_ns FROM {events} "
    calls += f"WHERE kind IN {_HOST}"
    ranges_of_calls = write_relation(
        con,
        f"SELECT id, c.pid, c.correlation, nullif(s.range_id, 0) AS range_id FROM ({calls}) c ASOF LEFT JOIN {steps} s "
        "ON c.p = s.pid AND c.t = s.thread AND c.start_ns >= s.time_ns",
        work / "timeline_calls.parquet",
    )
    # The range of the call that started it; of nested calls with one correlation, that of the outermost.
    started = "SELECT pid, correlation, min(range_id) AS started FROM {} WHERE correlation IS NOT NULL "
    started += "AND range_id IS NOT NULL GROUP BY ALL"
    work_items = f"SELECT id, pid, correlation FROM {events} WHERE kind IN {_DEVICE} AND correlation IS NOT NULL"
    device = (
        f"SELECT id, coalesce(r.started, c.started) AS range_id FROM ({work_items}) d "
        f"LEFT JOIN ({started.format(ranges_of_calls)}) c ON c.correlation = d.correlation "
        f"AND c.pid IS NOT DISTINCT FROM d.pid "
        f"LEFT JOIN ({started.format(ranges)}) r ON r.correlation = d.correlation AND r.pid IS NOT DISTINCT FROM d.pid"
    )
    return f"SELECT id, range_id FROM {ranges_of_calls} UNION ALL FROM ({device})"


def _add_range_ids(con: Connection, out: Path, launches: str) -> None:
    """Add range_id to the dispatches; ``launches`` is SQL for the row and range_id of launches with a known range."""
    dispatches, joined = out / "dispatches.parquet", out / WORK / "timeline_dispatches.parquet"
    if not dispatches.exists():
        return
    numbered = parquet([dispatches], numbered=True)
    write_table(
        con,
        f"SELECT d.* EXCLUDE (file_row_number), range_id FROM {numbered} d "
        f"LEFT JOIN ({launches}) l ON l.row = d.file_row_number ORDER BY d.file_row_number",
        joined,
    )
    joined.replace(dispatches)
