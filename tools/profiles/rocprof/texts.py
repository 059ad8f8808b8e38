"""Read the text files of roctracer under rocprof v1 (``-d DIR``): HIP and HSA calls, device work, ROCTX marks.

Each line is one event, as roctracer's file plugin of ROCm 5 and 6 writes it (times in ns, decimal numbers):

    [PID_]hip_api_trace.txt, hsa_api_trace.txt   begin:end pid:tid function(arguments) [kernel=name] :correlation
    [PID_]hcc_ops_trace.txt                      begin:end device:queue name:correlation:pid
    [PID_]async_copy_trace.txt                   begin:end async-copy:correlation:pid
    [PID_]roctx_trace.txt                        time pid:tid what:range:"text"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import Manifest, write_table
from ...base import progress
from ...base.profile_files import WORK, head, is_inside
from ...base.untrusted_text import bounded_name
from ..merging.contract import LAUNCH, PassTable, parquet, row_of
from ..merging.merge import MergedProfile, as_replays, without_launches, write_tables
from ..parsing.spool import Spool
from ..timelines.call_kinds import direction_of
from ..timelines.nesting import pair
from ..timelines.timeline_tables import EVENT, RANGE, TimelineQueries, write_timeline

if TYPE_CHECKING:
    import duckdb

_NAME = re.compile(r"(?:\d+_)?(hip_api|hsa_api|hcc_ops|async_copy|roctx)_trace\.txt")
_SPAN = rb"(\d{1,19}):(\d{1,19}) "
_CALL = re.compile(_SPAN + rb"(\d{1,10}):(\d{1,10}) (\w{1,200})\(.*?(?::(\d{1,19}))?\Z", re.DOTALL)
_WORK = re.compile(_SPAN + rb"(\d{1,9}):(\d{1,19}) (.*):(\d{1,19}):(\d{1,10})\Z", re.DOTALL)
_COPY = re.compile(_SPAN + rb"()()(async-copy):(\d{1,19}):(\d{1,10})\Z", re.DOTALL)
_MARK = re.compile(rb'(\d{1,19}) (\d{1,10}):(\d{1,10}) (\d{1,3}):\d+:"(.*)"\Z', re.DOTALL)
_PUSHED, _POPPED = 1, 2
"""roctx_api_id_t: roctxRangePushA, roctxRangePop. Marks (0) and ranges across threads (3, 4) are skipped."""
_CALLS = [("start_ns", "BIGINT"), ("end_ns", "BIGINT"), ("pid", "BIGINT"), ("thread", "BIGINT"), ("name", "VARCHAR"),
          ("correlation", "BIGINT")]  # fmt: skip
_WORKS = [("start_ns", "BIGINT"), ("end_ns", "BIGINT"), ("device_id", "BIGINT"), ("queue_id", "BIGINT"),
          ("name", "VARCHAR"), ("correlation", "BIGINT"), ("pid", "BIGINT")]  # fmt: skip
_MARKS = [("time_ns", "BIGINT"), ("pid", "BIGINT"), ("thread", "BIGINT"), ("what", "BIGINT"), ("name", "VARCHAR"),
          ("mark", "BIGINT")]  # fmt: skip
_LINE = 64 << 10
"""Maximum bytes read of a line; arguments and C++ names are shorter."""
_BATCH, _LOOKED_AT, _DEEP = 20_000, 200, 3
_MOST = (1 << 63) - 1
_NO_WORK = "'(?i)^(marker|barrier|task|taskgroup)'"
"""Names of the runtime's operations that are not work."""


@dataclass
class _RoctracerTexts:
    """The files of one profile by kind."""

    files: dict[str, list[Path]]

    def has(self, what: str) -> bool:
        """Return whether there is a non-empty file of a kind."""
        return any(file.stat().st_size for file in self.files.get(what, []))


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file with calls or device work, or a folder with one up to two levels deep."""
    texts = _find_texts(path)
    return texts.has("hcc_ops") or texts.has("hip_api")


def _find_texts(path: Path) -> _RoctracerTexts:
    paths = [path] if path.is_file() else _below(path, _DEEP) if path.is_dir() else []
    files: dict[str, list[Path]] = {}
    for file in paths:
        if (match := _NAME.fullmatch(file.name)) and re.match(rb"\d+[: ]|\Z", head(file, 32)):
            files.setdefault(match[1], []).append(file)
    return _RoctracerTexts(files)


def _below(folder: Path, levels: int) -> list[Path]:
    here = sorted(folder.iterdir())[:_LOOKED_AT]
    inner = [p for p in here if p.is_dir() and is_inside(p, folder)] if levels > 1 else []
    return [p for p in here if p.is_file() and is_inside(p, folder)] + [f for p in inner for f in _below(p, levels - 1)]


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, MergedProfile]:
    """Read the texts at ``path`` into tables under ``out``; BadInput if they contain no events."""
    texts = _find_texts(path)
    staged = _StagedTexts(con, texts, out)
    merged = staged.launches(path)
    ranges, notes = staged.ranges()
    timeline = write_timeline(con, out, TimelineQueries(staged.events(), ranges))
    if not timeline.events:
        raise BadInput(
            f"{path.name} contains no events of rocprof", "no line of its files is an event", "Profile again"
        )
    merged.events = timeline.events
    merged.warnings += [*staged.left_out, *notes, *timeline.warnings]
    merged.notes += timeline.notes
    if texts.has("async_copy") and texts.has("hcc_ops"):
        text = "Copies are those of HIP; the HSA records of the same copies (async_copy_trace.txt) were skipped."
        merged.notes.append(Note("not_read", text))
    merged.notes.append(
        Note("no_sizes", "rocprof's text files state neither launch sizes nor bytes of copies; results.csv and "
             "results.json of the same run do.")
    )  # fmt: skip
    return Manifest(name=path.name if path.is_dir() else path.stem, format="rocprof-texts", vendor="amd",
                    tool="rocprof"), merged  # fmt: skip


class _StagedTexts:
    """The lines of the files, staged as tables."""

    def __init__(self, con: duckdb.DuckDBPyConnection, texts: _RoctracerTexts, out: Path) -> None:
        self.con, self.out = con, out
        self.left_out: list[Note] = []
        work = ["hcc_ops"] if texts.has("hcc_ops") else ["async_copy"]
        self.hip = self._spool(texts, ["hip_api"], _CALL, _CALLS)
        self.hsa = self._spool(texts, ["hsa_api"], _CALL, _CALLS)
        self.work = self._spool(texts, work, _COPY if work == ["async_copy"] else _WORK, _WORKS)
        self.marks = self._spool(texts, ["roctx"], _MARK, _MARKS)

    def launches(self, path: Path) -> MergedProfile:
        """Write the kernels as launches, in the order of their start."""
        file = self.out / WORK / "texts_launches.parquet"
        count = write_table(
            self.con,
            "SELECT row_number() OVER (ORDER BY start_ns, end_ns, correlation) - 1 AS row, * REPLACE "
            f"({bounded_name('name')} AS name) FROM {self.work} WHERE {self._kind()} = 'kernel'",
            file,
        )
        self.kernels = parquet([file])
        if not count:
            return without_launches(self.con, path, self.out)
        own = {
            "row": "row", "dispatch_id": "row", "kernel": "name",
            "duration_ns": "CASE WHEN end_ns > start_ns AND start_ns != 0 THEN end_ns - start_ns END",
            **{c: c for c in ("pid", "device_id", "queue_id", "start_ns", "end_ns")},
        }  # fmt: skip
        picks = ", ".join(f"TRY_CAST({own.get(c, 'NULL')} AS {kind}) AS {c}" for c, kind in LAUNCH.items())
        table = PassTable("main", path, count, f"(SELECT {picks} FROM {self.kernels})", frozenset(own))
        return write_tables(self.con, as_replays([table]), self.out, instances_per_xcd=1)

    def events(self) -> str:
        """Return SQL for all events, with the columns EVENT."""
        times = {"start_ns": "start_ns", "end_ns": "end_ns", "pid": "pid"}
        device = times | {"device_id": "device_id", "stream": "queue_id", "correlation": "correlation"}
        kernel = device | {"kind": "'kernel'", "name": "name", "row": "row"}
        way = direction_of("name")
        other = device | {
            "kind": self._kind(), "direction": f"CASE WHEN {self._kind()} = 'copy' THEN {way} END",
            "name": f"CASE WHEN {self._kind()} = 'copy' THEN {way} ELSE 'fill' END",
        }  # fmt: skip
        call = times | {"thread": "thread", "name": "name"}
        return " UNION ALL ".join([
            f"SELECT {row_of(EVENT, kernel)} FROM {self.kernels}",
            f"SELECT {row_of(EVENT, other)} FROM {self.work} WHERE {self._kind()} IN ('copy', 'fill')",
            f"SELECT {row_of(EVENT, call | {'correlation': 'correlation'})} FROM {self.hip}",
            f"SELECT {row_of(EVENT, call)} FROM {self.hsa}",  # its ids are unrelated to those of HIP
        ])  # fmt: skip

    def ranges(self) -> tuple[str, list[Note]]:
        """Return SQL for the ROCTX ranges with the columns RANGE (empty if none), and warnings about unpaired marks."""
        used = f"(SELECT * FROM {self.marks} WHERE what IN ({_PUSHED}, {_POPPED}))"
        tracks = f"(SELECT *, dense_rank() OVER (ORDER BY pid, thread) AS track FROM {used})"
        if not (self.con.execute(f"SELECT count(*) FROM {used}").fetchone() or (0,))[0]:
            return "", []
        marks = f"SELECT track, time_ns, (what = {_PUSHED})::INT, mark FROM {tracks} ORDER BY track, time_ns, mark"
        spans, notes = pair(self.con, self.out / WORK, marks, "roctx")
        known = {c: c for c in ("name", "pid", "thread", "end_ns")} | {"start_ns": "time_ns", "source": "'roctx'"}
        return f"SELECT {row_of(RANGE, known)} FROM {self.marks} JOIN {spans} USING (mark)", notes

    def _kind(self) -> str:
        """Return SQL for the kind of a piece of device work; NULL if it is not work."""
        return (
            f"CASE WHEN regexp_matches(name, '(?i)^(copy|async-copy)') THEN 'copy' WHEN regexp_matches(name, '(?i)^fill"
            f"buffer') THEN 'fill' WHEN regexp_matches(name, {_NO_WORK}) THEN NULL ELSE 'kernel' END"
        )

    def _spool(
        self, texts: _RoctracerTexts, kinds: Sequence[str], form: re.Pattern[bytes], columns: Sequence[tuple[str, str]]
    ) -> str:
        """Return a FROM item with the lines of some files; lines in another format are counted."""
        spool, odd, rows = Spool(self.con, self.out / WORK / f"texts_{kinds[0]}", columns), 0, 0
        for file in (file for kind in kinds for file in texts.files.get(kind, [])):
            for batch, unread in _lines(file, form, columns, rows):
                spool.add(batch)
                odd += unread
                rows += len(batch)
                progress.report(f"read {count_text(rows, 'line')} of {file.name}")
        if odd:
            self.left_out.append(
                Note("events_left_out", f"Skipped in {kinds[0]}_trace.txt: {count_text(odd, 'line')} without an event.")
            )
        return parquet(spool.close())


def _lines(
    file: Path, form: re.Pattern[bytes], columns: Sequence[tuple[str, str]], first: int
) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """Yield rows of a file in batches, each with the number of lines in another format.

    The last column of marks is the line number.
    """
    batch: list[tuple[Any, ...]] = []
    odd, numbered = 0, columns[-1][0] == "mark"
    with file.open("rb") as lines:
        while line := lines.readline(_LINE):
            match = form.match(line.rstrip())
            values = _values(match.groups(), columns) if match else None
            if values is None:
                odd += bool(line.strip())
            else:
                batch.append((*values, first + len(batch)) if numbered else values)
            if len(batch) >= _BATCH:
                yield batch, odd
                first += len(batch)
                batch, odd = [], 0
    yield batch, odd


def _values(groups: Sequence[bytes | None], columns: Sequence[tuple[str, str]]) -> tuple[Any, ...] | None:
    """Convert the parts of a line to values; None if a number is too large."""
    values: list[Any] = []
    for text, (_, kind) in zip(groups, columns, strict=False):
        if kind == "VARCHAR":
            values.append((text or b"").decode("utf-8", "replace").removesuffix(" "))
        elif not text:
            values.append(None)
        elif (number := int(text)) > _MOST:
            return None
        else:
            values.append(number)
    return tuple(values)
