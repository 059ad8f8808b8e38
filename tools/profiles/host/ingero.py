"""Read the calls of CUDA with their stacks from the database of ingero, which traces the host by eBPF.

Events of the sources 1 (runtime) and 4 (driver) are calls; their operations have names in the table ``ops``. Times are
Unix time. A stack is a list of frames, the innermost one first, in which those of Python stand before the interpreter
that runs them, or before all others if no frame is in the interpreter. (ingero 0.10, internal/store and
internal/symtab)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.profile_files import files_of_format, head
from ..merging.contract import parquet, row_of
from ..parsing.spool import Spool
from ..parsing.sqlite_database import MAGIC, Database, open_database
from ..reader import Profile, ProfileFiles
from ..timelines.timeline_tables import EVENT, TimelineQueries
from .files import host_profile, one_file
from .recording import SAMPLES, HostFrame, HostRecording, StackSpool

_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_TABLES = ("events", "ops", "stack_traces")
_COLUMNS = {"timestamp", "pid", "tid", "source", "op", "duration", "stack_hash"}
_CALLS = "source IN (1, 4)" + "".join(
    f" AND typeof({column}) = 'integer'" for column in ("timestamp", "duration", "pid", "tid")
)
_CALL = dict.fromkeys(("start_ns", "duration", "pid", "thread", "stack"), "BIGINT") | {"name": "VARCHAR"}
_NAMES = {"cudaStreamSync": "cudaStreamSynchronize", "cudaDeviceSync": "cudaDeviceSynchronize"}
"""Operations that ingero abbreviates -> function."""
_END = "start_ns + duration"
_OFFSET = re.compile(r"\+0x[0-9a-f]{1,16}$")


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a database, or a folder with one."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _is_database)


def _is_database(file: Path) -> bool:
    if head(file, len(MAGIC)) != MAGIC:
        return False
    with open_database(file) as db:
        return all(db.parts(table) for table in _TABLES) and db.columns("events") >= _COLUMNS


def read(files: ProfileFiles) -> Profile:
    """Return the calls at ``files.path``; BadInput if there are none."""
    file = one_file(files, _files(files.path), "ingero")
    calls = Spool(files.con, files.work / "ingero_calls", _CALL)
    stacks = StackSpool(files.con, files.work / "ingero")
    with open_database(file) as db:
        numbers, has_lines = _read_stacks(db, stacks)
        named = ("source_id", "op_id", f"substr(CAST(name AS TEXT), 1, {size_limits.TEXT})")
        names = {(source, op): name for batch in db.read("ops", named) for source, op, name in batch}
        columns = ("timestamp", "duration", "pid", "tid", "stack_hash", "source", "op")
        for batch in db.read("events", columns, f"WHERE {_CALLS}"):
            calls.add(
                [
                    (start, lasted, pid, thread, numbers.get(stack), _function(names.get((source, op))))
                    for start, lasted, pid, thread, stack, source, op in batch
                ]
            )
            progress.report(f"read {count_text(calls.rows, 'call')} of {file.name}")
    if not calls.rows:
        raise BadInput(f"{file.name} contains no calls of CUDA", "ingero stored none of them")
    rows = parquet(calls.close())
    samples = row_of(
        SAMPLES, {**{c: c for c in ("start_ns", "pid", "thread", "stack")}, "end_ns": _END, "time_ns": "duration"}
    )
    spent = f"SELECT {samples} FROM {rows} WHERE stack > 0 AND duration > 0"
    event = {
        "name": "name", "start_ns": "start_ns", "end_ns": _END, "pid": "pid", "thread": "thread",
        "stack": "nullif(stack, 0)",
    }  # fmt: skip
    limits = ["host_calls_only", *([] if has_lines else ["host_functions_only"])]
    return replace(
        host_profile(file, HostRecording("ingero", stacks.close(), spent, limits=limits)),
        vendor="nvidia",
        timeline=TimelineQueries(f"SELECT {row_of(EVENT, event)} FROM {rows}"),
        unix_shift=0,
    )


def _function(name: str | None) -> str:
    return _NAMES.get(name or "", name or "(unknown)")


def _read_stacks(db: Database, stacks: StackSpool) -> tuple[dict[int, int], bool]:
    """Return the number of each stack by its hash, and whether any frame has a line."""
    numbers: dict[int, int] = {}
    has_lines = False
    for batch in db.read("stack_traces", ("hash", "frames")):
        for stack, text in batch:
            try:
                frames = [_frame(one) for one in json.loads(text or "[]")]
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise BadInput(f"{db.path.name} is damaged", f"the frames of the stack {stack} are no list") from error
            has_lines = has_lines or any(frame.line for frame in frames)
            numbers[stack] = stacks.number(_outermost_first(frames))
    return numbers, has_lines


def _outermost_first(frames: list[HostFrame]) -> Iterable[HostFrame]:
    python = list(takewhile(lambda frame: frame.module is None, frames))
    return [*reversed(python), *reversed(frames[len(python) :])]


def _frame(stated: dict[str, Any]) -> HostFrame:
    """Return a frame: of Python with file, function and line, or of native code with a symbol, library and line."""
    if function := stated.get("pfn"):
        return HostFrame(str(function), str(stated.get("pf") or ""), int(stated.get("pl") or 0))
    symbol = _OFFSET.sub("", str(stated.get("s") or stated.get("i") or "(unknown)"))
    return HostFrame(symbol, line=int(stated.get("l") or 0), module=str(stated.get("f") or "(no file)"))
