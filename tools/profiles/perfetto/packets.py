"""Read the packets of a Perfetto trace one by one: begins, ends, counters, and their tracks.

Field numbers are those of Perfetto's reference of TracePacket; fields that a timeline does not need are ignored.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import open_text
from ..parsing.json_stream import ByteSource
from ..parsing.spool import NumberedTexts, Spool

if TYPE_CHECKING:
    import duckdb


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BLOCK = 1 << 20
_MESSAGE_LIMIT = 64 << 20
_VARINT_LIMIT = 10
Field = int | bytes


class WireError(ValueError):
    """The bytes are not a message, or end within one."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the whole number at a position, and the position after it."""
    value = shift = 0
    for place in range(at, min(at + _VARINT_LIMIT, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise WireError("a number does not end")


def fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """Yield numbers and values of the fields of a message: whole numbers, and bytes of texts, messages and lists.

    Numbers of fixed size are returned as whole numbers too; ``double`` converts them to floating point.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"a field has the unknown kind {kind}")
        if at + size > end:
            raise WireError("a field is longer than its message")
        part, at = data[at : at + size], at + size
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")


def messages(stream: ByteSource, numbers: Container[int], most: int = _MESSAGE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the fields ``numbers`` of the outermost message; other fields are skipped.

    Each is a message or a text, of at most ``most`` bytes.
    """
    window, at = b"", 0
    while True:
        if len(window) - at < 2 * _VARINT_LIMIT:
            window, at = window[at:] + stream.read(_BLOCK), 0
            if not window:
                return
        tag, at = varint(window, at)
        if tag & 7 != _BYTES:
            raise WireError("it is not a list of messages")
        size, at = varint(window, at)
        if size > most:
            raise WireError("a message is larger than in any trace")
        parts, held = [window[at:]], len(window) - at
        while held < size:
            if not (block := stream.read(_BLOCK)):
                raise WireError("the file ends within a message")
            parts.append(block)
            held += len(block)
        if len(parts) > 1:
            window, at = b"".join(parts), 0
        if tag >> 3 in numbers:
            yield tag >> 3, window[at : at + size]
        at += size


def double(value: Field | None) -> float | None:
    """Convert a field of fixed size to a floating-point number."""
    import struct

    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0]) if isinstance(value, int) else None


def text(value: Field) -> str:
    """Return the text of a field."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def signed_integer(value: int) -> int:
    """Convert an unsigned 64-bit number to a signed one."""
    return value - (1 << 64) if value >= 1 << 63 else value


MARK = [(c, "BIGINT") for c in ("mark", "track", "time_ns", "begins", "name", "category", "correlation", "bytes",
                                "device_id", "stream")]  # fmt: skip
SAMPLE = [("track", "BIGINT"), ("time_ns", "BIGINT"), ("value", "DOUBLE")]
_BATCH = 20_000
_LARGEST = 1 << 62
_TRACKS, _INTERNED, _SEQUENCES = 1_000_000, 1_000_000, 100_000
_INTERNED_TEXT = 64 << 20
_UNPACKED = 64 << 20
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED = 1
_OWN_CLOCKS = 64
"""Clocks with at least this number belong to one sequence of packets."""
_BOOT = 6
_NUMBERS = {  # name of an annotation -> column of MARK
    "corr_id": "correlation", "correlation_id": "correlation", "stack_id": "correlation", "copy_bytes": "bytes",
    "size": "bytes", "bytes": "bytes", "allocation_size": "bytes", "device": "device_id", "device_id": "device_id",
    "agent": "device_id", "queue": "stream", "queue_id": "stream", "stream": "stream", "stream_id": "stream",
}  # fmt: skip


@dataclass
class Track:
    """The track of events: a thread, a queue, a counter."""

    name: str = ""
    pid: int | None = None
    thread: int | None = None
    parent: int | None = None
    unit: str = ""
    number: int = 0


@dataclass
class _SequenceClock:
    at: int
    base: int
    factor: int = 1
    incremental: bool = False


@dataclass
class _Sequence:
    """Interned data and defaults that the packets of one writer refer to."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    clocks: dict[int, _SequenceClock] = field(default_factory=dict)
    clock: int | None = None
    track: int | None = None


class Packets:
    """The spools of one trace."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Path) -> None:
        self.marks = Spool(con, work / "perfetto_marks", MARK)
        self.samples = Spool(con, work / "perfetto_samples", SAMPLE)
        self.names = NumberedTexts(con, work / "perfetto_names")
        self.tracks: dict[int, Track] = {}
        self.instants = 0
        self._sequences: dict[int, _Sequence] = {}
        self._offsets: dict[int, int] = {}
        """Builtin clock -> offset to the clock of the trace."""
        self._held: list[tuple[Any, ...]] = []
        self._values: list[tuple[Any, ...]] = []
        self._interned = self._interned_text = 0

    def read(self, file: Path) -> None:
        """Spool the events of a file; BadInput if it is truncated or not such a trace."""
        count = 0
        with open_text(file) as stream:
            try:
                for _, packet in messages(stream, (1,)):
                    self._packet(packet)
                    count += 1
                    if not count % _BATCH:
                        self._flush()
                        progress.report(f"read {count_text(count, 'packet')} of {file.name}")
            except (WireError, zlib.error) as error:
                raise BadInput(f"{file.name} is damaged", str(error), "Copy it again, or profile again") from error
        self._flush()

    def _flush(self) -> None:
        for rows, spool in ((self._held, self.marks), (self._values, self.samples)):
            spool.add(rows)
            rows.clear()

    def _packet(self, data: bytes, *, inside: bool = False) -> None:
        packet_fields = _last_fields(data)
        if (packed := packet_fields.get(50)) is not None and not inside:
            for packet in _unpack_packets(packed):
                self._packet(packet, inside=True)
            return
        number = packet_fields.get(10, 0)
        sequence = self._sequence(number if isinstance(number, int) else 0)
        flags = packet_fields.get(13, 0)
        if packet_fields.get(41) == 1 or (isinstance(flags, int) and flags & _CLEARED):
            sequence.names.clear()
            sequence.categories.clear()
            sequence.keys.clear()
        if isinstance(defaults := packet_fields.get(59), bytes):
            of = _last_fields(defaults)
            sequence.clock = _number(of.get(58), sequence.clock)
            if isinstance(event := of.get(11), bytes):
                sequence.track = _number(_last_fields(event).get(11), sequence.track)
        if isinstance(interned := packet_fields.get(12), bytes):
            self._intern(sequence, interned)
        if isinstance(snapshot := packet_fields.get(6), bytes):
            self._snapshot(sequence, snapshot)
        if isinstance(described := packet_fields.get(60), bytes):
            self._describe(described)
        if isinstance(event := packet_fields.get(11), bytes):
            stamp = packet_fields.get(8)
            clock = _number(packet_fields.get(58), sequence.clock)
            self._event(sequence, event, self._time(sequence, clock, stamp if isinstance(stamp, int) else None))

    def _sequence(self, number: int) -> _Sequence:
        if number not in self._sequences and len(self._sequences) >= _SEQUENCES:
            raise WireError("it has more writers than any trace")
        return self._sequences.setdefault(number, _Sequence())

    def _intern(self, sequence: _Sequence, data: bytes) -> None:
        into = {1: sequence.categories, 2: sequence.names, 3: sequence.keys}
        for number, value in fields(data):
            if (known := into.get(number)) is not None and isinstance(value, bytes):
                entry = _last_fields(value)
                self._interned += 1
                if self._interned > _INTERNED:
                    raise WireError("it contains more texts than any trace")
                key = entry.get(1)
                if isinstance(key, int):
                    known[key] = text(entry.get(2, b""))
                    self._interned_text += len(known[key])
                    if self._interned_text > _INTERNED_TEXT:
                        raise WireError("it contains longer texts than any trace")

    def _snapshot(self, sequence: _Sequence, data: bytes) -> None:
        """Record the values that several clocks had at the same time."""
        clocks, primary = [], _BOOT
        for number, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                clocks.append(_last_fields(value))
            elif number == 2 and isinstance(value, int):
                primary = value
        shown = {c.get(1): c.get(2) for c in clocks}
        base = shown.get(primary)
        for clock in clocks:
            name, at = clock.get(1), clock.get(2)
            if not isinstance(name, int) or not isinstance(at, int):
                continue
            if name >= _OWN_CLOCKS:
                factor = _number(clock.get(4), 1) or 1
                start = base if isinstance(base, int) else at * factor
                sequence.clocks[name] = _SequenceClock(at, start - at * factor, factor, clock.get(3) == 1)
            elif isinstance(base, int):
                self._offsets.setdefault(name, base - at)

    def _time(self, sequence: _Sequence, clock: int | None, stamp: int | None) -> int | None:
        """Convert a timestamp to ns on the clock of the trace."""
        if stamp is None:
            return None
        if clock is not None and clock >= _OWN_CLOCKS:
            if (own := sequence.clocks.get(clock)) is None:
                return None
            if own.incremental:
                own.at += stamp
                stamp = own.at
            time_ns = own.base + stamp * own.factor
        else:
            time_ns = stamp + self._offsets.get(_BOOT if clock is None else clock, 0)
        return time_ns if -_LARGEST < time_ns < _LARGEST else None

    def _describe(self, data: bytes) -> None:
        track_fields = _last_fields(data)
        uuid = track_fields.get(1)
        if not isinstance(uuid, int):
            return
        if uuid not in self.tracks and len(self.tracks) >= _TRACKS:
            raise WireError("it has more tracks than any trace")
        track = self.tracks.setdefault(uuid, Track(number=len(self.tracks) + 1))
        track.name = text(track_fields.get(2, track_fields.get(10, b""))) or track.name
        track.parent = _number(track_fields.get(5), track.parent)
        for number, pid_of, thread_of, name_of in ((3, 1, None, 6), (4, 1, 2, 5)):
            if isinstance(part := track_fields.get(number), bytes):
                of = _last_fields(part)
                track.pid = _small(of.get(pid_of), track.pid)
                track.thread = _small(of.get(thread_of), track.thread) if thread_of else track.thread
                track.name = track.name or text(of.get(name_of, b""))
        if isinstance(counter := track_fields.get(8), bytes):
            track.unit = text(_last_fields(counter).get(6, b""))

    def _event(self, sequence: _Sequence, data: bytes, time: int | None) -> None:
        values: dict[int, Field] = {}
        annotations = []
        for number, value in fields(data):
            if number == 4:
                annotations.append(value)
            else:
                values.setdefault(number, value)
        kind = values.get(9)
        uuid = _number(values.get(11), sequence.track)
        track = self.tracks.get(uuid) if uuid is not None else None
        if track is None:
            if len(self.tracks) >= _TRACKS:
                raise WireError("it has more tracks than any trace")
            track = self.tracks.setdefault(uuid or 0, Track(number=len(self.tracks) + 1))
        if kind == _COUNTER:
            counted, exact = values.get(30), double(values.get(44))
            shown = float(signed_integer(counted)) if isinstance(counted, int) else exact
            if shown is not None and math.isfinite(shown):
                self._values.append((track.number, time, shown))
        elif kind in (_BEGIN, _END):
            begins = kind == _BEGIN
            mark = self.marks.rows + len(self._held)
            name = self._text(values.get(23), values.get(10), sequence.names) if begins else ""
            category = self._text(values.get(22), values.get(3), sequence.categories) if begins else ""
            stated = self._annotation_numbers(sequence, annotations) if begins else {}
            more = (stated.get(c) for c in ("correlation", "bytes", "device_id", "stream"))
            numbers = (self.names.number(name), self.names.number(category)) if begins else (None, None)
            self._held.append((mark, track.number, time, int(begins), *numbers, *more))
        elif kind == _INSTANT:
            self.instants += 1

    @staticmethod
    def _text(given: Field | None, number: Field | None, interned: dict[int, str]) -> str:
        if isinstance(given, bytes):
            return text(given)
        if isinstance(number, bytes):  # a packed list
            number = number[0] if number else None
        return interned.get(number, "") if isinstance(number, int) else ""

    @staticmethod
    def _annotation_numbers(sequence: _Sequence, annotations: list[Field]) -> dict[str, int]:
        """Return the whole numbers of annotations for which a timeline has a column."""
        by_column: dict[str, int] = {}
        for one in annotations:
            of = _last_fields(one) if isinstance(one, bytes) else {}
            key = of.get(1)
            name = text(of.get(10, b"")) or (sequence.keys.get(key, "") if isinstance(key, int) else "")
            column = _NUMBERS.get(name.casefold())
            value = of.get(3, of.get(4))
            if column and isinstance(value, int) and abs(signed_integer(value)) < _LARGEST:
                by_column.setdefault(column, signed_integer(value))
        return by_column


def _unpack_packets(packed: Field) -> Iterator[bytes]:
    """Yield packets that were compressed together."""
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed, _UNPACKED) if isinstance(packed, bytes) else b""
    if unpacker.unconsumed_tail:
        raise WireError("compressed packets are larger than in any trace")
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            yield value


def _last_fields(data: bytes) -> dict[int, Field]:
    """Return the fields of a message; the last one if a field is repeated."""
    return dict(fields(data))


def _number(value: Field | None, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) else otherwise


def _small(value: Field | None, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and value < 1 << 31 else otherwise
