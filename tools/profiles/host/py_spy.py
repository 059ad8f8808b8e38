"""Read the stacks that py-spy sampled, with their times, from its output in Chrome's format.

py-spy writes a list of begins and ends of frames, but only where the stack of a thread changes, and knows threads by
their pthread number alone, which a forked process shares with its parent. The list is therefore replayed in its order
for each of these numbers; process and thread come from the root frames (``process PID:"..."``, ``thread (TID): ...``)
that its options ``--subprocesses`` and ``--threads`` add. A stack lasts until the next one of the same thread. (Format:
py-spy 0.4, src/chrometrace.rs.)
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadInput
from ...base.profile_files import files_of_format, head, open_text
from ..parsing.json_stream import JsonCut, elements
from ..parsing.spool import write_rows
from ..reader import Profile, ProfileFiles
from .files import host_profile, one_file
from .recording import SAMPLES, HostClock, HostFrame, HostRecording, StackSpool

if TYPE_CHECKING:
    import duckdb

PY_SPY, _HEAD = b'"cat":"py-spy"', 1 << 16
_PROCESS = re.compile(r'process (\d{1,9}):"')
_THREAD = re.compile(r"thread \((\d{1,9})\)")
_LOGGED = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z \w+ +py_spy::(\w+)\]")
_COUNTS = re.compile(r"Samples: (\d{1,15}) Errors: (\d{1,15})")
_RATE = re.compile(r"sampling_rate: (\d{1,6})")
_IDLE = re.compile(r"include_idle: (true|false)")
_USUAL_RATE = 100
_LATEST = 1 << 60
_LOG_BYTES = 1 << 20
_FIRST_MAPS_NS = 440_000
"""Time from the zero of py-spy's clock to the first line about memory maps in its log, measured with 0.4.3."""
_LASTS = 10
"""A stack lasts until the next one of its thread, unless that comes more than this number of intervals later."""
_FEW = 0.02
"""Stacks that begin unlike most of their thread are incomplete if another function of it calls their first one, or if
they take less than this share of its time."""


@dataclass(frozen=True)
class StackSpan:
    """A stack of one thread and the time that it lasted, in ns since py-spy began."""

    pid: int
    thread: int
    start: int
    end: int
    stack: tuple[HostFrame, ...]
    """The outermost frame first."""


@dataclass
class PySpyRecording:
    """What py-spy recorded of a program and its child processes."""

    spans: list[StackSpan]
    began: int | None
    """The zero of its clock, in ns of Unix time; None if its log does not tell."""
    clock_error: int
    """How far ``began`` may be wrong, in ns."""
    errors: int = 0
    """The number of samples that failed."""
    samples: int = 0


@dataclass
class _Thread:
    """One thread number of py-spy: the frames that are open, since when, and the process that opened the first one."""

    frames: list[HostFrame] = field(default_factory=list)
    since: int = 0
    pid: int = 0


def detect(path: Path) -> bool:
    """Return whether py-spy wrote a file in Chrome's format, or a folder has one such file."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, (".json",), lambda file: PY_SPY in head(file, _HEAD))


def read(files: ProfileFiles) -> Profile:
    """Return the stacks at ``files.path``. The log of py-spy, FILE.log beside it, states the zero of its clock."""
    file = one_file(files, _files(files.path), "py-spy")
    log = file.with_name(file.name.removesuffix(".gz")).with_suffix(".log")
    text = head(log, _LOG_BYTES).decode("utf-8", "replace") if log.is_file() else ""
    stated, idle = _RATE.search(text), _IDLE.search(text)
    rate = max(1, int(stated[1])) if stated else _USUAL_RATE
    run = read_recording(file, log, rate)
    clock = HostClock(None if run.began is None else -run.began, run.clock_error)
    sleeping = {"true": (), "false": ("host_idle_left_out",)}
    limits = sleeping[idle[1]] if idle else ("host_idle_unknown",)
    recording = host_recording(files.con, files.work / "py_spy", run.spans, rate)
    return host_profile(file, replace(recording, clock=clock, limits=limits))


def read_recording(samples: Path, log: Path, rate: int, began: int | None = None) -> PySpyRecording:
    """Return the recording in ``samples``; BadInput if the file is not of py-spy.

    The zero of its clock is ``began``, in ns of Unix time, or else follows from ``log``.
    """
    spans = list(_spans(samples))
    text = head(log, _LOG_BYTES).decode("utf-8", "replace") if log.is_file() else ""
    began, error = (began, 0) if began else _zero(text)
    counted = _COUNTS.search(text)
    return PySpyRecording(
        _join_spans(_complete_stacks(spans), _LASTS * 1_000_000_000 // rate),
        began,
        error,
        *((int(counted[2]), int(counted[1])) if counted else (0, 0)),
    )


def _spans(file: Path) -> Iterator[StackSpan]:
    """Yield the stacks, in the order of their ends for each thread number."""
    threads: dict[Any, _Thread] = defaultdict(_Thread)
    try:
        with open_text(file) as stream:
            for _, event in elements(stream, lambda path: False, may_end=True):
                thread, time = threads[event["tid"]], int(event["ts"]) * 1000
                if not 0 <= time < _LATEST:
                    raise ValueError("a time is impossible")
                if time > thread.since:
                    if span := _span(thread, time, event["tid"]):
                        yield span
                    thread.since = time
                if event["ph"] == "B":
                    place = event["args"]
                    line = int(place["line"] or 0)
                    thread.frames.append(HostFrame(str(event["name"]), str(place["filename"]), line))
                    thread.pid = thread.pid or int(event.get("pid") or 0)
                elif event["ph"] == "E" and thread.frames:
                    thread.frames.pop()
    except (JsonCut, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"{file.name} is not an output of py-spy", "it does not list begins and ends of frames"
        ) from error


def _span(thread: _Thread, until: int, number: Any) -> StackSpan | None:
    """Return the span without its root frames; None if there is no frame of the program.

    Without root frames, only the main thread of a process is known: it begins with the program's module.
    """
    frames, pid, own = thread.frames, thread.pid, 0
    roots = next((at for at, frame in enumerate(frames) if frame.file), len(frames))
    for root in frames[:roots]:
        if process := _PROCESS.match(root.function):
            pid = int(process[1])
        elif named := _THREAD.match(root.function):
            own = int(named[1])
    stack = tuple(frames[roots:])
    if stack and not own:
        own = pid if stack[0].function == "<module>" else number if isinstance(number, int) else 0
    if abs(own) >= _LATEST or abs(pid) >= _LATEST:
        raise ValueError("the number of a thread is impossible")
    return StackSpan(pid, own, thread.since, until, stack) if stack and own else None


def _complete_stacks(spans: list[StackSpan]) -> list[StackSpan]:
    """Return the spans by thread and time. Stacks that were read while they changed lack their outermost frames: they
    take them from the stack before or after in which their first function is called, or else are left out."""
    times: dict[tuple[int, int], Counter[tuple[str, str]]] = defaultdict(Counter)
    called: dict[tuple[int, int], set[tuple[str, str]]] = defaultdict(set)
    for span in spans:
        times[span.pid, span.thread][span.stack[0][:2]] += span.end - span.start
        called[span.pid, span.thread].update(frame[:2] for frame in span.stack[1:])

    complete = {
        (who, first)
        for who, ns in times.items()
        for first in ns
        if first == max(ns, key=ns.__getitem__) or (first not in called[who] and ns[first] >= _FEW * ns.total())
    }

    def is_complete(span: StackSpan) -> bool:
        return ((span.pid, span.thread), span.stack[0][:2]) in complete

    ordered = sorted(spans, key=lambda span: (span.pid, span.thread, span.start))
    kept: list[StackSpan] = []
    for span, after in zip_longest(ordered, ordered[1:]):
        if is_complete(span):
            kept.append(span)
            continue
        near = [*kept[-1:], *([after] if after and is_complete(after) else [])]
        callers = [
            other.stack[:depth]
            for other in near
            if (other.pid, other.thread) == (span.pid, span.thread)
            for depth, frame in enumerate(other.stack)
            if frame[:2] == span.stack[0][:2]
        ]
        kept += [replace(span, stack=outer + span.stack) for outer in callers[:1]]
    return kept


def _join_spans(ordered: list[StackSpan], longest: int) -> list[StackSpan]:
    """Return the spans of threads in order, each extended to the next one of its thread if that is near.

    Where a process and its forked child have the same thread number, each ends the stack of the other.
    """
    joined = []
    for span, after in zip_longest(ordered, ordered[1:]):
        end = span.end
        if after and (after.pid, after.thread) == (span.pid, span.thread) and after.start - end <= longest:
            end = after.start
        joined.append(replace(span, end=end))
    return joined


def _zero(log: str) -> tuple[int | None, int]:
    """Return the Unix time in ns of the zero of py-spy's clock, and its error.

    The clock begins after the line of the log with the configuration and before the first one about memory maps.
    """
    stamps: dict[str, int] = {}
    for day, fraction, module in _LOGGED.findall(log):
        at = int(datetime.fromisoformat(f"{day}+00:00").timestamp()) * 1_000_000_000 + int(fraction)
        stamps.setdefault(module, at)
    if "config" not in stamps or "python_process_info" not in stamps:
        return None, 0
    earliest, latest = stamps["config"], stamps["python_process_info"]
    began = max(earliest, latest - _FIRST_MAPS_NS)
    return began, max(began - earliest, latest - began)


def host_recording(con: duckdb.DuckDBPyConnection, stem: Path, spans: Sequence[StackSpan], rate: int) -> HostRecording:
    """Return spans of stacks, which were sampled ``rate`` times a second, as a recording."""
    # A stack changed between the last sample with the old one and the first with the new one.
    late = 1_000_000_000 // rate // 2
    stacks = StackSpool(con, stem)
    rows = [
        (s.start - late, s.end - late, s.end - s.start, None, s.pid, s.thread, stacks.number(s.stack), None)
        for s in spans
    ]
    samples = f"SELECT * FROM {write_rows(con, stem, SAMPLES, rows)}"
    return HostRecording("py-spy", stacks.close(), samples, HostClock())
