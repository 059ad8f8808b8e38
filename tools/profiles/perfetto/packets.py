"""Read the packets of a Perfetto trace one by one: begins, ends, counters, and their tracks.

The fields that are read are stated in messages.toml.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import open_text
from ..event_layout import EventLayout
from ..parsing.protobuf import WireError, message_types, messages, parse, text
from ..parsing.spool import NumberedTexts
from .host_stacks import HostSamples, InternedStacks

if TYPE_CHECKING:
    import duckdb

LAYOUT = EventLayout(__file__)
_BATCH = 20_000
_LARGEST = 1 << 62
_TRACKS, _INTERNED, _SEQUENCES = 1_000_000, 1_000_000, 100_000
_INTERNED_TEXT = 64 << 20
_INTERNED_KINDS = ("names", "categories", "keys")
_PLACES: list[str] = LAYOUT.stated["places"]
_UNPACKED = 64 << 20
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED = 1
_OWN_CLOCKS = 64
"""Clocks with at least this number belong to one sequence of packets."""
_BOOT = 6


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

    texts: dict[str, dict[int, str]] = field(default_factory=lambda: {kind: {} for kind in _INTERNED_KINDS})
    stacks: InternedStacks = field(default_factory=InternedStacks)
    clocks: dict[int, _SequenceClock] = field(default_factory=dict)
    clock: int | None = None
    track: int | None = None


@cache
def types() -> dict[str, Any]:
    """The classes of the messages of a trace."""
    return message_types(Path(__file__).with_name("messages.toml"))


class Packets:
    """The spools of one trace."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Path) -> None:
        self.marks = LAYOUT.spool(con, work, "perfetto_marks")
        self.samples = LAYOUT.spool(con, work, "perfetto_samples")
        self.names = NumberedTexts(con, work / "perfetto_names")
        self.host = HostSamples(con, work)
        self.tracks: dict[int, Track] = {}
        self.instants = 0
        self._types = types()
        self._sequences: dict[int, _Sequence] = {}
        self._offsets: dict[int, int] = {}
        """Builtin clock -> offset to the clock of the trace."""
        self._interned = self._interned_text = 0

    def read(self, file: Path) -> None:
        """Spool the events of a file; BadInput if it is truncated or not such a trace."""
        count = 0
        with open_text(file) as stream:
            try:
                for _, packet in messages(stream, (1,)):
                    self._packet(parse(self._types["Packet"], packet))
                    count += 1
                    if not count % _BATCH:
                        progress.report(f"read {count_text(count, 'packet')} of {file.name}")
            except (WireError, zlib.error) as error:
                raise BadInput(f"{file.name} is damaged", str(error), "Copy it again, or profile again") from error

    def _packet(self, packet: Any, *, inside: bool = False) -> None:
        if packet.HasField("compressed") and not inside:
            for one in self._unpack(packet.compressed):
                self._packet(parse(self._types["Packet"], one), inside=True)
            return
        sequence = self._sequence(packet.writer)
        if packet.cleared == 1 or packet.flags & _CLEARED:
            for texts in sequence.texts.values():
                texts.clear()
            sequence.stacks = InternedStacks()
        sequence.clock = _field(packet.defaults, "clock", sequence.clock)
        sequence.track = _field(packet.defaults.event, "track", sequence.track)
        if packet.HasField("interned"):
            self._intern(sequence, packet.interned)
        if packet.HasField("snapshot"):
            self._snapshot(sequence, packet.snapshot)
        if packet.HasField("described"):
            self._describe(packet.described)
        if packet.HasField("event"):
            self._event(sequence, packet.event, self._time(sequence, packet))
        if packet.HasField("perf_sample") or packet.HasField("stack_sample"):
            self.host.add(sequence.stacks, packet, self._time(sequence, packet))

    def _unpack(self, packed: bytes) -> Iterator[bytes]:
        """Return packets that were compressed together."""
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, _UNPACKED)
        if unpacker.unconsumed_tail:
            raise WireError("compressed packets are larger than in any trace")
        return iter(parse(self._types["Packets"], data).packets)

    def _sequence(self, number: int) -> _Sequence:
        if number not in self._sequences and len(self._sequences) >= _SEQUENCES:
            raise WireError("it has more writers than any trace")
        return self._sequences.setdefault(number, _Sequence())

    def _intern(self, sequence: _Sequence, interned: Any) -> None:
        for kind, known in sequence.texts.items():
            for entry in getattr(interned, kind):
                known[entry.number] = text(entry.text)
                self._interned += 1
                self._interned_text += len(known[entry.number])
        self._interned += sequence.stacks.add(interned)
        if self._interned > _INTERNED:
            raise WireError("it contains more texts than any trace")
        if self._interned_text > _INTERNED_TEXT:
            raise WireError("it contains longer texts than any trace")

    def _snapshot(self, sequence: _Sequence, snapshot: Any) -> None:
        """Record the values that several clocks had at the same time."""
        primary = snapshot.primary if snapshot.HasField("primary") else _BOOT
        base = {clock.number: clock.at for clock in snapshot.clocks}.get(primary)
        for clock in snapshot.clocks:
            if clock.number >= _OWN_CLOCKS:
                factor = clock.factor or 1
                start = clock.at * factor if base is None else base
                own = _SequenceClock(clock.at, start - clock.at * factor, factor, clock.incremental == 1)
                sequence.clocks[clock.number] = own
            elif base is not None:
                self._offsets.setdefault(clock.number, base - clock.at)

    def _time(self, sequence: _Sequence, packet: Any) -> int | None:
        """Convert the timestamp of a packet to ns on the clock of the trace."""
        if not packet.HasField("timestamp"):
            return None
        clock, stamp = _field(packet, "clock", sequence.clock), packet.timestamp
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

    def _describe(self, described: Any) -> None:
        if not described.HasField("uuid"):
            return
        track = self._track(described.uuid)
        track.name = text(described.name or described.static_name) or track.name
        track.parent = _field(described, "parent", track.parent)
        for part in (described.process, described.thread):
            track.pid = _small(_field(part, "pid", None), track.pid)
            track.name = track.name or text(part.name)
        track.thread = _small(_field(described.thread, "thread", None), track.thread)
        if described.HasField("counter"):
            track.unit = text(described.counter.unit)

    def _track(self, uuid: int) -> Track:
        if uuid not in self.tracks and len(self.tracks) >= _TRACKS:
            raise WireError("it has more tracks than any trace")
        return self.tracks.setdefault(uuid, Track(number=len(self.tracks) + 1))

    def _event(self, sequence: _Sequence, event: Any, time: int | None) -> None:
        track = self._track(_field(event, "track", sequence.track) or 0)
        if event.kind == _COUNTER:
            shown = float(event.counted) if event.HasField("counted") else _field(event, "exact", None)
            if shown is not None and math.isfinite(shown):
                self.samples.append((track.number, time, shown))
        elif event.kind in (_BEGIN, _END):
            begins = event.kind == _BEGIN
            numbers, stated = self._of_begin(sequence, event) if begins else ((None, None), {})
            more = (stated.get(c) for c in ("correlation", "bytes", "device_id", "stream", "place"))
            self.marks.append((self.marks.rows, track.number, time, int(begins), *numbers, *more))
        elif event.kind == _INSTANT:
            self.instants += 1

    def _of_begin(self, sequence: _Sequence, event: Any) -> tuple[tuple[int, int], dict[str, int]]:
        """Return the numbers of name and category, and the annotations for which a timeline has a column."""
        texts, by_column = sequence.texts, dict[str, int]()
        name = text(event.name) if event.HasField("name") else texts["names"].get(event.name_number, "")
        stated = [*map(text, event.categories), *(texts["categories"].get(n, "") for n in event.category_numbers), ""]
        places: dict[str, str] = {}
        for one in event.annotations:
            key = text(one.name) or texts["keys"].get(one.key, "")
            if one.HasField("shown") and key in _PLACES:
                places[key] = text(one.shown)
            column = LAYOUT.stated["annotations"].get(key.casefold())
            value = _field(one, "unsigned", _field(one, "signed", None))
            if column and value is not None and abs(value) < _LARGEST:
                by_column.setdefault(column, value)
        if places:
            by_column["place"] = self.names.number(next(places[key] for key in _PLACES if key in places))
        return (self.names.number(name), self.names.number(stated[0])), by_column


def _field(message: Any, name: str, otherwise: Any) -> Any:
    return getattr(message, name) if message.HasField(name) else otherwise


def _small(value: int | None, otherwise: int | None) -> int | None:
    return value if value is not None and value < 1 << 31 else otherwise
