"""The timeline of a recorded program in addition to its launches: calls, copies, fills and the overhead of CUPTI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal
from ....analysis.store.store import write_table
from ...base.profile_files import WORK
from ...base.untrusted_text import bounded_name
from ..merging.contract import parquet, row_of
from ..merging.merge import MergedProfile
from ..merging.ranks import sql_place
from ..timelines.call_kinds import HOST, cuda_copy, cuda_pinned
from ..timelines.timeline_tables import EVENT, TimelineQueries, write_timeline
from .ranges import ranges_of_launches
from .records import CuptiRecording, Stage

if TYPE_CHECKING:
    import duckdb

_OVERHEADS = {
    1 << 16: "CUPTI buffer flush", 2 << 16: "CUPTI instrumentation", 3 << 16: "CUPTI resource",
    7 << 16: "CUPTI buffer request", 8 << 16: "CUPTI unified memory",
}  # fmt: skip
"""CUpti_ActivityOverheadKind for the work of CUPTI. Overhead of the driver (compiling, loading) is part of calls."""
_VERSION = r"(_pt(sz|ds))?(_v\d+)?$"
"""Suffixes that distinguish variants and versions of a function."""
_OF_TIMELINE = ("CALL", "COPY", "FILL", "OVHD")
_TIMED = "{0}.start_ns > 0 AND {0}.end_ns >= {0}.start_ns AND {0}.end_ns < 4611686018427387904"


_PROCESS = {"pid": "r.pid", "rank": "r.rank", "host": "r.host"}
"""Columns that identify the process of an event."""


def is_traced(stage: Stage) -> bool:
    """Return whether more was recorded than kernels and their launches."""
    return any(stage.parts[kind] for kind in _OF_TIMELINE)


class CuptiTimeline:
    """The timeline of several recordings; ``numbers`` maps recording and device in it to a device of the workload."""

    def __init__(
        self, stage: Stage, processes: Sequence[CuptiRecording], launches: str, numbers: Mapping[tuple[int, int], int]
    ) -> None:
        self.stage, self.launches = stage, launches
        rows = (f"({r.number}, {sql_place(r.place)})" for r in processes)
        self.processes = f"(VALUES {', '.join(rows)}) p(file, rank, host, pid)"
        known = ", ".join(f"({file}, {device}, {number})" for (file, device), number in numbers.items())
        self.devices = f"(VALUES {known}) d(file, device, number)"

    def write(self, con: duckdb.DuckDBPyConnection, out: Path, steps: str, merged: MergedProfile) -> None:
        """Write the table events; ``steps`` (from ranges.write_ranges) gives the range of a thread over time."""
        inner = out / WORK / "cupti_inner.parquet"
        self._outermost(con, inner)
        written = write_timeline(con, out, TimelineQueries(" UNION ALL ".join(self._events(inner))))
        merged.events = written.events
        merged.warnings += written.warnings
        merged.notes += written.notes
        if steps:
            self._into_ranges(con, out, steps)

    def _events(self, inner: Path) -> list[str]:
        """Return SELECTs with the columns EVENT, without the driver calls that runtime functions make."""
        lifted = f"SELECT file, correlation, min(outer_correlation) AS outer_correlation FROM {parquet([inner])}"
        outer = f"LEFT JOIN ({lifted} GROUP BY ALL) i ON i.file = r.file AND i.correlation = r.correlation"
        linked = {"correlation": "coalesce(i.outer_correlation, r.correlation)", **_PROCESS}
        # CUPTI writes zero for an unknown time.
        times = {c: f"TRY_CAST(nullif(r.{c}, 0) AS BIGINT)" for c in ("start_ns", "end_ns")}
        kernel = {"kind": "'kernel'", "name": "r.kernel", "device_id": "r.device_id", "stream": "r.queue_id"}
        kernels = row_of(EVENT, times | linked | kernel | {"row": "r.row"})
        selects = [f"SELECT {kernels} FROM (SELECT * FROM {self.launches}) r {outer}"]
        device = (
            times
            | linked
            | {
                "device_id": "coalesce(d.number, r.device)",
                "stream": "r.stream",
                "bytes": "TRY_CAST(r.bytes AS BIGINT)",
            }
        )
        if self.stage.parts["COPY"]:
            way = cuda_copy("r.way")
            pinned = cuda_pinned("r.way", "r.source", "r.target")
            copy = device | {"kind": "'copy'", "name": way, "direction": way, "pinned": pinned}
            selects.append(f"SELECT {row_of(EVENT, copy)} FROM {self._rows('COPY', of_device=True)} {outer}")
        if self.stage.parts["FILL"]:
            fill = device | {"kind": "'fill'", "name": "'fill'"}
            selects.append(f"SELECT {row_of(EVENT, fill)} FROM {self._rows('FILL', of_device=True)} {outer}")
        if self.stage.parts["CALL"]:
            stripped = f"regexp_replace(n.text, {sql_literal(_VERSION)}, '')"
            call = times | linked | {
                "name": f"regexp_replace({stripped}, '^__cudaLaunch', 'cudaLaunch')", "thread": "r.thread",
                "correlation": "r.correlation",
            }  # fmt: skip
            calls = f"{self._rows('CALL')} LEFT JOIN {self._names()} n ON n.file = r.file AND n.id = r.name"
            nested = f"{parquet([inner])} i ON i.call = r.row"
            selects.append(f"SELECT {row_of(EVENT, call)} FROM {calls} ANTI JOIN {nested}")
        if self.stage.parts["OVHD"]:
            names = " ".join(f"WHEN {kind} THEN {sql_literal(name)}" for kind, name in _OVERHEADS.items())
            own = times | {
                "kind": "'api'", "category": "'profiler'", "name": f"CASE r.kind {names} END", **_PROCESS,
                "thread": "CASE WHEN r.object = 1 THEN r.thread END",
            }  # fmt: skip
            of_cupti = f"WHERE r.kind IN ({', '.join(map(str, _OVERHEADS))})"
            selects.append(f"SELECT {row_of(EVENT, own)} FROM {self._rows('OVHD')} {of_cupti}")
        return selects

    def _rows(self, kind: str, *, of_device: bool = False) -> str:
        """Return a FROM item r: the records of a kind with their process; and d, the number of their device."""
        rows = f"(SELECT * FROM {self.stage.relation(kind)} JOIN {self.processes} USING (file)) r"
        return f"{rows} LEFT JOIN {self.devices} ON d.file = r.file AND d.device = r.device" if of_device else rows

    def _names(self) -> str:
        text = f"any_value({bounded_name('text')}) AS text"
        return f"(SELECT file, id, {text} FROM {self.stage.relation('NAME')} GROUP BY file, id)"

    def _outermost(self, con: duckdb.DuckDBPyConnection, inner: Path) -> None:
        """Write the driver calls inside a runtime call of their thread, with the correlation of the runtime call.

        Depending on the version of CUPTI, both have the same correlation or not; device work belongs to the outer call.
        """
        if not self.stage.parts["CALL"]:
            nothing = "NULL::BIGINT AS call, NULL::BIGINT AS correlation, NULL::BIGINT AS outer_correlation"
            write_table(con, f"SELECT 0 AS file, {nothing} LIMIT 0", inner)
            return
        calls = f"SELECT * FROM {self.stage.relation('CALL')} c WHERE {_TIMED.format('c')}"
        write_table(
            con,
            "SELECT c.file, c.row AS call, c.correlation, r.correlation AS outer_correlation "
            f"FROM (SELECT * FROM ({calls}) WHERE driver = 1) c ASOF JOIN (SELECT * FROM ({calls}) WHERE driver = 0) r "
            "ON c.file = r.file AND c.thread = r.thread AND c.start_ns >= r.start_ns WHERE c.end_ns <= r.end_ns "
            "QUALIFY row_number() OVER (PARTITION BY c.file, c.row) = 1",
            inner,
        )

    def _into_ranges(self, con: duckdb.DuckDBPyConnection, out: Path, steps: str) -> None:
        """Assign every event the range in which its call was made, by the same rule as for launches."""
        events, joined = out / "events.parquet", out / WORK / "cupti_events.parquet"
        same = " AND ".join(f"e.{c} IS NOT DISTINCT FROM p.{c}" for c in _PROCESS)
        host = f"({', '.join(map(sql_literal, HOST))})"
        calls = (
            "(SELECT e.event_id AS dispatch_id, p.file, e.thread, e.start_ns AS host_ns "
            f"FROM {parquet([events])} e JOIN {self.processes} ON {same} WHERE e.kind IN {host})"
        )
        launch_ranges = ranges_of_launches(calls, steps)
        call_ranges = (
            f"SELECT DISTINCT ON (dispatch_id) dispatch_id AS event_id, range_id AS own FROM ({launch_ranges})"
        )
        called = out / WORK / "cupti_called.parquet"
        write_table(con, f"SELECT e.*, own FROM {parquet([events])} e JOIN ({call_ranges}) USING (event_id)", called)
        started = (
            f"SELECT pid, rank, host, correlation, min(own) AS started FROM {parquet([called])} "
            "WHERE correlation IS NOT NULL GROUP BY ALL"
        )
        write_table(
            con,
            "SELECT e.* REPLACE (coalesce(c.own, s.started) AS range_id) "
            f"FROM {parquet([events])} e LEFT JOIN (SELECT event_id, own FROM {parquet([called])}) c USING (event_id) "
            f"LEFT JOIN ({started}) s ON e.kind NOT IN {host} AND e.correlation = s.correlation "
            f"AND {same.replace('p.', 's.')} ORDER BY e.event_id",
            joined,
        )
        joined.replace(events)
