"""Read rocprofv3's JSON output as a stream."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.profile_files import open_text
from ...base.untrusted_text import plain_text
from ..merging.contract import Connection, parquet
from ..merging.wording import note, refusal
from ..parsing.json_stream import ENTERED, JsonCut, KeyPath, elements
from ..parsing.spool import Spool
from .agents import Rocprofv3Agent, agent_of
from .layouts import JSON
from .outputs import Output, place_of
from .pc_samples import EqualRowCounter, json_samples, part_of, sample_of, sample_texts
from .recorded_activity import Recorded, json_activity
from .recording import SPAN, ProcessRecording, describe_recordings, stage_launches

_TOOL = "rocprofiler-sdk-tool"
_TRACE, _COUNTER_COLLECTION = ("buffer_records", "kernel_dispatch"), ("callback_records", "counter_collection")
_PLACE_BITS = 2**46 - 1
_SPM_COLLECTION, _DRIVER = ("callback_records", "spm_counter_collection"), ("buffer_records", "kfd")
_MARKERS = ("buffer_records", "marker_api")
_PC_SAMPLES = (("buffer_records", "pc_sample_host_trap"), ("buffer_records", "pc_sample_stochastic"))
_ACTIVITY_PATHS: dict[KeyPath, Recorded] = {
    ("buffer_records", name): Recorded[kind.upper()] for name, kind in JSON["records"].items()
}
COLUMNS: dict[str, dict[str, str]] = JSON["spools"]
"""Spools of a file: name -> columns and their SQL types."""
_BATCH = 20_000
_INVALID = 1000
UNKNOWN_AGENT = -1
"""Agent of a launch that the file does not describe; other agents are identified by their node in the topology."""
_LARGEST = 2**63 - 1


@dataclass
class JsonRun:
    """What the file states about one process."""

    pid: int | None = None
    host: str | None = None
    command: str | None = None
    span: tuple[int, int] | None = None
    agents: list[Rocprofv3Agent] = field(default_factory=list)
    nodes: dict[Any, int] = field(default_factory=dict)
    """Handle of an agent -> its node in the machine's topology."""
    active: set[int] = field(default_factory=set)
    """Kinds of activity (call, copy, allocation) that the process has records of."""
    messages: dict[int, str] = field(default_factory=dict)
    """Correlation -> the name that the program gave to a range."""
    sampled: bool = False
    """Whether it has program counter samples."""
    driver_events: int = 0
    """Number of page faults, migrations and evictions, whose kind these files do not state."""


def collect_records(file: Path, spools: Mapping[str, Spool]) -> tuple[list[JsonRun], list[Note]]:
    """Spool the file's records; return its processes, and warnings about values that are no numbers.

    Handles, which may be addresses, become small numbers.
    """

    def descends_into(path: KeyPath) -> bool:
        return path in ((), (_TOOL,)) or (len(path) == 2 and path[1] in (_TRACE[0], _COUNTER_COLLECTION[0]))

    with open_text(file) as handle:
        intake = _RecordSpooler(spools, lambda rows: progress.report(f"read {count_text(rows, 'row')} of {file.name}"))
        try:
            for path, value in elements(handle, descends_into):
                if path == (_TOOL, ENTERED):
                    if len(intake.runs) >= size_limits.MOST_RUNS:
                        raise refusal("too_many_processes", file=file, most=size_limits.MOST_RUNS)
                    intake.runs.append(JsonRun())
                if path[:1] == (_TOOL,) and isinstance(value, Mapping) and (take := _HANDLERS.get(path[1:])):
                    take(intake, value)
        except (JsonCut, AttributeError, TypeError) as error:
            what = str(error) if isinstance(error, JsonCut) else "its records have an unknown structure"
            raise refusal("damaged", file=file, why=what) from error
        intake.close()
    if not intake.runs:
        raise refusal("no_tool_object", file=file, tool=_TOOL)
    return intake.runs, [
        note(
            "not_a_number.json", file=file, count=values.total(), what=what, example=plain_text(next(iter(values)), 40)
        )
        for what, values in sorted(intake.invalid.items())
    ]


class _RecordSpooler:
    """Converts the records of one file to spooled rows, with one method per kind of record (see _HANDLERS)."""

    def __init__(self, spools: Mapping[str, Spool], on_batch: Callable[[int], None]) -> None:
        """``on_batch`` is called now and then, with the number of rows so far."""
        self.runs: list[JsonRun] = []
        self.invalid: dict[str, Counter[str]] = {}
        """What is wrong with values -> how they are spelt."""
        self._spools, self._on_batch = spools, on_batch
        self._counters: dict[Any, int] = {}
        self._samples = EqualRowCounter(spools["sample"].add)

    def _spool_row(self, name: str, *row: Any) -> None:
        """Spool a row of the current process."""
        self._spools[name].append((len(self.runs) - 1, *row))
        if not self._spools[name].rows % _BATCH:
            self._on_batch(sum(spool.rows for spool in self._spools.values()))

    def _number(self, value: Any) -> float | None:
        """Convert a value to a number; None otherwise, which is counted unless it is null, meaning not measured."""
        try:
            number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        except OverflowError:  # a whole number with hundreds of digits
            number = math.inf
        if math.isfinite(number):
            return number
        self._count_invalid("counter values are not finite numbers", value)
        return None

    def _count_invalid(self, what: str, value: Any) -> None:
        if value is not None:
            known = self.invalid.setdefault(what, Counter())
            text = json.dumps(value) if isinstance(value, float) else str(value)  # as a JSON file spells it
            known[text[:40] if len(known) < _INVALID else next(iter(known))] += 1

    def close(self) -> None:
        """Spool the samples that are still counted."""
        self._samples.close()

    def _counter_number(self, value: Mapping[str, Any], name: str) -> int:
        return self._counters.setdefault(_handle(value.get(name)), len(self._counters))

    def metadata(self, value: Mapping[str, Any]) -> None:
        """Take process, host, command and times."""
        run, command = self.runs[-1], value.get("command")
        run.pid = _whole(value.get("pid"))
        self._spool_row("process", run.pid)
        run.host = plain_text(str(part_of(value, "node").get("hostname") or ""), 80) or None
        words = [str(w) for w in command] if isinstance(command, list) else [str(command or "")]
        run.command = plain_text(" ".join(words), 500) or None
        start, end = _whole(value.get("init_time")), _whole(value.get("fini_time"))
        run.span = (start, end) if start and end and start < end else None

    def agent(self, value: Mapping[str, Any]) -> None:
        """Take a GPU or a processor."""
        self.runs[-1].nodes[_handle(value.get("id"))] = _whole(value.get("node_id")) or 0
        if agent := agent_of(value):
            self.runs[-1].agents.append(agent)
            self._spool_row("device", agent.numbers[1], agent.numbers[0])

    def symbol(self, value: Mapping[str, Any]) -> None:
        """Take a kernel, its registers, and its start address in its code object."""
        linked = _text(value.get("kernel_name"))
        name = _text(value.get("formatted_kernel_name")) or linked
        self._spool_row("symbol", *_numbers("symbol", value), name)
        address = _whole(_handle(value.get("kernel_address")))
        self._spool_row("entry", _whole(value.get("code_object_id")), linked, name, address)

    def code_object(self, value: Mapping[str, Any]) -> None:
        """Take a code object that was loaded."""
        self._spool_row("object", *_numbers("object", value), _text(value.get("uri")))

    def sample(self, value: Mapping[str, Any]) -> None:
        """Take a program counter sample."""
        self.runs[-1].sampled = True
        self._samples.add((len(self.runs) - 1, *sample_of(value)))

    def strings(self, value: Mapping[str, Any]) -> None:
        """Take names of ranges and operations, and texts of instructions."""
        pairs = value.get("marker_api")
        entries = [pair for pair in pairs if isinstance(pair, Mapping)] if isinstance(pairs, list) else []
        self.runs[-1].messages = {p["key"]: str(p.get("value")) for p in entries if isinstance(p.get("key"), int)}
        kinds = value.get("buffer_records")
        for kind, one in enumerate(kinds if isinstance(kinds, list) else ()):
            names = one.get("operations") if isinstance(one, Mapping) else None
            for operation, name in enumerate(names if isinstance(names, list) else ()):
                self._spool_row("operation", kind, operation, _text(one.get("kind")), _text(name))
        for place, texts in sample_texts(value):
            self._spool_row("text", place, *map(_text, texts))

    def activity(self, value: Mapping[str, Any], what: Recorded) -> None:
        """Take a call, a copy or an allocation."""
        run = self.runs[-1]
        run.active.add(what)
        agents = (run.nodes.get(_handle(value.get(name))) for name in _AGENTS[what])
        size = _whole(value.get("bytes", value.get("allocation_size")))
        numbers = _numbers("act", value)
        self._spool_row("act", int(what), *numbers, *agents, size, *_node(value))

    def range(self, value: Mapping[str, Any]) -> None:
        """Take a range of the program, unless it is a mark or has no name."""
        run, (thread, correlation, start, end) = self.runs[-1], _numbers("range", value)
        if correlation in run.messages and start is not None and end is not None and start < end:
            name = _text(run.messages[correlation])
            self._spool_row("range", run.pid, thread, correlation, start, end, name)

    def driver(self, value: Mapping[str, Any]) -> None:
        """Count an event of the kernel driver."""
        self.runs[-1].driver_events += 1 if value else 0

    def counter(self, value: Mapping[str, Any]) -> None:
        """Take the name of a counter."""
        self._spool_row("counter", self._counter_number(value, "id"), _text(value.get("name")))

    def launch(self, value: Mapping[str, Any]) -> None:
        """Take a launch in a trace."""
        self._spool_launch(value, value, counted=False)

    def counted_launch(self, value: Mapping[str, Any], spool: str = "value") -> None:
        """Take a launch with the values of its counters, or with those that were sampled inside it (SPM)."""
        identity = self._spool_launch(value, part_of(value, "dispatch_data"), counted=True)
        for record in value.get("records") or ():
            number, known = self._counter_number(record, "counter_id"), self._number(record.get("value"))
            at: tuple[int | None, ...] = ()
            if spool == "spm":  # the lower bits of an instance state its place on the GPU
                instance = record.get("instance_id")
                place = instance & _PLACE_BITS if type(instance) is int and 0 <= instance < 2**64 else None
                at = place, _whole(record.get("timestamp"))
            self._spool_row(spool, *identity, number, *at, known)

    def _spool_launch(
        self, value: Mapping[str, Any], data: Mapping[str, Any], *, counted: bool
    ) -> tuple[int | None, int]:
        """Spool a launch; return its number and its agent."""
        info = part_of(data, "dispatch_info")
        agent = self.runs[-1].nodes.get(_handle(info.get("agent_id")), UNKNOWN_AGENT)
        identity = _whole(info.get("dispatch_id")), agent
        for name in ("start_timestamp", "end_timestamp"):
            if _whole(time := data.get(name)) is None:
                self._count_invalid("times are not whole numbers of 64 bits", time)
        record = {**value, **data, **info}
        sizes = (_product(record.get(name)) for name in ("grid_size", "workgroup_size"))
        numbers = _numbers("launch", record)
        self._spool_row("launch", int(counted), *identity, *numbers, *sizes, *_node(record))
        return identity


_HANDLERS: dict[KeyPath, Callable[[_RecordSpooler, Mapping[str, Any]], None]] = {  # path of records -> handler
    ("metadata",): _RecordSpooler.metadata,
    ("agents",): _RecordSpooler.agent,
    ("kernel_symbols",): _RecordSpooler.symbol,
    ("code_objects",): _RecordSpooler.code_object,
    ("strings",): _RecordSpooler.strings,
    ("counters",): _RecordSpooler.counter,
    **dict.fromkeys(_PC_SAMPLES, _RecordSpooler.sample),
    **{path: partial(_RecordSpooler.activity, what=what) for path, what in _ACTIVITY_PATHS.items()},
    _MARKERS: _RecordSpooler.range,
    _TRACE: _RecordSpooler.launch,
    _COUNTER_COLLECTION: _RecordSpooler.counted_launch,
    _SPM_COLLECTION: partial(_RecordSpooler.counted_launch, spool="spm"),
    _DRIVER: _RecordSpooler.driver,
}


_NUMBERS = {kind: [path.split(".") for path in paths] for kind, paths in JSON["numbers"].items()}


def _numbers(kind: str, record: Mapping[str, Any]) -> list[int | None]:
    """Return the whole numbers that a kind of record states, as layouts.toml lists them."""
    found = []
    for first, *below in _NUMBERS[kind]:
        value = record.get(first)
        for name in below:
            value = value.get(name) if isinstance(value, Mapping) else None
        found.append(_whole(_handle(value)))
    return found


_AGENTS = dict.fromkeys(Recorded, ("src_agent_id", "agent_id")) | {Recorded.COPY: ("src_agent_id", "dst_agent_id")}


def _node(value: Mapping[str, Any]) -> list[int | None]:
    """Return the graph and the node that a launch or a copy is; 0 in the file means none."""
    return [number or None for number in _numbers("node", value)]


def _handle(value: Any) -> Any:
    return value.get("handle") if isinstance(value, Mapping) else value


def _product(size: Any) -> int | None:
    sides = [_whole(size.get(axis)) for axis in "xyz"] if isinstance(size, Mapping) else [None]
    if any(s is None for s in sides):
        return None
    product = math.prod(side or 0 for side in sides)
    return product if abs(product) <= _LARGEST else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST else None


def _text(value: Any) -> str:
    """Return a text of the file, in which lone surrogates become question marks, since databases reject them."""
    return str(value or "").encode("utf-8", "replace").decode()


def read_json(con: Connection, file: Path, output: Output, work: Path) -> tuple[list[ProcessRecording], list[Note]]:
    """Return the recordings in one JSON file, one for every process with launches, activity or samples.

    Also returns a warning about invalid counter values. Raises BadInput if the file is truncated or another JSON.
    """
    spools = {name: Spool(con, work.with_name(f"{work.name}_{name}"), columns) for name, columns in COLUMNS.items()}
    runs, warnings = collect_records(file, spools)
    spooled = {name: parquet(spool.close()) for name, spool in spools.items()}

    def select(which: str, **words: object) -> str:
        return str(JSON["selects"][which].format(**spooled, **words))

    launches, values, over_time = (
        work.with_name(f"{work.name}_{n}.parquet") for n in ("launches", "values", "over_time")
    )
    found = select("launches", unknown=UNKNOWN_AGENT)
    more = {values: select("values"), over_time: select("sampled_values")}
    processes, filled = stage_launches(con, found, order="run, dispatch_id", owner="run", launches=launches, more=more)
    keys = {run: (low, high, n) for run, low, high, n in processes}
    recordings = []
    for number in [n for n, run in enumerate(runs) if n in keys or run.active or run.sampled] or [
        0
    ]:  # others have no data
        run, (low, high, rows) = runs[number], keys.get(number, (0, -1, 0))
        item = ProcessRecording(
            file, "json", output.label, output.above, launches, (low, high), rows, [values], host=run.host, pid=run.pid,
            command=run.command, span=run.span, agents=run.agents, over_time=over_time if over_time in filled else None,
        )  # fmt: skip
        item.set_place(place_of(output, run.host, run.pid))
        if run.messages:
            item.ranges = select("ranges", number=number, columns=", ".join(SPAN))
        own = partial(select, number=number)
        item.activity = json_activity(own, run.pid, run.active)
        item.sampled = json_samples(own) if run.sampled else None
        recordings.append(item)
    describe_recordings(con, recordings)
    if unread := sum(run.driver_events for run in runs):
        warnings.append(note("not_read.driver", file=file, events=unread))
    return recordings, warnings
