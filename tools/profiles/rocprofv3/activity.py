"""The timeline of a run: what its processes did in addition to kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ....analysis.base.database import sql_literal, sql_path
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import progress
from ..merging.contract import Connection, count_rows, parquet, row_of, write_relation
from ..merging.ranks import PID_DISTANCE, distinct_pid, places_of_pids, sql_value
from ..timelines.call_kinds import direction_of
from ..timelines.timeline_tables import EVENT, RANGE, TimelineQueries
from .layouts import EVENTS, STAGED, layout_sql
from .recording import ProcessRecording


def more_columns(con: Connection, work: Path, main: Sequence[ProcessRecording]) -> str:
    """Return SQL for row and further columns of dispatches; empty if the profile states none of them.

    ``iteration`` is the number by which rocprofv3 counts the launches of a kernel, known if the profile states the
    kernel symbol of every launch; ``graph`` and ``graph_node`` name the node of a HIP graph.
    """
    picks = ["row"]
    without_symbol = (count_rows(con, f"({r.select()}) WHERE symbol IS NULL") for r in main)
    if not any(r.counters for r in main) and not any(without_symbol):
        # rocprofv3 counts by symbol, the kernel of one device, not by name. Launches are in the order of their ids.
        picks.append(
            "CAST(row_number() OVER (PARTITION BY process, device, kernel, symbol ORDER BY row) AS INT) AS iteration"
        )
    if any(con.execute(f"SELECT 1 FROM ({r.select()}) WHERE graph IS NOT NULL LIMIT 1").fetchone() for r in main):
        picks += ["graph", "graph_node"]
    if len(picks) == 1:
        return ""
    staged = write_relation(con, f"SELECT {', '.join(picks)} FROM ({launches(main)})", work / "more_columns.parquet")
    return f"SELECT * FROM {staged}"


def counter_samples(main: Sequence[ProcessRecording]) -> Callable[[str], str] | None:
    """Return what makes the table counter_samples from the stored launches; None if no counter was sampled over time.

    Samples of a whole device have no launch.
    """
    parts, rows = [], 0
    for recording in main:
        low, high = recording.keys
        if recording.over_time:
            own = f"key BETWEEN {low} AND {high}" + (" OR key IS NULL" if low == 0 else "")
            parts.append(f"SELECT *, key - {low - rows} AS row FROM {parquet([recording.over_time])} WHERE {own}")
        rows += recording.rows
    if not parts:
        return None
    return lambda stored: layout_sql("counter_samples", parts=" UNION ALL ".join(parts), stored=stored)


def launches(main: Sequence[ProcessRecording], processes: Sequence[int] = ()) -> str:
    """Return SQL for every launch of a pass: row, process, rank, host, and what its recording states.

    ``processes`` are the numbers of the recordings, by default those of the main pass.
    """
    places, rows = [], 0
    for process, recording in zip(processes or range(len(main)), main, strict=True):
        low, high = recording.keys
        place = f"{low}, {high}, {low - rows}, {process}, {sql_value(recording.rank)}::INT, "
        place += f"{sql_value(recording.host)}::VARCHAR"
        places.append(f"({sql_literal(recording.launches.name)}, {place})")
        rows += recording.rows
    files = ", ".join(sql_path(f) for f in dict.fromkeys(r.launches for r in main))
    return (
        "SELECT key - shift AS row, p.process, p.rank, p.host, l.* EXCLUDE (key, filename) "
        f"FROM read_parquet([{files}], hive_partitioning = false, filename = true) l "
        f"JOIN (VALUES {', '.join(places)}) p(file, low, high, shift, process, rank, host) "
        "ON parse_filename(filename) = file AND key BETWEEN low AND high"
    )


_RANGE = "roctx"
_ADVICE = (
    "No launch could be assigned to a range. With ROCm older than 7.0, or if calls are traced too, "
    "--hip-runtime-trace records which range launched what."
)


def timeline_of(
    con: Connection, work: Path, main: Sequence[ProcessRecording], idle: Sequence[ProcessRecording]
) -> TimelineQueries | None:
    """Return events and ranges: kernels of the main pass, and what the processes did.

    ``idle`` are processes without launches. None if nothing but kernels was traced.
    """
    recordings = [*main, *idle]
    if not any(r.activity or r.ranges for r in recordings):
        return None
    pid_numbers = places_of_pids([r.place for r in recordings])
    staged, ranges = _stage_events_and_ranges(con, work, main, list(zip(recordings, pid_numbers, strict=True)))
    events = _attribute_to_runtime_calls(con, layout_sql("with_sizes", events=f"FROM {parquet(staged)}"))
    return TimelineQueries(events, f"FROM {parquet(ranges)}" if ranges else "", unassigned=_ADVICE)


def _stage_events_and_ranges(
    con: Connection,
    work: Path,
    main: Sequence[ProcessRecording],
    placed: Sequence[tuple[ProcessRecording, int]],
) -> tuple[list[Path], list[Path]]:
    """Write the events and the ranges of all processes to files and return these, for some processes at a time.

    One query over the files of a thousand ranks would open all of them at once.
    """
    events, ranges = [work / "activity_kernels.parquet"], list[Path]()
    pid_numbers = [number for _, number in placed[: len(main)]]
    write_table(con, _kernels(main, pid_numbers) if main else f"SELECT {row_of(EVENT, {})} WHERE false", events[0])
    for first in range(0, len(placed), _AT_ONCE):
        parts, spans = [], []
        for recording, number in placed[first : first + _AT_ONCE]:
            own = {
                "rank": sql_value(recording.rank),
                "host": sql_value(recording.host),
                "pid": distinct_pid("pid", number),
            }
            parts += [_event(kind, sql, own) for kind, sql in recording.activity.items() if kind in EVENTS]
            regions = recording.activity.get("regions", "")
            for sql, source in ((recording.ranges, sql_literal(_RANGE)), (regions, "source")):
                if sql:
                    spans.append(f"SELECT {row_of(RANGE, _TIMED | own | {'source': source})} FROM ({sql})")
        for files, selects, name in ((events, parts, "events"), (ranges, spans, "ranges")):
            if selects:
                files.append(work / f"activity_{name}_{first}.parquet")
                write_table(con, " UNION ALL ".join(selects), files[-1])
        progress.report(f"read what {min(first + _AT_ONCE, len(placed))} of {count_text(len(placed), 'process')} did")
    return events, ranges


_AT_ONCE = 32
"""Number of processes whose files are open at once."""
_TIMED = {c: c for c in STAGED["timed"]}


def _kernels(main: Sequence[ProcessRecording], pid_numbers: Sequence[int]) -> str:
    known = _TIMED | {"rank": "rank", "host": "host"} | EVENTS["kernels"]
    moved = ", ".join(f"({process}, {number})" for process, number in enumerate(pid_numbers) if number)
    if not moved:
        return f"SELECT {row_of(EVENT, known)} FROM ({launches(main)})"
    known["pid"] = f"pid + coalesce(number, 0) * {PID_DISTANCE}"
    places = f"(VALUES {moved}) n(process, number)"
    return f"SELECT {row_of(EVENT, known)} FROM ({launches(main)}) LEFT JOIN {places} USING (process)"


def _event(kind: str, sql: str, place: dict[str, str]) -> str:
    """Return SQL for activity of a kind as events; a copy between two GPUs has its own direction."""
    way = direction_of("name")
    way = f"CASE WHEN {way} = 'd2d' AND source != target THEN 'p2p' ELSE {way} END"
    known = {column: way if text == "WAY" else text for column, text in EVENTS[kind].items()}
    return f"SELECT {row_of(EVENT, _TIMED | place | known)} FROM ({sql})"


def _attribute_to_runtime_calls(con: Connection, events: str) -> str:
    """Return SQL that assigns device work to the HIP runtime call of the program, not to an HSA call inside it."""
    if not count_rows(con, f"({events}) WHERE kind IS NULL AND starts_with(name, 'hsa_')"):
        return events
    return layout_sql("of_runtime_calls", events=events)
