"""Read the events of a Chrome trace one by one and spool them, without keeping any of them in memory."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import open_text
from ...base.untrusted_text import plain_text
from ..event_layout import EventLayout
from ..merging.contract import Connection
from ..merging.ranks import rank_number, sql_value
from ..merging.wording import note, refusal
from ..parsing.json_stream import LARGEST, JsonCut, elements, number, whole_ns, whole_number
from ..parsing.spool import NumberedTexts

LAYOUT = EventLayout(__file__)
ROLES: list[str] = LAYOUT.stated["roles"]
"""Roles of events; the position is the number in the spools. Unknown events are classified by lane and name."""
_NUMBER = {role: number for number, role in enumerate(ROLES)}
_KERNEL, _CALL, _PROFILER, _TORCH, _USER, _IGNORED = (
    _NUMBER[r] for r in ("kernel", "call", "profiler", "torch", "user", "ignored")
)
_KINETO: dict[str, str] = {name.lower(): name for name in LAYOUT.stated["categories"]} | LAYOUT.stated["old_categories"]
"""Category of an old trace, in lower case -> its name today."""
_STATED_BY_KINETO = frozenset(LAYOUT.stated["stated_by_kineto"])
_USER_RANGES = tuple(LAYOUT.stated["user_ranges"])
_BATCH = 20_000
_BLOCK = 1 << 20
_LATEST_US = LARGEST / 1000
"""The latest time in us that still fits into 64 bits in ns."""
_LANES, _LABEL = 100_000, 200
_SKIPPED, _SKIPPED_NAME, _NAMED = 1000, 80, 4
"""Different skipped events or values that are counted apart, characters of each, and how many are named."""
_KEPT_MEMBERS = ("deviceProperties", "computeProperties", "distributedInfo", "baseTimeNanoseconds", "schemaVersion")
_OPERATION = ("cat", "id", "id2", "scope", "name")
"""What the begin and the end of an asynchronous operation of a process have in common."""
_DEVICES = 256
_LONGEST_ARGUMENTS = 4000
"""Longer lists of arguments are omitted: the values first, then all of them."""


class Traces:
    """The spools with the events of several files."""

    def __init__(self, con: Connection, work: Path) -> None:
        self.spools = {
            name: LAYOUT.spool(con, work, f"chrome_{name}") for name in ("events", "spans", "marks", "flows")
        }
        self.names = NumberedTexts(con, work / "chrome_names")
        self.lanes: dict[tuple[int, int], str] = {}
        """File and lane (which the format calls pid) -> the name of that process."""
        self.facts: list[dict[str, Any]] = []
        """For every file: the useful members of its outermost object."""
        self.seen: set[str] = set()
        """Categories of the events read."""
        self.left_out: dict[str, Counter[str]] = {}
        """Description of skipped events -> their names."""
        self.strange: dict[str, Counter[str]] = {}
        """Field of an event -> values that are not numbers, or are too large."""
        self.ranks: dict[tuple[int, int], int | None] = {}
        """File and lane -> the rank that all of its events state; None if they differ."""
        self.beyond: str | None = None
        """A start time, as stated, that is impossible in us but would be possible in ns."""
        self.damaged: set[int] = set()
        """Numbers of files that could not be read completely; their spooled events are ignored."""

    def read(self, file: Path) -> None:
        """Spool the events of one file; BadInput if it is truncated or not such a trace."""
        with _no_garbage_collection():
            _TraceReader(self, file).read()

    def read_of_many(self, file: Path) -> Note | None:
        """Spool the events of one of several files; return a warning if it is damaged, and is skipped."""
        try:
            self.read(file)
        except (BadInput, LimitExceeded) as problem:
            self.damaged.add(len(self.facts))
            self.facts.append({})
            return note("damaged.one", problem=problem)
        return None

    def lane_rows(self, *, merged: bool) -> str:
        """Return SQL for file and lane, with role and device that names determine, and ranks of a merged trace."""
        rows = []
        labels, ranks = self.lanes, self.ranks if merged else {}
        for file, lane in {**labels, **ranks}:
            label, role, number = labels.get((file, lane), ""), "NULL", "NULL"
            for one in LAYOUT.stated["lane"]:
                if re.fullmatch(one["pattern"], label):
                    device = re.search(r"(\d+)", label)
                    role = str(ROLES.index(one["role"]))
                    number = device[1] if device and len(device[1]) < 9 else "NULL"
                    break
            rows.append(f"({file}, {lane}, {role}, {number}, {sql_value(ranks.get((file, lane)))})")
        values = f"VALUES {', '.join(rows)}" if rows else "VALUES (NULL, NULL, NULL, NULL, NULL)"
        columns = ", ".join(f"{c}::BIGINT AS {c}" for c in ("file", "lane", "role", "device", "lane_rank"))
        return f"SELECT {columns} FROM ({values}) v(file, lane, role, device, lane_rank)"

    def skipped_notes(self) -> list[Note]:
        """Return notes on events that a timeline has no place for."""
        return [
            note("not_read.trace", total=names.total(), what=what, names=listed(names))
            for what, names in self.left_out.items()
        ]

    def unused_notes(self) -> list[Note]:
        """Return warnings about values that are no numbers, or too large."""
        return [
            note("not_a_number.events", total=values.total(), field=field, values=listed(values))
            for field, values in self.strange.items()
        ]


def listed(names: Counter[str]) -> str:
    """Return the most frequent names with their numbers."""
    words = [f"{name} ({count})" if count > 1 else name for name, count in names.most_common(_NAMED)]
    return ", ".join(words) + (" ..." if len(names) > _NAMED else "")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not search for cycles among the millions of rows, which have none; this saves a seventh of the time."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


class _TraceReader:
    """Reads one file into the spools."""

    def __init__(self, traces: Traces, file: Path) -> None:
        self.traces, self.file, self.number = traces, file, len(traces.facts)
        self.spools = traces.spools
        self.facts: dict[str, Any] = {}
        self.words: dict[str, int] = {}
        """Process and thread ids that are words -> negative numbers."""
        self.role_of = {cat: _NUMBER[role] for cat, role in LAYOUT.stated["categories"].items()}

    def read(self) -> None:
        file = self.file
        count = 0
        with open_text(file) as text:
            try:
                for path, value in elements(text, lambda path: not path, numbers_as_text=True, may_end=True):
                    if path in (("traceEvents",), ()):
                        if isinstance(value, dict):
                            self._event(value)
                            count += 1
                            if not count % _BATCH:
                                progress.report(f"read {count_text(count, 'event')} of {file.name}")
                    elif len(path) == 1 and path[0] in _KEPT_MEMBERS:
                        self._fact(path[0], value)
                while text.read(_BLOCK):  # to the end, which shows whether a compressed file is complete
                    pass
            except JsonCut as error:
                raise refusal("damaged", file=file, why=str(error)) from error
        if not count:
            raise refusal("empty_trace", file=file)
        self.traces.facts.append(self.facts)

    def _fact(self, name: str, value: Any) -> None:
        if name in ("deviceProperties", "computeProperties"):  # of PyTorch, and of its first versions
            known = self.facts.setdefault("deviceProperties", [])
            if isinstance(value, dict) and len(known) < _DEVICES:
                known.append(value)
        elif name == "distributedInfo":
            stated = value if isinstance(value, dict) else {}
            self.facts[name] = {"rank": stated.get("rank"), "world_size": stated.get("world_size")}
        elif type(value) is int:
            self.facts[name] = value

    def _event(self, event: dict[str, Any]) -> None:
        phase = event.get("ph")
        if phase == "X":
            self._complete(event)
        elif phase in ("B", "E"):
            self._mark(event, phase == "B")
        elif phase in ("b", "e", "S", "F"):  # S and F are the older spelling
            self._mark(event, phase in ("b", "S"), [event.get(field) for field in _OPERATION])
        elif phase in ("s", "t", "f"):
            self._flow(event, phase == "s")
        elif phase == "C":
            self._counter(event)
        elif phase == "M":
            self._metadata(event)
        elif phase == "i" and event.get("name") == "[memory]":
            self._memory(event)
        elif phase is not None:
            if str(phase)[:1] in "iIRn":
                self._leave_out("instants", event.get("name"))
            else:
                self._leave_out("events of other kinds", phase)

    def _leave_out(self, what: str, name: Any) -> None:
        _count(self.traces.left_out.setdefault(what, Counter()), name)

    def _strange(self, field: str, value: Any) -> None:
        """Remember a value that cannot be used; None if it is missing."""
        if value is not None:
            _count(self.traces.strange.setdefault(field, Counter()), value)

    def _complete(self, event: dict[str, Any]) -> None:
        given = event.get("args")
        args = given if type(given) is dict else {}
        spelling = event.get("cat")
        cat = spelling if type(spelling) is str else ""
        if cat not in self.role_of and not _STATED_BY_KINETO.isdisjoint(args):
            cat = _KINETO.get(cat.lower(), cat)
        role = self.role_of.get(cat, 0)
        if role == _IGNORED:
            return
        if role:
            self.traces.seen.add(cat)
        start, length = self._time(event), whole_ns(event.get("dur"))
        end = start + length if start is not None and length is not None else None
        if length is None:
            self._strange("dur", event.get("dur"))
        lane, thread = self._id(event.get("pid")), self._id(event.get("tid"))
        name = self.traces.names.number(event.get("name"))
        if "rank" in args and lane is not None:
            self._state_rank(lane, args["rank"])
        if role >= _TORCH:
            if role == _TORCH and str(event.get("name")).startswith(_USER_RANGES):
                role = _USER
            stated = self._arguments(role, args)
            self.spools["spans"].append((self.number, role, name, lane, lane, thread, start, end, stated))
            return
        row: tuple[Any, ...]
        category = None
        if role == _CALL:
            stream = args.get("stream")
            if type(stream) is str and _POINTER.fullmatch(stream):
                stream = int(stream, 16)
            correlation = self._whole(args, "correlation")
            row = (None, whole_number(stream), lane, thread, start, end, None, correlation, *_NO_LAUNCH_DATA)
        elif role:
            device, stream = self._whole(args, "device"), self._whole(args, "stream")
            if role < _CALL:
                device, stream = lane if device is None else device, thread if stream is None else stream
            row = (
                device, stream, None, thread if role == _PROFILER else None, start, end, self._whole(args, "bytes"),
                self._whole(args, "correlation"), *(_kernel(args) if role == _KERNEL else _NO_LAUNCH_DATA),
            )  # fmt: skip
        else:
            row = self._unknown(lane, thread, (start, end), args)
            if cat and ("stream" in args or "correlation" in args):
                category = self.traces.names.number(cat)
        self.spools["events"].append((self.number, role, name, lane, *row, category, self._arguments(role, args)))

    def _arguments(self, role: int, args: dict[str, Any]) -> int | None:
        """Return the number of the text of an event's arguments; None for roles whose arguments are not kept."""
        stated = _OF_ARGUMENTS.get(role)
        text = stated(args) if stated else None
        return None if text is None else self.traces.names.number(text)

    def _whole(self, args: dict[str, Any], field: str) -> int | None:
        value = args.get(field)
        if type(value) is int and -LARGEST < value < LARGEST:
            return value
        if type(value) is int or (value is not None and value in _NO_NUMBERS):
            self._strange(field, value)
        return None

    def _state_rank(self, lane: int, stated: Any) -> None:
        known, rank = self.traces.ranks, rank_number(stated)
        if len(known) < _LANES and known.setdefault((self.number, lane), rank) != rank:
            known[self.number, lane] = None

    def _time(self, event: dict[str, Any]) -> int | None:
        """Return the start of an event in ns."""
        stated = event.get("ts")
        start = whole_ns(stated)
        if start is None:
            self._strange("ts", stated)
        if start is None and self.traces.beyond is None and _LATEST_US < abs(number(stated) or 0.0) < LARGEST:
            self.traces.beyond = str(stated)
        return start

    def _unknown(
        self, lane: int | None, thread: int | None, times: tuple[int | None, int | None], args: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return the row of an event that its lane or name must classify. rocprof v1 repeats times in ns and ids."""
        exact = whole_number(args.get("BeginNs")), whole_number(args.get("EndNs"))
        start, end = exact if None not in exact else times
        pid, tid = whole_number(args.get("pid")), whole_number(args.get("tid"))
        size = whole_number(args.get("Size") or args.get("bytes") or args.get("size"))
        return (
            whole_number(args.get("gpu-id") or args.get("dev-id")), thread, lane if pid is None else pid,
            thread if tid is None else tid, start, end, size, whole_number(args.get("correlation")), *_NO_LAUNCH_DATA,
        )  # fmt: skip

    def _mark(self, event: dict[str, Any], begins: bool, operation: list[Any] | None = None) -> None:
        """Record a begin or an end, of a range of a thread or of an asynchronous ``operation``."""
        marks, names = self.spools["marks"], self.traces.names
        lane, thread, key = self._id(event.get("pid")), self._id(event.get("tid")), None
        if operation:  # it may end on another thread
            thread, key = None, names.number(json.dumps(operation))
        number = names.number(event.get("name"))
        marks.append((self.number, number, lane, thread, key, self._time(event), int(begins), marks.rows))

    def _flow(self, event: dict[str, Any], starts: bool) -> None:
        if (cat := event.get("cat")) in ("DataFlow", "fwdbwd", "forward_backward"):
            number = whole_number(event.get("id"))
            lane, thread = self._id(event.get("pid")), self._id(event.get("tid"))
            time, forward = whole_ns(event.get("ts")), int(cat != "DataFlow")
            self.spools["flows"].append((self.number, number, forward, int(starts), lane, thread, time))

    def _counter(self, event: dict[str, Any]) -> None:
        time, args = whole_ns(event.get("ts")), event.get("args")
        series_of = args if isinstance(args, dict) else {}
        for series, value in series_of.items():
            reading = number(value)
            if reading is None:
                self._leave_out("counters without a number", f"{event.get('name')} {series}")
                continue
            text = str(event.get("name") or "counter")
            name = self.traces.names.number(text if len(series_of) == 1 else f"{text} {series}")
            self._sample(name, self._id(event.get("pid")), None, time, reading)

    def _memory(self, event: dict[str, Any]) -> None:
        """Record the memory that PyTorch's allocator holds after an allocation or a release."""
        given = event.get("args")
        args = given if type(given) is dict else {}
        held = number(args.get("Total Allocated"))
        if held is None:
            self._leave_out("instants", event.get("name"))
            return
        device = whole_number(args.get("Device Id"))
        name = self.traces.names.number("PyTorch memory allocated")
        time = whole_ns(event.get("ts"))
        own = device if device is not None and device >= 0 else None
        self._sample(name, self._id(event.get("pid")), own, time, held)

    def _sample(self, name: int, pid: int | None, device: int | None, time: int | None, value: float) -> None:
        row = (device, None, pid, None, time, time, *[None] * 6, value, None, None)
        self.spools["events"].append((self.number, _NUMBER["sample"], name, pid, *row))

    def _metadata(self, event: dict[str, Any]) -> None:
        given, lane = event.get("args"), self._id(event.get("pid"))
        if event.get("name") != "process_name" or not isinstance(given, dict) or lane is None:
            return
        if len(self.traces.lanes) < _LANES:
            self.traces.lanes.setdefault((self.number, lane), str(given.get("name") or "")[:_LABEL])

    def _id(self, value: Any) -> int | None:
        """Return a process or thread id: numbers unchanged, words numbered from -2 downwards."""
        if type(value) is int:
            return value if -LARGEST < value < LARGEST else None
        if type(value) is not str:
            return None
        identifier = whole_number(value)
        if identifier is None and len(self.words) < _LANES:
            identifier = self.words.setdefault(value[:_LABEL], -2 - len(self.words))
        return identifier


def _count(names: Counter[str], name: Any) -> None:
    """Count a name among others; those beyond a limit are counted together."""
    text = plain_text(str(name), _SKIPPED_NAME)
    names[text if text in names or len(names) < _SKIPPED else "..."] += 1


_POINTER = re.compile(r"0x[0-9a-fA-F]{1,15}")
"""Streams of HIP as host calls name them."""
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_NO_LAUNCH_DATA = (None, None, None, None, None)


def _operator_arguments(args: Mapping[str, Any]) -> str | None:
    """Return the arguments of an operator as JSON; None if no sizes were recorded."""
    sizes = args.get("Input Dims") or args.get("Input dims")
    if type(sizes) is not list or not sizes:
        return None
    stated = [sizes, args.get("Input type"), args.get("Concrete Inputs")]
    text = json.dumps(stated, separators=(",", ":"))
    if len(text) > _LONGEST_ARGUMENTS:
        text = json.dumps([*stated[:2], None], separators=(",", ":"))
    return text if len(text) <= _LONGEST_ARGUMENTS else None


def _collective(args: Mapping[str, Any]) -> str | None:
    """Return the facts of a collective as JSON; None for kernels that are none."""
    if type(args.get("Collective name")) is not str:
        return None
    facts = {
        name: args[stated]
        for name, stated in LAYOUT.stated["collective"].items()
        if type(args.get(stated)) in (str, int)
    }
    text = json.dumps(facts, separators=(",", ":"))
    return text if len(text) <= _LONGEST_ARGUMENTS else None


_OF_ARGUMENTS = {_NUMBER["torch"]: _operator_arguments, _NUMBER["kernel"]: _collective}
"""Number of a role -> the function that returns the arguments of its events as text."""


def _kernel(args: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return work-items, work-items per work-group, registers, shared memory, and no value."""
    blocks, threads = _product(args.get("grid")), _product(args.get("block"))
    items = blocks * threads if blocks is not None and threads is not None else None
    registers, shared = whole_number(args.get("registers per thread")), whole_number(args.get("shared memory"))
    return items if items is not None and items < LARGEST else None, threads, registers, shared, None


def _product(sides: Any) -> int | None:
    if type(sides) is not list or len(sides) != 3 or any(type(s) is not int or not 0 < s < 1 << 32 for s in sides):
        return None
    product = int(sides[0] * sides[1] * sides[2])
    return product if product < LARGEST else None
