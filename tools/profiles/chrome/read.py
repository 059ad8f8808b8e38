"""Read traces in Chrome's format: from the PyTorch profiler, rocprof v1, and any other program that writes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, Problem
from ....analysis.catalogue.targets import plausible_facts, target_of_device
from ....analysis.store.store import write_table
from ...base.profile_files import files_below, files_of_format, head
from ...base.untrusted_text import plain_text
from ..host.py_spy import PY_SPY
from ..merging.contract import PassTable, all_rows, count_rows, launch_pass, one_row, parquet, write_relation
from ..merging.ranks import (
    PID_DISTANCE,
    ProcessPlace,
    only_value,
    place_of_name,
    places_of_pids,
    rank_number,
    settle_ranks,
    sql_place,
    sql_value,
    successive_runs,
)
from ..merging.wording import note, refusal
from ..reader import Profile, ProfileFiles
from ..rocprof import read as rocprof
from ..timelines.call_kinds import direction_of, is_call, is_pinned, vendor_of
from ..timelines.nesting import pair
from ..timelines.timeline_tables import EVENT, RANGE, TimelineQueries
from .collect import LAYOUT, ROLES, Traces, listed

_SUFFIXES = (".json", ".json.gz", ".trace", ".trace.gz")
_ENDS = r"(\.pt\.trace|\.trace)?(\.json)?(\.gz)?$"
_HEAD = 1 << 18
_EVENTS, _PHASE = b'"traceEvents"', re.compile(rb'"ph"\s*:\s*"')
_NOTHING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{(?:[^\[\]{}]{0,1000},)?\s*"traceEvents"\s*:\s*\[\s*\]')
_TORCH = (b'"deviceProperties"', b'"PyTorch Profiler', b'"cpu_op"', b'"schemaVersion"', b'"user_annotation"')
_V1 = re.compile(rb'"name"\s*:\s*"(?:CPU HIP API|CPU HSA API|Markers and Ranges|COPY|GPU\d+)')
_OTHERS = b'"rocprofiler-sdk-tool"'
_MOST_FILES = 1024
_ROCPROF = "rocprof"
_UNSTATED = "chrome"
"""Source of ranges from other programs."""


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a trace, even without events, or a folder with traces at most one level deep."""

    def is_empty(file: Path) -> bool:
        return bool(_NOTHING.match(head(file, _HEAD)))

    return bool(_files(path, None)) or (path.is_file() and bool(files_of_format(path, _SUFFIXES, is_empty)))


def detect_torch(path: Path) -> bool:
    """Return whether PyTorch wrote it."""
    return bool(_files(path, "torch"))


def detect_rocprof(path: Path) -> bool:
    """Return whether rocprof v1 wrote it."""
    return bool(_files(path, "rocprof-trace"))


def _files(path: Path, dialect: str | None) -> list[Path]:
    traces = [(file, kind) for file in files_below(path, _SUFFIXES) if (kind := _dialect(file))]
    return [file for file, kind in traces if dialect in (None, kind)][: _MOST_FILES + 1]


def _dialect(file: Path) -> str | None:
    """Return which program wrote a trace, by its beginning; None if it is not a trace."""
    try:
        start = head(file, _HEAD)
    except Problem:
        return None
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _OTHERS in start or PY_SPY in start or not (text.startswith(b"{") or re.match(rb"\[\s*\{", text)):
        return None
    if any(mark in start for mark in _TORCH) and (_EVENTS in start or b'"deviceProperties"' in start):
        return "torch"
    if not _PHASE.search(start) or (text.startswith(b"{") and _EVENTS not in start):
        return None
    return "rocprof-trace" if _V1.search(start) else "chrome"


def read(files: ProfileFiles) -> Profile:
    """Return the trace at ``files.path``, or the traces of all ranks in a folder.

    Raises BadInput if a file is truncated, or has no event with a usable time.
    """
    path = files.path
    sources = files.or_itself(_files(path, None))
    if not sources:
        raise refusal("no_trace", path=path)
    if len(sources) > _MOST_FILES:
        raise refusal("too_many_traces", path=path, most=_MOST_FILES)
    traces, damaged = Traces(files.con, files.work), list[Note]()
    if len(sources) == 1:
        traces.read(sources[0])
    else:
        damaged = [note for file in sources if (note := traces.read_of_many(file))]
    if len(damaged) == len(sources):
        raise refusal("no_readable_trace", path=path, problems=damaged[:4])
    return _ChromeTables(files, sources, traces).profile(damaged)


class _ChromeTables:
    """Converts the spooled events of the traces into launches, events and ranges."""

    def __init__(self, given: ProfileFiles, files: list[Path], traces: Traces) -> None:
        self.con, self.work, self.path, self.files, self.traces = given.con, given.work, given.path, files, traces
        self.names = parquet(traces.names.close())
        events, spans, self.marks, self.flows = (
            self._without_damaged(parquet(spool.close())) for spool in traces.spools.values()
        )
        self.spooled = f"(FROM {events} UNION ALL BY NAME FROM {spans})"
        places = [
            ProcessPlace(rank_number(facts.get("distributedInfo", {}).get("rank"))).or_else(place_of_name(f))
            for facts, f in zip(traces.facts, files, strict=True)
        ]
        self.places, self.doubts = settle_ranks(places)
        ranks = {rank for rank in traces.ranks.values() if rank is not None}
        self.fused = sorted(ranks) if len(files) == 1 and len(ranks) > 1 else []
        """The ranks of a file into which the traces of several ranks were merged."""

    def _without_damaged(self, rows: str) -> str:
        """Return a FROM item without the rows of damaged files."""
        damaged = ", ".join(map(str, sorted(self.traces.damaged)))
        return f"(FROM {rows} WHERE file NOT IN ({damaged}))" if damaged else rows

    @property
    def _several(self) -> bool:
        return len(self.files) - len(self.traces.damaged) > 1

    @property
    def _processes(self) -> Sequence[ProcessPlace]:
        """The places of the processes that launches are numbered by; empty if there is only one."""
        return [ProcessPlace(rank) for rank in self.fused] or (self.places if self._several else ())

    def profile(self, damaged: list[Note]) -> Profile:
        """Return the profile; ``damaged`` are warnings about files that were skipped."""
        con = self.con
        con.execute(f"CREATE OR REPLACE TABLE chrome_lanes AS {self.traces.lane_rows(merged=bool(self.fused))}")
        con.execute(f"CREATE OR REPLACE TABLE chrome_files AS {self._of_files(self._pids())}")
        self.decided = write_relation(con, self._classified_events(), self.work / "chrome_decided.parquet")
        format, tool = self._tool()
        table = self._rocprof_table() if tool == _ROCPROF else Profile("amd", ())
        launches = self._launches(self.work / "chrome_launches.parquet", table)
        ranges, notes = self._ranges()
        sizes = {f["distributedInfo"].get("world_size") for f in self.traces.facts if "distributedInfo" in f}
        devices = [d for f in self.traces.facts for d in f.get("deviceProperties") or ()]
        device = next((d for d in devices if d.get("name")), devices[0] if devices else {})
        name = plain_text(str(device.get("name") or ""), 80) or None
        facts = plausible_facts({"cu_per_gpu": device.get("numSms"), "memory_bytes": device.get("totalGlobalMem")})
        vendor = "amd" if tool == _ROCPROF else vendor_of(con, name, f"FROM {self.decided} WHERE what = 'call'")
        ranks = [place.rank for place in self.places if place.rank is not None]
        several = bool(self._processes)
        return Profile(
            name=self.path.name if self.path.is_dir() else re.sub(_ENDS, "", self.path.name) or self.path.name,
            format=format,
            vendor=vendor,
            arch=target_of_device(
                vendor,
                name,
                (device.get("computeMajor", device.get("major")), device.get("computeMinor", device.get("minor"))),
                facts,
            )
            or table.arch,
            device=name or table.device,
            tool=tool,
            host=only_value(place.host for place in self.places),
            rank=ranks[0] if len(self.files) == len(ranks) == 1 and not self.fused else None,
            facts=facts or table.facts,
            passes=[launches],
            unix_shift=-bases[0] if (bases := self._bases()) else None,
            timeline=TimelineQueries(
                self._events(self.work), ranges, refusal=self._refusal, notes=self.traces.skipped_notes()
            ),
            places=[p for n, p in enumerate(self._processes) if n not in self.traces.damaged],
            world_size=next((s for s in sizes if type(s) is int and 0 < s < 1 << 20), None) if several else None,
            warnings=[*damaged, *notes, *self.doubts, *self.traces.unused_notes(), *self._unknown_categories()],
        )

    def _unknown_categories(self) -> list[Note]:
        """Return a warning about events that may be device work, if their category is unknown."""
        rows = all_rows(
            self.con,
            f"SELECT c.text, count(*) FROM {self.decided} e JOIN {self.names} c ON c.number = e.category "
            f"WHERE what = {sql_literal(_UNSTATED)} GROUP BY 1 ORDER BY 2 DESC, 1",
        )
        categories = Counter({plain_text(name, 80): count for name, count in rows})
        if not categories:
            return []
        return [note("unknown_category", total=categories.total(), categories=listed(categories), source=_UNSTATED)]

    def _tool(self) -> tuple[str, str | None]:
        """Return the format and the program that wrote the traces."""
        facts, seen = self.traces.facts, self.traces.seen
        if seen & {"cpu_op", "user_annotation", "gpu_memcpy"} or (
            seen and any("deviceProperties" in f or "schemaVersion" in f for f in facts)
        ):
            return "torch", "PyTorch profiler"
        if any(re.fullmatch(r"CPU H(IP|SA) API( r\d+)?", label) for label in self.traces.lanes.values()):
            return "rocprof-trace", _ROCPROF
        return "chrome", None

    def _refusal(self, warnings: Sequence[Note]) -> BadInput:
        """Return the error for traces without a usable time."""
        if self.traces.beyond is not None:
            return refusal("times_in_ns", path=self.path, stated=plain_text(self.traces.beyond, 40))
        why = [one.text for one in (*warnings, *self.traces.skipped_notes())] or ["it has no complete events"]
        return refusal("no_times", path=self.path, why=why)

    def _bases(self) -> list[int]:
        """Return the Unix times in ns of the zero of each file's clock, for the files that state it."""
        bases = [facts.get("baseTimeNanoseconds") for facts in self.traces.facts]
        return [b for b in bases if type(b) is int and abs(b) < 1 << 61]

    def _of_files(self, pids: Mapping[int, int]) -> str:
        """Return SQL for file, rank, host, the only process with calls, and what makes ids and clocks comparable."""
        self.places = [ProcessPlace(p.rank, p.host, pids.get(n, p.pid)) for n, p in enumerate(self.places)]
        known = self._bases()
        shifts = [base - known[0] for base in known] if len(known) == len(self.files) else [0] * len(self.files)
        if self._several:
            self._check_related(shifts)
        apart = places_of_pids(self.places) if self._several else [0] * len(self.files)
        rows = [
            f"({n}, {shift}, {sql_place(place)}, {sql_value(pids.get(n))}, {number * PID_DISTANCE})"
            for n, (place, shift, number) in enumerate(zip(self.places, shifts, apart, strict=True))
        ]
        columns = ", ".join(f"{c}::BIGINT AS {c}" for c in ("file", "rank", "shift", "alone", "apart"))
        return (
            f"SELECT {columns}, host::VARCHAR AS host FROM (VALUES {', '.join(rows)}) "
            "v(file, shift, rank, host, pid, alone, apart)"
        )

    def _pids(self) -> dict[int, int]:
        """Return the process of each of several files in which only one made calls, since device work states none."""
        if not self._several:
            return {}
        call = ROLES.index("call")
        rows = all_rows(
            self.con,
            f"SELECT file, any_value(pid) FROM {self.spooled} WHERE role = {call} AND pid IS NOT NULL GROUP BY file "
            "HAVING count(DISTINCT pid) = 1",
        )
        return dict(rows)

    def _check_related(self, shifts: list[int]) -> None:
        """Raise BadInput if files without ranks are from several runs of a program, one after the other."""
        if any(place.rank is not None for place in self.places) or len({place.host for place in self.places}) > 1:
            return  # clocks of different hosts are not comparable
        rows = all_rows(
            self.con,
            f"SELECT file, min(start_ns + shift), max(end_ns + shift) FROM (SELECT *, {shifts}[file + 1] AS "
            f"shift FROM {self.spooled}) GROUP BY file ORDER BY 2, 3",
        )
        runs = successive_runs(rows, [place.pid for place in self.places])
        if len(runs) > 1:
            raise refusal("several_runs", path=self.path, count=len(runs), files=[self.files[run[0]] for run in runs])
        self.doubts.append(note("taken_as_one", count=len(rows)))

    def _classified_events(self) -> str:
        """Return SQL for all events with their role as text; lane and name decide if the category does not."""
        call = is_call("n.text")
        words = " ".join(f"WHEN {number} THEN {sql_literal(role)}" for number, role in enumerate(ROLES) if number)
        unknown = f"CASE WHEN {call} THEN 'call' ELSE {sql_literal(_UNSTATED)} END"
        # The lane of a device contains copies and fills in addition to kernels.
        drawn = f"e.role = 0 AND l.role = {ROLES.index('kernel')}"
        role = (
            f"CASE WHEN {drawn} AND {direction_of('n.text')} != 'other' THEN 'copy' "
            f"WHEN {drawn} AND starts_with(lower(n.text), 'memset') THEN 'fill' "
            f"ELSE CASE coalesce(nullif(e.role, 0), l.role, 0) {words} ELSE {unknown} END END"
        )
        return (
            f"SELECT e.* REPLACE (start_ns + shift AS start_ns, end_ns + shift AS end_ns), {role} AS what, n.text, "
            f"coalesce(l.lane_rank, f.rank) AS rank, host, apart, alone, l.device FROM {self.spooled} e "
            f"JOIN {self.names} n ON n.number = e.name JOIN chrome_files f USING (file) "
            "LEFT JOIN chrome_lanes l USING (file, lane)"
        )

    def _rocprof_table(self) -> Profile:
        """Return the table of launches beside the only trace; without passes if there is none."""
        table = None
        try:
            if len(self.files) == 1:
                table = rocprof.read_beside(ProfileFiles(self.files[0], self.con, self.work))
        except Problem as problem:
            self.doubts.append(note("left_out.one", problem=problem))
        return table or Profile("amd", ())

    def _launches(self, path: Path, table: Profile) -> PassTable:
        """Return the kernels as launches, in the order of their start, with what ``table`` states about them."""
        rows = (
            "SELECT row_number() OVER (ORDER BY start_ns, end_ns, name) - 1 AS row, * REPLACE "
            f"(coalesce(device, device_id) AS device_id) FROM {self.decided} WHERE what = 'kernel'"
        )
        if table.passes:
            rows, notes = rocprof.with_sizes(self.con, rows, table)
            self.doubts += notes
        count = write_table(self.con, rows, path)
        self.kernels = parquet([path])
        if not count:
            return PassTable("main", self.files[0])
        calls = f"{self.decided} WHERE what = 'call'"
        alone = "SELECT CASE WHEN count(DISTINCT pid) = 1 THEN any_value(pid) END"
        (pid,) = one_row(self.con, f"{alone} FROM {calls}")
        process = f"coalesce(pid, alone, {sql_value(pid)})"
        file = f"list_position({self.fused}, rank) - 1" if self.fused else "file"
        columns = LAYOUT.columns(LAYOUT.stated["launches"], FILE=file, PROCESS=process)
        launches = launch_pass(self.files[0], self.kernels, count, columns)
        return replace(launches, places=dict(enumerate(self._processes)))

    def _events(self, work: Path) -> str:
        """Return SQL for kernels, copies, fills, calls and samples, with the columns EVENT."""
        linked = self._with_arrows(work)
        rows = {
            "kernels": f"({self._with_arguments(linked.format(self.kernels))})",
            "linked": f"({linked.format(self.decided)})",
            "decided": self.decided,
        }
        return LAYOUT.select("events", EVENT, rows, CALL=str(ROLES.index("call")), PINNED=is_pinned("text"))

    def _with_arguments(self, rows: str) -> str:
        """Return SQL for rows with the text of their arguments, as the column stated."""
        return f"SELECT d.*, a.text AS stated FROM ({rows}) d LEFT JOIN {self.names} a ON a.number = d.arguments"

    def _with_arrows(self, work: Path) -> str:
        """Return SQL for rows with the correlation from their arrows, if the trace has arrows, as in rocprof v1."""
        arrows = work / "chrome_arrows.parquet"
        count = write_table(
            self.con,
            "SELECT file, lane, (time_ns + shift) // 1000 AS time_us, starts, min(id) AS arrow "
            f"FROM {self.flows} JOIN chrome_files USING (file) WHERE forward = 0 GROUP BY ALL",
            arrows,
        )
        if not count:
            return "FROM {}"
        # Times of arrows are in whole microseconds.
        return (
            "SELECT e.* REPLACE (coalesce(e.correlation, a.arrow) AS correlation) FROM {} e "
            f"LEFT JOIN {parquet([arrows])} a "
            "ON a.file = e.file AND a.lane = e.lane AND a.time_us = e.start_ns // 1000 "
            "AND a.starts = CASE WHEN e.what = 'call' THEN 1 ELSE 0 END"
        )

    def _ranges(self) -> tuple[str, list[Note]]:
        """Return SQL for the ranges of the program, with the columns RANGE, and warnings about begins and ends."""
        # The operator that an arrow to the one that computes its gradient begins at.
        forward = (
            "SELECT file, lane, b.thread, b.time_ns + shift AS start_ns, 'torch' AS what, arg_max(f.thread, f.time_ns) "
            f"AS forward_thread, max(f.time_ns + shift) AS forward_ns FROM {self.flows} b JOIN {self.flows} f USING "
            "(file, lane, id, forward) JOIN chrome_files USING (file) WHERE forward = 1 AND f.starts > b.starts "
            "GROUP BY ALL"
        )
        rows = {
            "decided": f"(({self._with_arguments(f'FROM {self.decided}')}) LEFT JOIN ({forward}) USING (file, lane, "
            "thread, start_ns, what))"
        }
        if not self.traces.spools["marks"].rows:
            return LAYOUT.select("ranges", RANGE, rows), []
        con, work = self.con, self.work
        marks = write_relation(
            con,
            "SELECT m.* REPLACE (time_ns + shift AS time_ns), dense_rank() OVER (ORDER BY file, lane, thread, o.text) "
            f"AS track FROM {self.marks} m JOIN chrome_files USING (file) LEFT JOIN {self.names} o "
            "ON o.number = m.operation WHERE time_ns IS NOT NULL "
            "ORDER BY track, time_ns, seq",
            work / "chrome_sorted.parquet",
        )
        ordered = f"SELECT track, time_ns, begins, seq FROM {marks} ORDER BY track, time_ns, seq"
        spans, notes = pair(con, work, ordered, "chrome")
        lost = count_rows(con, f"{self.marks} WHERE time_ns IS NULL")
        if lost:
            notes.append(note("events_left_out.timeless", lost=lost))
        rows["begun"] = (
            f"(SELECT m.*, s.end_ns, n.text, f.rank, f.host, f.apart, f.alone FROM {marks} m "
            f"JOIN {spans} s ON s.mark = m.seq AND m.begins = 1 JOIN {self.names} n ON n.number = m.name "
            "JOIN chrome_files f ON f.file = m.file)"
        )
        return LAYOUT.select("ranges", RANGE, rows), notes
