"""The tables host_stacks and host_samples: which code each thread of the host ran, on the clock of the timeline."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base.profile_files import WORK
from ...base.untrusted_text import plain_text
from ..merging.contract import one_row, row_of, write_relation
from ..parsing.spool import write_rows
from .clocks import ClockMatch, match_clock
from .recording import SAMPLES, HostRecording

if TYPE_CHECKING:
    import duckdb

_LINE = 200
_PACKAGE = "/(?:site|dist)-packages/([^/]+)"
_STANDARD = r"/lib/python3\.\d+/|^<frozen "
_GENERATED = r"/torchinductor_|/\.triton/|^<"
_SYSTEM = r"^/(usr|opt|lib|lib64)/|^\[|\.so(\.\d+)*$"
_FOREIGN = f"{_PACKAGE}|{_STANDARD}|{_GENERATED}|{_SYSTEM}"
"""Patterns (RE2) of files that are not the program's own code."""
_SOURCE = r"^/.*\.(py|c|cc|cpp|cxx|cu|cuh|h|hpp|hip)$"
"""Files whose lines are stored: the program has just been run from them."""
_MOST_LINES = 50_000
_SOURCE_LINE = {"file": "VARCHAR", "line": "INTEGER"}


def write_host_stacks(
    con: duckdb.DuckDBPyConnection, recordings: Sequence[HostRecording], out: Path, unix_shift: int | None
) -> tuple[list[Note], list[Note]]:
    """Write host_stacks and, if samples were taken, host_samples below ``out``; return warnings and notes.

    ``unix_shift`` is the clock of the timeline minus Unix time in ns, if the profile states it. Samples whose clock
    cannot be matched with that of the timeline are stored without times.
    """
    warnings, notes, frames, samples = list[Note](), list[Note](), list[str](), list[str]()
    last = 0
    for number, recording in enumerate(recordings):
        path = out / WORK / f"host_frames_{number}.parquet"
        frames.append(
            write_relation(con, f"SELECT * REPLACE (stack + {last} AS stack) FROM ({recording.frames})", path)
        )
        if recording.samples:
            match = match_clock(con, recording, out, unix_shift)
            samples.append(_samples_sql(recording, match, last))
            notes += _sample_notes(con, recording, match)
            if match is None:
                warnings += HostRecording(recording.source, "", limits=("host_clock_unknown",)).warnings()
        warnings += recording.warnings()
        (last,) = one_row(con, f"SELECT coalesce(max(stack), {last}) FROM {frames[-1]}")
    if samples:
        select = f"SELECT * FROM ({' UNION ALL '.join(samples)}) ORDER BY pid, thread, start_ns"
        write_table(con, select, out / "host_samples.parquet")
    if frames:
        _write_stacks(con, " UNION ALL ".join(f"SELECT * FROM {one}" for one in frames), out)
    return warnings, notes


def _samples_sql(recording: HostRecording, match: ClockMatch | None, last: int) -> str:
    """Return SQL for the samples on the clock of the timeline, with stacks numbered from ``last`` + 1."""
    moved = {c: "NULL" if match is None else f"{c} + {match.shift}" for c in ("start_ns", "end_ns")}
    moved |= {c: f"{c} + {last}" for c in ("stack", "waker")}
    picks = row_of(SAMPLES, {c: moved.get(c, c) for c in SAMPLES})
    return f"SELECT {picks}, {sql_literal(plain_text(recording.source, _LINE))} AS source FROM ({recording.samples})"


def _sample_notes(con: duckdb.DuckDBPyConnection, recording: HostRecording, match: ClockMatch | None) -> list[Note]:
    """Return a note on what was sampled, and how its clock was matched with that of the timeline."""
    threads, processes, stacks = one_row(
        con,
        f"SELECT count(DISTINCT (pid, thread)), count(DISTINCT pid), coalesce(sum(samples), 0) FROM "
        f"({recording.samples})",
    )
    text = f"{recording.source}: stacks of {count_text(threads, 'thread')}"
    text += f" in {count_text(processes, 'process')}" if processes else ""
    text += f", {count_text(int(stacks), 'sample')}" if stacks else ""
    return [Note("host_stacks", f"{text}{match.text() if match else ''} (host_samples).")]


def _write_stacks(con: duckdb.DuckDBPyConnection, frames: str, out: Path) -> None:
    """Write host_stacks from ``frames``, SQL for the columns FRAMES."""
    places = con.execute(
        f"SELECT DISTINCT file, line FROM ({frames}) WHERE line > 0 AND regexp_matches(file, '{_SOURCE}') "
        f"LIMIT {_MOST_LINES}"
    ).fetchall()
    lines = ((file, line, linecache.getline(file, line).strip()) for file, line in places)
    texts = [(file, line, plain_text(text, _LINE)) for file, line, text in lines if text]
    linecache.clearcache()
    known = write_rows(con, out / WORK / "host_lines", _SOURCE_LINE | {"text": "VARCHAR"}, texts)
    where = "coalesce(f.module, f.file, '')"
    package = f"nullif(regexp_extract({where}, '{_PACKAGE}', 1), '')"
    library = (
        f"CASE WHEN {package} IS NOT NULL THEN regexp_replace({package}, '[.]py$', '') "
        f"WHEN regexp_matches({where}, '{_STANDARD}') THEN 'python' "
        f"WHEN f.module IS NOT NULL THEN regexp_extract(f.module, '[^/]*$') END"
    )
    select = (
        f"SELECT f.stack, f.depth, f.function, nullif(f.file, '') AS file, nullif(f.line, 0) AS line, "
        f"{library} AS module, NOT regexp_matches({where}, '{_FOREIGN}') AS own, t.text "
        f"FROM ({frames}) f LEFT JOIN {known} t ON t.file = f.file AND t.line = f.line ORDER BY stack, depth"
    )
    write_table(con, select, out / "host_stacks.parquet")
