"""Read MOJO, the binary format of austin.

After ``MOJ`` and the version, a stream of events follows: strings and frames are defined once and referred to by keys,
and a sample is a stack with frames and metrics. Integers have 6 bits in their first byte, whose bit 6 is the sign, and
7 in each further one. A sample states the microseconds since the one before, so its time on a clock is not known.
Stacks of suspended tasks (version 4) belong to no thread and are skipped. (src/mojo.h and src/events.c of austin)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ....analysis.base.problems import BadInput
from ...base.profile_files import files_of_format, head, open_text
from ..reader import Profile, ProfileFiles
from .files import UntimedSamples, host_profile, one_file
from .recording import HostFrame

_SUFFIXES = (".mojo", ".austin", ".bin", ".dat")
_MAGIC = b"MOJ"
_HEX = re.compile(r"[0-9a-f]{1,15}")
_NEWEST = 4
_EVENTS = (
    ("reserved", ""), ("metadata", "ss"), ("stack", "ips"), ("frame", "iiiiccc"), ("invalid", ""), ("frame_ref", "i"),
    ("kernel", "s"), ("gc", ""), ("idle", ""), ("time", "i"), ("memory", "i"), ("string", "is"), ("string_ref", "i"),
    ("repeat", ""), ("task", "ii"), ("waiter", "ii"),
)  # fmt: skip
"""Events by number, with their fields: s is a string, the others are integers; columns of source lines (c) and the
interpreter (p) came later."""
_SINCE = {"i": 1, "s": 1, "c": 2, "p": 3}
_NO_FRAME = HostFrame("?")
_BLOCK, _LONGEST, _DEEPEST, _MOST = 1 << 20, 1 << 16, 10_000, 1_000_000


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Stream:
    """Integers and strings of a file, read block by block."""

    def __init__(self, source: _Source) -> None:
        self._source, self._held, self._at = source, b"", 0

    def byte(self) -> int | None:
        """Return the next byte; None at the end."""
        if self._at >= len(self._held):
            self._held, self._at = self._source.read(_BLOCK), 0
            if not self._held:
                return None
        self._at += 1
        return self._held[self._at - 1]

    def integer(self) -> int:
        """Return the next integer; EOFError if the file ends within it."""
        first = part = self._next()
        value, shift = first & 0x3F, 6
        while part & 0x80 and shift < 70:
            part = self._next()
            value |= (part & 0x7F) << shift
            shift += 7
        return -value if first & 0x40 else value

    def text(self) -> str:
        """Return the next string, which ends with a zero."""
        read = bytearray()
        while part := self._next():
            read.append(part)
            if len(read) > _LONGEST:
                raise ValueError("a string does not end")
        return read.decode("utf-8", "replace")

    def _next(self) -> int:
        part = self.byte()
        if part is None:
            raise EOFError
        return part


@dataclass
class _MojoSample:
    """The sample that is being read."""

    pid: int
    thread: str
    frames: list[HostFrame] = field(default_factory=list)
    repeats: bool = False


def detect(path: Path) -> bool:
    """Return whether austin wrote a file in MOJO, or a folder has one such file."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, lambda file: head(file, len(_MAGIC)) == _MAGIC)


def read(files: ProfileFiles) -> Profile:
    """Return the recording at ``files.path``; BadInput if it is damaged. A file may end within a sample."""
    file = one_file(files, _files(files.path), "austin")
    recording = _Mojo(UntimedSamples(files))
    try:
        with open_text(file) as stream:
            recording.read(_Stream(stream))
    except ValueError as error:
        raise BadInput(f"{file.name} is damaged", f"it is not what austin writes: {error}", "Record again") from error
    limits = [] if recording.is_wall_clock else ["host_processor_only"]
    return host_profile(file, recording.samples.recording("austin", *limits))


class _Mojo:
    """The events of a file, and the samples that they make."""

    def __init__(self, samples: UntimedSamples) -> None:
        self.samples = samples
        self.is_wall_clock = True
        self._version = 0
        self._strings: dict[int, str] = {}
        self._frames: dict[int, HostFrame] = {}
        self._last: dict[tuple[int, str], list[HostFrame]] = {}
        self._sample: _MojoSample | None = None
        self._in_task = False

    def read(self, stream: _Stream) -> None:
        """Read all events; ValueError if one is unknown."""
        if bytes(stream.byte() or 0 for _ in _MAGIC) != _MAGIC:
            raise ValueError("it does not begin with MOJ")
        try:
            self._version = stream.integer()
            if not 0 < self._version <= _NEWEST:
                raise ValueError(f"its version is {self._version}, and {_NEWEST} is the newest that is known")
            while (event := stream.byte()) is not None:
                self._event(event, stream)
        except EOFError:  # the recording was interrupted
            return

    def _event(self, number: int, stream: _Stream) -> None:
        name, fields = _EVENTS[number] if 0 < number < len(_EVENTS) else ("unknown", "")
        present = (field for field in fields if self._version >= _SINCE[field])
        values: list[Any] = [stream.text() if field == "s" else stream.integer() for field in present]
        match name, values:
            case "metadata", [*fact]:
                self.is_wall_clock = self.is_wall_clock and fact != ["mode", "cpu"]
            case "string", [key, text]:
                self._strings[key] = text
            case "frame", [key, file, function, line, *_]:
                place = self._strings.get(file, ""), max(line, 0)
                self._frames[key] = HostFrame(self._strings.get(function, "?"), *place)
            case "stack", [pid, *_, thread]:
                self._sample, self._in_task = _MojoSample(pid, thread), False
            case "frame_ref", [key]:
                self._add(self._frames.get(key, _NO_FRAME))
            case "invalid", _:
                self._add(_NO_FRAME)
            case "kernel", [function]:
                self._add(HostFrame(function, module="[kernel]"))
            case "repeat", _ if self._sample:
                self._sample.repeats = True
            case "task", _:
                self._in_task = True
            case "time", [elapsed]:
                self._end_sample(elapsed)
            case "unknown", _:
                raise ValueError(f"event {number} is unknown")
        if len(self._strings) + len(self._frames) > _MOST:
            raise ValueError(f"it defines more than {_MOST:,} strings and frames")

    def _add(self, frame: HostFrame) -> None:
        if self._sample and not self._in_task and len(self._sample.frames) < _DEEPEST:
            self._sample.frames.append(frame)

    def _end_sample(self, time_us: int) -> None:
        """Store the sample that a time ends, unless it is that of a suspended task."""
        sample, in_task, self._in_task = self._sample, self._in_task, False
        if sample is None or in_task:
            return
        who = sample.pid, sample.thread
        if sample.repeats:
            sample.frames = self._last.get(who, []) + sample.frames
        else:
            self._last[who] = sample.frames
        # Version 4 writes the name of a thread, and earlier ones its number in hexadecimal.
        thread = int(sample.thread, 16) if self._version < _NEWEST and _HEX.fullmatch(sample.thread) else None
        self.samples.add(sample.frames, pid=sample.pid, thread=thread, time_ns=1000 * max(time_us, 0), samples=1)
        self._sample = None
