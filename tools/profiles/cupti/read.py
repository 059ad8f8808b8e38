"""Read the files of the recorder: the launches of every process of a program with times and sizes, its ranges, and its
timeline if one was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, Problem
from ....analysis.base.text import count_text
from ....analysis.store.store import Manifest, write_table
from ...base.profile_files import WORK, files_below, step_of
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import LAUNCH, PassTable, parquet
from ..merging.merge import MergedProfile, as_replays, write_tables
from ..merging.ranks import sql_place
from .activity import CuptiTimeline, is_traced
from .ranges import ranges_of_launches, write_ranges
from .records import SUFFIX, CuptiDevice, CuptiRecording, Stage, is_record

if TYPE_CHECKING:
    import duckdb

_NAMED = 4


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

    @property
    def arch(self) -> str | None:
        return self.device.arch if self.device else None

    def device_name(self) -> str | None:
        """Return the driver's name of the first GPU that was used."""
        for recording in self.recordings:
            for device in recording.devices:
                if device is self.device:
                    return plain_text(self.stage.text(recording, device.name)) or None
        return None

    def host(self) -> str | None:
        hosts = {r.place.host for r in self.recordings}
        return hosts.pop() if len(hosts) == 1 else None

    def version(self) -> str | None:
        """Return the version of the CUPTI API: 18 is CUDA 11.8, 130000 CUDA 13.0."""
        versions = {v for r in self.recordings if (v := r.info.get("library", "")).isdecimal()}
        return f"CUPTI {', '.join(sorted(versions))}" if versions else None

    def write(self, con: duckdb.DuckDBPyConnection, out: Path, merged: MergedProfile) -> None:
        """Write the ranges and, if one was recorded, the timeline; notes are added to ``merged``."""
        places = {r.number: r.place for r in self.processes}
        steps, notes = write_ranges(con, self.stage, places, out)
        merged.places = [r.place for r in (self.processes if is_traced(self.stage) else self.recordings)]
        merged.notes += [*notes, *self._into_dispatches(con, out, steps)]
        if is_traced(self.stage):
            CuptiTimeline(self.stage, self.processes, self.table.launches, self.numbers).write(con, out, steps, merged)

    def _into_dispatches(self, con: duckdb.DuckDBPyConnection, out: Path, steps: str) -> list[Note]:
        """Add the range of each launch to the table dispatches, whose main pass consists of these launches."""
        if not steps:
            return []
        joined = f" LEFT JOIN ({ranges_of_launches(self._calls(), steps)}) w USING (dispatch_id)"
        known, joint = out / WORK / "cupti_known.parquet", out / WORK / "cupti_dispatches.parquet"
        write_table(con, f"SELECT w.range_id FROM {self.table.launches} l{joined} ORDER BY l.row", known)
        dispatches = out / "dispatches.parquet"
        write_table(con, f"SELECT * FROM {parquet([dispatches])} POSITIONAL JOIN {parquet([known])}", joint)
        joint.replace(dispatches)
        in_ranges, total = con.execute(f"SELECT count(range_id), count(*) FROM {parquet([known])}").fetchone() or (0, 0)
        return [
            Note(
                "ranges",
                f"{in_ranges} of {count_text(total, 'launch belongs', 'launches belong')} to a range (range_id).",
            )
        ]

    def _calls(self) -> str:
        """Return SQL for the thread and time of each launch. A graph launches all of its kernels at once."""
        if not self.stage.parts["LNCH"]:
            return (
                "(SELECT NULL::BIGINT AS dispatch_id, NULL AS file, NULL AS thread, NULL::UBIGINT AS host_ns LIMIT 0)"
            )
        calls = "SELECT file, correlation, min(start_ns) AS host_ns, first(thread ORDER BY start_ns) AS thread "
        calls += f"FROM {self.stage.relation('LNCH')} GROUP BY file, correlation"
        return (
            f"(SELECT l.dispatch_id, file, c.thread, c.host_ns FROM {self.table.launches} l "
            f"JOIN ({calls}) c USING (file, correlation))"
        )


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with such files at most one level deep."""
    return bool(files_of(path))


def files_of(path: Path) -> list[Path]:
    """Return the recorder files at ``path``: itself, or those in the folder and one level below."""
    return [file for file in files_below(path, (SUFFIX,)) if _is_record(file)]


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, MergedProfile]:
    """Read the recordings at ``path`` into tables under ``out``; BadInput names the faulty file."""
    files = files_of(path)
    if not files:
        raise BadInput(f"{path.name} contains no file of the recorder", "no file starts with its signature")
    recorded = stage(con, files, out / WORK)
    merged = write_tables(con, as_replays([recorded.table]), out, instances_per_xcd=1)
    recorded.write(con, out, merged)
    manifest = Manifest(
        name=path.name.removesuffix(SUFFIX),
        format="cupti",
        vendor="nvidia",
        arch=recorded.arch,
        device=recorded.device_name(),
        host=recorded.host(),
        tool="cupti",
        tool_version=recorded.version(),
        facts=recorded.device.facts if recorded.device else {},
    )
    return manifest, merged


def stage(con: duckdb.DuckDBPyConnection, files: list[Path], work: Path) -> RecordedRun:
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
        fix = "Make it use the GPU, disable its own profiler, or import what that writes (prof.export_chrome_trace)"
        raise BadInput(f"{source.name} contains no launches", reason, fix)
    used = [r for r in recordings if r.counts["KERN"]]
    ranks = [r.rank for r in used]
    by_rank = None not in ranks and len(set(ranks)) == len(ranks)
    used.sort(key=lambda r: (r.rank if by_rank and r.rank is not None else 0, r.began, r.pid or 0, r.file.name))
    devices = _used_devices(con, staged, used)
    numbers = _device_numbers(used, devices)
    table = PassTable(step_of(source) or "timing", source)
    launches = work / "cupti_launches.parquet"
    table.rows = write_table(con, _launches(staged, used, numbers), launches)
    table.launches = parquet([launches])
    table.stated = frozenset(LAUNCH) - {"agpr", "sgpr"}
    table.warnings = _warnings(recordings)
    table.places = {number: r.place for number, r in enumerate(used, 1)}
    first = next((d for r in used for d in r.devices if (r.number, d.id) in devices), None)
    return RecordedRun(staged, used, recordings, table, numbers, first)


def _is_record(file: Path) -> bool:
    try:
        return is_record(file)
    except Problem:
        return False


def _used_devices(con: duckdb.DuckDBPyConnection, staged: Stage, used: list[CuptiRecording]) -> list[tuple[int, int]]:
    """Return (recording, device in it) of all launches, in the order of the processes."""
    pairs = con.execute(f"SELECT DISTINCT file, device FROM {staged.relation('KERN')} ORDER BY ALL").fetchall()
    order = {r.number: i for i, r in enumerate(used)}
    return sorted(pairs, key=lambda pair: (order[pair[0]], pair[1]))


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


def _launches(staged: Stage, used: list[CuptiRecording], numbers: dict[tuple[int, int], int]) -> str:
    """Return SQL for the launches, with the columns LAUNCH, the rank, and the key of the call: file, correlation.

    Launches of a graph share their correlation, so they are distinguished by their start.
    """
    processes = ", ".join(f"({r.number}, {i}, {sql_place(r.place)})" for i, r in enumerate(used, 1))
    devices = ", ".join(f"({file}, {device}, {number})" for (file, device), number in numbers.items())
    names = "(SELECT NULL AS file, NULL AS id, NULL::VARCHAR AS text LIMIT 0)"
    if staged.parts["NAME"]:
        text = f"any_value({bounded_name('text')}) AS text"
        names = f"(SELECT file, id, {text} FROM {staged.relation('NAME')} GROUP BY file, id)"
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
        f"JOIN (VALUES {devices}) d(file, device, number) ON d.file = k.file AND d.device = k.device "
        f"LEFT JOIN {names} n ON n.file = k.file AND n.id = k.name"
    )
    order = "ORDER BY process, correlation, start_ns, recorded"
    number = f"row_number() OVER ({order}) - 1 AS row, row AS dispatch_id"
    return f"SELECT {number}, * EXCLUDE (recorded) FROM ({inner}) {order}"


def _warnings(recordings: list[CuptiRecording]) -> list[Note]:
    """Return warnings about data that is missing from the recordings."""
    notes = []
    if lost := sum(r.lost for r in recordings):
        notes.append(Note("records_lost", f"CUPTI dropped {count_text(lost, 'record')}: launches are missing."))
    if failures := list(dict.fromkeys(f for r in recordings for f in r.failures)):
        text = f"These calls failed while recording: {'; '.join(failures[:_NAMED])}."
        notes.append(Note("recorder_failed", text))
    if dead := [r for r in recordings if not r.ended and r.counts["KERN"]]:
        text = (
            f"{len(dead)} of {count_text(len(recordings), 'process was', 'processes were')} ended without their "
            "exit handlers (os._exit, a signal): "
        )
        notes.append(Note("not_ended", text + "their launches of about the last 0.2 s are missing."))
    return notes
