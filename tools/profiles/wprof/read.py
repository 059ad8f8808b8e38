"""Read the JSON that wprof writes (``wprof -J``): work of CUDA, its calls, and the stacks of all threads.

The first line is a header, ``stack_cnt`` lines with a stack each follow, the outermost frame first, and then one event
a line, ordered by time. Times are seconds since the recording began. An event with a duration states its end. A
``switch`` states for how long the next thread was not on a processor, and with which stack; who ended that wait is the
waker of the last ``waking`` of that thread. (wprof 3.1, JSON_SCHEMA.md)
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text, first_few
from ...base import progress
from ...base.profile_files import files_of_format, head
from ...base.untrusted_text import plain_text
from ..event_layout import EventLayout
from ..host.files import host_profile, lines, one_file
from ..host.recording import POINTS, SAMPLES, HostClock, HostFrame, HostRecording, StackSpool, spans
from ..merging.contract import parquet
from ..parsing.spool import Spool
from ..reader import Profile, ProfileFiles
from ..timelines.timeline_tables import TimelineQueries, kernel_launches

if TYPE_CHECKING:
    import duckdb

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_HEADER, _OFTEN, _LISTED = (b'"timer_freq_hz"', b'"stack_cnt"'), 50_000, 12
_FIRST_BYTES = 1 << 16
_LAYOUT = EventLayout(__file__)
_ROLES: dict[str, str] = _LAYOUT.stated["roles"]
_FRAME = re.compile(r"\[(?P<kind>U|K|Py)\] (?P<name>.*?)(?:\+0x[0-9a-f]{1,16}| \(inlined\))?")
_SOURCE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})")
_KERNEL, _UNKNOWN = "[kernel.kallsyms]", "<unknown>"
"""The module of the frames of Linux, and the name of a frame without a symbol."""
_LATEST_S = 1e9


def detect(path: Path) -> bool:
    """Return whether wprof wrote a file, or a folder has one such file."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _begins_as_recording)


def _begins_as_recording(file: Path) -> bool:
    first = head(file, _FIRST_BYTES).partition(b"\n")[0]
    return first.startswith(b"{") and all(key in first for key in _HEADER)


def read(files: ProfileFiles) -> Profile:
    """Return the recording at ``files.path``; BadInput if a line is not what wprof writes."""
    file = one_file(files, _files(files.path), "wprof")
    recording = _Recording(files.con, files.work)
    try:
        recording.read(file)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        where = f"line {recording.line} is not what wprof writes: {type(error).__name__}"
        raise BadInput(f"{file.name} is damaged", where, "Copy it again, or record again") from error
    return recording.profile(file)


class _Recording:
    """The lines of a recording, as spools."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Path) -> None:
        self._con, self._work = con, work
        self._stacks = StackSpool(con, work / "wprof")
        self._events = _LAYOUT.spool(con, work, "wprof_events")
        self._points = Spool(con, work / "wprof_points", POINTS)
        self._waits = Spool(con, work / "wprof_waits", SAMPLES)
        self._numbers: dict[int, int] = {}
        """Stack of the file -> its number."""
        self._wakers: dict[int, int] = {}
        """Thread -> the stack that woke it last."""
        self._skipped: Counter[str] = Counter()
        self._has_lines = False
        self.line = 1

    def read(self, file: Path) -> None:
        """Read the lines of a file. Raises KeyError, TypeError, ValueError or AttributeError if they are others."""
        rest = enumerate(lines(file), 1)
        stacks = int(json.loads(next(rest)[1])["stack_cnt"])
        for self.line, text in rest:
            if not text:
                continue
            one = json.loads(text)
            if self.line <= stacks + 1:
                self._stack(one)
            else:
                self._event(one)
            if not self.line % _OFTEN:
                progress.report(f"read {count_text(self.line, 'line')} of {file.name}")

    def _stack(self, stated: dict[str, Any]) -> None:
        sources = stated.get("srcs") or [""] * len(stated["frames"])
        frames = [_frame(name, source) for name, source in zip(stated["frames"], sources, strict=True)]
        self._has_lines = self._has_lines or any(frame.line for frame in frames)
        self._numbers[int(stated["id"])] = self._stacks.number(f for f in frames if f.function != _UNKNOWN)

    def _number(self, stack: Any) -> int:
        return self._numbers.get(stack, 0)

    def _event(self, event: dict[str, Any]) -> None:
        role, end = _ROLES.get(event["t"]), _ns(event["ts"])
        if role is None:
            self._skipped[str(event["t"])] += 1
        elif role == "sample":
            if thread := event["task"].get("tid"):
                self._points.append((end, *_whole(event["task"]["pid"], thread), self._number(event.get("stack_id"))))
        elif role == "waking":
            self._wakers[event["wakee"].get("tid", 0)] = self._number(event.get("waker_stack_id"))
        elif role == "switch":
            self._wait(event["next"], end, event)
        else:
            self._work_or_call(role, end, event)

    def _wait(self, task: dict[str, Any], end: int, event: dict[str, Any]) -> None:
        """Add the time for which the thread that comes next was not on a processor."""
        thread = task.get("tid", 0)
        waker = self._wakers.pop(thread, 0) or None
        stack, lasted = self._number(event.get("offcpu_stack_id")), _ns(event.get("offcpu_dur", 0))
        if thread and stack and lasted > 0:
            self._waits.append((end - lasted, end, lasted, None, *_whole(task["pid"], thread), stack, waker))

    def _work_or_call(self, role: str, end: int, event: dict[str, Any]) -> None:
        task, kind = event["task"], str(event.get("kind", ""))
        host = {"HtoD": "src_kind", "DtoH": "dst_kind"}.get(kind, "")
        group, groups = (math.prod(event.get(size, ())) for size in ("block", "grid"))
        row = {
            "role": role, "text": plain_text(str(event.get("name", kind))), "pid": task["pid"],
            "thread": task.get("tid"), "device_id": event.get("device_id"), "stream": event.get("stream_id"),
            "start_ns": end - _ns(event["dur"]), "end_ns": end, "bytes": event.get("byte_cnt"),
            "pinned": _LAYOUT.stated["pinned"].get(event.get(host)), "correlation": event.get("corr_id") or None,
            "grid": group * groups if "grid" in event else None, "workgroup_size": group if "block" in event else None,
            "stack": self._number(event.get("stack_id")),
        }  # fmt: skip
        self._events.append((row["role"], row["text"], *_whole(*list(row.values())[2:])))

    def profile(self, file: Path) -> Profile:
        """Return what was read: a timeline if there is work or a call of CUDA, else stacks of the host alone."""
        if not self._events.rows + self._points.rows + self._waits.rows:
            raise BadInput(f"{file.name} contains no samples, waits or CUDA events", "wprof recorded other things")
        sampled = spans(self._con, parquet(self._points.close()), self._work / "wprof")
        columns = ", ".join(SAMPLES)
        samples = f"SELECT {columns} FROM ({sampled}) UNION ALL SELECT {columns} FROM {parquet(self._waits.close())}"
        lacking = {"host_functions_only": self._has_lines, "host_processor_only": self._waits.rows}
        stacks = HostRecording(
            "wprof", self._stacks.close(), samples if self._points.rows or self._waits.rows else "", HostClock(),
            [code for code, known in lacking.items() if not known],
        )  # fmt: skip
        alone = host_profile(file, stacks)
        listed = first_few([plain_text(name, 40) for name in sorted(self._skipped)], _LISTED)
        notes = [Note("not_read", f"Skipped: {listed}.")] if self._skipped else []
        if not self._events.rows:
            return replace(alone, notes=notes)
        events, kernels = parquet(self._events.close()), self._work / "wprof_launches.parquet"
        launches = kernel_launches(self._con, file, kernels, events, "grid", "workgroup_size")
        waits = (
            f"(SELECT * FROM {events} WHERE role = 'wait') w ANTI JOIN (SELECT * FROM {events} WHERE role = 'call') c "
            "ON c.correlation = w.correlation AND c.pid = w.pid"
        )
        queries = _LAYOUT.timeline(events, kernels, {"waits": waits})
        return replace(
            alone,
            vendor="nvidia",
            passes=[launches],
            timeline=TimelineQueries(*queries, notes=notes),
            stacks=replace(stacks, clock=None),
        )


def _ns(seconds: float) -> int:
    if not abs(seconds) < _LATEST_S:
        raise ValueError("impossible time")
    return round(seconds * 1e9)


def _whole(*values: Any) -> tuple[int | None, ...]:
    """Return whole numbers, or None, as they are; ValueError for anything else."""
    if any(value is not None and not (isinstance(value, int) and abs(value) < 1 << 62) for value in values):
        raise ValueError("no whole number")
    return values


def _frame(name: str, source: str) -> HostFrame:
    """Return a frame of a name such as ``[U] main+0x1a`` and a source such as ``src/main.c:42``."""
    form, place = _FRAME.fullmatch(name), _SOURCE.fullmatch(source)
    file, line = (place["file"], int(place["line"])) if place else (source, 0)
    kind, function = (form["kind"], form["name"]) if form else ("U", name)
    return HostFrame(function, file, line, _KERNEL if kind == "K" else None)
