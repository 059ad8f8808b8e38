"""The host stacks of recorded calls: where the program launched, copied, waited or allocated.

The recorder writes Python frames with their lines. Native frames are addresses in files, whose functions and lines are
looked up in the files that are on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....analysis.base.database import sql_literal
from ....analysis.store.store import write_table
from ...base.untrusted_text import plain_text
from ...code_objects.host_code import host_sources
from ...code_objects.lines import NAME_LIMIT, PATH_LIMIT
from ..merging.contract import all_rows, parquet, write_relation
from ..merging.demangled_names import demangle_name
from ..parsing.spool import write_rows
from .records import CuptiRecording, Stage

_NATIVE = 2
"""Kind of a frame, as in recorder.c; the other one is Python."""
_TEXTS = {"f": "function", "s": "source", "m": "module"}
_DEEPEST = 200
_MOST_STACKS, _MOST_FRAMES, _MOST_ADDRESSES = 100_000, 200_000, 20_000
_RUNTIME = (
    r"(__)?cudart\d*|__cudart.*|cuda(Device|Event|Free|Graph|Host|Launch|Library|Malloc|Mem|Stream)\w*"
    r"|(\w+ )*(__)?cudaLaunchKernel\w*[(<].*|(\w+ )*__device_stub_.*"
)
"""Functions of the CUDA runtime where it is linked into the program, and those that nvcc makes of a launch."""


@dataclass(frozen=True)
class CallStacks:
    """The stacks of all recordings, numbered from 1."""

    frames: str
    """SELECT of stack, depth (0 is outermost), function, file, line and module (of native frames)."""
    calls: str
    """SELECT of file (number of the recording), correlation, thread and stack."""


def call_stacks(stage: Stage, recordings: Sequence[CuptiRecording]) -> CallStacks | None:
    """Return the stacks of the calls of ``recordings``; None if no stacks were recorded."""
    if not all(stage.parts[kind] for kind in ("SITE", "NODE", "FRAM")) or not recordings:
        return None
    con, work = stage.con, stage.folder
    _write_frames(stage, {r.number: r.file for r in recordings}, work / "cupti_frames.parquet")
    files = f"file IN ({', '.join(str(r.number) for r in recordings)})"
    nodes = f"(SELECT file, id, any_value(parent) AS parent, any_value(frame) AS frame FROM {stage.relation('NODE')} "
    nodes += f"WHERE {files} GROUP BY file, id)"
    used = f"SELECT DISTINCT file, node FROM {stage.relation('SITE')} WHERE {files} ORDER BY ALL LIMIT {_MOST_STACKS}"
    numbered = f"SELECT row_number() OVER (ORDER BY file, node) AS stack, * FROM ({used})"
    stacks = write_relation(con, numbered, work / "cupti_stacks.parquet")
    calls = write_relation(
        con,
        "SELECT c.file, c.correlation::BIGINT AS correlation, any_value(c.thread)::BIGINT AS thread, min(s.stack) AS "
        f"stack FROM {stage.relation('SITE')} c JOIN {stacks} s USING (file, node) GROUP BY ALL",
        work / "cupti_stack_calls.parquet",
    )
    above = (
        f"WITH RECURSIVE nodes AS MATERIALIZED {nodes}, above AS (SELECT stack, file, node, 0 AS height "
        f"FROM {stacks} UNION ALL SELECT a.stack, a.file, n.parent, a.height + 1 FROM above a "
        f"JOIN nodes n ON n.file = a.file AND n.id = a.node WHERE n.parent > 0 AND a.height < {_DEEPEST}) "
    )
    frames = write_relation(
        con,
        f"{above} SELECT stack, (row_number() OVER (PARTITION BY stack ORDER BY height DESC) - 1)::INTEGER AS depth, "
        "f.function, f.source AS file, f.line, f.module FROM above a JOIN nodes n ON n.file = a.file AND n.id = a.node "
        f"JOIN {parquet([work / 'cupti_frames.parquet'])} f ON f.file = a.file AND f.id = n.frame "
        f"WHERE f.module IS NULL OR NOT regexp_full_match(coalesce(f.function, ''), {sql_literal(_RUNTIME)}) "
        "ORDER BY stack, depth",
        work / "cupti_stack_frames.parquet",
    )
    return CallStacks(f"SELECT * FROM {frames}", f"SELECT * FROM {calls}")


def _write_frames(stage: Stage, recordings: Mapping[int, Path], path: Path) -> None:
    """Write file, id, function, source, line and module of the frames."""
    texts = f"SELECT file, id, any_value(text) AS text FROM {stage.relation('NAME')} GROUP BY file, id"
    joined = "".join(f"LEFT JOIN texts {c} ON {c}.file = r.file AND {c}.id = r.{n} " for c, n in _TEXTS.items())
    rows = all_rows(
        stage.con,
        f"WITH texts AS MATERIALIZED ({texts}) SELECT r.file, r.id, f.text, s.text, r.line, m.text, r.address, r.kind, "
        f"r.module "
        f"FROM {stage.relation('FRAM')} r {joined} ORDER BY r.row LIMIT {_MOST_FRAMES}",
    )
    kept = {}
    for file, module, number in {(r[0], r[5], r[8]) for r in rows if r[7] == _NATIVE and r[5]}:
        # The copy that the recorder made, or else the module itself.
        copy = recordings[file].with_suffix(f".{number}.module") if file in recordings else None
        kept[file, number] = str(copy) if copy and copy.is_file() else module
    native = dict.fromkeys((kept[r[0], r[8]], r[6] - 1) for r in rows if (r[0], r[8]) in kept and 0 < r[6] < 1 << 63)
    found = host_sources(list(native)[:_MOST_ADDRESSES])
    made = []
    for file, number, function, source, line, module, address, kind, module_id in rows:
        if kind == _NATIVE:
            name, source, line = found.get((kept.get((file, module_id), ""), address - 1), (None, None, 0))
            function = demangle_name(name or function or "") or f"0x{address:x}"
        texts_shown = (plain_text(function or "", NAME_LIMIT), plain_text(source or "", PATH_LIMIT))
        shown_module = plain_text(module or "(no file)", PATH_LIMIT) if kind == _NATIVE else None
        made.append((file, number, *texts_shown, line if 0 < (line or 0) < 1 << 31 else 0, shown_module))
    texts_of = dict.fromkeys(("function", "source", "module"), "VARCHAR")
    columns = dict.fromkeys(("file", "id", "function", "source", "line", "module"), "BIGINT") | texts_of
    made_rows = write_rows(stage.con, path.with_name("cupti_made_frames"), columns, made)
    shown = "file, id, nullif(any_value(function), '') AS function, nullif(any_value(source), '') AS source, "
    shown += "nullif(any_value(line), 0)::INTEGER AS line, any_value(module)::VARCHAR AS module"
    write_table(stage.con, f"SELECT {shown} FROM {made_rows} GROUP BY file, id", path)
