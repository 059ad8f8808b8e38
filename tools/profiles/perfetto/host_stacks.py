"""The stacks of the host in a Perfetto trace: samples of perf and other samplers, and those of rocprof-sys.

Samples refer to interned stacks: a stack lists frames, a frame names a function, a file of code and, if it is known, a
source line. Numbers of interned data belong to one writer and may be given again after it was cleared, so a stack is
resolved when a sample refers to it. rocprof-sys instead writes the frames of a sample as nested slices, which last
from one sample of a thread to the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..host.recording import POINTS, SAMPLES, HostFrame, HostRecording, StackSpool, spans
from ..merging.contract import parquet
from ..parsing.protobuf import text
from ..parsing.spool import Spool

if TYPE_CHECKING:
    import duckdb

_OUTERMOST = ("samples [rocprof-sys]", "samples [omnitrace]")
"""Ends of the names of the slices around all samples of a thread."""
_THREAD = r"\(S\) (\d{1,9})$"
"""The thread in the name of a track, such as ``Thread 0 (S) 4242``."""
_LINE = re.compile(r"(?:.*@)?(?P<file>[^@]+):(?P<line>\d{1,9})", re.DOTALL)
"""A source line, such as ``main@/src/main.cpp:12``."""
_KINDS = ("functions", "paths", "sources")
_BATCH = 5_000


@dataclass
class InternedStacks:
    """What the packets of one writer interned for stacks, by number."""

    texts: dict[str, dict[int, str]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    mappings: dict[int, str] = field(default_factory=dict)
    """The file of each mapping."""
    frames: dict[int, HostFrame] = field(default_factory=dict)
    stacks: dict[int, list[int]] = field(default_factory=dict)
    threads: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Process and thread of each context."""
    numbers: dict[int, int] = field(default_factory=dict)
    """The number of each stack that a sample referred to, as in the spool."""

    def add(self, interned: Any) -> int:
        """Add what a packet interned; return the number of entries."""
        for kind, known in self.texts.items():
            known.update((entry.number, text(entry.text)) for entry in getattr(interned, kind))
        for mapping in interned.mappings:
            parts = (self.texts["paths"].get(number, "") for number in mapping.paths)
            self.mappings[mapping.number] = "/" + "/".join(parts).lstrip("/")
        for frame in interned.frames:
            name = self.texts["functions"].get(frame.function, "") or f"0x{frame.address:x}"
            source = self.texts["sources"].get(frame.source, "")
            self.frames[frame.number] = HostFrame(name, source, frame.line, self.mappings.get(frame.mapping))
        for stack in interned.stacks:
            self.stacks[stack.number] = list(stack.frames)
            self.numbers.pop(stack.number, None)
        self.threads.update((one.number, (one.pid, one.tid)) for one in interned.contexts)
        return sum(len(getattr(interned, kind)) for kind in (*_KINDS, "mappings", "frames", "stacks", "contexts"))


class HostSamples:
    """The samples of a trace."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Path) -> None:
        self._con, self._work = con, work
        self._stacks = StackSpool(con, work / "perfetto_host")
        self._points = Spool(con, work / "perfetto_points", POINTS)
        self._spans = Spool(con, work / "perfetto_host_spans", SAMPLES)
        self._has_lines = False

    def add(self, interned: InternedStacks, packet: Any, time_ns: int | None) -> None:
        """Add the sample of a packet; one without a time, a thread or a stack is left out."""
        if packet.HasField("perf_sample"):
            sample = packet.perf_sample
            who, stack = (sample.pid, sample.tid), sample.stack
        else:
            sample = packet.stack_sample
            who, stack = interned.threads.get(sample.context_number, (0, 0)), sample.stack_number
            if sample.HasField("context"):
                who = sample.context.pid, sample.context.tid
        if stack not in interned.numbers and stack in interned.stacks:
            frames = (interned.frames.get(number) for number in interned.stacks[stack])
            interned.numbers[stack] = self._stacks.number(frame for frame in frames if frame)
        if time_ns is not None and who[1] and (number := interned.numbers.get(stack)):
            self._points.append((time_ns, *who, number))

    def add_slices(self, slices: str) -> None:
        """Add the samples of rocprof-sys from ``slices``, a FROM item with a row for each frame.

        All frames of a sample have the same times, the outermost one first.
        """
        rows = self._con.cursor().execute(
            f"SELECT coalesce(pid, 0), coalesce(TRY_CAST(regexp_extract(track, '{_THREAD}', 1) AS BIGINT), thread), "
            f"start_ns, end_ns, text, place FROM {slices} WHERE role = 'sample' AND end_ns > start_ns "
            "ORDER BY 1, 2, start_ns, end_ns DESC, row"
        )
        sample: tuple[int, ...] = ()
        frames: list[HostFrame] = []
        while batch := rows.fetchmany(_BATCH):
            for *place, name, where in batch:
                if tuple(place) != sample:
                    self._add_span(sample, frames)
                    sample, frames = tuple(place), []
                if not name.endswith(_OUTERMOST):
                    frames.append(_sampled_frame(name, where))
        self._add_span(sample, frames)

    def _add_span(self, sample: tuple[int, ...], frames: list[HostFrame]) -> None:
        if frames:
            pid, thread, start, end = sample
            self._has_lines = self._has_lines or any(frame.line for frame in frames)
            self._spans.append((start, end, end - start, 1, pid or thread, thread, self._stacks.number(frames), None))

    def recording(self) -> HostRecording | None:
        """Return the stacks of the trace; None if it has none."""
        if self._spans.rows:
            samples = f"SELECT * FROM {parquet(self._spans.close())}"
            limits = [] if self._has_lines else ["host_functions_only"]
            return HostRecording("rocprof-sys", self._stacks.close(), samples, limits=limits)
        if not self._points.rows:
            return None
        samples = spans(self._con, parquet(self._points.close()), self._work / "perfetto_host")
        return HostRecording("perfetto", self._stacks.close(), samples, limits=["host_processor_only"])


def _sampled_frame(name: str, place: str | None) -> HostFrame:
    """Return the frame of a slice; ``place`` is its source line, or else the file of its code."""
    line = _LINE.fullmatch(place or "")
    return HostFrame(name, line["file"], int(line["line"])) if line else HostFrame(name, module=place)
