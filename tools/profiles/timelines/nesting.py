"""Nest the ranges of a program, and find which range is the innermost on each thread at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ...base import progress
from ..merging.contract import Connection, parquet
from ..merging.wording import note, refusal
from ..parsing.spool import Spool

_PLACED = dict.fromkeys(("range_id", "path_id", "depth"), "BIGINT")
_STEP = dict.fromkeys(("pid", "thread", "time_ns", "range_id"), "BIGINT")
_PATH = {"path_id": "BIGINT", "path": "VARCHAR"}
_BATCH = 5_000
_PATH_LIMIT = 4000
"""Maximum characters of a path."""
_LEVELS = 256
"""Number of open ranges that are searched for the one that encloses another."""
_PATHS_KNOWN, _PATHS_WEIGHT = 200_000, 32 << 20
"""Paths of one part, and their total characters: a program has some thousands, others one per range."""


@dataclass(frozen=True)
class NestedRanges:
    """FROM items with the nested ranges."""

    placed: str
    """range_id, path_id, depth: in the order of the input ranges."""
    paths: str
    """path_id, path. A path has several ids if it occurs in several parts."""
    parts: list[tuple[int, int]]
    """The first range_id and the first path_id of each part: the ranges of a part have paths of that part only, so that
    the paths of one part fit in memory."""
    steps: str
    """pid, thread, time_ns, range_id: the innermost range from that time on; 0 if no range is open."""


def nest(con: Connection, work: Path, spans: str) -> NestedRanges:
    """Nest the rows of the SELECT ``spans``: range_id, pid, thread (not NULL), start_ns, end_ns, name.

    The rows must be ordered by pid, thread and start, with the longer range first. A range is nested in another one of
    its thread that encloses it in time. Ranges that merely overlap, which roctxRangeStart allows, are siblings.
    """
    placed, steps, paths = (
        Spool(con, work / f"nested_{name}", columns)
        for name, columns in (("ranges", _PLACED), ("steps", _STEP), ("paths", _PATH))
    )
    sweep, done = _NestingSweep(steps, paths), 0
    with con.cursor() as reader:
        rows = reader.execute(spans)
        while batch := rows.fetchmany(_BATCH):
            placed.add([sweep.place(*row) for row in batch])
            done += len(batch)
            progress.report(f"nested {count_text(done, 'range')}")
    sweep.finish(last=True)
    return NestedRanges(parquet(placed.close()), parquet(paths.close()), sweep.parts, parquet(steps.close()))


class _OpenRange(NamedTuple):
    """A range that has started but not ended."""

    number: int
    path_id: int
    path: str
    end: int
    depth: int


@dataclass
class _NestingSweep:
    """Processes ranges one after the other, thread by thread."""

    steps: Spool
    paths: Spool
    parts: list[tuple[int, int]] = field(default_factory=lambda: [(1, 1)])
    _place: tuple[int, int] = (-1, -1)
    _last: tuple[int, ...] = ()
    """The last step, which is replaced by another step at the same time."""
    _stack: list[_OpenRange] = field(default_factory=list)
    _known: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)
    """Path id of the enclosing range, and name -> path id and path."""
    _count: int = 0
    _weight: int = 0

    def place(self, number: int, pid: int, thread: int, start: int, end: int, name: str) -> tuple[int, int, int]:
        """Nest the next range; return its number, its path id and its depth."""
        if (pid, thread) != self._place:
            self.finish()
            self._place = (pid, thread)
        stack = self._stack
        if stack and stack[-1].end <= start:
            self._close(start)
        around = stack[-1] if stack else None
        if around and around.end < end:
            around = next((one for one in reversed(stack[-_LEVELS:]) if one.end >= end), None)
        path_id, path = self._path(around, number, name)
        depth = around.depth + 1 if around else 0
        stack.append(_OpenRange(number, path_id, path, end, depth))
        self._step(start, number)
        return number, path_id, depth

    def finish(self, *, last: bool = False) -> None:
        """Close all open ranges of this thread; ``last`` marks the last thread."""
        self._close(None)
        if last and self._last:
            self.steps.append(self._last)

    def _close(self, before: int | None) -> None:
        """Close the ranges that end by ``before``; None closes all."""
        stack = self._stack
        while stack and (before is None or stack[-1].end <= before):
            time = stack.pop().end
            while stack and stack[-1].end <= time:
                stack.pop()
            self._step(time, stack[-1].number if stack else 0)

    def _step(self, time: int, number: int) -> None:
        last, place = self._last, self._place
        if last and (last[2] != time or last[:2] != place):
            self.steps.append(last)
        self._last = (place[0], place[1], time, number)

    def _path(self, around: _OpenRange | None, number: int, name: str) -> tuple[int, str]:
        key = (around.path_id if around else 0, name)
        if (known := self._known.get(key)) is None:
            if len(self._known) >= _PATHS_KNOWN or self._weight >= _PATHS_WEIGHT:
                self._known.clear()
                self._weight = 0
                self.parts.append((number, self._count + 1))
            self._count += 1
            # A path without room for another name stays as it is.
            text = f"{around.path}/{name}"[:_PATH_LIMIT] if around else name[:_PATH_LIMIT]
            known = self._known[key] = (self._count, text)
            self._weight += len(text) + len(name)
            self.paths.append(known)
        return known


SPAN = {"mark": "BIGINT", "end_ns": "BIGINT"}
_OPEN = 500_000
"""Ranges of one thread that may be open at a time; a program has at most hundreds."""


def pair(con: Connection, work: Path, marks: str, source: str) -> tuple[str, list[Note]]:
    """Pair begin and end marks; return a FROM item (mark, end_ns) and warnings about unpaired marks.

    ``marks`` is a SELECT of track, time_ns, begins (1 or 0), mark, ordered by track, time and appearance. An end closes
    the last open begin of its track; a begin without an end is closed at the last mark of its track.
    """
    spans = Spool(con, work / f"paired_{source}", SPAN)
    stack: list[int] = []
    place, last, lost, unfinished, done = None, 0, 0, 0, 0
    with con.cursor() as reader:
        rows = reader.execute(marks)
        while batch := rows.fetchmany(_BATCH):
            ended = []
            for track, time, begins, mark in batch:
                if track != place:
                    ended += [(one, last) for one in stack]
                    unfinished += len(stack)
                    place, stack = track, []
                last = time
                if begins:
                    stack.append(mark)
                    if len(stack) > _OPEN:
                        raise refusal("never_ending", most=_OPEN)
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
        notes.append(note("events_left_out.ends", lost=lost))
    if unfinished:
        notes.append(note("events_unfinished", unfinished=unfinished))
    return parquet(spans.close()), notes
