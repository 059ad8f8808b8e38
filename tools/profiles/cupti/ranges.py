"""Build the NVTX ranges of a program from their start and end marks, and find the range of each kernel launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ....analysis.base.notes import Note
from ...base.untrusted_text import plain_text
from ..merging.contract import all_rows, count_rows, one_row, parquet
from ..merging.ranks import ProcessPlace, sql_place
from ..merging.wording import note
from ..parsing.spool import Spool
from .records import Stage

_START, _END = 1 << 1, 1 << 2
"""Flags of a mark: CUPTI_ACTIVITY_FLAG_MARKER_START and _END; marks with neither are instants."""
_ANY = -1
"""Pseudo thread: the steps of the only thread that has an open range."""
_RANGE = ("range_id", "name", "path", "thread", "start_ns", "end_ns", "depth", "domain", "file")
"""Columns of ranges; the domain is empty for the default one."""
_STEP = ("thread", "time_ns", "range_id", "file")
"""Columns of steps: the range of a thread from that time on, 0 if no range is open."""
_TEXTS = ("name", "path", "domain")
LONGEST_NAME, _PATH = 200, 1000
"""Maximum characters that are stored of a name and of a path."""


@dataclass(eq=False)
class _Range:
    number: int
    name: str
    path: str
    thread: int
    start_ns: int
    depth: int
    domain: str


@dataclass
class _NvtxSweep:
    """Processes the marks of one process in the order of their times."""

    file: int
    """Number of the process."""
    first: int
    """Number of the first range of the process."""
    names: dict[int, str]
    ranges: Spool
    """With the columns _RANGE."""
    steps: Spool
    """With the columns _STEP."""
    count: int = 0
    last_ns: int = 0
    open: dict[int, _Range] = field(default_factory=dict)
    """Open ranges by the id of their marks."""
    threads: dict[int, list[_Range]] = field(default_factory=dict)
    """Open ranges of each thread that has any, the innermost last."""

    def mark(self, time_ns: int, mark: int, flags: int, name: int, thread: int, domain: int = 0) -> None:
        """Process the next mark."""
        self.last_ns = max(self.last_ns, time_ns)
        if flags & _START and mark not in self.open:
            stack = self.threads.setdefault(thread, [])
            text = self.names.get(name, "(no name)")
            path = f"{stack[-1].path}/{text}"[:_PATH] if stack else text
            of = self.names.get(domain, "")
            begun = _Range(self.first + self.count, text, path, thread, time_ns, len(stack), of)
            self.count += 1
            self.open[mark] = begun
            stack.append(begun)
        elif flags & _END and mark in self.open:
            begun = self.open.pop(mark)
            thread = begun.thread
            self._close(begun, time_ns)
        else:
            return
        stack = self.threads.get(thread, [])
        self.steps.append((thread, time_ns, stack[-1].number if stack else 0, self.file))
        alone = next(iter(self.threads.values())) if len(self.threads) == 1 else None
        self.steps.append((_ANY, time_ns, alone[-1].number if alone else 0, self.file))

    def finish(self, last_ns: int) -> int:
        """Close the ranges that are still open at the end of the recording; return their number."""
        unfinished = list(self.open.values())
        for begun in reversed(unfinished):
            self._close(begun, max(self.last_ns, last_ns))
        return len(unfinished)

    def _close(self, one: _Range, end_ns: int) -> None:
        stack = self.threads[one.thread]
        if stack[-1] is one:
            stack.pop()
        else:
            stack.remove(one)
        if not stack:
            del self.threads[one.thread]
        times = one.start_ns, end_ns
        self.ranges.append((one.number, one.name, one.path, one.thread, *times, one.depth, one.domain, self.file))


@dataclass(frozen=True)
class NvtxRanges:
    """The NVTX ranges of a program; all texts are empty if it has none."""

    table: str = ""
    """SELECT with the columns of the table ranges."""
    steps: str = ""
    """FROM item: from time_ns on, a thread of a process (file) is in the range range_id, or in none (0)."""
    notes: list[Note] = field(default_factory=list)


def nvtx_ranges(stage: Stage, places: Mapping[int, ProcessPlace]) -> NvtxRanges:
    """Return the ranges of the staged processes, whose numbers and places are ``places``."""
    if not stage.parts["MARK"]:
        return NvtxRanges()
    con = stage.con
    ranges, steps = (
        Spool(con, stage.folder / f"cupti_{name}", {c: "VARCHAR" if c in _TEXTS else "BIGINT" for c in columns})
        for name, columns in (("ranges", _RANGE), ("steps", _STEP))
    )
    first, unfinished = 1, 0
    for (file,) in all_rows(con, f"SELECT DISTINCT file FROM {stage.relation('MARK')} ORDER BY 1"):
        sweep = _NvtxSweep(file, first, _names(stage, file), ranges, steps)
        for mark in _marks(stage, file):
            sweep.mark(*mark)
        times = f"{stage.relation('LNCH')} WHERE file = {file} AND end_ns < {1 << 63}"
        (last,) = one_row(con, f"SELECT coalesce(max(end_ns), 0) FROM {times}")
        unfinished += sweep.finish(last)
        first += sweep.count
    if not ranges.rows:
        return NvtxRanges()
    processes = ", ".join(f"({file}, {sql_place(place)})" for file, place in places.items())
    table = (
        "SELECT range_id, name, path, NULL::VARCHAR AS call_site, thread, start_ns, end_ns, CAST(depth AS INT) AS "
        f"depth, 'nvtx' AS source, p.pid::BIGINT AS pid, nullif(domain, '') AS domain, p.rank::INT AS rank, "
        f"p.host::VARCHAR AS host FROM {parquet(ranges.close())} JOIN (VALUES {processes}) p(file, rank, host, pid) "
        "USING (file) ORDER BY start_ns, range_id"
    )
    notes = [note("ranges.nvtx", count=count_rows(con, f"({table})"))]
    if unfinished:
        notes.append(note("ranges.unfinished", unfinished=unfinished))
    return NvtxRanges(table, parquet(steps.close()), notes)


def ranges_of_launches(calls: str, steps: str) -> str:
    """Return SQL for dispatch_id and range_id (NULL outside any) of ``calls`` (dispatch_id, file, thread, host_ns).

    A launch belongs to the innermost open range of its thread. A thread without open ranges works for another thread
    (as that of automatic differentiation in PyTorch does), so its launches belong to the range of the only thread that
    has one; if several threads have one, to none.
    """
    own = f"SELECT c.*, s.range_id AS own FROM {calls} c ASOF LEFT JOIN {steps} s"
    own += " ON c.file = s.file AND c.thread = s.thread AND c.host_ns >= s.time_ns"
    alone = f"(SELECT * FROM {steps} WHERE thread = {_ANY})"
    query = f"SELECT o.dispatch_id, coalesce(nullif(own, 0), nullif(a.range_id, 0)) AS range_id FROM ({own}) o "
    return query + f"ASOF LEFT JOIN {alone} a ON o.file = a.file AND o.host_ns >= a.time_ns"


def _names(stage: Stage, file: int) -> dict[int, str]:
    """Return the names of ranges, safe to show."""
    marks = f"FROM {stage.relation('MARK')} WHERE file = {file}"
    used = f"SELECT name {marks} UNION SELECT domain {marks}"
    rows = stage.con.execute(f"SELECT id, text FROM {stage.relation('NAME')} WHERE file = {file} AND id IN ({used})")
    return {number: shown for number, text in rows.fetchall() if (shown := plain_text(text, LONGEST_NAME))}


def _marks(stage: Stage, file: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield time, id, flags, name, thread and domain of the marks of one process in order, with a separate cursor."""
    cursor = stage.con.cursor()
    rows = cursor.execute(
        f"SELECT time_ns, id, flags, name, thread, domain FROM {stage.relation('MARK')} "
        f"WHERE file = {file} AND time_ns < {1 << 63} ORDER BY time_ns, row"
    )
    while batch := rows.fetchmany(10_000):
        yield from batch
    cursor.close()
