"""Stacks of the host as data: what readers return of them, how they are spooled, and how samples become spans.

A recording may be all that a file has, or belong to the timeline that the same file contains. Stacks are numbered from
1 within a recording; stored_stacks.py numbers those of all recordings of a workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....analysis.base.notes import Note
from ....analysis.base.problems import LimitExceeded
from ....analysis.base.text import count_text
from ....analysis.timeline.host_limits import LIMITS
from ...base.untrusted_text import plain_text
from ..merging.contract import one_row, parquet, write_relation
from ..parsing.spool import Spool

if TYPE_CHECKING:
    import duckdb

FRAMES = {
    "stack": "BIGINT", "depth": "INTEGER", "function": "VARCHAR", "file": "VARCHAR", "line": "INTEGER",
    "module": "VARCHAR",
}  # fmt: skip
"""Columns of the frames of stacks; ``depth`` 0 is the outermost frame, ``module`` the file of native code."""
SAMPLES = dict.fromkeys(("start_ns", "end_ns", "time_ns", "samples", "pid", "thread", "stack", "waker"), "BIGINT")
"""Columns of samples: spans of time, or without times what a sample stands for (``time_ns``, ``samples``)."""
POINTS = dict.fromkeys(("time_ns", "pid", "thread", "stack"), "BIGINT")
"""Columns of samples that are single moments."""
_ON_PROCESSOR = 1.5
"""A span ends if the next sample of its thread is more than this number of intervals later: the thread did not run."""
_TEXT, _DEEPEST = 1000, 300
_MOST_FRAMES, _MOST_IN_STACKS = 1_000_000, 20_000_000


class HostFrame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str = ""
    line: int = 0
    module: str | None = None
    """The file of native code; None for Python."""


@dataclass(frozen=True)
class HostClock:
    """What is known of the clock of a recording; all times are in ns."""

    unix_shift: int | None = None
    """The clock minus Unix time, if it is known."""
    error_ns: int = 0
    """By how much ``unix_shift`` may be wrong."""
    candidates: Sequence[int] = ()
    """What may have to be added to its times to get those of the timeline: 0 for a clock of the whole machine."""


@dataclass(frozen=True)
class HostRecording:
    """The stacks of the host in a file."""

    source: str
    """What recorded them."""
    frames: str
    """SELECT of the columns FRAMES."""
    samples: str = ""
    """SELECT of the columns SAMPLES; empty if the stacks are only those of events."""
    clock: HostClock | None = None
    """None if the times are those of the timeline in the same profile."""
    limits: Sequence[str] = ()
    """What the file cannot say, as codes of host_limits.toml."""

    def warnings(self) -> list[Note]:
        """Return what answers about the host have to say, because the file cannot say more."""
        return [Note(code, LIMITS[code].format(source=self.source)) for code in self.limits]


class StackSpool:
    """Numbers stacks, and writes their frames. Deep stacks lose frames in their middle."""

    def __init__(self, con: duckdb.DuckDBPyConnection, stem: Path) -> None:
        self._frames = Spool(con, stem.with_name(f"{stem.name}_frames"), {"frame": "BIGINT", **_PLACE})
        self._stacks = Spool(
            con, stem.with_name(f"{stem.name}_stacks"), {"stack": "BIGINT", "depth": "INTEGER", "frame": "BIGINT"}
        )
        self._frame_numbers: dict[HostFrame, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._size = 0

    def number(self, frames: Iterable[HostFrame]) -> int:
        """Return the number of a stack, the outermost frame first; 0 if it has no frames.

        Raises LimitExceeded if the stacks have too many different frames, or too many in all.
        """
        key = tuple(map(self._frame, frames))
        if len(key) > _DEEPEST:
            key = key[: _DEEPEST // 2] + key[-_DEEPEST // 2 :]
        if not key:
            return 0
        if known := self._numbers.get(key):
            return known
        self._numbers[key] = number = len(self._numbers) + 1
        self._stacks.add([(number, depth, frame) for depth, frame in enumerate(key)])
        self._size += len(key)
        if self._size > _MOST_IN_STACKS:
            raise LimitExceeded("The different stacks are too many", f"they have more than {_MOST_IN_STACKS:,} frames")
        return number

    def _frame(self, frame: HostFrame) -> int:
        known = self._frame_numbers.get(frame)
        if known is None:
            if len(self._frame_numbers) >= _MOST_FRAMES:
                what = f"The stacks have more than {count_text(_MOST_FRAMES, 'different frame')}"
                raise LimitExceeded(what, fix="Record for a shorter time")
            known = self._frame_numbers[frame] = len(self._frame_numbers) + 1
            module = frame.module and plain_text(frame.module, _TEXT)
            line = frame.line if 0 < frame.line < 1 << 31 else 0
            self._frames.append((known, plain_text(frame.function, _TEXT), plain_text(frame.file, _TEXT), line, module))
        return known

    def close(self) -> str:
        """Return a SELECT of the columns FRAMES."""
        stacks, frames = parquet(self._stacks.close()), parquet(self._frames.close())
        return f"SELECT stack, depth, {', '.join(_PLACE)} FROM {stacks} JOIN {frames} USING (frame)"


_PLACE = {name: kind for name, kind in FRAMES.items() if name not in ("stack", "depth")}


def spans(con: duckdb.DuckDBPyConnection, points: str, path: Path, interval: int = 0) -> str:
    """Write spans of time from moments at which threads ran on a processor; return a SELECT of the columns SAMPLES.

    ``points`` is a FROM item with the columns POINTS. A span has the samples of a thread that follow each other with
    one stack, from half an interval before the first one. The interval between samples, in ns, is by default the median
    distance of samples of a thread.
    """
    by_thread = "PARTITION BY pid, thread ORDER BY time_ns"
    rows = write_relation(
        con,
        f"SELECT *, time_ns - lag(time_ns) OVER w AS before, lead(time_ns) OVER w - time_ns AS after, "
        f"lag(stack) OVER w AS was FROM {points} WINDOW w AS ({by_thread})",
        path.with_name(f"{path.name}_points.parquet"),
    )
    if not interval:
        (interval,) = one_row(con, f"SELECT coalesce(median(after) FILTER (after > 0), 0)::BIGINT FROM {rows}")
    far, half = int(_ON_PROCESSOR * interval), interval // 2
    select = (
        f"SELECT min(time_ns) - {half} AS start_ns, max(time_ns + CASE WHEN after <= {far} THEN after - {half} "
        f"ELSE {interval - half} END) AS end_ns, pid, thread, stack, count(*) AS samples FROM "
        f"(SELECT *, sum((was IS DISTINCT FROM stack OR before > {far})::INT) OVER ({by_thread}) AS span FROM {rows}) "
        "WHERE stack > 0 GROUP BY pid, thread, span, stack"
    )
    written = write_relation(con, select, path.with_name(f"{path.name}_spans.parquet"))
    return f"SELECT *, end_ns - start_ns AS time_ns, NULL::BIGINT AS waker FROM {written}"
