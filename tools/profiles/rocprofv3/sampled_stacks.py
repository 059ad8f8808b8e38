"""Stacks that rocprof-sys sampled, from a rocpd database.

Each frame of a sample is a region from the sample before it to itself, the outermost frame first. Its event has the
function and its binary file in ``call_stack`` (some versions write that to ``extdata``), and in ``line_info`` the
innermost inlined function at that place, with its source line. (rocprofiler-systems, library/sampling.cpp)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..host.recording import POINTS, HostFrame, HostRecording, StackSpool, spans
from ..merging.contract import parquet
from ..parsing.spool import Spool
from .recording import ProcessRecording

if TYPE_CHECKING:
    import duckdb

_BATCH, _DISTINCT = 5_000, 100_000
_LINE = re.compile(r"[0-9]{1,9}")


def sampled_stacks(
    con: duckdb.DuckDBPyConnection, work: Path, recordings: Sequence[ProcessRecording]
) -> HostRecording | None:
    """Return the stacks that were sampled in the processes; None if there are none."""
    sampled = [recording.activity["frames"] for recording in recordings if "frames" in recording.activity]
    if not sampled:
        return None
    stacks = StackSpool(con, work / "rocprof_sys")
    points = Spool(con, work / "rocprof_sys_points", POINTS)
    has_lines = False
    for select in sampled:
        for (pid, thread, _, _, end), rows in groupby(_rows(con, select), key=lambda row: row[:5]):
            frames = [frame for row in rows for frame in _frames(row[5], row[6])]
            has_lines = has_lines or any(frame.line for frame in frames)
            points.append((end, pid, thread, stacks.number(frames)))
    samples = spans(con, parquet(points.close()), work / "rocprof_sys")
    limits = ["host_idle_unknown", *([] if has_lines else ["host_functions_only"])]
    return HostRecording("rocprof-sys", stacks.close(), samples, limits=limits)


def _rows(con: duckdb.DuckDBPyConnection, select: str) -> Iterator[tuple[Any, ...]]:
    """Yield a row per frame, the frames of a sample one after the other."""
    order = "pid, thread, name, start_ns, end_ns"
    with con.cursor() as cursor:
        found = cursor.execute(f"SELECT {order}, call_stack, line_info FROM ({select}) ORDER BY {order}, event_id")
        while rows := found.fetchmany(_BATCH):
            yield from rows


@lru_cache(_DISTINCT)
def _frames(call_stack: str | None, line_info: str | None) -> tuple[HostFrame, ...]:
    """Return a frame, and after it the function that is inlined there, if that is another one."""
    stated, place = _object(call_stack), _object(line_info).get("inlined")
    function, module = str(stated.get("name") or "(unknown)"), str(stated.get("file") or "(no file)")
    if not isinstance(place, dict) or not _LINE.fullmatch(str(place.get("line"))):
        return (HostFrame(function, module=module),)
    inner = HostFrame(str(place.get("name") or function), str(place.get("location") or ""), int(place["line"]), module)
    return (inner,) if inner.function == function else (HostFrame(function, module=module), inner)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
