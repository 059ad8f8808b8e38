"""Read Perfetto traces from rocprof-sys, Omnitrace, rocprofv3, or any other program that writes track events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base.profile_files import files_of_format, head
from ..merging.contract import parquet, write_relation
from ..parsing.protobuf import WireError, parse, varint
from ..reader import Profile, ProfileFiles
from ..timelines.call_kinds import is_call
from ..timelines.nesting import pair
from ..timelines.timeline_tables import TimelineQueries, kernel_launches
from .packets import LAYOUT, Packets, Track, types

if TYPE_CHECKING:
    import duckdb

_SUFFIXES = (".pftrace", ".perfetto-trace", ".proto")
_OTHER = "perfetto"
"""Source of ranges from other programs."""
_LEVELS = 16
_FIELDS = 2000
"""Packets have no fields with larger numbers."""
_DEVICE = "regexp_extract(k.name, '(?i)(?:device|agent|gpu)\\D{0,24}(\\d{1,4})', 1)"
_QUEUE = "regexp_extract(k.name, '(?i)(?:queue|stream)\\D{0,3}(\\d{1,9})', 1)"


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a trace, or a folder with traces at most one level deep."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _begins_as_trace)


def _begins_as_trace(file: Path) -> bool:
    """Return whether a file starts with a packet that can be parsed, as far as it was read."""
    try:
        start = head(file, 1 << 16)
        if not start.startswith(b"\x0a"):
            return False
        size, at = varint(start, 1)
        if at + size > len(start):
            return True
        from google.protobuf.unknown_fields import UnknownFieldSet

        others = UnknownFieldSet(parse(types()["Packet"], start[at : at + size]))
        return all(one.field_number < _FIELDS for one in others)
    except WireError:
        return False


def read(files: ProfileFiles) -> Profile:
    """Return the trace at ``files.path``; BadInput if it is truncated, or has no events."""
    path, con, work = files.path, files.con, files.work
    traces = files.or_itself(_files(path))
    if len(traces) != 1:
        what = f"{len(traces)} Perfetto traces" if traces else "no Perfetto trace"
        raise BadInput(f"{path.name} contains {what}", fix="Give one file")
    packets = Packets(con, work)
    packets.read(traces[0])
    names, marks = parquet(packets.names.close()), parquet(packets.marks.close())
    tracks = _tracks(con, work, packets.tracks)
    ordered = (
        f"SELECT track, time_ns, begins, mark FROM {marks} WHERE time_ns IS NOT NULL ORDER BY track, time_ns, mark"
    )
    spans, notes = pair(con, work, ordered, "perfetto")
    slices = _classified_slices(marks, spans, names, tracks)
    decided = write_relation(con, slices, work / "perfetto_decided.parquet")
    packets.host.add_slices(decided)
    recording = packets.host.recording()
    kernels = work / "perfetto_launches.parquet"
    launches = kernel_launches(con, traces[0], kernels, decided)
    samples = f"{parquet(packets.samples.close())} s JOIN {tracks} k ON k.number = s.track"
    instants = f"{count_text(packets.instants, 'instant was', 'instants were')} skipped."
    amd = con.execute(f"SELECT 1 FROM {decided} WHERE starts_with(text, 'hip') OR role = 'kernel' LIMIT 1")
    refusal = BadInput(f"{path.name} contains no track events", "it has no event with a usable time")
    return Profile(
        name=path.name if path.is_dir() else path.stem,
        vendor="amd" if amd.fetchone() else None,
        passes=[launches],
        stacks=recording,
        timeline=TimelineQueries(
            *LAYOUT.timeline(decided, kernels, {"samples": samples}, DEVICE=_DEVICE),
            refusal=None if recording else lambda _: refusal,
            notes=[Note("not_read", instants)] if packets.instants else [],
        ),
        warnings=notes,
    )


def _tracks(con: duckdb.DuckDBPyConnection, work: Path, tracks: dict[int, Track]) -> str:
    """Return a FROM item with number, pid, thread, name, unit of every track; missing ids come from its parents."""
    spool = LAYOUT.spool(con, work, "perfetto_tracks")
    for track in tracks.values():
        pid, thread, above, levels = track.pid, track.thread, track.parent, 0
        while above is not None and above in tracks and levels < _LEVELS and (pid is None or thread is None):
            parent = tracks[above]
            pid = parent.pid if pid is None else pid
            thread = parent.thread if thread is None else thread
            above, levels = parent.parent, levels + 1
        name, unit = (t.encode("utf-8", "replace").decode()[:1000] for t in (track.name, track.unit))
        spool.add([(track.number, pid, thread, None, name, unit)])
    return parquet(spool.close())


def _classified_slices(marks: str, spans: str, names: str, tracks: str) -> str:
    """Return SQL for every slice with its times and its role."""
    cases = " ".join(
        f"WHEN regexp_full_match(c.text, {sql_literal(one['pattern'])}) THEN {sql_literal(one['role'])}"
        for one in LAYOUT.stated["category"]
    )
    role = f"CASE {cases} WHEN {is_call('n.text')} THEN 'call' ELSE {sql_literal(_OTHER)} END"
    return (
        f"SELECT m.mark AS row, m.time_ns AS start_ns, s.end_ns, {role} AS role, n.text, p.text AS place, "
        "c.text AS category, k.name AS track, k.pid, "
        "coalesce(k.thread, -m.track) AS thread, nullif(m.correlation, 0) AS correlation, m.bytes, "
        f"coalesce(m.device_id, TRY_CAST({_DEVICE} AS BIGINT)) AS device_id, "
        f"coalesce(m.stream, TRY_CAST({_QUEUE} AS BIGINT)) AS stream "
        f"FROM {marks} m JOIN {spans} s ON s.mark = m.mark JOIN {names} n ON n.number = m.name "
        f"JOIN {names} c ON c.number = m.category JOIN {tracks} k ON k.number = m.track "
        f"LEFT JOIN {names} p ON p.number = m.place WHERE m.begins = 1"
    )
