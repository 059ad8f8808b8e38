"""Read the files of the recorder: the launches of every process of a program with times and sizes, its ranges, and its
timeline if one was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.store.store import write_table
from ...base.profile_files import files_of_format, step_of
from ...base.untrusted_text import plain_text
from ..event_layout import EventLayout
from ..host.recording import HostRecording
from ..merging.contract import LAUNCH, Connection, PassTable, all_rows, one_row, parquet, write_relation
from ..merging.ranks import only_value, sql_place
from ..merging.wording import note, refusal
from ..reader import Profile, ProfileFiles
from ..timelines.call_kinds import HOST, cuda_copy, cuda_pinned
from ..timelines.timeline_tables import EVENT, TimelineQueries
from .call_stacks import CallStacks, call_stacks
from .ranges import nvtx_ranges, ranges_of_launches
from .records import SUFFIX, CuptiDevice, CuptiRecording, Stage, is_record

_NAMED = 4
_LAYOUT = EventLayout(__file__)
_NO_STACKS = "SELECT NULL AS file, NULL AS correlation, NULL::BIGINT AS stack LIMIT 0"
_OF_TIMELINE = ("CALL", "COPY", "FILL", "OVHD")
_TIMED = "{0}.start_ns > 0 AND {0}.end_ns >= {0}.start_ns AND {0}.end_ns < 4611686018427387904"


_PROCESS = ("pid", "rank", "host")
"""Columns that identify the process of an event."""


@dataclass
class RecordedRun:
    """The recordings of one run of a program, staged as tables."""

    stage: Stage
    recordings: list[CuptiRecording]
    """Recordings of processes that launched kernels, in the order of their numbers: by rank, else by start time."""
    processes: list[CuptiRecording]
    """Recordings of all processes, including those without launches."""
    table: PassTable
    """The launches; dispatch_id is unique and follows the order in which each process launched."""
    numbers: dict[tuple[int, int], int]
    """(Recording, device in it) -> device of the workload."""
    device: CuptiDevice | None
    """The first GPU that was used."""

    def profile(self) -> Profile:
        """Return the launches, their ranges and, if one was recorded, the timeline."""
        con, work = self.stage.con, self.stage.folder
        ranges = nvtx_ranges(self.stage, {r.number: r.place for r in self.processes})
        table, notes = self.table, list(ranges.notes)
        if ranges.steps:
            joined = f"LEFT JOIN ({ranges_of_launches(self._calls(), ranges.steps)}) w USING (dispatch_id)"
            ranged = f"SELECT l.row, w.range_id FROM {table.launches} l {joined} ORDER BY l.row"
            known = write_relation(con, ranged, work / "cupti_known.parquet")
            table = replace(table, more_columns=f"SELECT * FROM {known}")
            inside, total = one_row(con, f"SELECT count(range_id), count(*) FROM {known}")
            notes.append(note("ranges.belonging", inside=inside, launches=total))
        timeline = stacks = None
        if any(self.stage.parts[kind] for kind in _OF_TIMELINE):  # more than kernels and their launches
            stacks = call_stacks(self.stage, self.processes)
            rows = (f"({r.number}, {sql_place(r.place)})" for r in self.processes)
            processes = f"(VALUES {', '.join(rows)}) p(file, rank, host, pid)"
            devices = _devices_sql(self.numbers)
            timeline = CuptiTimeline(self.stage, table.launches, processes, devices, stacks).queries(ranges.steps)
        names = [self.stage.text(r, d.name) for r in self.recordings for d in r.devices if d is self.device]
        # The version of the CUPTI API: 18 is CUDA 11.8, 130000 CUDA 13.0.
        versions = {v for r in self.recordings if (v := r.info.get("library", "")).isdecimal()}
        return Profile(
            vendor="nvidia",
            arch=self.device.arch if self.device else None,
            device=plain_text(names[0]) or None if names else None,
            host=only_value(r.place.host for r in self.recordings),
            tool="cupti",
            tool_version=f"CUPTI {', '.join(sorted(versions))}" if versions else None,
            facts=self.device.facts if self.device else {},
            passes=[table],
            places=[r.place for r in (self.processes if timeline else self.recordings)],
            timeline=timeline,
            stacks=HostRecording("cupti", stacks.frames) if stacks else None,
            unix_shift=self.recordings[0].unix_shift,
            tables={"ranges": ranges.table} if ranges.table else {},
            notes=notes,
        )

    def _calls(self) -> str:
        """Return SQL for the thread and time of each launch. A graph launches all of its kernels at once."""
        calls = "SELECT file, correlation, min(start_ns) AS host_ns, first(thread ORDER BY start_ns) AS thread "
        calls += f"FROM {self.stage.relation('LNCH')} GROUP BY file, correlation"
        return (
            f"(SELECT l.dispatch_id, file, c.thread, c.host_ns FROM {self.table.launches} l "
            f"JOIN ({calls}) c USING (file, correlation))"
        )


@dataclass(frozen=True)
class CuptiTimeline:
    """The timeline of several recordings."""

    stage: Stage
    launches: str
    processes: str
    """FROM item p: the place of each process by the number of its recording (file)."""
    devices: str
    """FROM item d: the device of the workload by recording and device in it."""
    stacks: CallStacks | None

    def queries(self, steps: str) -> TimelineQueries:
        """Return the events, without the driver calls that runtime functions make.

        ``steps`` (from nvtx_ranges) gives the range of a thread over time.
        """
        inner = self._outermost()
        lifted = f"SELECT file, correlation, min(outer_correlation) AS outer_correlation FROM {inner}"
        outer = f"LEFT JOIN ({lifted} GROUP BY ALL) i ON i.file = r.file AND i.correlation = r.correlation"
        device = f"LEFT JOIN {self.devices} ON d.file = r.file AND d.device = r.device {outer}"
        known = self.stacks.calls if self.stacks else _NO_STACKS
        called = (
            f"LEFT JOIN {self.stage.names} n ON n.file = r.file AND n.id = r.name LEFT JOIN ({known}) k "
            f"ON k.file = r.file AND k.correlation = r.correlation ANTI JOIN {inner} i ON i.call = r.row"
        )
        rows = {"kernels": f"(SELECT * FROM {self.launches}) r {outer}"}
        for kind, joins in {"COPY": device, "FILL": device, "CALL": called, "OVHD": ""}.items():
            if self.stage.parts[kind]:
                rows[kind] = f"(SELECT * FROM {self.stage.relation(kind)} JOIN {self.processes} USING (file)) r {joins}"
        pinned = cuda_pinned("r.way", "r.source", "r.target")
        events = _LAYOUT.select("events", EVENT, rows, COPY=cuda_copy("r.way"), PINNED=pinned)
        return TimelineQueries(events, ranges_of_events=partial(self._ranges_of_events, steps) if steps else None)

    def _outermost(self) -> str:
        """Return a FROM item with the driver calls inside a runtime call of their thread, and its correlation.

        Depending on the version of CUPTI, both have the same correlation or not; device work belongs to the outer call.
        """
        calls = f"SELECT * FROM {self.stage.relation('CALL')} c WHERE {_TIMED.format('c')}"
        return write_relation(
            self.stage.con,
            "SELECT c.file, c.row AS call, c.correlation, r.correlation AS outer_correlation "
            f"FROM (SELECT * FROM ({calls}) WHERE driver = 1) c ASOF JOIN (SELECT * FROM ({calls}) WHERE driver = 0) r "
            "ON c.file = r.file AND c.thread = r.thread AND c.start_ns >= r.start_ns WHERE c.end_ns <= r.end_ns "
            "QUALIFY row_number() OVER (PARTITION BY c.file, c.row) = 1",
            self.stage.folder / "cupti_inner.parquet",
        )

    def _ranges_of_events(self, steps: str, events: str) -> str:
        """Return SQL for id and range_id: events get the range of their call, by the same rule as launches."""
        same = " AND ".join(f"e.{c} IS NOT DISTINCT FROM p.{c}" for c in _PROCESS)
        host = f"({', '.join(map(sql_literal, HOST))})"
        calls = (
            f"(SELECT e.id AS dispatch_id, p.file, e.thread, e.start_ns AS host_ns FROM {events} e "
            f"JOIN {self.processes} ON {same} WHERE e.kind IN {host})"
        )
        own = f"SELECT DISTINCT ON (dispatch_id) dispatch_id AS id, range_id FROM ({ranges_of_launches(calls, steps)})"
        called = write_relation(
            self.stage.con,
            f"SELECT e.id, e.pid, e.rank, e.host, e.correlation, o.range_id FROM {events} e JOIN ({own}) o USING (id)",
            self.stage.folder / "cupti_called.parquet",
        )
        started = (
            f"SELECT pid, rank, host, correlation, min(range_id) AS range_id FROM {called} "
            "WHERE correlation IS NOT NULL GROUP BY ALL"
        )
        return (
            f"SELECT id, range_id FROM {called} UNION ALL SELECT e.id, s.range_id FROM {events} e "
            f"JOIN ({started}) s ON e.correlation = s.correlation AND {same.replace('p.', 's.')} "
            f"WHERE e.kind NOT IN {host}"
        )


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with such files at most one level deep."""
    return bool(files_of(path))


def files_of(path: Path) -> list[Path]:
    """Return the recorder files at ``path``: itself, or those in the folder and one level below."""
    return files_of_format(path, (SUFFIX,), is_record)


def read(files: ProfileFiles) -> Profile:
    """Return the recordings at ``files.path``; BadInput names the faulty file."""
    recorded = files_of(files.path)
    if not recorded:
        raise refusal("no_record", path=files.path)
    return replace(stage(files.con, recorded, files.work).profile(), name=files.path.name.removesuffix(SUFFIX))


def stage(con: Connection, files: list[Path], work: Path) -> RecordedRun:
    """Stage the recordings of one run; BadInput if no kernel ran in any of them."""
    staged = Stage(con, work)
    recordings = [staged.read(file, number) for number, file in enumerate(files)]
    source = files[0]
    if not staged.parts["KERN"]:
        reason = next((failure for r in recordings for failure in r.failures), "")
        if not reason and not all(r.ended for r in recordings):
            reason = "the program ended without its exit handlers before CUPTI delivered any records"
        reason = reason or (
            "no kernel ran, or the program profiles itself (torch.profiler, JAX): CUPTI then delivers the records to it"
        )
        raise refusal("nothing_recorded", file=source, why=reason)
    used = [r for r in recordings if r.counts["KERN"]]
    ranks = [r.rank for r in used]
    by_rank = None not in ranks and len(set(ranks)) == len(ranks)
    used.sort(key=lambda r: (r.rank if by_rank and r.rank is not None else 0, r.began, r.pid or 0, r.file.name))
    order = {r.number: i for i, r in enumerate(used)}
    pairs = all_rows(con, f"SELECT DISTINCT file, device FROM {staged.relation('KERN')} ORDER BY ALL")
    devices = sorted(pairs, key=lambda pair: (order[pair[0]], pair[1]))
    numbers = _device_numbers(used, devices)
    launches = work / "cupti_launches.parquet"
    table = PassTable(
        step_of(source) or "timing",
        source,
        write_table(con, _launches(staged, used, numbers), launches),
        parquet([launches]),
        frozenset(LAUNCH) - {"agpr", "sgpr"},
        warnings=_warnings(recordings),
        places={number: r.place for number, r in enumerate(used, 1)},
    )
    first = next((d for r in used for d in r.devices if (r.number, d.id) in devices), None)
    return RecordedRun(staged, used, recordings, table, numbers, first)


def _device_numbers(used: list[CuptiRecording], devices: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return (recording, device in it) -> device of the workload.

    With CUDA_VISIBLE_DEVICES, each process may call its own GPU 0. If one number means several GPUs, or one GPU has
    several numbers, the GPUs are numbered in the order of the processes.
    """
    uuids = {(r.number, d.id): d.uuid for r in used for d in r.devices}
    pairs = {(key[1], uuids.get(key, f"unknown {key[1]}")) for key in devices}
    if len({number for number, _ in pairs}) == len(pairs) == len({uuid for _, uuid in pairs}):
        return {key: key[1] for key in devices}
    order = list(dict.fromkeys(uuids.get(key, f"unknown {key[1]}") for key in devices))
    return {key: order.index(uuids.get(key, f"unknown {key[1]}")) for key in devices}


def _devices_sql(numbers: Mapping[tuple[int, int], int]) -> str:
    """Return SQL for the number of each device by file and id."""
    devices = ", ".join(f"({file}, {device}, {number})" for (file, device), number in numbers.items())
    return f"(VALUES {devices}) d(file, device, number)"


def _launches(staged: Stage, used: list[CuptiRecording], numbers: dict[tuple[int, int], int]) -> str:
    """Return SQL for the launches, with the columns LAUNCH, the rank, and the key of the call: file, correlation.

    Launches of a graph share their correlation, so they are distinguished by their start.
    """
    processes = ", ".join(f"({r.number}, {i}, {sql_place(r.place)})" for i, r in enumerate(used, 1))
    whole = "k.start_ns > 0 AND k.end_ns >= k.start_ns"
    threads = "k.block_x::BIGINT * k.block_y * k.block_z"
    blocks = "k.cluster_x::BIGINT * k.cluster_y * k.cluster_z"
    inner = (
        "SELECT p.process, p.pid::BIGINT AS pid, n.text AS kernel, d.number AS device_id, k.stream AS queue_id, "
        f"TRY({threads} * k.grid_x * k.grid_y * k.grid_z) AS grid, TRY({threads}) AS workgroup_size, "
        "k.static_shared::BIGINT + k.dynamic_shared AS lds_bytes, k.local AS scratch_bytes, k.registers AS vgpr, "
        f"NULL::INT AS agpr, NULL::INT AS sgpr, nullif(nullif(TRY({blocks}), 1), 0) AS cluster, "
        f"CASE WHEN {whole} THEN TRY_CAST(k.start_ns AS BIGINT) END AS start_ns, "
        f"CASE WHEN {whole} THEN TRY_CAST(k.end_ns AS BIGINT) END AS end_ns, "
        f"CASE WHEN {whole} AND k.end_ns > k.start_ns THEN (k.end_ns - k.start_ns)::DOUBLE END AS duration_ns, "
        f"p.rank::INT AS rank, p.host::VARCHAR AS host, k.file, k.correlation, k.row AS recorded "
        f"FROM {staged.relation('KERN')} k "
        f"JOIN (VALUES {processes}) p(file, process, rank, host, pid) USING (file) "
        f"JOIN {_devices_sql(numbers)} ON d.file = k.file AND d.device = k.device "
        f"LEFT JOIN {staged.names} n ON n.file = k.file AND n.id = k.name"
    )
    order = "ORDER BY process, correlation, start_ns, recorded"
    number = f"row_number() OVER ({order}) - 1 AS row, row AS dispatch_id"
    return f"SELECT {number}, * EXCLUDE (recorded) FROM ({inner}) {order}"


def _warnings(recordings: list[CuptiRecording]) -> list[Note]:
    """Return warnings about data that is missing from the recordings."""
    notes = []
    if lost := sum(r.lost for r in recordings):
        notes.append(note("records_lost", lost=lost))
    if failures := list(dict.fromkeys(f for r in recordings for f in r.failures)):
        notes.append(note("recorder_failed", failures=failures[:_NAMED]))
    if dead := [r for r in recordings if not r.ended and r.counts["KERN"]]:
        notes.append(note("not_ended", dead=len(dead), recordings=recordings))
    return notes
