"""Thread traces decoded by rocprofv3 --att: cycles, executions and stalls of every instruction of one launch.

Formats: the output of rocprofiler-sdk's att-tool, which ROCprof Compute Viewer reads: ui_output_agent_A_dispatch_D/
code.json with filenames.json, snapshots.json and a file for each wave, and stats_ui_output_agent_A_dispatch_D.csv.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import head, is_inside, open_regular
from ...base.untrusted_text import plain_text
from ...code_objects.isa import AmdInstruction, class_of, producers, target_of
from ..merging.contract import Connection, count_rows, parquet
from ..merging.wording import note, refusal
from ..parsing.csv_file import stage_columns
from ..parsing.json_stream import JsonCut, elements
from ..parsing.spool import Spool
from ..samples.sample_tables import INSTRUCTION, SAMPLE, SOURCE_LINE, HotspotQueries
from .layouts import ATT
from .waves import RESIDENT, CoveredCycles, TracedWave, covered_cycles, read_waves, resident_waves, select_waves

_NAME = re.compile(r"(?:stats_)?ui_output_agent_(\d{1,18})_dispatch_(\d{1,18})(?:\.csv)?")
_MOST_TRACES, _MOST_ROWS = 64, 400_000
_SMALL_BYTES, _OCCUPANCY_BYTES = 1 << 20, 128 << 20
"""Maximum size of files."""
_SOURCE_BYTES, _MOST_SOURCES, _AROUND = 4 << 20, 200, 20
_DEFAULT_ORDER = ("ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle")
"""Order of the cells of a row if code.json does not state it."""
_CYCLES, _MARKER = 0, ";"
"""ServiceType of a trace (others are samples), and the prefix of a row that names a kernel, not an instruction."""
_RETURN = "s_setpc_b64 s[30:31]"
"""Instruction that ends a function that is not a kernel, by the calling convention of LLVM."""
_LARGEST = 2**62
_CELL = 2000
_ARROW, _PLACE = " -> ", re.compile(r"(.{1,1000}):(\d{1,9})")


@dataclass(frozen=True)
class TracedInstruction:
    """One instruction of a trace."""

    text: str
    source: str = ""
    object: int | None = None
    address: int | None = None
    hits: int | None = None
    latency: int | None = None
    stall: int | None = None
    idle: int | None = None
    number: int | None = None
    """Number by which the files of waves refer to it."""
    service: int | None = None
    issued: int | None = None
    stalled: int | None = None

    @property
    def is_function_mark(self) -> bool:
        """Whether the row is not an instruction but the name of the function that starts at its address."""
        return self.text.startswith(_MARKER)

    @property
    def function_names(self) -> tuple[str, ...]:
        """Names of a function: the readable one, if any, and the linker's."""
        linked = self.text.lstrip(f"{_MARKER} ")
        return (self.source, linked) if self.source else (linked,)

    @property
    def source_places(self) -> list[tuple[str, int]]:
        """File and line, the innermost first if code was inlined."""
        parts = (_PLACE.fullmatch(part.strip()) for part in self.source.split(_ARROW))
        return [(m[1], int(m[2])) for m in parts if m]


@dataclass(frozen=True)
class TracedLaunch:
    """A launch of the profile: its row in the main pass, and its kernel name there."""

    row: int
    kernel: str


@dataclass
class ThreadTrace:
    """One decoded launch, and those traced together with it: its files and their contents."""

    dispatch: int | None
    code: Path | None = None
    stats: Path | None = None
    rows: list[TracedInstruction] = field(default_factory=list)
    kernels: _TraceKernels = field(default_factory=lambda: _TraceKernels([]))
    waves: Sequence[TracedWave] = ()
    covered: Mapping[int, CoveredCycles] = field(default_factory=dict)
    """What other waves covered, by number of the instruction; empty without the files of waves."""
    unread: int = 0
    """Number of files of waves that were not read."""

    @property
    def source(self) -> Path:
        """The file to read: preferably JSON, whose row numbers are needed to find what waits waited for."""
        file = self.code or self.stats
        assert file is not None
        return file


class _TraceKernels:
    """Determines the kernel of each row of a trace from the rows that start a function.

    A function that returns is not a kernel; its rows, and those outside any function, belong to the kernel with the
    most cycles.
    """

    def __init__(self, rows: Sequence[TracedInstruction]) -> None:
        marks: dict[int | None, dict[int, TracedInstruction]] = defaultdict(dict)
        for one in rows:
            if one.is_function_mark and one.address is not None:
                marks[one.object][one.address] = one
        self._starts = {number: sorted(by_address) for number, by_address in marks.items()}
        self._marks = marks
        cost: Counter[TracedInstruction | None] = Counter()
        returning = set()
        for one in (one for one in rows if not one.is_function_mark):
            mark = self._preceding_mark(one)
            cost[mark] += (one.latency or 0) + (one.idle or 0)
            if one.text.startswith(_RETURN):
                returning.add(mark)
        self.marks_of_kernels = [mark for mark, _ in cost.most_common() if mark is not None and mark not in returning]
        """The starts of kernels, those with the most cycles first."""

    def mark_of(self, one: TracedInstruction) -> TracedInstruction | None:
        """Return the mark of the kernel that a row belongs to."""
        mark = self._preceding_mark(one)
        return mark if mark in self.marks_of_kernels else next(iter(self.marks_of_kernels), None)

    def _preceding_mark(self, one: TracedInstruction) -> TracedInstruction | None:
        starts = self._starts.get(one.object, [])
        place = bisect_right(starts, -1 if one.address is None else one.address)
        return self._marks[one.object][starts[place - 1]] if place else None


def find_traces(files: Sequence[Path], path: Path) -> list[ThreadTrace]:
    """Return the traces that consist of ``files``."""
    traces: dict[tuple[Path, str], ThreadTrace] = {}
    folder = path if path.is_dir() else path.parent
    for file in files:
        is_code = file.suffix == ".json"
        if not is_inside(file, folder):
            continue
        trace_name = file.parent.name if is_code else file.stem.removeprefix("stats_")
        match = _NAME.fullmatch(trace_name)
        parent = file.parent.parent if is_code else file.parent
        trace = traces.setdefault((parent, trace_name), ThreadTrace(int(match[2]) if match else None))
        if is_code:
            trace.code = file
        else:
            trace.stats = file
    return list(traces.values())[:_MOST_TRACES]


_TABLES = {"code": INSTRUCTION, "samples": SAMPLE, "lines": SOURCE_LINE, "waves": RESIDENT}


def trace_queries(
    con: Connection,
    work: Path,
    traces: Sequence[ThreadTrace],
    launches_by_number: Mapping[int, TracedLaunch],
) -> tuple[HotspotQueries | None, Callable[[str], str] | None, list[Note]]:
    """Return the instructions of the traces, None if no trace can be read; the table of their waves; and warnings.

    ``launches_by_number`` maps dispatch ids to launches of the main pass.
    """
    spools = {name: Spool(con, work / f"att_{name}", columns) for name, columns in _TABLES.items()}
    traces_read, warnings = 0, list[Note]()
    for trace in traces:
        try:
            _fill_trace(con, trace, work)
        except (BadInput, LimitExceeded) as problem:
            warnings.append(note("damaged.one", problem=problem))
            continue
        progress.report(f"read {count_text(len(trace.rows), 'instruction')} of {trace.source.parent.name}")
        if not any(one.hits or one.issued or one.stalled for one in trace.rows):
            warnings.append(note("nothing_traced", folder=trace.source.parent))
        launch = launches_by_number.get(trace.dispatch) if trace.dispatch is not None else None
        for name, rows_of in (("code", _instructions), ("samples", _samples), ("waves", _waves)):
            spools[name].add([tuple(map(values.get, _TABLES[name])) for values in rows_of(trace, launch)])
        spools["lines"].add(_source_lines(trace))
        traces_read += 1
        warnings += _doubts_about_waves(trace)
    if not traces_read:
        return None, None, warnings
    code, samples, lines, waves = (f"SELECT * FROM {parquet(spool.close())}" for spool in spools.values())
    resident = count_rows(con, f"({waves})")
    notes = [*warnings, note("thread_trace.read", traces=traces_read)]
    return HotspotQueries("rocprofv3", samples, code, lines), partial(select_waves, waves) if resident else None, notes


def _waves(trace: ThreadTrace, launch: TracedLaunch | None) -> Iterator[dict[str, Any]]:
    """Yield the waves of a trace, traced or only seen to be resident, in the columns of the table waves."""
    occupancy = _read_json(trace.source.parent / "occupancy.json", _OCCUPANCY_BYTES)
    stated = occupancy.get("dispatches")
    names = stated if isinstance(stated, Mapping) else {}
    places = {}
    for number, cells in resident_waves(occupancy, trace.waves):
        if number not in places:
            places[number] = _place(trace, launch, _entry(trace, str(names.get(str(number), ""))))
        yield places[number] | cells


def _entry(trace: ThreadTrace, name: str) -> TracedInstruction:
    """Return a row of the kernel that occupancy.json calls ``name``: by its name, or by code object and address."""
    for one in trace.rows:
        if one.is_function_mark and name in one.function_names:
            return one
    match = _ADDRESS.fullmatch(name)
    return TracedInstruction("", object=int(match[1]), address=int(match[2], 16)) if match else TracedInstruction("")


def _doubts_about_waves(trace: ThreadTrace) -> list[Note]:
    """Return warnings about waves that are missing, so that covered cycles are those of some waves only."""
    if not trace.waves:
        return []
    seen, all_executed = sum(c.executed for c in trace.covered.values()), sum(one.hits or 0 for one in trace.rows)
    name = trace.source.parent.name
    if trace.unread:
        return [note("left_out.wave_files", folder=name, files=trace.unread)]
    if seen != all_executed:
        return [note("left_out.waves", folder=name, seen=seen, executed=all_executed)]
    return []


_ADDRESS = re.compile(r"(\d{1,9}) / 0x([0-9a-fA-F]{1,15})")


def _instructions(trace: ThreadTrace, launch: TracedLaunch | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trace in the columns of instructions, with what each wait waited for."""
    awaited_offsets = _producers_of_waits(trace)
    for one in trace.rows:
        if not one.text or one.is_function_mark or one.address is None:
            continue
        places = one.source_places
        (file, line), outer = (places[0] if places else (None, None)), places[1:]
        has_cycles = one.service in (None, _CYCLES)
        known = None
        if trace.waves and one.number is not None:
            known = trace.covered.get(one.number, CoveredCycles(0, 0, 0))
        yield _place(trace, launch, one) | {
            "source_file": file, "source_line": line or None, "class": class_of(one.text),
            "inlined": " > ".join(f"at {f}:{n}" for f, n in reversed(outer)) or None,
            "target": target_of(one.address, one.text),
            "waits_for": ",".join(map(str, awaited_offsets.get(one, ()))) or None,
            "executed": one.hits if has_cycles else None, "latency_cycles": one.latency if has_cycles else None,
            "stall_cycles": one.stall if has_cycles else None, "idle_cycles": one.idle if has_cycles else None,
            "hidden_cycles": known.hidden if known else None, "exposed_cycles": known.exposed if known else None,
        }  # fmt: skip


def _place(trace: ThreadTrace, launch: TracedLaunch | None, one: TracedInstruction) -> dict[str, Any]:
    mark = trace.kernels.mark_of(one)
    names = mark.function_names if mark else ()
    is_alone = len(trace.kernels.marks_of_kernels) < 2
    own_launch = launch if launch and (is_alone or launch.kernel in names) else None
    return {
        "row": own_launch.row if own_launch else None,
        # The number is that of the first launch, which only one of several kernels can have.
        "dispatch_id": trace.dispatch if own_launch or not launch else None,
        "kernel": None if own_launch or not names else names[0],
        "code_object": f"code object {one.object}", "offset": one.address, "instruction": one.text,
    }  # fmt: skip


def _samples(trace: ThreadTrace, launch: TracedLaunch | None) -> Iterator[dict[str, Any]]:
    """Yield samples of the program counter, which newer releases write in the same files."""
    for one in trace.rows:
        if one.service in (None, _CYCLES) or one.is_function_mark:
            continue
        for count, issued in ((one.issued, 1), (one.stalled, 0)):
            if count:
                yield _place(trace, launch, one) | {"issued": issued, "count": count}


def _producers_of_waits(trace: ThreadTrace) -> dict[TracedInstruction, list[int]]:
    """Return the offsets each wait waited for: as the decoder saw it in the waves, else by the instruction order."""
    by_number = {one.number: one for one in trace.rows if one.number is not None and one.address is not None}
    edges: dict[int, Counter[int]] = defaultdict(Counter)
    for wave in trace.waves:
        for wait, source, count in wave.waits:
            edges[wait][source] += count
    producers_by_row = {
        by_number[wait]: [int(by_number[s].address or 0) for s, _ in sources.most_common(8) if s in by_number]
        for wait, sources in edges.items()
        if wait in by_number
    }
    gfxip = _whole(_read_json(trace.source.parent / "filenames.json").get("gfxip"))
    generation = "" if gfxip is None else f"gfx{gfxip}"
    objects = defaultdict(list)
    for one in trace.rows:
        if one.address is not None and not one.is_function_mark:
            objects[one.object].append(one)
    for rows in objects.values():
        rows.sort(key=lambda one: one.address or 0)
        offsets_by_wait = producers([AmdInstruction(one.address or 0, 0, one.text) for one in rows], generation)
        for one in rows:
            if one.address in offsets_by_wait:
                producers_by_row.setdefault(one, offsets_by_wait[one.address])
    return producers_by_row


def _read_json(file: Path, most: int = _SMALL_BYTES) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is none, or if it is larger than ``most`` bytes."""
    if not file.is_file() or not is_inside(file, file.parent) or file.stat().st_size > most:
        return {}
    try:
        content = json.loads(head(file, most))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _source_lines(trace: ThreadTrace) -> list[tuple[str, int, str]]:
    """Return lines of the sources that the profiler copied, around those of instructions."""
    folder = trace.source.parent
    wanted: dict[str, set[int]] = defaultdict(set)
    for one in trace.rows:
        for file, line in one.source_places:
            wanted[file].update(range(max(1, line - _AROUND), line + _AROUND + 1))
    rows = []
    for path, name in islice(_source_copies(_read_json(folder / "snapshots.json")), _MOST_SOURCES):
        copy = folder / name
        if path not in wanted or Path(name).name != name or not is_inside(copy, folder) or not copy.is_file():
            continue
        if copy.stat().st_size > _SOURCE_BYTES:
            continue
        lines = head(copy, _SOURCE_BYTES).decode("utf-8", "replace").split("\n")
        rows += [(path, n, lines[n - 1][:_CELL]) for n in sorted(wanted[path]) if n <= len(lines)]
    return rows


def _source_copies(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of the copy for every file in a tree of folders."""
    waiting = [("", tree)]
    while waiting:
        above, node = waiting.pop()
        if isinstance(node, str):
            yield above, node
        elif isinstance(node, Mapping) and len(above) < _CELL:
            for name, below in node.items():
                part = str(name)
                waiting.append(("/" if part == "/" else f"{above.rstrip('/')}/{part}" if above else part, below))


def _fill_trace(con: Connection, trace: ThreadTrace, work: Path) -> None:
    """Read the rows and the kernels of a trace. Raises BadInput if its file is damaged."""
    raw = _json_rows(trace.code) if trace.code else _csv_rows(con, trace.source, work)
    for cells in raw:
        text, source = (plain_text(str(cells.get(name) or "")[:_CELL], _CELL) for name in ("text", "source"))
        numbers = {name: _whole(cells.get(name)) for name in ATT if name not in ("text", "source")}
        trace.rows.append(TracedInstruction(text, source, **numbers))
    if not trace.rows:
        raise refusal("empty_thread_trace", folder=trace.source.parent)
    trace.kernels = _TraceKernels(trace.rows)
    if trace.code:
        trace.waves, trace.unread = read_waves(trace.code.parent)
        trace.covered = covered_cycles(trace.waves)


def _json_rows(file: Path) -> list[dict[str, Any]]:
    rows = []
    order = list(_DEFAULT_ORDER)
    with open_regular(file) as handle:
        try:
            for path, value in elements(handle, lambda path: path == ()):
                if path == ("code",) and isinstance(value, list):
                    rows.append([c[:_CELL] if isinstance(c, str) else c for c in value[: len(ATT) + 2]])
                elif path == ("header",) and isinstance(value, str):
                    order = [name.strip() for name in value[:_CELL].split(",")]
                if len(rows) > _MOST_ROWS:
                    raise LimitExceeded(f"{file.name} has more than {_MOST_ROWS:,} instructions")
        except JsonCut as error:
            raise refusal("damaged_trace", folder=file.parent, file=file, why=str(error)) from error
    places = {name: order.index(header) for name, (header, _) in ATT.items() if header in order}
    if not {"text", "address", "latency"} <= places.keys():
        raise refusal("unknown_layout", file=file)
    return [{name: row[at] for name, at in places.items() if at < len(row)} for row in rows]


def _csv_rows(con: Connection, file: Path, work: Path) -> list[dict[str, Any]]:
    headers = {name: header for name, (_, header) in ATT.items() if header}
    staged = work / "att_stats.parquet"
    needed = [headers[name] for name in ("object", "address", "text", "hits", "latency", "stall", "idle")]
    stage_columns(con, file, needed, staged, [h for h in headers.values() if h not in needed])
    numbers = ("text", "source")
    picks = ", ".join(h if n in numbers else f"TRY_CAST({h} AS BIGINT)" for n, h in headers.items())
    rows = con.execute(f"SELECT {picks} FROM {parquet([staged])}").fetchmany(_MOST_ROWS + 1)
    staged.unlink()
    if len(rows) > _MOST_ROWS:
        raise LimitExceeded(f"{file.name} has more than {_MOST_ROWS:,} instructions")
    return [dict(zip(headers, row, strict=True)) for row in rows]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST else None
