"""Begins and ends of ranges, stated one by one, put together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress
from ..merging.contract import parquet
from ..parsing.spool import Spool

if TYPE_CHECKING:
    import duckdb

SPAN = [("mark", "BIGINT"), ("end_ns", "BIGINT")]
_BATCH = 20_000
_OPEN = 500_000
"""Ranges of one thread that may be open at a time; a program has hundreds."""


def pair(con: duckdb.DuckDBPyConnection, work: Path, marks: str, source: str) -> tuple[str, list[Note]]:
    """A FROM item mark, end_ns: for every begin, by its number, when it ended; and warnings about ends without a begin.

    ``marks`` is a SELECT of track, time_ns, begins (1 or 0), mark, in the order of track, time and appearance. An end
    closes the last begin of its track; what is never ended ends with the last mark of its track.
    """
    spans = Spool(con, work / f"paired_{source}", SPAN)
    stack: list[int] = []
    place, last, lost, unfinished, done = None, 0, 0, 0, 0
    with con.cursor() as reader:
        rows = reader.execute(marks)
        while batch := rows.fetchmany(_BATCH):
            ended: list[tuple[int, int]] = []
            for track, time, begins, mark in batch:
                if track != place:
                    ended += [(one, last) for one in stack]
                    unfinished += len(stack)
                    place, stack = track, []
                last = time
                if begins:
                    stack.append(mark)
                    if len(stack) > _OPEN:
                        raise BadInput("The trace is damaged", f"more than {_OPEN:,} ranges of a thread never end")
                elif stack:
                    ended.append((stack.pop(), time))
                else:
                    lost += 1
            spans.add(ended)
            done += len(batch)
            progress.report(f"paired {done:,} begins and ends")
    spans.add([(one, last) for one in stack])
    unfinished += len(stack)
    notes = []
    if lost:
        notes.append(Note("events_left_out", f"{lost} ends of ranges have no begin: they were left out."))
    if unfinished:
        notes.append(
            Note(
                "events_unfinished",
                f"{count_text(unfinished, 'range has', 'ranges have')} no end: the last mark of the thread is "
                "taken for it.",
            )
        )
    return parquet(spans.close()), notes
